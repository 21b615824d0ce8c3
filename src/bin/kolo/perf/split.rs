//! Splitting the ranks into groups, each of which measures for itself: `MOD 4`, `AND 0x7`.

use std::fmt;

/// How the group of a rank follows from its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Ranks with the same of these bits.
    And(u32),
    /// Ranks that differ in nothing but these bits.
    Or(u32),
    /// Ranks with the same remainder.
    Mod(u32),
    /// Ranks with the same quotient: so many neighbours each.
    Div(u32),
}

use Split::{And, Div, Mod, Or};

/// Word, sign, and what it makes of a number.
type Operation = (&'static str, &'static str, fn(u32) -> Split);

/// All of them.
const OPERATIONS: [Operation; 4] = [
    ("AND", "&", And),
    ("OR", "|", Or),
    ("MOD", "%", Mod),
    ("DIV", "/", Div),
];

/// Which ranks are a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Groups {
    /// How the group follows from a number.
    pub split: Split,
    /// Whether that is the number of a rank's process, as in nccl-tests, or its own.
    pub by_process: bool,
}

impl Groups {
    /// The group of a rank, where each process has so many.
    pub fn color(self, rank: u32, per_process: u32) -> u32 {
        match self.by_process {
            true => self.split.color(rank / per_process),
            false => self.split.color(rank),
        }
    }

    /// Words of this process to the others, which [`Groups::heard`] understands.
    pub fn told(self) -> String {
        format!("{} {}", u8::from(self.by_process), self.split)
    }

    /// Words of another process.
    pub fn heard(text: &str) -> Option<Groups> {
        let (by_process, split) = text.split_once(' ')?;
        Some(Groups {
            split: Split::parse(split).ok()?,
            by_process: by_process == "1",
        })
    }
}

impl fmt::Display for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.by_process {
            " of their processes"
        } else {
            ""
        };
        write!(f, "{}{of}", self.split)
    }
}

/// A number: decimal, `0x` and hexadecimal digits, `0b` and binary ones.
fn number(text: &str) -> Option<u32> {
    let text = text.trim().to_ascii_lowercase();
    if let Some(digits) = text.strip_prefix("0x") {
        return u32::from_str_radix(digits, 16).ok();
    }
    match text.strip_prefix("0b") {
        Some(digits) => u32::from_str_radix(digits, 2).ok(),
        None => text.parse().ok(),
    }
}

impl Split {
    /// An operation and a number, as `MOD 4`, `%4` or `AND 0x7`.
    ///
    /// # Errors
    /// A sentence about what a split looks like.
    pub fn parse(text: &str) -> Result<Split, String> {
        let whole = text.trim().to_ascii_uppercase();
        let found = OPERATIONS.iter().find_map(|(word, sign, of)| {
            let rest = whole
                .strip_prefix(word)
                .or_else(|| whole.strip_prefix(sign))?;
            number(rest).map(of)
        });
        match found {
            Some(Mod(0) | Div(0)) => Err("ranks cannot be divided by 0".to_string()),
            Some(split) => Ok(split),
            None => Err(format!(
                "`{}` is no split: write AND, OR, MOD or DIV (or &, |, %, /) and a number, as \
                 `MOD 4` or `AND 0x7`",
                text.trim()
            )),
        }
    }

    /// The bits of a mask, which stands for `AND`.
    ///
    /// # Errors
    /// A sentence about what a mask looks like.
    pub fn parse_mask(text: &str) -> Result<Split, String> {
        let mask = number(text).map(And);
        mask.ok_or_else(|| "a mask is a number, as 3, 0x3 or 0b11".to_string())
    }

    /// A mask as `NCCL_TESTS_SPLIT_MASK` writes it: in base 16, with `0x` or without.
    ///
    /// # Errors
    /// A sentence about what such a mask looks like.
    pub fn parse_hexadecimal(text: &str) -> Result<Split, String> {
        let digits = text.trim().to_ascii_lowercase();
        let digits = digits.strip_prefix("0x").unwrap_or(&digits);
        let mask = u32::from_str_radix(digits, 16).map(And);
        mask.map_err(|_| {
            "a mask is a number in base 16, as 3, 10 (which is 16) or 0xff".to_string()
        })
    }

    /// The group of this number.
    fn color(self, number: u32) -> u32 {
        match self {
            And(bits) => number & bits,
            Or(bits) => number | bits,
            Mod(by) => number % by,
            Div(by) => number / by,
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            And(bits) => write!(f, "AND {bits:#x}"),
            Or(bits) => write!(f, "OR {bits:#x}"),
            Mod(by) => write!(f, "MOD {by}"),
            Div(by) => write!(f, "DIV {by}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_signs_and_numbers_of_any_base() {
        for (text, split) in [
            ("AND 0x7", And(7)),
            ("&0x7", And(7)),
            ("and 0b101", And(5)),
            ("OR 0x10", Or(16)),
            ("| 3", Or(3)),
            ("MOD 72", Mod(72)),
            ("%2", Mod(2)),
            (" div8 ", Div(8)),
            ("/ 4", Div(4)),
        ] {
            assert_eq!(Split::parse(text), Ok(split), "{text}");
            assert_eq!(Split::parse(&split.to_string()), Ok(split));
        }
        assert_eq!(Split::parse_mask("0x3"), Ok(And(3)));
        for bad in [
            "", "7", "MOD", "MOD 0", "/0", "XOR 3", "AND -1", "MOD 0xg", "DIV 2 3",
        ] {
            assert!(Split::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn groups_are_those_that_the_words_promise() {
        let groups = |split: Split| [0, 1, 2, 3, 4, 5].map(|rank| split.color(rank));
        assert_eq!(groups(And(1)), [0, 1, 0, 1, 0, 1]);
        assert_eq!(groups(Or(1)), [1, 1, 3, 3, 5, 5]);
        assert_eq!(groups(Mod(3)), [0, 1, 2, 0, 1, 2]);
        assert_eq!(groups(Div(3)), [0, 0, 0, 1, 1, 1]);
    }

    #[test]
    fn ranks_of_one_process_are_in_one_group_of_processes() {
        let of = |by_process| Groups {
            split: Mod(2),
            by_process,
        };
        let colors = |groups: Groups| [0, 1, 2, 3, 4, 5].map(|rank| groups.color(rank, 2));
        assert_eq!(colors(of(true)), [0, 0, 1, 1, 0, 0]);
        assert_eq!(colors(of(false)), [0, 1, 0, 1, 0, 1]);
        for groups in [of(true), of(false)] {
            assert_eq!(Groups::heard(&groups.told()), Some(groups));
        }
        assert_eq!(Groups::heard(""), None);
    }

    #[test]
    fn the_mask_of_nccl_tests_is_hexadecimal() {
        for (text, mask) in [
            ("10", 16),
            ("0x10", 16),
            ("ff", 255),
            (" 3 ", 3),
            ("0XA", 10),
        ] {
            assert_eq!(Split::parse_hexadecimal(text), Ok(And(mask)), "{text}");
        }
        for bad in ["", "x", "0x", "0b11g", "-1", "100000000"] {
            assert!(Split::parse_hexadecimal(bad).is_err(), "{bad}");
        }
    }
}
