//! Model that the search works on, made once: the ways between members and to ports, and for each
//! member the others in the order in which they are tried.

use super::super::graph::{Graph, LinkKind, speed};
use super::super::nic::{self, NetWay};
use super::super::paths::{Path, PathKind, Paths};
use super::request::Request;
use std::cmp::Reverse;

/// Up to so many members the search goes back over rings that it has laid already.
const FEW: usize = 16;

/// The members and their ways.
pub(super) struct Model<'a> {
    pub(super) graph: &'a Graph,
    /// How many members.
    pub(super) members: usize,
    /// The ports in use; none on one node alone.
    pub(super) nets: Vec<usize>,
    nodes: Vec<usize>,
    paths: &'a Paths,
    near: Vec<Vec<u32>>,
    ins: Vec<Option<NetWay>>,
    outs: Vec<Option<NetWay>>,
}

impl<'a> Model<'a> {
    pub(super) fn new(
        graph: &'a Graph,
        paths: &'a Paths,
        members: &[usize],
        request: &Request,
    ) -> Model<'a> {
        let nets = if request.several_nodes {
            nic::nets(graph)
        } else {
            Vec::new()
        };
        let count = members.len();
        let pairs = || {
            nets.iter()
                .flat_map(|&net| (0..count).map(move |member| (net, member)))
        };
        let ins = pairs()
            .map(|(net, m)| nic::way_in(paths, net, members, m))
            .collect();
        let pxn = request.pxn;
        let outs = pairs()
            .map(|(net, m)| nic::way_out(paths, net, members, m, pxn))
            .collect();
        let mut model = Model {
            graph,
            members: count,
            nets,
            nodes: members.to_vec(),
            paths,
            near: Vec::new(),
            ins,
            outs,
        };
        model.near = (0..count).map(|member| model.by_nearness(member)).collect();
        model
    }

    /// The other members, nearest first; of equally near ones the wider, then the next in number.
    fn by_nearness(&self, member: usize) -> Vec<u32> {
        let count = self.members;
        let mut others: Vec<u32> = (0..count)
            .filter(|&m| m != member)
            .map(|m| m as u32)
            .collect();
        others.sort_by_key(|&other| {
            let path = self.way(member, other as usize);
            let ahead = (other as usize + count - member) % count;
            (
                path.kind,
                path.links.len(),
                Reverse(self.inner_width(path)),
                ahead,
            )
        });
        others
    }

    /// The width of a way without its ends, which belong to the members alone.
    fn inner_width(&self, path: &Path) -> u32 {
        let inner = match path.links.len() {
            0..=2 => &path.links[..],
            links => &path.links[1..links - 1],
        };
        let rate = |&link: &u32| self.graph.links[link as usize].megabytes_per_s;
        inner.iter().map(rate).min().unwrap_or(u32::MAX)
    }

    /// The way from one member to another.
    pub(super) fn way(&self, from: usize, to: usize) -> &'a Path {
        let path = self.paths.get(self.nodes[from], self.nodes[to]);
        path.expect("members are joined: checked before the search")
    }

    /// The others in the order in which they are tried.
    pub(super) fn near(&self, member: usize) -> &[u32] {
        &self.near[member]
    }

    /// The way from a port (its index) into a member.
    pub(super) fn way_in(&self, net: usize, member: usize) -> Option<&NetWay> {
        self.ins[net * self.members + member].as_ref()
    }

    /// The way from a member out of a port (its index).
    pub(super) fn way_out(&self, net: usize, member: usize) -> Option<&NetWay> {
        self.outs[net * self.members + member].as_ref()
    }

    /// Whether the search may go back over whole rings.
    pub(super) fn is_small(&self) -> bool {
        self.members <= FEW
    }

    /// Into how many channels a way may be divided: few where there are many members, as a search
    /// is as deep as channels times members.
    pub(super) fn most_parts(&self) -> u32 {
        match self.members {
            0..=FEW => 16,
            17..=256 => 4,
            _ => 2,
        }
    }

    /// Kinds of ways between members, nearest first.
    pub(super) fn inner_kinds(&self) -> Vec<PathKind> {
        let pairs = (0..self.members).flat_map(|a| (0..self.members).map(move |b| (a, b)));
        let kinds = pairs
            .filter(|(a, b)| a != b)
            .map(|(a, b)| self.way(a, b).kind);
        sorted(kinds.chain((self.members == 1).then_some(PathKind::Loc)))
    }

    /// Kinds of ways to and from ports, nearest first; one (`Loc`) where there are none.
    pub(super) fn outer_kinds(&self) -> Vec<PathKind> {
        let ways = self.ins.iter().chain(&self.outs).flatten();
        let kinds = ways.map(|way| way.kind);
        sorted(kinds.chain(self.nets.is_empty().then_some(PathKind::Loc)))
    }

    /// Rates for a channel, fastest first: the widths of all ways and whole fractions of them.
    pub(super) fn rates(&self) -> Vec<u32> {
        let mut widths: Vec<u32> = Vec::new();
        for a in 0..self.members {
            widths.extend((0..self.members).map(|b| self.way(a, b).megabytes_per_s));
        }
        let ways = self.ins.iter().chain(&self.outs).flatten();
        widths.extend(ways.map(|way| way.megabytes_per_s));
        widths.extend((0..self.members).map(|member| self.own_width(member)));
        widths.retain(|&width| width < u32::MAX);
        widths.sort_unstable();
        widths.dedup();
        // The second member of a tree bears three halves of the rate.
        let two_thirds = widths
            .iter()
            .map(|&width| (u64::from(width) * 2 / 3) as u32);
        let two_thirds: Vec<u32> = two_thirds.collect();
        let parts = 1..=self.most_parts();
        let rates = widths
            .iter()
            .flat_map(|&width| parts.clone().map(move |part| width / part));
        let rates = rates.chain(two_thirds);
        let mut rates: Vec<u32> = rates.map(|rate| rate.min(speed::CHANNEL)).collect();
        // Even, so that halves are whole.
        rates.iter_mut().for_each(|rate| *rate -= *rate % 2);
        rates.retain(|&rate| rate > 0);
        rates.sort_unstable_by(|a, b| b.cmp(a));
        rates.dedup();
        rates
    }

    /// The widest link of a member.
    fn own_width(&self, member: usize) -> u32 {
        let links = self.graph.leaving(self.nodes[member]).iter();
        links
            .map(|&link| self.graph.links[link].megabytes_per_s)
            .max()
            .unwrap_or(u32::MAX)
    }

    /// More channels of this rate than this cannot leave some member, or the ports.
    pub(super) fn most_channels(&self, rate: u32, inner: PathKind) -> usize {
        let nvlink_only = self.nets.is_empty() && inner <= PathKind::Nvb;
        let leaving = |node: usize| -> usize {
            let links = self
                .graph
                .leaving(node)
                .iter()
                .map(|&link| self.graph.links[link]);
            links
                .filter(|link| !nvlink_only || link.kind == LinkKind::NvLink)
                .map(|link| (link.megabytes_per_s / rate) as usize)
                .sum()
        };
        let members = self
            .nodes
            .iter()
            .map(|&node| leaving(node))
            .min()
            .unwrap_or(0);
        let ports = (0..self.nets.len())
            .map(|net| (self.port_width(net) / rate) as usize)
            .sum();
        match (self.members, self.nets.is_empty()) {
            (1, true) => 1,
            (_, true) => members,
            (1, false) => ports,
            (_, false) => members.min(ports),
        }
    }

    /// Bandwidth of the widest way through a port.
    fn port_width(&self, net: usize) -> u32 {
        let ways = net * self.members..(net + 1) * self.members;
        let ins = self.ins[ways.clone()].iter().flatten();
        let outs = self.outs[ways].iter().flatten();
        let widest =
            |ways: &mut dyn Iterator<Item = &NetWay>| ways.map(|w| w.megabytes_per_s).max();
        let (ins, outs) = (widest(&mut ins.into_iter()), widest(&mut outs.into_iter()));
        ins.unwrap_or(0).min(outs.unwrap_or(0))
    }

    /// Whether ways within a limit lead from every member to every other.
    pub(super) fn is_joined(&self, inner: PathKind) -> bool {
        let mut seen = vec![false; self.members];
        let mut stack = vec![0];
        seen[0] = true;
        while let Some(member) = stack.pop() {
            for (other, seen) in seen.iter_mut().enumerate() {
                if !*seen && self.way(member, other).kind <= inner {
                    *seen = true;
                    stack.push(other);
                }
            }
        }
        seen.iter().all(|&seen| seen)
    }
}

fn sorted(kinds: impl Iterator<Item = PathKind>) -> Vec<PathKind> {
    let mut kinds: Vec<PathKind> = kinds.collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}
