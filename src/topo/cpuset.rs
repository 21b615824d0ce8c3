//! Sets of processor numbers.
//!
//! The operating system numbers the processing units (PUs, hardware threads) of a machine; masks
//! and lists of such numbers come from the kernel (`0-3,8`), from hwloc (`0x0000010f`) and from
//! people. [`CpuSet`] reads and writes both forms. NUMA node numbers use the same type.
//!
//! The hwloc form is words of 32 bits, highest first, separated by commas; an empty word between
//! commas is 0 (hwloc manual, "The bitmap API", `hwloc_bitmap_snprintf`).

use crate::base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Numbers from 0 up to this one (exclusive) fit into a [`CpuSet`]; Linux stops at 8192 today.
/// The bound keeps a wrong digit in a file from allocating gigabytes.
pub const MAX_CPUS: u32 = 1 << 16;

/// A finite set of processor (or NUMA node) numbers below [`MAX_CPUS`].
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CpuSet {
    // The last word is never 0, so that equal sets have equal words.
    words: Vec<u64>,
}

impl CpuSet {
    /// The empty set.
    pub const fn new() -> CpuSet {
        CpuSet { words: Vec::new() }
    }

    /// The set with one number. Panics at or above [`MAX_CPUS`].
    pub fn single(cpu: u32) -> CpuSet {
        CpuSet::from_iter([cpu])
    }

    /// Adds a number; false if it was there. Panics at or above [`MAX_CPUS`]: a number from
    /// outside is to be checked first, as [`CpuSet::parse_list`] and [`CpuSet::parse_mask`] do.
    pub fn insert(&mut self, cpu: u32) -> bool {
        assert!(
            cpu < MAX_CPUS,
            "processor number {cpu} is not below {MAX_CPUS}"
        );
        let index = (cpu / 64) as usize;
        if self.words.len() <= index {
            self.words.resize(index + 1, 0);
        }
        let bit = 1 << (cpu % 64);
        let fresh = self.words[index] & bit == 0;
        self.words[index] |= bit;
        fresh
    }

    /// Takes a number out; false if it was not there.
    pub fn remove(&mut self, cpu: u32) -> bool {
        if !self.contains(cpu) {
            return false;
        }
        self.words[(cpu / 64) as usize] &= !(1 << (cpu % 64));
        self.trim();
        true
    }

