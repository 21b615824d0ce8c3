//! Kinds of values that options take: one parser, and one sentence for people, per kind.
//!
//! Every layer gives text (numbers and booleans of a TOML file are written out first), so a value
//! means the same in a file, in the environment and in a call.

use super::lists::ChoiceList;
use super::value::{FaultFlip, HostPort, PrefixList, Value, size_text};
use super::word::Word;
use crate::base::mpi_calls::{self, bytes};
use std::time::Duration;

/// The set of values of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// An integer in `least..=most`.
    Int {
        /// Smallest value.
        least: u64,
        /// Largest value.
        most: u64,
        /// The word that stands for no number; 0 stands for it too where it is outside the range.
        zero: Option<&'static str>,
    },
    /// A number of bytes in `least..=most`, with K, M, G or T as powers of 1024.
    Bytes {
        /// Smallest value.
        least: u64,
        /// Largest value.
        most: u64,
        /// The word that stands for 0.
        zero: Option<&'static str>,
    },
    /// A time in `0.001..=most` seconds.
    Seconds {
        /// Largest value.
        most: u64,
        /// The word that stands for 0.
        zero: &'static str,
    },
    /// True or false.
    Bool,
    /// One word of a list.
    Words(&'static [Word]),
    /// Lists of words, for all collectives or for one.
    Lists(&'static [Word]),
    /// A list of MPI's collectives, each with sizes where some are meant.
    MpiCalls,
    /// The name of a file; empty means none.
    Path,
    /// Any words; empty means none.
    Text,
    /// A list of prefixes of network-interface names; empty means none.
    Prefixes,
    /// A list of prefixes of device names, which may name a port; empty means none.
    Ports,
    /// `host:port`; empty means none.
    Address,
    /// `call:rank:slot`; empty means none.
    Fault,
}

impl Kind {
    /// The value that `text` writes, or `None` where it is not one of this kind.
    pub fn parse(&self, text: &str) -> Option<Value> {
        let text = text.trim();
        match *self {
            Kind::Int { least, most, zero } => match text.parse() {
                Ok(number) => {
                    Self::ranged(number, least, most, zero).map(|v| v.unwrap_or(Value::Int(number)))
                }
                Err(_) => zero_word(text, zero),
            },
            Kind::Bytes { least, most, zero } => match bytes(text) {
                Some(bytes) => {
                    Self::ranged(bytes, least, most, zero).map(|v| v.unwrap_or(Value::Bytes(bytes)))
                }
                None => zero_word(text, zero),
            },
            Kind::Seconds { most, zero } => match parse_seconds(text) {
                Some(time) if time.is_zero() => Some(Value::Zero(zero)),
                Some(time) => (time <= Duration::from_secs(most)).then_some(Value::Seconds(time)),
                None => zero_word(text, Some(zero)),
            },
            Kind::Bool => match text.to_ascii_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Some(Value::Bool(true)),
                "0" | "false" | "no" | "off" => Some(Value::Bool(false)),
                _ => None,
            },
            Kind::Words(words) => words
                .iter()
                .find(|word| {
                    word.text.eq_ignore_ascii_case(text)
                        || word.also.iter().any(|also| also.eq_ignore_ascii_case(text))
                })
                .map(|word| Value::Word(word.text)),
            Kind::Lists(words) => ChoiceList::parse(text, words).ok().map(Value::Lists),
            _ if self.may_be_empty() && text.is_empty() => Some(Value::Unset),
            Kind::Text => (!text.contains('\0')).then(|| Value::Text(text.to_string())),
            Kind::MpiCalls => mpi_calls::read(text)
                .is_ok()
                .then(|| Value::Text(text.to_string())),
            Kind::Path => (!text.contains('\0')).then(|| Value::Path(text.to_string())),
            Kind::Prefixes => PrefixList::parse(text).map(Value::Prefixes),
            Kind::Ports => PrefixList::parse_ports(text).map(Value::Prefixes),
            Kind::Address => HostPort::parse(text).map(Value::Address),
            Kind::Fault => FaultFlip::parse(text).map(Value::Fault),
        }
    }

    /// `Some(None)` where `number` is in the range, `Some(Some(word))` where it is the special 0.
    fn ranged(
        number: u64,
        least: u64,
        most: u64,
        zero: Option<&'static str>,
    ) -> Option<Option<Value>> {
        match zero {
            Some(word) if number == 0 && least > 0 => Some(Some(Value::Zero(word))),
            _ => (least..=most).contains(&number).then_some(None),
        }
    }

    /// Whether no text at all means that nothing is set.
    fn may_be_empty(&self) -> bool {
        use Kind::{Address, Fault, MpiCalls, Path, Ports, Prefixes, Text};
        matches!(
            self,
            Path | Text | MpiCalls | Prefixes | Ports | Address | Fault
        )
    }

    /// Whether a TOML file must quote the value: these kinds take no numbers and no booleans.
    pub(super) fn is_text(&self) -> bool {
        matches!(
            self,
            Kind::Path
                | Kind::Text
                | Kind::MpiCalls
                | Kind::Prefixes
                | Kind::Ports
                | Kind::Address
                | Kind::Fault
                | Kind::Words(_)
                | Kind::Lists(_)
        )
    }

    /// Describes the values of the option, to stand after "expected".
    pub fn expected(&self) -> String {
        let or = |zero: Option<&str>| zero.map_or(String::new(), |word| format!(", or `{word}`"));
        match *self {
            Kind::Int { least, most, zero } => {
                format!("an integer from {least} to {most}{}", or(zero))
            }
            Kind::Bytes { least, most, zero } => format!(
                "a number of bytes from {} to {} (K, M and G stand for powers of 1024){}",
                size_text(least),
                size_text(most),
                or(zero)
            ),
            Kind::Seconds { most, zero } => {
                format!("a number of seconds from 0.001 to {most}{}", or(Some(zero)))
            }
            Kind::Bool => "true or false (1 and 0, yes and no, on and off)".to_string(),
            Kind::Words(words) => {
                let list: Vec<_> = words
                    .iter()
                    .map(|word| format!("`{}`", word.text))
                    .collect();
                format!("one of {}", list.join(", "))
            }
            Kind::Lists(words) => {
                let list: Vec<_> = words
                    .iter()
                    .map(|word| format!("`{}`", word.text))
                    .collect();
                format!(
                    "a list of {} separated by commas, with `^` before the list to exclude them, \
                     for all collectives or, as in `allreduce:ring;broadcast:^ring`, for one",
                    list.join(", ")
                )
            }
            Kind::Path => "the name of a file".to_string(),
            Kind::Text => "a word".to_string(),
            Kind::MpiCalls => "`all`, or a list of MPI's collectives separated by commas, each \
                               with `^` before it to leave it to MPI, and with `:` and a range \
                               of bytes, as in `bcast:-64K`, where not all sizes are meant"
                .to_string(),
            Kind::Prefixes => "a list of beginnings of interface names separated by commas, with \
                               `^` before the list to exclude them and `=` to compare whole names"
                .to_string(),
            Kind::Ports => "a list of beginnings of device names separated by commas, each with \
                            `:` and a port where one is meant, with `^` before the list to \
                            exclude them and `=` to compare whole names"
                .to_string(),
            Kind::Address => {
                "`host:port` (an IPv6 address in brackets) with a port from 1 to 65535".to_string()
            }
            Kind::Fault => "three integers `call:rank:slot`".to_string(),
        }
    }

    /// The words that a misspelt value may have meant.
    pub(super) fn candidates(&self) -> Vec<&'static str> {
        match *self {
            Kind::Words(words) | Kind::Lists(words) => words.iter().map(|word| word.text).collect(),
            Kind::Bool => vec!["true", "false", "yes", "no", "on", "off"],
            Kind::Int { zero, .. } | Kind::Bytes { zero, .. } => zero.into_iter().collect(),
            Kind::Seconds { zero, .. } => vec![zero],
            _ => Vec::new(),
        }
    }
}

