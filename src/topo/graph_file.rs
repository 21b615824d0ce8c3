//! A [`NodeGraph`] as a text file: written by a search (`KOLO_GRAPH_DUMP_FILE`), changed by hand,
//! loaded in place of a search (`KOLO_GRAPH_FILE`).
//!
//! The form is TOML; `docs/topology.md` shows it. Members are the ranks of a node by their
//! position, so one file serves all nodes of a kind. Every error names the file, the line and the
//! element.

use super::node_graph::{Exit, MAX_NETS, NodeGraph, RingPart, TreePart};
use crate::base::{Error, Rank, Result, input_file};
use serde::Deserialize;
use std::fmt::Write;
use std::ops::Range;
use std::path::Path;
use toml::Spanned;

/// The version of the form.
const VERSION: i64 = 1;
/// Files may have this size.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// More ranks than any node has.
const MOST_RANKS: u32 = 1 << 16;
const REMEDY: &str = "correct the graph file (docs/topology.md shows its form), or leave \
                      KOLO_GRAPH_FILE out and let kolo search";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: Spanned<i64>,
    ranks: Spanned<i64>,
    nets: Option<Spanned<Vec<String>>>,
    ring_bandwidth: Spanned<f64>,
    tree_bandwidth: Spanned<f64>,
    #[serde(default, rename = "ring")]
    rings: Vec<Spanned<RingEntry>>,
    #[serde(default, rename = "tree")]
    trees: Vec<Spanned<TreeEntry>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RingEntry {
    order: Spanned<Vec<i64>>,
    entry: Option<Spanned<String>>,
    exit: Option<Spanned<String>>,
    proxy: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TreeEntry {
    chain: Spanned<Vec<i64>>,
    second: Option<Spanned<i64>>,
    net: Option<Spanned<String>>,
    head_proxy: Option<Spanned<i64>>,
    second_proxy: Option<Spanned<i64>>,
}

/// The text of a graph file. Errors: it cannot be read, is no file or is larger than 16 MiB.
pub fn file_text(path: &Path) -> Result<String> {
    input_file::text(path, MAX_FILE_BYTES).map_err(|error| {
        let doing = format!("the graph file {} cannot be read", path.display());
        input_file::refused(doing, &error, "check the path in KOLO_GRAPH_FILE")
    })
}

/// The text of a graph file. `name` says what a member is (`GPU/3`), for the comments.
pub fn to_text(graph: &NodeGraph, name: &dyn Fn(u32) -> String) -> String {
    let mut out = String::from("# Rings and trees of one node, for KOLO_GRAPH_FILE.\n");
    let rate = |megabytes: u32| f64::from(megabytes) / 1000.;
    let names: Vec<String> = (0..graph.ranks.len() as u32)
        .map(|member| format!("{member} = {}", name(member)))
        .collect();
    let _ = writeln!(
        out,
        "# Ranks by their position on the node: {}",
        names.join(", ")
    );
    let _ = writeln!(out, "version = {VERSION}\nranks = {}", graph.ranks.len());
    let _ = writeln!(out, "nets = {}", toml::Value::from(graph.nets.clone()));
    out.push_str("# GB/s and direction, of each channel.\n");
    let _ = writeln!(
        out,
        "ring_bandwidth = {:?}",
        rate(graph.ring_megabytes_per_s)
    );
    let _ = writeln!(
        out,
        "tree_bandwidth = {:?}",
        rate(graph.tree_megabytes_per_s)
    );
    let net = |index: u32| {
        let name = graph.nets.get(index as usize).cloned();
        toml::Value::from(name.unwrap_or_default())
    };
    for ring in &graph.rings {
        let _ = writeln!(out, "\n[[ring]]\norder = {:?}", ring.order);
        if let (Some(entry), Some(exit)) = (ring.entry, ring.exit) {
            let _ = writeln!(out, "entry = {}\nexit = {}", net(entry), net(exit.net));
            if ring.order.last() != Some(&exit.proxy) {
                let _ = writeln!(out, "proxy = {}", exit.proxy);
            }
        }
    }
    for tree in &graph.trees {
        let _ = writeln!(out, "\n[[tree]]\nchain = {:?}", tree.chain);
        if tree.chain.get(1).is_some_and(|&next| next != tree.second) {
            let _ = writeln!(out, "second = {}", tree.second);
        }
        if let (Some(head), Some(second)) = (tree.head_exit, tree.second_exit) {
            let _ = writeln!(out, "net = {}", net(head.net));
            if tree.chain[0] != head.proxy {
                let _ = writeln!(out, "head_proxy = {}", head.proxy);
            }
            if tree.second != second.proxy {
                let _ = writeln!(out, "second_proxy = {}", second.proxy);
            }
        }
    }
    out
}

/// Reads a graph file for the node with these ranks. Errors: those of [`file_text`] and of
/// [`from_text`].
pub fn from_file(path: &Path, ranks: &[Rank]) -> Result<NodeGraph> {
    from_text(&file_text(path)?, &path.display().to_string(), ranks)
}

/// Reads the text of a graph file; `source` is what errors call it. Errors name the line and
/// the element: what is no TOML, unknown and missing keys, another number of ranks, rings and
/// trees that miss a rank or visit one twice, ports that do not exist, negative numbers.
pub fn from_text(text: &str, source: &str, ranks: &[Rank]) -> Result<NodeGraph> {
    let reader = Reader { text, source };
    reader.graph(&reader.file()?, ranks)
}

/// Looks for mistakes in the text of a graph file, for a node of as many ranks as it says.
///
/// # Errors
/// Those of [`from_text`]; that it is for no ranks, or for too many.
pub fn check_text(text: &str, source: &str) -> Result<()> {
    let reader = Reader { text, source };
    let file = reader.file()?;
    let count = u32::try_from(*file.ranks.get_ref()).ok();
    let Some(count) = count.filter(|count| (1..=MOST_RANKS).contains(count)) else {
        let why = format!("a node has 1 to {MOST_RANKS}");
        return Err(reader.bad(file.ranks.span(), "ranks", &why));
    };
    let ranks: Vec<Rank> = (0..count).map(Rank).collect();
    reader.graph(&file, &ranks).map(drop)
}

/// The text and its name: what is needed to say where an error is.
struct Reader<'a> {
    text: &'a str,
    source: &'a str,
}