    /// Whether the number is in the set.
    pub fn contains(&self, cpu: u32) -> bool {
        self.words
            .get((cpu / 64) as usize)
            .is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The least number.
    pub fn first(&self) -> Option<u32> {
        self.iter().next()
    }

    /// The greatest number.
    pub fn last(&self) -> Option<u32> {
        let word = self.words.last()?;
        Some((self.words.len() as u32 - 1) * 64 + word.ilog2())
    }

    /// The numbers in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some(index as u32 * 64 + bit)
            })
        })
    }

    /// Numbers in this set or in the other.
    pub fn union(&self, other: &CpuSet) -> CpuSet {
        self.combine(other, |a, b| a | b)
    }

    /// Numbers in both sets.
    pub fn intersection(&self, other: &CpuSet) -> CpuSet {
        self.combine(other, |a, b| a & b)
    }

    /// Numbers in this set and not in the other.
    pub fn difference(&self, other: &CpuSet) -> CpuSet {
        self.combine(other, |a, b| a & !b)
    }

    /// Whether the sets share a number.
    pub fn intersects(&self, other: &CpuSet) -> bool {
        self.words.iter().zip(&other.words).any(|(a, b)| a & b != 0)
    }

    /// Whether every number of this set is in the other.
    pub fn is_subset(&self, other: &CpuSet) -> bool {
        self.difference(other).is_empty()
    }

    /// The set in words of 64 bits, lowest first, without zero words at the end.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The set with these words, lowest first. `None` if it has numbers from [`MAX_CPUS`] on.
    pub fn from_words(words: &[u64]) -> Option<CpuSet> {
        let mut set = CpuSet {
            words: words.to_vec(),
        };
        set.trim();
        (set.words.len() <= (MAX_CPUS / 64) as usize).then_some(set)
    }

    /// Reads a list such as `0-3,8`, as the kernel writes it. Empty text is the empty set; ranges
    /// may overlap and come in any order. Errors: anything else, a falling range, a number that is
    /// not below [`MAX_CPUS`].
    pub fn parse_list(text: &str) -> Result<CpuSet> {
        let mut set = CpuSet::new();
        if text.trim().is_empty() {
            return Ok(set);
        }
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (list_number(first, text)?, list_number(last, text)?);
            if first > last {
                return Err(list_error(text, format!("the range {} falls", part.trim())));
            }
            (first..=last).for_each(|cpu| {
                set.insert(cpu);
            });
        }
        Ok(set)
    }

    /// Reads a mask as hwloc writes it (`0x00000001,,0x000000ff`); the prefix `0x` of a word may be
    /// left out, as the kernel does. Errors: other characters, a word of more than 32 bits, an
    /// infinite mask (`0xf...f`), a number that is not below [`MAX_CPUS`].
    pub fn parse_mask(text: &str) -> Result<CpuSet> {
        let text = text.trim();
        if text.starts_with("0xf...f") {
            return Err(mask_error(text, "it is infinite"));
        }
        if text.is_empty() {
            return Err(mask_error(
                text,
                "it is empty (the empty set is written 0x0)",
            ));
        }
        let parts: Vec<&str> = text.split(',').collect();
        let mut words = vec![0_u64; parts.len().div_ceil(2)];
        for (index, part) in parts.iter().rev().enumerate() {
            let digits = part.strip_prefix("0x").unwrap_or(part);
            if digits.is_empty() && !part.is_empty() {
                return Err(mask_error(text, "a word has no digits"));
            }
            if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(mask_error(text, &format!("`{part}` is not hexadecimal")));
            }
            let word = match digits {
                "" => 0,
                _ => u32::from_str_radix(digits, 16)
                    .map_err(|_| mask_error(text, &format!("`{part}` has more than 32 bits")))?,
            };
            words[index / 2] |= u64::from(word) << (32 * (index % 2));
        }
        CpuSet::from_words(&words)
            .ok_or_else(|| mask_error(text, &format!("it has numbers from {MAX_CPUS} on")))
    }

    /// The set as hwloc writes it: words of eight digits, highest first, zero words left empty.
    /// [`CpuSet::parse_mask`] reads it back.
    pub fn to_mask(&self) -> String {
        let halves = self
            .words
            .iter()
            .flat_map(|word| [*word as u32, (word >> 32) as u32]);
        let mut halves: Vec<u32> = halves.collect();
        while halves.last() == Some(&0) {
            halves.pop();
        }
        if halves.is_empty() {
            return "0x0".to_owned();
        }
        let text = |(index, &half): (usize, &u32)| match (index, half) {
            (0, 0) => "0x0".to_owned(),
            (_, 0) => String::new(),
            _ => format!("0x{half:08x}"),
        };
        let parts: Vec<String> = halves.iter().enumerate().map(text).rev().collect();
        parts.join(",")
    }

    fn combine(&self, other: &CpuSet, with: impl Fn(u64, u64) -> u64) -> CpuSet {
        let word = |words: &[u64], index: usize| words.get(index).copied().unwrap_or(0);
        let length = self.words.len().max(other.words.len());
        let words = (0..length).map(|i| with(word(&self.words, i), word(&other.words, i)));
        let mut set = CpuSet {
            words: words.collect(),
        };
        set.trim();
        set
    }

    fn trim(&mut self) {
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }
}

fn list_number(part: &str, text: &str) -> Result<u32> {
    let part = part.trim();
    // `parse` alone would take a leading plus sign.
    let number = part
        .bytes()
        .all(|byte| byte.is_ascii_digit())
        .then(|| part.parse().ok());
    match number.flatten() {
        Some(cpu) if cpu < MAX_CPUS => Ok(cpu),
        Some(cpu) => Err(list_error(text, format!("{cpu} is not below {MAX_CPUS}"))),
        None => Err(list_error(
            text,
            format!("`{part}` is not a processor number"),
        )),
    }
}

fn list_error(text: &str, why: String) -> Error {
    Error::argument(
        format!("the processor list `{text}` cannot be read: {why}"),
        "write numbers and rising ranges separated by commas, for example 0-3,8",
    )
}

fn mask_error(text: &str, why: &str) -> Error {
    Error::argument(
        format!("the processor mask `{text}` cannot be read: {why}"),
        "write hexadecimal words of at most 32 bits, highest first, for example 0x1,0x000000ff",
    )
}

impl FromIterator<u32> for CpuSet {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> CpuSet {
        let mut set = CpuSet::new();
        for cpu in numbers {
            set.insert(cpu);
        }
        set
    }
}

