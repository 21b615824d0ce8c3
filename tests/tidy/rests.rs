//! Whoever rests in the library gives MPI its turns: a sleep is one of `base::turns`.

use crate::source::Source;

/// Files that may sleep by themselves: they give the turns.
const ALLOWED: [&str; 2] = ["src/base/turns.rs", "src/comm/flight/turn.rs"];

pub fn faults(source: &Source) -> Vec<String> {
    let path = source.path.as_str();
    let is_library = path.starts_with("src/") && !path.starts_with("src/bin/");
    let is_test = path.contains("/tests/") || path.ends_with("tests.rs");
    if !is_library || is_test || ALLOWED.contains(&path) {
        return Vec::new();
    }
    let tests = |line: &String| line.contains("mod tests {");
    let end = source.code.iter().position(tests);
    let product = source.code.iter().take(end.unwrap_or(usize::MAX));
    let sleeps = product
        .enumerate()
        .filter(|(_, line)| line.contains("thread::sleep("));
    sleeps
        .map(|(at, _)| {
            source.fault(
                at,
                "rest by `base::turns::sleep`, which gives MPI its turns",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleep_without_turns_is_a_fault() {
        let bad = "std::thread::sleep(PAUSE);";
        let count = |path: &str, text: &str| faults(&Source::new(path, text)).len();
        assert_eq!(count("src/exec/cuda/engine.rs", bad), 1);
        assert_eq!(count("src/base/turns.rs", bad), 0);
        assert_eq!(count("src/bin/kolo.rs", bad), 0);
        assert_eq!(count("src/proxy/state/tests.rs", bad), 0);
        assert_eq!(count("src/wire/a.rs", &format!("mod tests {{\n{bad}")), 0);
    }
}
