//! A test that cannot run on this machine says so here. Under `CI=true` it fails, unless
//! `tests/skipped.txt` names it with a reason: what is skipped silently there is never tested.

const LIST: &str = include_str!("../skipped.txt");

/// Whether a list has a line for `name`, with a reason.
pub fn is_listed(list: &str, name: &str) -> bool {
    list.lines().any(|line| {
        let mut words = line.split_whitespace();
        words.next() == Some(name) && words.next().is_some()
    })
}

/// Says that test `name` does not run here, and why; the caller returns.
///
/// # Panics
/// Under `CI=true`, if the list does not have it.
#[track_caller]
pub fn skip(name: &str, why: &str) {
    println!("skipped: {name}: {why}");
    let ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(
        !ci || is_listed(LIST, name),
        "{name} is skipped under CI ({why}), and tests/skipped.txt does not say that it may be"
    );
}
