//! Sentences about settings that cannot be used: where it is, what it is, what was expected.

use super::kind::Kind;
use super::lists::{BadWord, ChoiceList};
use super::option::Opt;
use super::options::OPTIONS;
use super::source::{Layer, Origin, Source, Spot};
use crate::base::mpi_calls::{self, MpiCollective, WrongCall};
use crate::base::{Code, Error};

/// Values and keys longer than this are cut in messages.
const LONGEST_SHOWN: usize = 80;

/// Where in a file a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    /// Above the first header.
    Top,
    /// Below `[profile.NAME]`.
    Profile,
    /// In the list of locked options.
    Locked,
}

impl Section {
    /// Words that may stand there besides options.
    fn words(self) -> &'static [&'static str] {
        match self {
            Section::Top => &["include", "locked", "default_profile", "profile"],
            Section::Profile => &["preload"],
            Section::Locked => &[],
        }
    }
}

/// A key that is no option. `is_table` says that it heads a section.
pub(super) fn unknown_key(place: &Spot, key: &str, is_table: bool, table: Section) -> Error {
    let wanted = key.trim().to_ascii_lowercase().replace('-', "_");
    // Somebody may have written the variable's name.
    let bare = ["kolo_", "nccl_"]
        .iter()
        .find_map(|start| wanted.strip_prefix(start));
    let nearest = nearest(
        bare.unwrap_or(&wanted),
        OPTIONS
            .iter()
            .map(|option| option.key)
            .chain(table.words().iter().copied())
            .map(str::to_string),
    );
    if table != Section::Top && Section::Top.words().contains(&key) {
        let what = format!("{place}: `{key}` stands below the header of a table");
        let remedy = format!("write `{key}` at the top of the file, above the first `[`");
        return error(&place.source, what, remedy);
    }
    let mut what = format!("{place}: unknown option `{}`", cut(key));
    if let Some(nearest) = &nearest {
        what += &format!("; the nearest valid key is `{nearest}`");
    }
    let remedy = match (is_table, nearest) {
        (true, Some(nearest)) if table.words().contains(&nearest.as_str()) => {
            format!("write `{nearest}` if that is meant, or remove the section")
        }
        (true, _) => "write the settings without a section, one `key = value` a line".to_string(),
        (false, Some(nearest)) => {
            format!("write `{nearest}` if that is meant, or remove the entry")
        }
        (false, None) => "remove the entry; `kolo help settings` lists the options".to_string(),
    };
    error(&place.source, what, remedy)
}

/// A file that is no TOML.
pub(super) fn no_toml(place: &Spot, why: &str) -> Error {
    Error::usage(
        format!("{place}: not valid TOML: {}", why.trim_end()),
        "write each setting as `key = value`, with text values in quotes",
    )
}

/// A value that a key takes not, which is no option.
pub(super) fn bad_part(place: &Spot, key: &str, value: &str, expected: &str) -> Error {
    Error::usage(
        format!(
            "{place}: `{key}` is `{}`, but expected was {expected}",
            cut(value)
        ),
        format!("correct `{key}` or remove it"),
    )
}

/// A `KOLO_*` variable that is no option.
pub(super) fn unknown_variable(name: &str) -> Error {
    // The beginning that all have says nothing of what is meant.
    let bare = |name: &str| name.trim_start_matches("KOLO_").to_string();
    let names = OPTIONS
        .iter()
        .map(|option| bare(&option.variable()))
        .chain(["CONFIG".to_string(), "PROFILE".to_string()]);
    let unset = format!("unset {}", cut(name));
    match nearest(&bare(name), names) {
        Some(nearest) => Error::usage(
            format!(
                "unknown variable {}; the nearest valid one is KOLO_{nearest}",
                cut(name)
            ),
            format!("set KOLO_{nearest} if that is meant, and {unset}"),
        ),
        None => Error::usage(
            format!("unknown variable {}", cut(name)),
            format!("{unset}; `kolo help settings` lists the options"),
        ),
    }
}