impl Reader<'_> {
    fn file(&self) -> Result<File> {
        toml::from_str(self.text).map_err(|error| {
            let at = error.span().unwrap_or(0..0);
            self.bad(at, "file", error.message())
        })
    }

    fn bad(&self, at: Range<usize>, element: &str, why: &str) -> Error {
        let before = self.text.get(..at.start).unwrap_or("");
        let line = 1 + before.matches('\n').count();
        let what = format!("{}, line {line}, {element}: {why}", self.source);
        Error::argument(what, REMEDY)
    }

    fn graph(&self, file: &File, ranks: &[Rank]) -> Result<NodeGraph> {
        if *file.version.get_ref() != VERSION {
            let why = format!("kolo reads version {VERSION}");
            return Err(self.bad(file.version.span(), "version", &why));
        }
        if usize::try_from(*file.ranks.get_ref()) != Ok(ranks.len()) {
            let why = format!(
                "it is for {} ranks, here are {}",
                file.ranks.get_ref(),
                ranks.len()
            );
            return Err(self.bad(file.ranks.span(), "ranks", &why));
        }
        let nets = file.nets.as_ref();
        if let Some(nets) = nets.filter(|nets| nets.get_ref().len() > MAX_NETS) {
            let why = format!("there are more than {MAX_NETS}");
            return Err(self.bad(nets.span(), "nets", &why));
        }
        let mut graph = NodeGraph {
            ranks: ranks.to_vec(),
            nets: nets.map_or_else(Vec::new, |nets| nets.get_ref().clone()),
            rings: Vec::new(),
            ring_megabytes_per_s: self.rate(&file.ring_bandwidth, "ring_bandwidth")?,
            trees: Vec::new(),
            tree_megabytes_per_s: self.rate(&file.tree_bandwidth, "tree_bandwidth")?,
            reach: Default::default(),
        };
        for (index, ring) in file.rings.iter().enumerate() {
            let part = self.ring(ring.get_ref(), index, &graph)?;
            graph.rings.push(part);
        }
        for (index, tree) in file.trees.iter().enumerate() {
            let part = self.tree(tree.get_ref(), index, &graph)?;
            graph.trees.push(part);
        }
        // What is left: counts that no single element is to blame for.
        graph
            .check()
            .map_err(|error| self.bad(0..0, "file", &error.what))?;
        Ok(graph)
    }

    fn rate(&self, value: &Spanned<f64>, element: &str) -> Result<u32> {
        let megabytes = value.get_ref() * 1000.;
        match (1.0..4e9).contains(&megabytes) {
            true => Ok(megabytes.round() as u32),
            false => Err(self.bad(value.span(), element, "it is not 0.001 to 4000000 GB/s")),
        }
    }

    fn ring(&self, ring: &RingEntry, index: usize, graph: &NodeGraph) -> Result<RingPart> {
        let element = format!("ring {index}");
        let order = self.order(&ring.order, &element, graph.ranks.len())?;
        let last = order[order.len() - 1];
        let entry = self.net(ring.entry.as_ref(), &element, graph)?;
        let exit = self.net(ring.exit.as_ref(), &element, graph)?;
        let proxy = self.member(ring.proxy.as_ref(), &element, last, graph)?;
        if entry.is_some() != exit.is_some() {
            let why = "entry and exit go together";
            return Err(self.bad(ring.order.span(), &element, why));
        }
        Ok(RingPart {
            order,
            entry,
            exit: exit.map(|net| Exit { net, proxy }),
        })
    }

    fn tree(&self, tree: &TreeEntry, index: usize, graph: &NodeGraph) -> Result<TreePart> {
        let element = format!("tree {index}");
        let chain = self.order(&tree.chain, &element, graph.ranks.len())?;
        let net = self.net(tree.net.as_ref(), &element, graph)?;
        let next = *chain.get(1).unwrap_or(&chain[0]);
        let second = self.member(tree.second.as_ref(), &element, next, graph)?;
        if second != chain[0] && second != next {
            let at = tree.second.as_ref().map_or(0..0, Spanned::span);
            let why = format!("second = {second} is not one of the first two of its chain");
            return Err(self.bad(at, &element, &why));
        }
        let head = self.member(tree.head_proxy.as_ref(), &element, chain[0], graph)?;
        let proxy = self.member(tree.second_proxy.as_ref(), &element, second, graph)?;
        let exit = |proxy| net.map(|net| Exit { net, proxy });
        Ok(TreePart {
            head_exit: exit(head),
            second_exit: exit(proxy),
            second,
            chain,
        })
    }

    /// An order that visits every member once.
    fn order(&self, order: &Spanned<Vec<i64>>, element: &str, members: usize) -> Result<Vec<u32>> {
        let bad = |why: &str| self.bad(order.span(), element, why);
        let mut numbers = Vec::new();
        for &number in order.get_ref() {
            let member = u32::try_from(number);
            numbers.push(member.map_err(|_| bad(&format!("{number} is no rank of the node")))?);
        }
        super::node_graph::visits_all(&numbers, members).map_err(|why| bad(&why))?;
        Ok(numbers)
    }

    fn net(
        &self,
        name: Option<&Spanned<String>>,
        element: &str,
        graph: &NodeGraph,
    ) -> Result<Option<u32>> {
        let Some(name) = name else { return Ok(None) };
        match graph.nets.iter().position(|net| net == name.get_ref()) {
            Some(index) => Ok(Some(index as u32)),
            None => {
                let why = format!("network port {:?} is not in `nets`", name.get_ref());
                Err(self.bad(name.span(), element, &why))
            }
        }
    }

    fn member(
        &self,
        number: Option<&Spanned<i64>>,
        element: &str,
        own: u32,
        graph: &NodeGraph,
    ) -> Result<u32> {
        let Some(number) = number else { return Ok(own) };
        match u32::try_from(*number.get_ref()) {
            Ok(member) if (member as usize) < graph.ranks.len() => Ok(member),
            _ => {
                let why = format!("{} is no rank of the node", number.get_ref());
                Err(self.bad(number.span(), element, &why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::node_graph::tests::sample;
    use super::*;

    #[test]
    fn text_round_trips() {
        // What a search adds for this machine is no part of the file.
        let sample = || NodeGraph {
            reach: Default::default(),
            ..sample()
        };
        let text = to_text(&sample(), &|member| format!("GPU/{member}"));
        assert!(
            text.contains("proxy = 1\n") && text.contains("1 = GPU/1"),
            "{text}"
        );
        let again = from_text(&text, "g.toml", &sample().ranks).unwrap();
        assert_eq!(again, sample());
        let mut alone = sample();
        alone.rings[0].entry = None;
        alone.rings[0].exit = None;
        alone.trees[0].head_exit = None;
        alone.trees[0].second_exit = None;
        alone.trees[0].second = 1;
        let text = to_text(&alone, &|_| String::new());
        assert_eq!(from_text(&text, "g.toml", &alone.ranks).unwrap(), alone);
    }

    /// Mistakes in a good file: the text that is replaced, its replacement, and the message.
    const BAD: &[(&str, &str, &str)] = &[
        (
            "version = 1",
            "version = 2",
            "line 1, version: kolo reads version 1",
        ),
        (
            "ranks = 2",
            "ranks = 4",
            "line 2, ranks: it is for 4 ranks, here are 2",
        ),
        (
            "ranks = 2",
            "ranks = -2",
            "line 2, ranks: it is for -2 ranks",
        ),
        ("24.0", "-24.0", "line 4, ring_bandwidth: it is not"),
        ("24.0", "nan", "line 4, ring_bandwidth: it is not"),
        (
            "order = [0, 1]",
            "order = [0, 2]",
            "line 7, ring 0: rank 2 is not on the node",
        ),
        (
            "order = [0, 1]",
            "order = [-1, 0]",
            "line 7, ring 0: -1 is no rank",
        ),
        (
            "chain = [0, 1]",
            "chain = [1, 1]",
            "line 9, tree 0: rank 1 stands in it twice",
        ),
        (
            "chain = [0, 1]",
            "chain = [1]",
            "line 9, tree 0: rank 0 is missing",
        ),
        ("order = [0, 1]", "order = [0, 1]\nspeed = 3", "line 8"),
        ("order = [0, 1]", "order = 7", "line 7"),
        (
            "order = [0, 1]",
            "order = [0, 1]\nentry = \"ib9\"",
            "line 8, ring 0: network port",
        ),
        (
            "order = [0, 1]",
            "order = [0, 1]\nentry = \"ib0\"",
            "entry and exit go together",
        ),
        (
            "chain = [0, 1]",
            "chain = [0, 1]\nhead_proxy = 2",
            "line 10, tree 0: 2 is no rank of the node",
        ),
        ("[[tree]]\nchain = [0, 1]\n", "", "0 trees"),
        ("version = 1", "version = ", "line 1, file"),
        ("version = 1\n", "", "missing field `version`"),
    ];

    #[test]
    fn bad_files_are_named_with_line_and_element() {
        let good = "version = 1\nranks = 2\nnets = [\"ib0\"]\nring_bandwidth = 24.0\n\
                    tree_bandwidth = 12\n[[ring]]\norder = [0, 1]\n[[tree]]\nchain = [0, 1]\n";
        let ranks = [Rank(3), Rank(5)];
        let read = |text: &str| from_text(text, "g.toml", &ranks);
        assert_eq!(read(good).unwrap().tree_megabytes_per_s, 12_000);
        for (from, to, expected) in BAD {
            let text = good.replace(*from, to);
            assert_ne!(text, good, "{from}");
            let error = read(&text).unwrap_err();
            assert!(error.what.contains(expected), "{to}: {error}");
            assert!(error.what.starts_with("g.toml, line "), "{error}");
        }
        let missing = from_file(Path::new("/nowhere/g.toml"), &ranks).unwrap_err();
        assert!(missing.what.contains("/nowhere/g.toml"), "{missing}");
    }
}
