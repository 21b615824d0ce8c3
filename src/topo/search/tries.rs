//! Which rates and limits are tried, in which order, and when it is enough.

use super::super::node_graph::{Exit, MAX_CHANNELS, RingPart, TreePart};
use super::super::paths::PathKind;
use super::model::Model;
use super::request::{Cross, Request, STEPS, STEPS_A_TRY};
use super::ring::{Limits, RingSearch};
use super::room::Room;
use super::tree::TreeSearch;
use std::cmp::Reverse;

/// The best of all tries.
pub(super) struct Outcome<P> {
    pub(super) parts: Vec<P>,
    pub(super) rate: u32,
    pub(super) inner: PathKind,
    pub(super) outer: PathKind,
    pub(super) steps: u64,
}

/// How good an outcome is, or could be: what all channels carry, then how many ports take part,
/// then how near the limits are, then how few channels it takes.
type Score = (u64, usize, Reverse<usize>, Reverse<usize>);

/// The best rings.
pub(super) fn rings(model: &Model, request: &Request) -> Outcome<RingPart> {
    let most = (request.most_channels as usize).clamp(1, MAX_CHANNELS);
    let lay = |room: Room, limits: Limits| {
        let mut search = RingSearch::new(model, room, limits);
        search.next_ring();
        let settled = !search.room.spent();
        (search.best, search.room.steps, settled)
    };
    let crossing: &[bool] = match request.cross {
        Cross::Never => &[false],
        Cross::Auto => &[false, true],
        Cross::Always => &[true],
    };
    let crossing = if model.nets.len() < 2 {
        &[false][..]
    } else {
        crossing
    };
    best(model, most, crossing, lay, || last_resort_ring(model))
}

/// The best trees, not more than there are rings.
pub(super) fn trees(model: &Model, most: usize) -> Outcome<TreePart> {
    let lay = |room: Room, limits: Limits| {
        // A head that takes all of the port's traffic is the exception: tried where spreading
        // fails.
        let (mut steps, mut settled) = (0, true);
        let mut best = Vec::new();
        for spread in [true, false] {
            let mut search = TreeSearch::new(model, room.clone(), limits, spread);
            search.next_tree();
            steps += search.room.steps;
            settled &= !search.room.spent();
            if search.best.len() > best.len() {
                best = search.best;
            }
            if best.len() == limits.target || model.nets.is_empty() {
                break;
            }
        }
        (best, steps, settled)
    };
    best(model, most, &[false], lay, || last_resort_tree(model))
}

/// One try.
#[derive(Clone, Copy)]
struct Try {
    limits: Limits,
    /// How far its limits are: a number that grows from the nearest to the farthest.
    far: usize,
    /// Whether more steps would change nothing.
    settled: bool,
}

impl Try {
    fn score(&self, channels: usize, nets: usize) -> Score {
        let total = u64::from(self.limits.rate) * channels as u64;
        let few = Reverse(channels);
        (total, channels.min(nets), Reverse(self.far), few)
    }
}

/// Crossing must bring a tenth more: that little is within what planning figures are wrong by, and
/// crossing costs the network something.
const WORTH_CROSSING: [u64; 2] = [11, 10];
/// Ways tried in a first short look, for each member.
const SHORT_LOOK: u64 = 24;

/// Result of a search for one try: the parts that fitted, its steps, whether it saw all.
type Laid<P> = (Vec<P>, u64, bool);

/// Tries limits from near to far and rates from the most promising down, as long as a try may bring
/// more than the best so far: first with a short look at each, as that settles most, then with
/// patience.
fn best<P>(
    model: &Model,
    most: usize,
    crossing: &[bool],
    mut lay: impl FnMut(Room, Limits) -> Laid<P>,
    last_resort: impl FnOnce() -> (P, u32),
) -> Outcome<P> {
    let (part, rate) = last_resort();
    let farthest = |kinds: Vec<PathKind>| *kinds.last().unwrap_or(&PathKind::Loc);
    let mut best = Outcome {
        parts: vec![part],
        rate,
        inner: farthest(model.inner_kinds()),
        outer: farthest(model.outer_kinds()),
        steps: 0,
    };
    let nets = model.nets.len();
    let mut all = tries(model, most, crossing);
    // The last resort loads links unevenly: anything that was laid with room for it is better.
    let mut reached: Option<Score> = None;
    let mut crossed = false;
    for patience in [64 + SHORT_LOOK * model.members as u64, STEPS_A_TRY] {
        for one in all.iter_mut().filter(|one| !one.settled) {
            let enough = |score: Option<Score>| {
                let [now, before] = [score, reached].map(|score| score.map_or(0, |s| s.0));
                let [more, of] = WORTH_CROSSING;
                let must_gain = one.limits.cross && crossing.len() > 1 && !crossed;
                score > reached && (!must_gain || now * of > before * more)
            };
            if best.steps >= STEPS || !enough(Some(one.score(one.limits.target, nets))) {
                continue;
            }
            let room = Room::new(model.graph, patience.min(STEPS - best.steps));
            let (mut parts, steps, settled) = lay(room, one.limits);
            best.steps += steps;
            even(&mut parts, nets);
            let found = (!parts.is_empty()).then(|| one.score(parts.len(), nets));
            let better = enough(found);
            one.settled = settled;
            if better {
                (reached, crossed) = (found, one.limits.cross);
                best = Outcome {
                    parts,
                    rate: one.limits.rate,
                    inner: one.limits.inner,
                    outer: one.limits.outer,
                    steps: best.steps,
                };
            }
        }
    }
    best
}

