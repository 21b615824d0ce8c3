//! Which NICs a rank uses where no ring or tree leads it, and through whose proxy.
//!
//! **Problem.** A node has several NICs, and a GPU is near to some. Its way to another one may go
//! over the link between the sockets, which is slow and shared.
//!
//! **Idea.** A GPU that has NVLink to another one may hand its data to that one and let its proxy
//! send (PXN), where the own way is worse. "Worse" means a farther kind of way, and for equal
//! kinds a narrower one. Receiving needs no such help: the ring enters where the NIC is near.

use super::graph::{Graph, NodeKind};
use super::node_graph::Exit;
use super::paths::{PathKind, Paths};

/// A way between a member and a network port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetWay {
    /// Its kind; [`PathKind::Pxn`] where another member sends.
    pub kind: PathKind,
    /// Its width in megabytes per second.
    pub megabytes_per_s: u32,
    /// Its links, as indices into the graph's.
    pub links: Vec<u32>,
    /// The member whose proxy sends: itself, or for PXN the one nearest to the NIC.
    pub proxy: u32,
}

/// The ports that are used, by ascending number: those at least half as fast as the fastest (the
/// port for maintenance is not).
pub fn nets(graph: &Graph) -> Vec<usize> {
    let rate = |&net: &usize| {
        let links = graph.leaving(net).iter();
        links
            .map(|&link| graph.links[link].megabytes_per_s)
            .max()
            .unwrap_or(0)
    };
    let all = graph.of_kind(NodeKind::Net);
    let fastest = all.iter().map(rate).max().unwrap_or(0);
    all.into_iter()
        .filter(|net| rate(net) >= fastest / 2)
        .collect()
}

/// The way from a port into a member. `net` and `members` are nodes of the graph.
pub fn way_in(paths: &Paths, net: usize, members: &[usize], member: usize) -> Option<NetWay> {
    own(paths.get(net, members[member])?, member)
}

/// The best way from a member out of a port, with `pxn` also through the NVLink of another.
pub fn way_out(
    paths: &Paths,
    net: usize,
    members: &[usize],
    member: usize,
    pxn: bool,
) -> Option<NetWay> {
    let mut best = paths
        .get(members[member], net)
        .and_then(|path| own(path, member));
    if !pxn {
        return best;
    }
    for other in (0..members.len()).filter(|&other| other != member) {
        let hop = paths.get(members[member], members[other]);
        let Some(hop) = hop.filter(|hop| hop.kind == PathKind::Nvl) else {
            continue;
        };
        let last = paths.get(members[other], net);
        // Only a GPU beside the NIC is worth the detour.
        let Some(last) = last.filter(|last| last.kind < PathKind::Pxn) else {
            continue;
        };
        let width = hop.megabytes_per_s.min(last.megabytes_per_s);
        let better = best.as_ref().is_none_or(|best| {
            let key = (best.kind, std::cmp::Reverse(best.megabytes_per_s));
            (PathKind::Pxn, std::cmp::Reverse(width)) < key
        });
        if better {
            best = Some(NetWay {
                kind: PathKind::Pxn,
                megabytes_per_s: width,
                links: [hop.links.as_slice(), &last.links].concat(),
                proxy: other as u32,
            });
        }
    }
    best
}

fn own(path: &super::paths::Path, member: usize) -> Option<NetWay> {
    Some(NetWay {
        kind: path.kind,
        megabytes_per_s: path.megabytes_per_s,
        links: path.links.clone(),
        proxy: member as u32,
    })
}

/// For every member the NICs by which it sends messages that follow no ring or tree.
///
/// They are the nearest ones of each member. A NIC that is nobody's nearest would never be used:
/// of members on processors, those that are most for each of their NICs take it too. (From a GPU
/// the way to a far NIC is too narrow.) Who has several uses them in turn ([`super::ways`]). No
/// member has any on a node without ports.
pub fn choose_nets(graph: &Graph, paths: &Paths, members: &[usize], pxn: bool) -> Vec<Vec<Exit>> {
    let of = |member: usize| choose_net(graph, paths, members, member, pxn);
    let mut chosen: Vec<Vec<Exit>> = (0..members.len()).map(of).collect();
    let is_gpu = |&at: &usize| graph.nodes[at].kind == NodeKind::Gpu;
    if members.iter().any(is_gpu) {
        return chosen;
    }
    for (index, net) in (0..).zip(nets(graph)) {
        let is_it = |exit: &Exit| exit.net == index;
        if chosen.iter().flatten().any(is_it) {
            continue;
        }
        for member in busiest(&chosen) {
            if let Some(way) = way_out(paths, net, members, member, pxn) {
                chosen[member].push(Exit {
                    net: index,
                    proxy: way.proxy,
                });
            }
        }
    }
    chosen
}

/// Those who share the same ports, and are most for each of them; of equals the first.
fn busiest(chosen: &[Vec<Exit>]) -> Vec<usize> {
    let mut groups: Vec<(Vec<u32>, Vec<usize>)> = Vec::new();
    for (member, exits) in chosen.iter().enumerate() {
        let ports: Vec<u32> = exits.iter().map(|exit| exit.net).collect();
        match groups.iter_mut().find(|group| group.0 == ports) {
            Some((_, members)) => members.push(member),
            None => groups.push((ports, vec![member])),
        }
    }
    let load = |(ports, members): &(Vec<u32>, Vec<usize>)| {
        members.len() as f64 / ports.len().max(1) as f64
    };
    let most = groups.iter().map(load).fold(0.0, f64::max);
    let first = groups.into_iter().find(|group| load(group) == most);
    first.map_or_else(Vec::new, |(_, members)| members)
}

/// The NICs that are nearest to `member`, all equally near.
pub fn choose_net(
    graph: &Graph,
    paths: &Paths,
    members: &[usize],
    member: usize,
    pxn: bool,
) -> Vec<Exit> {
    let ways: Vec<(usize, NetWay)> = nets(graph)
        .iter()
        .enumerate()
        .filter_map(|(index, &net)| Some((index, way_out(paths, net, members, member, pxn)?)))
        .collect();
    let key = |way: &NetWay| (way.kind, std::cmp::Reverse(way.megabytes_per_s));
    let best = ways.iter().map(|(_, way)| key(way)).min();
    let equal = ways.iter().filter(|(_, way)| Some(key(way)) == best);
    let exit = |(net, way): &(usize, NetWay)| Exit {
        net: *net as u32,
        proxy: way.proxy,
    };
    equal.map(exit).collect()
}