/// The list form, `0-3,8`.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers = self.iter().peekable();
        let mut separator = "";
        while let Some(first) = numbers.next() {
            let mut last = first;
            while numbers.next_if_eq(&(last + 1)).is_some() {
                last += 1;
            }
            write!(f, "{separator}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            separator = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}

impl From<CpuSet> for String {
    fn from(set: CpuSet) -> String {
        set.to_string()
    }
}

impl TryFrom<String> for CpuSet {
    type Error = Error;

    fn try_from(text: String) -> Result<CpuSet> {
        CpuSet::parse_list(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn list(text: &str) -> CpuSet {
        CpuSet::parse_list(text).unwrap()
    }

    #[test]
    fn lists_and_masks_of_known_sets() {
        for (numbers, mask) in [
            ("", "0x0"),
            ("0", "0x00000001"),
            ("0-3,8", "0x0000010f"),
            ("32", "0x00000001,0x0"),
            ("63-64", "0x00000001,0x80000000,0x0"),
            ("0,96", "0x00000001,,,0x00000001"),
            ("0-127", "0xffffffff,0xffffffff,0xffffffff,0xffffffff"),
        ] {
            let set = list(numbers);
            assert_eq!(set.to_string(), numbers);
            assert_eq!(set.to_mask(), mask);
            assert_eq!(CpuSet::parse_mask(mask).unwrap(), set);
        }
        assert_eq!(list(" 8 , 0 - 3,2-5\n").to_string(), "0-5,8");
        assert_eq!(
            CpuSet::parse_mask("ff,00000001").unwrap().to_string(),
            "0,32-39"
        );
        assert_eq!(
            CpuSet::parse_mask("0xff000000,,0x1").unwrap().to_string(),
            "0,88-95"
        );
    }

    #[test]
    fn bad_lists_and_masks_say_why() {
        for (text, why) in [
            ("a", "`a` is not a processor number"),
            ("1,,2", "`` is not a processor number"),
            ("+1", "`+1` is not a processor number"),
            ("5-3", "the range 5-3 falls"),
            ("1-2-3", "`2-3` is not a processor number"),
            ("0-4000000000", "is not below 65536"),
            ("99999999999999999999", "is not a processor number"),
        ] {
            let error = CpuSet::parse_list(text).unwrap_err();
            assert!(error.what.contains(why), "{text}: {error}");
            assert!(error.remedy.contains("0-3,8"));
        }
        for (text, why) in [
            ("", "empty"),
            ("0x", "no digits"),
            ("0xg", "not hexadecimal"),
            ("0x+1", "not hexadecimal"),
            ("0x123456789", "more than 32 bits"),
            ("0xf...f,0x00000001", "infinite"),
        ] {
            let error = CpuSet::parse_mask(text).unwrap_err();
            assert!(error.what.contains(why), "{text}: {error}");
        }
        let wide = format!("0x1{}", ",".repeat(MAX_CPUS as usize / 32));
        assert!(
            CpuSet::parse_mask(&wide)
                .unwrap_err()
                .what
                .contains("from 65536 on")
        );
    }

    #[test]
    fn agrees_with_an_ordered_set() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..300 {
            let limit = *random.choice(&[5, 70, 300, MAX_CPUS]).unwrap();
            let mut draw = || -> BTreeSet<u32> {
                (0..random.usize(0..60))
                    .map(|_| random.u32(0..limit))
                    .collect()
            };
            let (a, b) = (draw(), draw());
            let (x, y): (CpuSet, CpuSet) =
                (a.iter().copied().collect(), b.iter().copied().collect());
            let same = |set: &CpuSet, oracle: BTreeSet<u32>| {
                assert_eq!(
                    set.iter().collect::<Vec<_>>(),
                    oracle.iter().copied().collect::<Vec<_>>()
                );
                assert_eq!(
                    *set,
                    oracle.into_iter().collect::<CpuSet>(),
                    "one form per set"
                );
            };
            same(&x.union(&y), &a | &b);
            same(&x.intersection(&y), &a & &b);
            same(&x.difference(&y), &a - &b);
            assert_eq!(x.intersects(&y), !a.is_disjoint(&b));
            assert_eq!(x.is_subset(&y), a.is_subset(&b));
            assert_eq!((x.len(), x.is_empty()), (a.len(), a.is_empty()));
            assert_eq!(x.first(), a.first().copied());
            assert_eq!(x.last(), a.last().copied());
            assert_eq!(CpuSet::parse_list(&x.to_string()).unwrap(), x);
            assert_eq!(CpuSet::parse_mask(&x.to_mask()).unwrap(), x);
            assert_eq!(CpuSet::from_words(x.words()), Some(x.clone()));
            let mut rest = x.clone();
            for &cpu in &a {
                assert!(!rest.insert(cpu), "was there");
                assert!(rest.remove(cpu) && !rest.remove(cpu) && !rest.contains(cpu));
            }
            assert_eq!(rest, CpuSet::new());
        }
    }

    /// hwloc prints its bitmaps in the same list form.
    #[test]
    fn list_is_what_hwloc_prints() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..50 {
            let set: CpuSet = (0..random.usize(0..40))
                .map(|_| random.u32(0..500))
                .collect();
            let oracle: hwloc2::Bitmap = set.iter().collect();
            assert_eq!(set.to_string(), oracle.to_string());
        }
    }

    #[test]
    fn serde_uses_the_list() {
        let set = list("0-3,8");
        let text = serde_json::to_string(&set).unwrap();
        assert_eq!(text, "\"0-3,8\"");
        assert_eq!(serde_json::from_str::<CpuSet>(&text).unwrap(), set);
        assert!(serde_json::from_str::<CpuSet>("\"3-1\"").is_err());
    }
}
