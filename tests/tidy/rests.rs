//! Whoever rests in the library gives MPI its turns: a sleep, a wait for news and one for the end
//! of a thread are those of `base::turns`.

use crate::source::Source;

/// Files that may rest by themselves: they give the turns, or ask for how long they may.
const ALLOWED: [&str; 6] = [
    "src/base/turns.rs",
    // A line of the log, which somebody does not read.
    "src/base/quiet.rs",
    "src/comm/flight/turn.rs",
    "src/proxy/service/thread.rs",
    "src/proxy/service/through.rs",
    "src/proxy/service/watch.rs",
];
/// Ways to rest.
const RESTS: [&str; 7] = [
    "thread::sleep(",
    // Counts whole milliseconds, which are more than a turn may be late.
    "libc::poll(",
    "libc::ppoll(",
    ".wait_timeout(",
    ".wait_while(",
    ".wait_timeout_while(",
    "thread.join()",
];
/// Here a thread is waited for that has said that it is at its end.
const AT_ITS_END: &str = "src/comm/start/begun.rs";

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
    let is_end = |rest: &str| rest == "thread.join()" && path == AT_ITS_END;
    let rests = |line: &str| RESTS.iter().any(|it| line.contains(it) && !is_end(it));
    let resting = product.enumerate().filter(|(_, line)| rests(line));
    resting
        .map(|(at, _)| source.fault(at, "rest by `base::turns`, which gives MPI its turns"))
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
        assert_eq!(count("src/bin/kolo/main.rs", bad), 0);
        assert_eq!(count("src/proxy/state/tests.rs", bad), 0);
        assert_eq!(count("src/wire/a.rs", &format!("mod tests {{\n{bad}")), 0);
        assert_eq!(
            count(
                "src/proxy/socket.rs",
                "unsafe { libc::poll(set, 1, limit) }"
            ),
            1
        );
        let news = "let waited = changed.wait_timeout(state, limit);";
        let end = "let ends = threads.map(|thread| thread.join());";
        assert_eq!(count("src/bootstrap/local.rs", news), 1);
        assert_eq!(count("src/proxy/service/watch.rs", news), 0);
        assert_eq!(count("src/comm/start/joining.rs", end), 1);
        assert_eq!(count("src/comm/start/begun.rs", end), 0);
    }
}