fn zero_word(text: &str, zero: Option<&'static str>) -> Option<Value> {
    zero.filter(|word| word.eq_ignore_ascii_case(text))
        .map(Value::Zero)
}

/// `60`, `0.5`, `1.5s`: at least a millisecond, or exactly 0.
fn parse_seconds(text: &str) -> Option<Duration> {
    let text = text.strip_suffix(['s', 'S']).unwrap_or(text).trim_end();
    // `f64` would also take "inf", "nan" and exponents, which nobody means here.
    if !text.starts_with(|c: char| c.is_ascii_digit())
        || !text.chars().all(|c| c.is_ascii_digit() || c == '.')
    {
        return None;
    }
    let seconds: f64 = text.parse().ok()?;
    // A positive time that would round to 0 must not turn into "no limit".
    let good = seconds == 0.0 || (0.001..1e12).contains(&seconds);
    good.then(|| Duration::from_millis((seconds * 1e3).round() as u64))
}

#[cfg(test)]
mod tests {
    use super::super::words::Algo;
    use super::*;

    const SIZE: Kind = Kind::Bytes {
        least: 64 << 10,
        most: 64 << 20,
        zero: None,
    };
    const LIMIT: Kind = Kind::Bytes {
        least: 1,
        most: 1 << 20,
        zero: Some("auto"),
    };
    const COUNT: Kind = Kind::Int {
        least: 1,
        most: 32,
        zero: None,
    };
    const TIME: Kind = Kind::Seconds {
        most: 1000,
        zero: "none",
    };

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("65536", 65536),
            ("64K", 65536),
            ("64k", 65536),
            ("64KiB", 65536),
            (" 64 kb ", 65536),
            ("1M", 1 << 20),
            ("64M", 64 << 20),
            ("1048576b", 1 << 20),
        ] {
            assert_eq!(SIZE.parse(text), Some(Value::Bytes(bytes)), "{text:?}");
        }
        let overflow = "99999999999G";
        for bad in [
            "", "K", "63K", "65M", "1G", "-1M", "1.5M", "1X", "lots", overflow, "0", "auto",
        ] {
            assert_eq!(SIZE.parse(bad), None, "{bad:?}");
        }
        assert_eq!(LIMIT.parse("0"), Some(Value::Zero("auto")));
        assert_eq!(LIMIT.parse("AUTO"), Some(Value::Zero("auto")));
        assert_eq!(LIMIT.parse("8"), Some(Value::Bytes(8)));
        assert_eq!(LIMIT.parse("none"), None);
    }

    #[test]
    fn integers() {
        assert_eq!(COUNT.parse("1"), Some(Value::Int(1)));
        assert_eq!(COUNT.parse(" 32 "), Some(Value::Int(32)));
        for bad in [
            "0",
            "33",
            "-1",
            "2.0",
            "two",
            "",
            "1K",
            "99999999999999999999",
        ] {
            assert_eq!(COUNT.parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn seconds() {
        let millis = |millis| Some(Value::Seconds(Duration::from_millis(millis)));
        assert_eq!(TIME.parse("60"), millis(60_000));
        assert_eq!(TIME.parse("0.5"), millis(500));
        assert_eq!(TIME.parse("1.5s"), millis(1500));
        assert_eq!(TIME.parse("1000"), millis(1_000_000));
        assert_eq!(TIME.parse("0"), Some(Value::Zero("none")));
        assert_eq!(TIME.parse("none"), Some(Value::Zero("none")));
        for bad in [
            "", "-1", "1000.1", "0.0001", "inf", "nan", "1e2", "soon", "1m", ".", "1.2.3",
        ] {
            assert_eq!(TIME.parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn words_and_booleans() {
        let algo = Kind::Words(Algo::WORDS);
        assert_eq!(algo.parse("Ring"), Some(Value::Word("ring")));
        assert_eq!(algo.parse("rings"), None);
        assert_eq!(algo.parse(""), None);
        assert!(
            algo.expected()
                .starts_with("one of `auto`, `ring`, `oneshot`, `rd`,")
        );
        for yes in ["1", "true", "YES", "on"] {
            assert_eq!(Kind::Bool.parse(yes), Some(Value::Bool(true)));
        }
        for no in ["0", "False", "no", "off"] {
            assert_eq!(Kind::Bool.parse(no), Some(Value::Bool(false)));
        }
        for bad in ["", "2", "maybe", "y"] {
            assert_eq!(Kind::Bool.parse(bad), None);
        }
    }

    #[test]
    fn optional_kinds_may_be_empty() {
        for kind in [
            Kind::Path,
            Kind::Text,
            Kind::MpiCalls,
            Kind::Prefixes,
            Kind::Address,
            Kind::Fault,
        ] {
            assert_eq!(kind.parse("  "), Some(Value::Unset));
        }
        assert_eq!(Kind::Path.parse("/x y"), Some(Value::Path("/x y".into())));
        assert_eq!(Kind::Path.parse("a\0b"), None);
    }
}
