//! A [`NodeGraph`] as bytes, for the all-gather between nodes: small, fixed, checked.
//!
//! Numbers are little-endian, members and ports 16 bits. Bytes from another process are an
//! allegation: every length and number is checked, and then the graph as a whole.

use super::node_graph::{
    Exit, MAX_CHANNELS, MAX_LOCAL, MAX_NETS, NodeGraph, Reach, RingPart, TreePart,
};
use crate::base::{Error, Rank, Result};

/// First bytes; the digit changes with the form.
const MAGIC: &[u8; 4] = b"kng2";
/// Stands for "none" where a member or port is expected.
const NONE: u16 = u16::MAX;

impl NodeGraph {
    /// The bytes for the all-gather. A name of a port is cut after 255 bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        let short = |out: &mut Vec<u8>, number: usize| out.extend((number as u16).to_le_bytes());
        short(&mut out, self.ranks.len());
        short(&mut out, self.nets.len());
        short(&mut out, self.rings.len());
        short(&mut out, self.trees.len());
        out.extend(self.ring_megabytes_per_s.to_le_bytes());
        out.extend(self.tree_megabytes_per_s.to_le_bytes());
        out.extend(self.ranks.iter().flat_map(|rank| rank.0.to_le_bytes()));
        self.nets.iter().for_each(|name| text(&mut out, name));
        let member = |out: &mut Vec<u8>, number: Option<u32>| {
            let number = number.map_or(NONE, |number| number as u16);
            out.extend(number.to_le_bytes());
        };
        for ring in &self.rings {
            ring.order
                .iter()
                .for_each(|&one| member(&mut out, Some(one)));
            member(&mut out, ring.entry);
            member(&mut out, ring.exit.map(|exit| exit.net));
            member(&mut out, ring.exit.map(|exit| exit.proxy));
        }
        for tree in &self.trees {
            tree.chain
                .iter()
                .for_each(|&one| member(&mut out, Some(one)));
            member(&mut out, Some(tree.second));
            for exit in [tree.head_exit, tree.second_exit] {
                member(&mut out, exit.map(|exit| exit.net));
                member(&mut out, exit.map(|exit| exit.proxy));
            }
        }
        let Reach { buses, nearest } = &self.reach;
        short(&mut out, buses.len());
        buses.iter().for_each(|bus| text(&mut out, bus));
        short(&mut out, nearest.len());
        for exits in nearest {
            short(&mut out, exits.len());
            for exit in exits {
                member(&mut out, Some(exit.net));
                member(&mut out, Some(exit.proxy));
            }
        }
        out
    }

    /// Reads what [`NodeGraph::to_bytes`] wrote. Errors: anything else, down to a byte too many.
    pub fn from_bytes(bytes: &[u8]) -> Result<NodeGraph> {
        let mut input = Input(bytes);
        if input.array::<4>()? != *MAGIC {
            return Err(bad("they do not begin with `kng2`"));
        }
        let members = input.count("ranks", MAX_LOCAL)?;
        let nets = input.count("ports", MAX_NETS)?;
        let rings = input.count("rings", MAX_CHANNELS)?;
        let trees = input.count("trees", MAX_CHANNELS)?;
        let ring_megabytes_per_s = u32::from_le_bytes(input.array()?);
        let tree_megabytes_per_s = u32::from_le_bytes(input.array()?);
        let rank = |input: &mut Input| Ok(Rank(u32::from_le_bytes(input.array()?)));
        let graph = NodeGraph {
            ranks: repeat(members, &mut input, rank)?,
            nets: repeat(nets, &mut input, Input::text)?,
            rings: repeat(rings, &mut input, |input| {
                Ok(RingPart {
                    order: repeat(members, input, Input::member)?,
                    entry: input.optional()?,
                    exit: input.exit()?,
                })
            })?,
            ring_megabytes_per_s,
            trees: repeat(trees, &mut input, |input| {
                Ok(TreePart {
                    chain: repeat(members, input, Input::member)?,
                    second: input.member()?,
                    head_exit: input.exit()?,
                    second_exit: input.exit()?,
                })
            })?,
            tree_megabytes_per_s,
            reach: input.reach()?,
        };
        if !input.0.is_empty() {
            return Err(bad("there are more of them than there should be"));
        }
        graph.check()?;
        Ok(graph)
    }
}

