//! Settings from which plans follow must be the same on every rank, or ranks would wait for
//! messages that nobody sends. At init the ranks exchange them; this compares them and says who
//! differs.

use crate::base::record::{self, Record};
use crate::base::{Error, Rank, Result, hash};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::Write;

/// More differing options, places or rank ranges than this are only counted in a message.
const MOST_SHOWN: usize = 6;

/// One option that all ranks must agree on, as one rank has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShapeEntry {
    /// The option.
    pub key: Cow<'static, str>,
    /// Its value, as text.
    pub value: String,
    /// The file or variable it comes from.
    pub source: String,
}

impl Record for Vec<ShapeEntry> {
    const NAME: &'static str = "the settings of a rank";
}

/// FNV-1a over `key=value` lines; sources do not enter.
pub fn digest(shape: &[ShapeEntry]) -> u64 {
    let mut text = String::new();
    for entry in shape {
        // Quotes keep a value that holds a line end from looking like two entries.
        let _ = writeln!(text, "{}={:?}", entry.key, entry.value);
    }
    hash::fnv1a(text.as_bytes())
}

/// Compares the shapes of all ranks, each with the name of its node.
///
/// # Errors
/// `InvalidUsage` that names each differing option, its values, and for each value the ranks, their
/// nodes and the file or variable; or bytes that are no shape.
pub fn compare_shapes<N, B>(all: &[(Rank, N, B)]) -> Result<()>
where
    N: AsRef<str>,
    B: AsRef<[u8]>,
{
    let Some((_, _, first)) = all.first() else {
        return Ok(());
    };
    if all
        .iter()
        .all(|(_, _, bytes)| bytes.as_ref() == first.as_ref())
    {
        return Ok(());
    }
    let mut shapes = Vec::with_capacity(all.len());
    for (rank, node, bytes) in all {
        shapes.push((
            *rank,
            node.as_ref(),
            parse(*rank, node.as_ref(), bytes.as_ref())?,
        ));
    }
    let mut keys: Vec<&str> = Vec::new();
    for (_, _, shape) in &shapes {
        for entry in shape {
            if !keys.contains(&&*entry.key) {
                keys.push(&entry.key);
            }
        }
    }
    let differing: Vec<_> = keys
        .iter()
        .filter_map(|key| difference(key, &shapes))
        .collect();
    if differing.is_empty() {
        return Ok(());
    }
    Err(Error::usage(
        format!(
            "ranks have different settings that must be the same: {}",
            bounded(&differing, "; ")
        ),
        "give these options the same value on every rank (the same file on every node, or the same \
         variables through the launcher), or remove them; `kolo config show --origin` \
         shows what is read",
    ))
}

type Shape<'a> = (Rank, &'a str, Vec<ShapeEntry>);

fn parse(rank: Rank, node: &str, bytes: &[u8]) -> Result<Vec<ShapeEntry>> {
    record::decode(bytes).map_err(|fault| {
        let what = format!(
            "the settings of rank {rank} on node {node} cannot be read: {}",
            fault.flaw
        );
        Error::usage(what, "start the same version of kolo on every rank").with_peer(rank)
    })
}

fn value_of<'a>(shape: &'a Shape<'_>, key: &str) -> Option<&'a str> {
    shape
        .2
        .iter()
        .find(|entry| entry.key == key)
        .map(|entry| entry.value.as_str())
}

/// A phrase about `key` where ranks differ in it, else `None`.
fn difference(key: &str, shapes: &[Shape<'_>]) -> Option<String> {
    if shapes
        .windows(2)
        .all(|pair| value_of(&pair[0], key) == value_of(&pair[1], key))
    {
        return None;
    }
    let mut values: Vec<(Option<&str>, Vec<Place<'_>>)> = Vec::new();
    for (rank, node, shape) in shapes {
        let entry = shape.iter().find(|entry| entry.key == key);
        let value = entry.map(|entry| entry.value.as_str());
        let source = entry.map_or("another version of kolo", |entry| entry.source.as_str());
        let known = values.iter().position(|(other, _)| *other == value);
        let at = known.unwrap_or_else(|| {
            values.push((value, Vec::new()));
            values.len() - 1
        });
        add(&mut values[at].1, *rank, node, source);
    }
    let describe = |(value, places): &(Option<&str>, Vec<Place<'_>>)| {
        let value = value.map_or("unknown".to_string(), |value| format!("`{value}`"));
        let places: Vec<_> = places.iter().map(Place::describe).collect();
        format!("{value} on {}", bounded(&places, ", "))
    };
    let values: Vec<_> = values.iter().map(describe).collect();
    Some(format!("`{key}` is {}", bounded(&values, " but ")))
}

/// The ranks of one node that have a value from one source.
struct Place<'a> {
    node: &'a str,
    source: &'a str,
    ranks: Vec<u32>,
}

fn add<'a>(places: &mut Vec<Place<'a>>, rank: Rank, node: &'a str, source: &'a str) {
    // Ranks of a node mostly follow one another, so the last place is mostly the right one.
    match places
        .iter_mut()
        .rev()
        .find(|place| place.node == node && place.source == source)
    {
        Some(place) => place.ranks.push(rank.0),
        None => places.push(Place {
            node,
            source,
            ranks: vec![rank.0],
        }),
    }
}

impl Place<'_> {
    fn describe(&self) -> String {
        let mut ranks = self.ranks.clone();
        ranks.sort_unstable();
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        for rank in ranks {
            match ranges.last_mut() {
                Some((_, last)) if rank <= last.saturating_add(1) => *last = rank,
                _ => ranges.push((rank, rank)),
            }
        }
        let noun = if self.ranks.len() == 1 {
            "rank"
        } else {
            "ranks"
        };
        let text = |&(from, to): &(u32, u32)| match to - from {
            0 => from.to_string(),
            _ => format!("{from}-{to}"),
        };
        let ranges: Vec<_> = ranges.iter().map(text).collect();
        format!(
            "{noun} {} (node {}, {})",
            bounded(&ranges, "+"),
            self.node,
            self.source
        )
    }
}

/// The first phrases, and the number of those left out.
fn bounded(phrases: &[String], separator: &str) -> String {
    let mut text = phrases[..phrases.len().min(MOST_SHOWN)].join(separator);
    if phrases.len() > MOST_SHOWN {
        let _ = write!(text, "{separator}{} more", phrases.len() - MOST_SHOWN);
    }
    text
}