/// All tries: limits from near to far, within them the most promising rate first.
fn tries(model: &Model, most: usize, crossing: &[bool]) -> Vec<Try> {
    let rates = model.rates();
    let nets = model.nets.len();
    let inner: Vec<PathKind> = model.inner_kinds();
    let joined: Vec<PathKind> = inner
        .into_iter()
        .filter(|&kind| model.is_joined(kind))
        .collect();
    let mut all: Vec<Try> = Vec::new();
    let mut far = 0;
    for &cross in crossing {
        for outer in model.outer_kinds() {
            for &inner in &joined {
                let limits = |rate: u32| {
                    let mut target = model.most_channels(rate, inner).min(most);
                    if nets > 0 && target > nets {
                        target -= target % nets;
                    }
                    Limits {
                        rate,
                        inner,
                        outer,
                        cross,
                        target,
                    }
                };
                let one = |&rate: &u32| Try {
                    limits: limits(rate),
                    far,
                    settled: false,
                };
                let mut tries: Vec<Try> = rates.iter().map(one).collect();
                tries.retain(|one| one.limits.target > 0);
                tries.sort_by_key(|one| Reverse(one.score(one.limits.target, nets)));
                all.extend(tries);
                far += 1;
            }
        }
    }
    all
}

/// Leaves out what would load one port more than another.
fn even<P>(parts: &mut Vec<P>, nets: usize) {
    if nets > 0 && parts.len() > nets {
        parts.truncate(parts.len() - parts.len() % nets);
    }
}

/// A ring that is always there: from each member to the nearest that is left. Its rate is what the
/// most loaded link gives.
fn last_resort_ring(model: &Model) -> (RingPart, u32) {
    let (order, ends) = nearest_order(model);
    let members = order.len();
    let mut ways: Vec<&[u32]> = Vec::new();
    let hops = if ends.is_some() { members - 1 } else { members };
    for at in (0..hops).filter(|_| members > 1) {
        let (a, b) = (order[at] as usize, order[(at + 1) % members] as usize);
        ways.push(&model.way(a, b).links);
    }
    let (first, last) = (order[0] as usize, order[members - 1] as usize);
    let way_out = ends.and_then(|net| model.way_out(net, last));
    ways.extend(
        ends.and_then(|net| model.way_in(net, first))
            .map(|way| &way.links[..]),
    );
    ways.extend(way_out.map(|way| &way.links[..]));
    let part = RingPart {
        entry: ends.map(|net| net as u32),
        exit: way_out.map(|way| Exit {
            net: ends.unwrap_or(0) as u32,
            proxy: way.proxy,
        }),
        order,
    };
    (part, shared_rate(model, &ways))
}

/// A tree that is always there: the same order as a chain.
fn last_resort_tree(model: &Model) -> (TreePart, u32) {
    let (chain, net) = nearest_order(model);
    let mut ways: Vec<&[u32]> = Vec::new();
    for pair in chain.windows(2) {
        let (a, b) = (pair[0] as usize, pair[1] as usize);
        ways.extend([&model.way(a, b).links[..], &model.way(b, a).links]);
    }
    let second = *chain.get(1).unwrap_or(&chain[0]);
    let exit = |member: u32| {
        let net = net?;
        let proxy = model.way_out(net, member as usize)?.proxy;
        Some(Exit {
            net: net as u32,
            proxy,
        })
    };
    for member in [chain[0], second].map(|member| member as usize) {
        let way_in = net.and_then(|net| model.way_in(net, member));
        let way_out = net.and_then(|net| model.way_out(net, member));
        ways.extend(
            [way_in, way_out]
                .into_iter()
                .flatten()
                .map(|way| &way.links[..]),
        );
    }
    let rate = shared_rate(model, &ways);
    let part = TreePart {
        second,
        head_exit: exit(chain[0]),
        second_exit: exit(second),
        chain,
    };
    (part, rate)
}

/// Each member once, always the nearest that is left, beginning beside the first port.
fn nearest_order(model: &Model) -> (Vec<u32>, Option<usize>) {
    let net = (!model.nets.is_empty()).then_some(0);
    let near = |&member: &usize| {
        let way = net.and_then(|net| model.way_in(net, member));
        way.map(|way| way.kind)
    };
    let first = (0..model.members).min_by_key(near).unwrap_or(0);
    let mut order = vec![first as u32];
    let mut used = vec![false; model.members];
    used[first] = true;
    while let Some(&at) = order.last() {
        let next = model
            .near(at as usize)
            .iter()
            .find(|&&next| !used[next as usize]);
        let Some(&next) = next else { break };
        used[next as usize] = true;
        order.push(next);
    }
    (order, net)
}

/// Bandwidth of every way where all share the links they have in common.
fn shared_rate(model: &Model, ways: &[&[u32]]) -> u32 {
    let mut uses = vec![0; model.graph.links.len()];
    for &link in ways.iter().copied().flatten() {
        uses[link as usize] += 1;
    }
    let links = model.graph.links.iter().zip(uses);
    let shares = links
        .filter(|(_, uses)| *uses > 0)
        .map(|(link, n)| link.megabytes_per_s / n);
    // A rank alone moves its data in its own memory.
    shares
        .min()
        .unwrap_or(super::super::graph::speed::CHANNEL)
        .max(1)
}