/// A value that the option does not take.
pub(super) fn bad_value(place: &Spot, option: &Opt, value: &str) -> Error {
    let source = &place.source;
    let key = option.key;
    let expected = option.kind.expected();
    let mut what = format!("{place}: the option `{key}` has the value `{}`", cut(value));
    let candidates = option.kind.candidates();
    let fault = match option.kind {
        Kind::Lists(words) => ChoiceList::parse(value, words)
            .err()
            .map(|it| bad_word(&it)),
        Kind::MpiCalls => mpi_calls::read(value).err().map(|it| bad_call(&it)),
        _ => None,
    };
    // The list of what there is may be long: what is wrong stands before it.
    match fault {
        Some(fault) => what += &format!(", and {fault}; expected was {expected}"),
        None => what += &format!(", but expected was {expected}"),
    }
    if let Some(nearest) = close(value, &candidates) {
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
    let mut text = format!("`{}` is not {}", cut(&fault.word), fault.role);
    if !fault.valid.is_empty() {
        let wanted = fault
            .word
            .trim()
            .to_ascii_lowercase()
            .replace(['_', '-'], "");
        let names = fault.valid.iter().map(|name| name.to_string());
        if let Some(nearest) = nearest(&wanted, names) {
            text += &format!(", the nearest one is `{nearest}`");
        }
    }
    text
}

/// Which word of a list of MPI's collectives is wrong, and what it may have meant.
fn bad_call(fault: &WrongCall) -> String {
    let shown = match fault {
        WrongCall::Name(word) => WrongCall::Name(cut(word)),
        WrongCall::Sizeless(word) => WrongCall::Sizeless(cut(word)),
        WrongCall::Range(word) => WrongCall::Range(cut(word)),
        WrongCall::All => WrongCall::All,
    };
    let mut text = shown.to_string();
    if let WrongCall::Name(name) = fault {
        let names = MpiCollective::ALL.iter();
        let names = names.map(|one| one.name().to_ascii_lowercase());
        if let Some(nearest) = nearest(&name.to_ascii_lowercase(), names) {
            text += &format!(", the nearest one is `{nearest}`");
        }
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

/// From this likeness on, of at most 2, a name is told: below it somebody meant something else.
const LIKE: f64 = 1.25;

/// The name most like `wanted`, if one is: the mean of Damerau and Levenshtein's likeness, which
/// counts the slips of a typist, and Jaro and Winkler's, which sees a common beginning.
pub(super) fn nearest(wanted: &str, names: impl Iterator<Item = String>) -> Option<String> {
    let likeness = |name: &String| {
        strsim::normalized_damerau_levenshtein(wanted, name) + strsim::jaro_winkler(wanted, name)
    };
    names
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .filter(|name| likeness(name) >= LIKE)
}

/// The candidate that `value` is a slip of, if there is one.
fn close(value: &str, candidates: &[&'static str]) -> Option<&'static str> {
    let value = value.trim().to_ascii_lowercase();
    let distance = |word: &&&str| strsim::damerau_levenshtein(&value, word);
    let best = candidates.iter().min_by_key(|word| distance(word))?;
    (distance(&best) <= best.len().div_ceil(2).min(3)).then_some(*best)
}

/// `text` without control characters and not longer than a line of a message takes.
pub(super) fn cut(text: &str) -> String {
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

    fn file() -> Spot {
        Spot::from(Source {
            layer: Layer::System,
            origin: Origin::File(PathBuf::from("/etc/kolo/kolo.toml")),
        })
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
            let text = unknown_key(&file(), wrong, false, Section::Top).into_what();
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
            let text = unknown_variable(wrong).into_what();
            assert!(
                text.ends_with(&format!("the nearest valid one is {right}")),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_like_nothing_has_no_nearest_name() {
        for far in ["foo", "site", "x"] {
            let key = unknown_key(&file(), far, false, Section::Top);
            let variable = unknown_variable(&format!("KOLO_{}", far.to_ascii_uppercase()));
            let algo = super::super::options::find("algo").unwrap();
            for text in [
                key.to_string(),
                variable.to_string(),
                bad_value(&file(), algo, far).into_what(),
            ] {
                assert!(!text.contains("nearest"), "{text}");
            }
            assert!(key.remedy.contains("kolo help settings"), "{key}");
        }
        let section = unknown_key(&file(), "site", true, Section::Top);
        assert!(section.remedy.contains("without a section"), "{section}");
    }

    #[test]
    fn a_sentence_has_one_stop_and_says_first_what_is_wrong() {
        let check = super::super::options::find("check").unwrap();
        let text = bad_value(&file(), check, "fals").to_string();
        assert!(text.contains("did you mean `false`? Remedy: "), "{text}");
        let algo = super::super::options::find("algo").unwrap();
        let text = bad_value(&file(), algo, "rnig").into_what();
        let wrong = text.find("`rnig` is not a valid name, the nearest one is `ring`");
        assert!(
            wrong.unwrap() < text.find("expected was").unwrap(),
            "{text}"
        );
    }

    #[test]
    fn the_wrong_word_of_a_list_of_mpi_calls_is_named() {
        let calls = super::super::options::find("pmpi_collectives").unwrap();
        for (value, words) in [
            (
                "bcast, alreduce",
                "and `alreduce` is not a collective of MPI, the nearest one is `allreduce`;",
            ),
            (
                "^bcast:9-",
                "and `^bcast:9-` is not followed by a range LOW-HIGH",
            ),
            ("all,bcast", "and `all` is not to be listed with others"),
            ("barrier:8-", "and `barrier:8-` has a range, though"),
        ] {
            assert_eq!(calls.kind.parse(value), None, "{value}");
            let text = bad_value(&file(), calls, value).into_what();
            let named = text.contains(&format!("the value `{value}`, {words}"));
            assert!(named, "{value}: {text}");
        }
        let long = bad_value(&file(), calls, &format!("bcast:{}", "9\n".repeat(500)));
        assert!(long.what.len() < 800 && !long.what.contains('\n'), "{long}");
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
        let long = bad_value(&file(), wait, &"x\n".repeat(1000)).into_what();
        assert!(
            long.contains("...") && long.len() < 400 && !long.contains('\n'),
            "{long}"
        );
    }
}
