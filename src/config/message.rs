//! Sentences about settings that cannot be used: where it is, what it is, what was expected.

use super::kind::Kind;
use super::lists::{BadWord, ChoiceList};
use super::options::{OPTIONS, Opt};
use super::source::{Layer, Origin, Source};
use crate::base::{Code, Error};

/// Values and keys longer than this are cut in messages.
const LONGEST_SHOWN: usize = 80;

/// A key that is no option. `table` says that it heads a section, of which settings have none.
pub(super) fn unknown_key(source: &Source, key: &str, table: bool) -> Error {
    let wanted = key.trim().to_ascii_lowercase().replace('-', "_");
    // Somebody may have written the variable's name.
    let bare = ["kolo_", "nccl_"]
        .iter()
        .find_map(|start| wanted.strip_prefix(start));
    let nearest = nearest(
        bare.unwrap_or(&wanted),
        OPTIONS.iter().map(|o| o.key.to_string()),
    );
    error(
        source,
        format!(
            "{}: unknown option `{}`; the nearest valid key is `{nearest}`",
            source.origin,
            cut(key)
        ),
        match table {
            true => "write the settings without a section, one `key = value` a line".to_string(),
            false => format!("write `{nearest}` if that is meant, or remove the entry"),
        },
    )
}

/// A `KOLO_*` variable that is no option.
pub(super) fn unknown_variable(name: &str) -> Error {
    let names = OPTIONS
        .iter()
        .map(Opt::variable)
        .chain(["KOLO_CONFIG".to_string()]);
    let nearest = nearest(name, names);
    Error::usage(
        format!(
            "unknown variable {}; the nearest valid one is {nearest}",
            cut(name)
        ),
        format!("set {nearest} if that is meant, and unset {}", cut(name)),
    )
}

/// A value that the option does not take.
pub(super) fn bad_value(source: &Source, option: &Opt, value: &str) -> Error {
    let key = option.key;
    let expected = option.kind.expected();
    let mut what = format!(
        "{}: the option `{key}` has the value `{}`, but expected was {expected}",
        source.origin,
        cut(value)
    );
    let candidates = option.kind.candidates();
    if let Kind::Lists(words) = option.kind {
        let fault = ChoiceList::parse(value, words).err();
        what += &fault.map_or(String::new(), |fault| bad_word(&fault));
    } else if let Some(nearest) = close(value, &candidates) {
        what += &format!("; did you mean `{nearest}`?");
    }
    let remedy = match &source.origin {
        Origin::Variable(name) if source.layer == Layer::Alias => {
            let own = option.variable();
            format!("set {own} to a value that kolo knows, which hides {name}, or unset {name}")
        }
        Origin::Variable(name) => format!("correct {name} or unset it"),
        Origin::File(path) => format!("correct `{key}` in {} or remove it", path.display()),
        _ => format!("correct the value that the program gives for `{key}`"),
    };
    error(source, what, remedy)
}

/// Which word of a list is wrong, and what it may have meant.
fn bad_word(fault: &BadWord) -> String {
    let mut text = format!("; `{}` is not {}", cut(&fault.word), fault.role);
    if !fault.valid.is_empty() {
        let wanted = fault
            .word
            .trim()
            .to_ascii_lowercase()
            .replace(['_', '-'], "");
        let names = fault.valid.iter().map(|name| name.to_string());
        text += &format!(", the nearest one is `{}`", nearest(&wanted, names));
    }
    text
}

fn error(source: &Source, what: String, remedy: String) -> Error {
    let code = match source.layer {
        Layer::Caller => Code::InvalidArgument,
        _ => Code::InvalidUsage,
    };
    Error::new(code, what, remedy)
}

/// The name most like `wanted`: the mean of Damerau and Levenshtein's likeness, which counts the
/// slips of a typist, and Jaro and Winkler's, which sees a common beginning.
fn nearest(wanted: &str, names: impl Iterator<Item = String>) -> String {
    let likeness = |name: &String| {
        strsim::normalized_damerau_levenshtein(wanted, name) + strsim::jaro_winkler(wanted, name)
    };
    names
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .unwrap_or_default()
}

/// The candidate that `value` is a slip of, if there is one.
fn close(value: &str, candidates: &[&'static str]) -> Option<&'static str> {
    let value = value.trim().to_ascii_lowercase();
    let distance = |word: &&&str| strsim::damerau_levenshtein(&value, word);
    let best = candidates.iter().min_by_key(|word| distance(word))?;
    (distance(&best) <= best.len().div_ceil(2).min(3)).then_some(*best)
}

/// `text` without control characters and not longer than a line of a message takes.
fn cut(text: &str) -> String {
    let mut shown: String = text
        .chars()
        .take(LONGEST_SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(LONGEST_SHOWN).is_some() {
        shown += "...";
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn file() -> Source {
        Source {
            layer: Layer::System,
            origin: Origin::File(PathBuf::from("/etc/kolo/kolo.toml")),
        }
    }

    #[test]
    fn the_nearest_key_is_found() {
        for (wrong, right) in [
            ("bufsize", "buffsize"),
            ("buff-size", "buffsize"),
            ("KOLO_ALGO", "algo"),
            ("NCCL_BUFFSIZE", "buffsize"),
            ("min_channels", "min_nchannels"),
            ("max_channels", "max_nchannels"),
            ("socket_if", "socket_ifname"),
            ("protocol", "proto"),
            ("tiemout", "timeout"),
        ] {
            let text = unknown_key(&file(), wrong, false).what;
            assert!(
                text.ends_with(&format!("the nearest valid key is `{right}`")),
                "{text}"
            );
        }
    }

    #[test]
    fn the_nearest_variable_is_found() {
        for (wrong, right) in [
            ("KOLO_BUFSIZE", "KOLO_BUFFSIZE"),
            ("KOLO_CONF", "KOLO_CONFIG"),
            ("KOLO_ALGORITHM", "KOLO_ALGO"),
            ("KOLO_DEBUGFILE", "KOLO_DEBUG_FILE"),
        ] {
            let text = unknown_variable(wrong).what;
            assert!(
                text.ends_with(&format!("the nearest valid one is {right}")),
                "{text}"
            );
        }
    }

    #[test]
    fn far_words_are_not_suggested_and_long_values_are_cut() {
        let wait = super::super::options::find("wait").unwrap();
        assert!(
            bad_value(&file(), wait, "spni")
                .what
                .ends_with("did you mean `spin`?")
        );
        assert!(
            !bad_value(&file(), wait, "butterfly")
                .what
                .contains("did you mean")
        );
        let long = bad_value(&file(), wait, &"x\n".repeat(1000)).what;
        assert!(
            long.contains("...") && long.len() < 400 && !long.contains('\n'),
            "{long}"
        );
    }
}
