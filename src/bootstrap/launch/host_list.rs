//! Slurm's short form of lists of nodes: `rack[0-1]node[01-03,07],login1`.
//!
//! Names stand between commas; brackets hold numbers and ranges of numbers, where leading zeros are
//! kept; a name with several brackets stands for all combinations, the last bracket fastest.

/// The most names that a list may stand for: more than any machine has nodes.
pub const MOST_HOSTS: usize = 1 << 18;
/// The most bytes that these names may have together.
pub const MOST_BYTES: usize = 8 << 20;

/// All names of a list in its order; `None` where `text` is no list, or one of more than
/// [`MOST_HOSTS`] names or [`MOST_BYTES`].
pub fn expand(text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut bytes = 0;
    for part in split(text.trim())? {
        let more = expand_one(part)?;
        bytes += more.iter().map(String::len).sum::<usize>();
        names.extend(more);
        if names.len() > MOST_HOSTS || bytes > MOST_BYTES {
            return None;
        }
    }
    Some(names)
}

/// Whether so many names of at most so many bytes are too much.
fn too_much(names: usize, longest: usize) -> bool {
    names > MOST_HOSTS || names.saturating_mul(longest) > MOST_BYTES
}

/// The parts between commas that stand outside of brackets; `None` where brackets do not match or
/// a part is empty.
fn split(text: &str) -> Option<Vec<&str>> {
    let (mut parts, mut begin, mut open) = (Vec::new(), 0, false);
    for (at, c) in text.char_indices() {
        match c {
            '[' if !open => open = true,
            ']' if open => open = false,
            '[' | ']' => return None,
            ',' if !open => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    let good = !open && parts.iter().all(|part| !part.is_empty());
    good.then_some(parts)
}

/// The names of one part.
fn expand_one(part: &str) -> Option<Vec<String>> {
    let mut names = vec![String::new()];
    let mut rest = part;
    while let Some((before, after)) = rest.split_once('[') {
        let (inside, behind) = after.split_once(']')?;
        let numbers = numbers(inside)?;
        // A short list may stand for many long names: they are counted before they are made.
        let longest = |all: &[String]| all.iter().map(String::len).max().unwrap_or(0);
        let length = longest(&names) + before.len() + longest(&numbers);
        if too_much(names.len().checked_mul(numbers.len())?, length) {
            return None;
        }
        names = names
            .iter()
            .flat_map(|name| numbers.iter().map(move |n| format!("{name}{before}{n}")))
            .collect();
        rest = behind;
    }
    for name in &mut names {
        name.push_str(rest);
    }
    Some(names)
}

/// `01-03,07` as `01`, `02`, `03`, `07`.
fn numbers(text: &str) -> Option<Vec<String>> {
    let mut found = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let is_number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !is_number(first) || !is_number(last) {
            return None;
        }
        let (low, high): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
        if low > high || high - low >= (MOST_HOSTS - found.len()) as u64 {
            return None;
        }
        let width = first.len();
        if too_much(found.len() + (high - low) as usize + 1, width) {
            return None;
        }
        found.extend((low..=high).map(|n| format!("{n:0width$}")));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_expanded_in_order() {
        for (text, names) in [
            ("node1", &["node1"][..]),
            ("node[1-3,7]", &["node1", "node2", "node3", "node7"]),
            ("n[08-11]", &["n08", "n09", "n10", "n11"]),
            ("n[1-2]-ib,login", &["n1-ib", "n2-ib", "login"]),
            ("a[0-1]b[3,5]", &["a0b3", "a0b5", "a1b3", "a1b5"]),
            (" b2,a1 ", &["b2", "a1"]),
            ("n[5]", &["n5"]),
            ("n[099-100]", &["n099", "n100"]),
            ("x.y-z[0]", &["x.y-z0"]),
        ] {
            assert_eq!(expand(text).unwrap(), names, "{text}");
        }
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in [
            "",
            ",",
            "a,,b",
            "a,",
            "n[",
            "n]",
            "n[1",
            "n[]",
            "n[a]",
            "n[3-1]",
            "n[1-]",
            "n[-1]",
            "n[1-2-3]",
            "n[[1]]",
            "n[1,]",
            "n[0-99999999999999999999]",
            "n[1-2000000]",
            "n[0-999]x[0-9999]",
            &format!("n[{}1-9999]", "0".repeat(2000)),
            &"n[1-2]".repeat(100),
            &format!("{}[0-9999]", "n".repeat(2000)),
        ] {
            assert_eq!(expand(text), None, "{text:?}");
        }
    }

    #[test]
    fn random_lists_agree_with_counting() {
        let mut random = fastrand::Rng::with_seed(3);
        for _ in 0..500 {
            let (low, count) = (random.u32(0..2000), random.u32(1..50));
            let width = random.usize(0..6);
            let text = format!("c[{:0width$}-{}]s", low, low + count - 1);
            let least = format!("{low:0width$}").len();
            let want: Vec<_> = (low..low + count)
                .map(|n| format!("c{n:0least$}s"))
                .collect();
            assert_eq!(expand(&text).unwrap(), want, "{text}");
        }
    }
}
