//! Records of the library: whatever ranks tell each other at first is one (`src/base/record.rs`),
//! and every kind is among those that `tests/fuzz` reads from random bytes.

use crate::source::Source;

const IMPLEMENTS: &str = "impl Record for ";

/// The kinds that no file of the library hands to the target.
pub fn faults(sources: &[Source]) -> Vec<String> {
    let library = || {
        let sources = sources.iter();
        sources.filter(|it| it.is_rust() && it.path.starts_with("src/"))
    };
    let mut found = Vec::new();
    for source in library() {
        let tests = |line: &&String| line.trim() != "#[cfg(test)]";
        for (index, line) in source.code.iter().take_while(tests).enumerate() {
            let Some((_, kind)) = line.split_once(IMPLEMENTS) else {
                continue;
            };
            let kind = kind.trim_end_matches(['{', ' ']);
            let read = [
                format!("fuzz::<{kind}>("),
                format!("fuzz::<frame::{kind}>("),
            ];
            let is_read = |it: &Source| {
                let mut lines = it.code.iter();
                lines.any(|line| read.iter().any(|read| line.contains(read)))
            };
            if !library().any(is_read) {
                let what = format!("no `fuzz::<{kind}>`: give it to the target `records`");
                found.push(source.fault(index, &what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_nobody_fuzzes_is_a_fault() {
        let of = |text: &str| faults(&[Source::new("src/a/b.rs", text)]);
        let two = "impl Record for Hello {\n}\nimpl Record for Option<Said> {\n}\n";
        assert_eq!(of(two).len(), 2);
        assert_eq!(of(&format!("{two}record::fuzz::<Hello>(bytes)")).len(), 1);
        let both = format!("{two}record::fuzz::<frame::Hello>(b), fuzz::<Option<Said>>(b)");
        assert_eq!(of(&both), [""; 0]);
        assert_eq!(of("#[cfg(test)]\nimpl Record for Sample {\n"), [""; 0]);
    }
}
