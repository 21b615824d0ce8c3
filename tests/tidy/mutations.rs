//! The list of mutations fits the tree: what it would break is there, once.

/// Faults of the list `text`, whose files are read by `read`.
pub fn faults(text: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let lines = text.lines().enumerate();
    let fault = |(at, line): (usize, &str)| {
        let place = format!("mutations.txt:{}", at + 1);
        let parts: Vec<&str> = line.split(" | ").map(str::trim).collect();
        let &[row, file, old, new, arguments] = parts.as_slice() else {
            return Some(format!("{place}: {} parts, not 5", parts.len()));
        };
        if [row, new, arguments].contains(&"") || old == new {
            return Some(format!("{place}: a part is missing, or nothing changes"));
        }
        match read(file).map(|source| source.matches(old).count()) {
            None => Some(format!("{place}: there is no {file}")),
            Some(1) => None,
            Some(times) => Some(format!("{place}: {file} has the text {times} times")),
        }
    };
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .filter_map(fault)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_seen() {
        let read = |name: &str| (name == "a.rs").then(|| "x < 1; y; y;".to_owned());
        assert!(faults("7 | a.rs | x < 1 | x <= 1 | --lib x\n", &read).is_empty());
        for bad in [
            "7 | a.rs | x < 1 | x <= 1",
            "7 | b.rs | x < 1 | x <= 1 | --lib x",
            "7 | a.rs | z | x | --lib x",
            "7 | a.rs | y | x | --lib x",
            "7 | a.rs | x < 1 | x < 1 | --lib x",
        ] {
            assert_eq!(faults(bad, &read).len(), 1, "{bad}");
        }
    }
}