/// A text behind its length, cut after 255 bytes.
fn text(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(255);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.push(end as u8);
    out.extend(&text.as_bytes()[..end]);
}

fn bad(why: &str) -> Error {
    Error::argument(
        format!("these bytes are no node graph: {why}"),
        "let all ranks load the same libkolo (check LD_LIBRARY_PATH and modules per node)",
    )
}

fn repeat<'a, T>(
    count: usize,
    input: &mut Input<'a>,
    mut one: impl FnMut(&mut Input<'a>) -> Result<T>,
) -> Result<Vec<T>> {
    (0..count).map(|_| one(input)).collect()
}

/// What is still to be read.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8]> {
        let (first, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| bad("they end early"))?;
        self.0 = rest;
        Ok(first)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N)?;
        Ok(bytes.try_into().expect("as many as asked for"))
    }

    fn short(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    fn count(&mut self, what: &str, most: usize) -> Result<usize> {
        let count = usize::from(self.short()?);
        match count <= most {
            true => Ok(count),
            false => Err(bad(&format!("{count} {what}, more than {most}"))),
        }
    }

    fn member(&mut self) -> Result<u32> {
        Ok(u32::from(self.short()?))
    }

    fn optional(&mut self) -> Result<Option<u32>> {
        let number = self.short()?;
        Ok((number != NONE).then_some(u32::from(number)))
    }

    fn exit(&mut self) -> Result<Option<Exit>> {
        match (self.optional()?, self.optional()?) {
            (Some(net), Some(proxy)) => Ok(Some(Exit { net, proxy })),
            (None, None) => Ok(None),
            _ => Err(bad("a port without a proxy, or a proxy without a port")),
        }
    }

    fn reach(&mut self) -> Result<Reach> {
        let buses = self.count("cards", MAX_NETS)?;
        let buses = repeat(buses, self, Input::text)?;
        let members = self.count("members", MAX_LOCAL)?;
        let exit = |input: &mut Input| {
            let exit = input.exit()?;
            exit.ok_or_else(|| bad("a rank is near no port"))
        };
        let nearest = repeat(members, self, |input| {
            let exits = input.count("near ports", MAX_NETS)?;
            repeat(exits, input, exit)
        })?;
        Ok(Reach { buses, nearest })
    }

    fn text(&mut self) -> Result<String> {
        let [length] = self.array()?;
        let bytes = self.take(usize::from(length))?.to_vec();
        String::from_utf8(bytes).map_err(|_| bad("the name of a port is not UTF-8"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::node_graph::tests::sample;
    use super::*;

    #[test]
    fn bytes_round_trip_and_every_other_length_is_an_error() {
        let bytes = sample().to_bytes();
        assert_eq!(NodeGraph::from_bytes(&bytes).unwrap(), sample());
        for length in 0..bytes.len() {
            assert!(NodeGraph::from_bytes(&bytes[..length]).is_err(), "{length}");
        }
        assert!(NodeGraph::from_bytes(&[bytes.as_slice(), &[0]].concat()).is_err());
        let mut alone = sample();
        alone.rings[0].entry = None;
        alone.rings[0].exit = None;
        alone.nets = vec!["ä".repeat(200)];
        let again = NodeGraph::from_bytes(&alone.to_bytes()).unwrap();
        assert_eq!((again.rings, again.nets[0].len()), (alone.rings, 254));
    }

    #[test]
    fn damaged_bytes_never_panic_and_never_pass_as_a_wrong_order() {
        let bytes = sample().to_bytes();
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                if let Ok(graph) = NodeGraph::from_bytes(&damaged) {
                    graph.check().unwrap();
                }
            }
        }
    }
}
