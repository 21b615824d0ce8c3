//! Every parser of foreign bytes over its corpus and over thousands of changed samples of it: none
//! panics, and none takes much more memory than it was given bytes.
//!
//! The same parsers run without end under `make fuzz TARGET=... SECONDS=...`. What that finds is
//! mended and its input becomes a file of the corpus.

mod counting;
#[path = "fuzz/targets.rs"]
mod targets;

use counting::{HELD, MOST};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use targets::{Parser, TARGETS};

/// Changed samples of each target.
const CHANGED: u64 = 3000;
/// A sample grows no longer than this.
const MOST_BYTES: usize = 8 << 10;
/// So much a parser may hold at once while it reads such a sample.
const MOST_HELD: isize = 48 << 20;

/// The most that one run of a parser holds; the sample is told if it panics.
fn held(name: &str, parser: Parser, sample: &[u8], whence: &str) -> isize {
    MOST.set(HELD.get());
    let before = HELD.get();
    if catch_unwind(AssertUnwindSafe(|| parser(sample))).is_err() {
        panic!(
            "{name} panics at {whence}: {:?}\n{sample:?}",
            String::from_utf8_lossy(sample)
        );
    }
    MOST.get() - before
}

fn check(name: &str, parser: Parser, sample: &[u8], whence: &str) {
    let held = held(name, parser, sample, whence);
    assert!(
        held <= MOST_HELD,
        "{name} holds {held} bytes for {} at {whence}: {:?}",
        sample.len(),
        String::from_utf8_lossy(sample)
    );
}

fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fuzz/corpus")
        .join(name);
    let mut samples: Vec<(String, Vec<u8>)> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|file| {
            let path = file.unwrap().path();
            let sample = std::fs::read(&path).unwrap();
            (
                path.file_name().unwrap().to_string_lossy().into_owned(),
                sample,
            )
        })
        .collect();
    samples.sort();
    samples
}

/// One change of a sample; `other` is a sample to take parts from.
fn change(sample: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let at = rng.usize(..=sample.len());
    let end = (at + rng.usize(..33)).min(sample.len());
    match rng.u8(..9) {
        0 if at < sample.len() => sample[at] ^= 1 << rng.u8(..8),
        1 if at < sample.len() => {
            let strange = [0, 1, 0x7f, 0x80, 0xff, b'"', b'<', b'-', b'9', b'\n', b'['];
            sample[at] = strange[rng.usize(..strange.len())];
        }
        2 => drop(sample.drain(at..end)),
        3 => sample.truncate(at),
        4 => {
            let numbers = [
                "0",
                "-1",
                "4294967296",
                "18446744073709551616",
                "1e308",
                "nan",
            ];
            let number = numbers[rng.usize(..numbers.len())];
            sample.splice(at..end.min(at + 2), number.bytes());
        }
        5 => {
            // The same part many times, as in deep nesting.
            let part = sample[at..end].to_vec();
            let times = 1 << rng.u8(..9);
            sample.splice(at..at, part.repeat(times));
        }
        6 if !other.is_empty() => {
            let from = rng.usize(..other.len());
            let to = (from + rng.usize(1..65)).min(other.len());
            sample.splice(at..end, other[from..to].iter().copied());
        }
        7 => {
            let edges = [0, 1, u32::MAX / 2, u32::MAX];
            let word = edges[rng.usize(..edges.len())];
            let word = if rng.bool() {
                word.to_le_bytes()
            } else {
                word.to_be_bytes()
            };
            sample.splice(at..(at + 4).min(sample.len()), word);
        }
        _ => {
            let bytes: Vec<u8> = (0..rng.usize(1..9)).map(|_| rng.u8(..)).collect();
            sample.splice(at..at, bytes);
        }
    }
    sample.truncate(MOST_BYTES);
}

#[test]
fn parsers_take_whatever_there_is() {
    let mut run = 0;
    for (name, parser) in TARGETS {
        let samples = corpus(name);
        assert!(!samples.is_empty(), "{name} has no corpus");
        check(name, *parser, &[], "nothing");
        for (file, sample) in &samples {
            check(name, *parser, sample, file);
        }
        for seed in 0..CHANGED {
            let mut rng = Rng::with_seed(seed);
            let (file, sample) = &samples[rng.usize(..samples.len())];
            let (_, other) = &samples[rng.usize(..samples.len())];
            let mut sample = sample.clone();
            sample.truncate(MOST_BYTES);
            for _ in 0..rng.usize(1..6) {
                change(&mut sample, other, &mut rng);
            }
            check(name, *parser, &sample, &format!("seed {seed} of {file}"));
            run += 1;
        }
    }
    assert_eq!(run, CHANGED * TARGETS.len() as u64);
}

/// Every kind of record is among the samples, or their changes would never come near one; and none
/// holds more than a constant times its bytes.
#[test]
fn records_of_every_kind_hold_no_more_than_their_bytes_justify() {
    let samples = corpus("records");
    let mut read: BTreeMap<&str, bool> = BTreeMap::new();
    for (_, sample) in &samples {
        for (kind, is_one) in targets::kinds_of_records(sample) {
            *read.entry(kind).or_default() |= is_one;
        }
    }
    assert!(read.values().all(|&is_read| is_read), "no sample: {read:?}");
    for seed in 0..CHANGED {
        let mut rng = Rng::with_seed(seed);
        let (file, sample) = &samples[rng.usize(..samples.len())];
        let mut sample = sample.clone();
        for _ in 0..rng.usize(1..4) {
            change(&mut sample, &samples[0].1, &mut rng);
        }
        let held = held("records", targets::records, &sample, file);
        let most = 64 * 1024 + 512 * sample.len() as isize;
        assert!(held <= most, "{held} bytes for {} of {file}", sample.len());
    }
}

/// The counter counts, or the bound above means nothing.
#[test]
fn what_a_parser_holds_is_seen() {
    let greedy: Parser = |sample| drop(vec![1_u8; sample.len() << 20]);
    assert!(held("greedy", greedy, &[0; 64], "here") > MOST_HELD);
    let modest: Parser = |sample| drop(sample.to_vec());
    assert!(held("modest", modest, &[0; 64], "here") < 4096);
    let panics: Parser = |_| panic!("as it was told");
    assert!(catch_unwind(|| held("panics", panics, &[], "here")).is_err());
}
