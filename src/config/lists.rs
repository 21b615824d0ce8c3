//! Lists of what may be chosen, for all collectives or for one: `ring,tree`, `^ring`,
//! `allreduce:ring,tree;broadcast:^ring`.

use super::word::Word;
use crate::base::Collective;
use std::fmt;

/// The word that allows everything.
pub(super) const AUTO: &str = "auto";

/// One part of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChoiceRule {
    /// The one that it is about; `None` for all.
    pub collective: Option<Collective>,
    /// Whether the names are what is *not* taken.
    pub exclude: bool,
    /// Names; an excluding rule without names allows everything.
    pub names: Vec<&'static str>,
}

/// Words that may be chosen. Without rules, all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChoiceList {
    /// The parts, as they were written.
    pub rules: Vec<ChoiceRule>,
}

/// A word in a list that means nothing, and the valid ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadWord {
    pub word: String,
    pub valid: Vec<&'static str>,
    /// Kind of thing that the word should have named.
    pub role: &'static str,
}

impl ChoiceList {
    /// The list that `text` writes with these words.
    pub(super) fn parse(text: &str, words: &'static [Word]) -> Result<ChoiceList, BadWord> {
        let mut rules: Vec<ChoiceRule> = Vec::new();
        for part in text.split(';') {
            let (collective, list) = match part.split_once(':') {
                Some((name, list)) => (Some(collective(name)?), list),
                None => (None, part),
            };
            let list = list.trim();
            let (exclude, list) = match list.strip_prefix('^') {
                Some(rest) => (true, rest),
                None => (false, list),
            };
            let names: Vec<_> = list
                .split(',')
                .map(|name| find(name, words))
                .collect::<Result<_, _>>()?;
            if names.contains(&AUTO) && (names.len() > 1 || exclude) {
                return Err(BadWord {
                    word: AUTO.to_string(),
                    valid: named(words),
                    role: "to be listed with others",
                });
            }
            if rules.iter().any(|rule| rule.collective == collective) {
                return Err(BadWord {
                    word: part.trim().to_string(),
                    valid: Vec::new(),
                    role: "the only rule for its collective",
                });
            }
            let auto = names == [AUTO];
            rules.push(ChoiceRule {
                collective,
                exclude: exclude || auto,
                names: if auto { Vec::new() } else { names },
            });
        }
        let nothing = |rule: &ChoiceRule| rule.collective.is_none() && rule.names.is_empty();
        rules.retain(|rule| !nothing(rule));
        Ok(ChoiceList { rules })
    }

    /// Whether everything may be chosen.
    pub fn is_auto(&self) -> bool {
        self.rules.is_empty()
    }
}

/// The collective of a word, in which `_` and `-` are left out.
fn collective(text: &str) -> Result<Collective, BadWord> {
    let plain: String = text
        .trim()
        .chars()
        .filter(|c| !"_-".contains(*c))
        .flat_map(char::to_lowercase)
        .collect();
    Collective::of_word(&plain).ok_or_else(|| BadWord {
        word: text.trim().to_string(),
        valid: Collective::ALL.map(Collective::word).to_vec(),
        role: "a collective",
    })
}

fn find(text: &str, words: &'static [Word]) -> Result<&'static str, BadWord> {
    let text = text.trim();
    let is = |name: &&str| name.eq_ignore_ascii_case(text);
    let found = words
        .iter()
        .find(|word| is(&word.text) || word.also.iter().any(is));
    found.map(|word| word.text).ok_or_else(|| BadWord {
        word: text.to_string(),
        valid: words.iter().map(|word| word.text).collect(),
        role: "a valid name",
    })
}

fn named(words: &'static [Word]) -> Vec<&'static str> {
    let named = words.iter().filter(|word| word.text != AUTO);
    named.map(|word| word.text).collect()
}

impl fmt::Display for ChoiceList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_auto() {
            return f.write_str(AUTO);
        }
        for (number, rule) in self.rules.iter().enumerate() {
            let between = if number > 0 { ";" } else { "" };
            f.write_str(between)?;
            if let Some(collective) = rule.collective {
                write!(f, "{}:", collective.word())?;
            }
            if rule.names.is_empty() {
                f.write_str(AUTO)?;
                continue;
            }
            let mark = if rule.exclude { "^" } else { "" };
            write!(f, "{mark}{}", rule.names.join(","))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::Algo;
    use super::*;

    fn parse(text: &str) -> Result<ChoiceList, BadWord> {
        ChoiceList::parse(text, Algo::WORDS)
    }

    #[test]
    fn lists_are_read_and_written() {
        for (text, canonical) in [
            ("auto", "auto"),
            ("ring", "ring"),
            ("Ring, ONESHOT", "ring,oneshot"),
            ("^ring", "^ring"),
            (
                "All_Reduce: ring ;broadcast:^ring",
                "allreduce:ring;broadcast:^ring",
            ),
            ("ring;reduce-scatter:auto", "ring;reducescatter:auto"),
        ] {
            assert_eq!(parse(text).unwrap().to_string(), canonical, "{text}");
        }
        assert!(parse("AUTO").unwrap().is_auto());
        let rules = parse("ring;reduce:auto").unwrap().rules;
        assert!(rules[1].exclude && rules[1].names.is_empty());
    }

    #[test]
    fn the_bad_word_is_named() {
        for (text, word) in [
            ("rnig", "rnig"),
            ("ring,", ""),
            ("", ""),
            ("allreduse:ring", "allreduse"),
            ("allreduce:ring;broadcast:rong", "rong"),
            ("^^ring", "^ring"),
            ("ring,auto", "auto"),
            ("^auto", "auto"),
            ("ring;oneshot", "oneshot"),
            ("reduce:ring;reduce:oneshot", "reduce:oneshot"),
        ] {
            assert_eq!(parse(text).unwrap_err().word, word, "{text}");
        }
    }
}
