//! Plans for executors that know pairs only.
//!
//! **Problem.** A fan or a cast has one writer and many readers. On a device nobody gains by that:
//! each reader has memory of its own, and the payload crosses a wire to each of them anyway.
//!
//! **Idea.** A connection with many readers becomes one pair for each: a step that writes it writes
//! all its pairs. Everything else stays, so a plan and its pairs have the same steps, the same
//! chunks and the same order of folding, and give the same bits.

use super::{ConnectionUse, Direction, Link, ListId, Lists, Operand, Plan, Space, Step};

/// Channels of pairs that were fans: apart from all others, because order holds on each connection.
const OF_FANS: u16 = 1 << 14;
/// Added to the channel of a pair that was a cast.
const OF_CASTS: u16 = 1 << 13;

/// The plan with one pair for each reader of its fans and casts.
///
/// # Panics
/// With more than 65,536 connections, which no plan has that a device could run.
pub fn pairs_only(plan: &Plan) -> Plan {
    let mut connections = Vec::new();
    let parts: Vec<Vec<u16>> = plan
        .connections
        .iter()
        .map(|used| {
            let pairs = pairs(used, plan.shape.rank, plan.shape.nranks);
            let first = connections.len();
            connections.extend(pairs);
            let index = |at: usize| u16::try_from(at).expect("a plan has few connections");
            (first..connections.len()).map(index).collect()
        })
        .collect();
    let mut lists = Lists::default();
    let mut taken_apart = |id: ListId| {
        let operands = plan.lists.get(id).iter();
        let operands: Vec<Operand> = operands.flat_map(|one| apart(one, &parts)).collect();
        lists.intern(&operands)
    };
    let steps = plan.steps.iter().map(|step| Step {
        srcs: taken_apart(step.srcs),
        dsts: taken_apart(step.dsts),
        ..*step
    });
    Plan {
        steps: steps.collect(),
        lists,
        connections,
        ..plan.clone()
    }
}

/// The pairs of one end.
fn pairs(used: &ConnectionUse, me: u32, nranks: u32) -> Vec<ConnectionUse> {
    let (writer, channel) = match used.link {
        Link::Pair { .. } => return vec![*used],
        Link::Fan { writer } => (writer, OF_FANS),
        Link::Cast {
            writer, channel, ..
        } => (writer, OF_CASTS | channel),
    };
    let readers = match used.direction {
        Direction::Send => 0..nranks,
        Direction::Recv => me..me + 1,
    };
    let to = |reader| ConnectionUse {
        link: Link::Pair {
            writer,
            reader,
            channel,
        },
        direction: used.direction,
    };
    readers
        .filter(|&reader| used.link.is_read_by(reader))
        .map(to)
        .collect()
}

/// An operand of the plan, as operands of its pairs.
fn apart<'a>(one: &'a Operand, parts: &'a [Vec<u16>]) -> impl Iterator<Item = Operand> + 'a {
    let whole = one.space != Space::Connection;
    let pairs = match one.as_connection() {
        Some(index) => parts[index].as_slice(),
        None => &[],
    };
    let of_pair = |&index: &u16| Operand { index, ..*one };
    let itself = whole.then_some(*one).into_iter();
    itself.chain(pairs.iter().map(of_pair))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Algorithm, Collective, Emitter, Layout, Shape};

    fn shape(rank: u32) -> Shape {
        Shape {
            collective: Collective::AllReduce,
            algorithm: Algorithm::OneShot,
            rank,
            nranks: 4,
            root: 0,
            channels: 1,
        }
    }

    #[test]
    fn a_fan_becomes_a_pair_for_each_reader() {
        let mut e = Emitter::new(shape(1), 4, Layout::Blocks);
        let own = e.lane(0).fan(1);
        let other = e.fan(3);
        e.signal(&[own.operand()]);
        e.wait(&[other.operand()]);
        let plan = e.finish();
        let pairs = pairs_only(&plan);
        let ends: Vec<(u32, u32, Direction)> = pairs
            .connections
            .iter()
            .map(|used| match used.link {
                Link::Pair { writer, reader, .. } => (writer, reader, used.direction),
                other => panic!("{other:?} is no pair"),
            })
            .collect();
        use Direction::{Recv, Send};
        assert_eq!(
            ends,
            [(1, 0, Send), (1, 2, Send), (1, 3, Send), (3, 1, Recv)]
        );
        let written = pairs.lists.get(pairs.steps[0].dsts);
        let index: Vec<u16> = written.iter().map(|operand| operand.index).collect();
        assert_eq!(index, [0, 1, 2]);
        let read = pairs.lists.get(pairs.steps[1].srcs);
        assert_eq!(read[0].index, 3);
        assert_eq!(pairs.steps.len(), plan.steps.len());
    }

    /// Pairs that were there before keep their own connections.
    #[test]
    fn pairs_stay_and_do_not_mix_with_those_of_fans() {
        let mut e = Emitter::new(shape(0), 4, Layout::Blocks);
        let to = e.lane(0).to(1);
        let fan = e.fan(0);
        let cast = e.cast(0);
        e.signal(&[to.operand()]);
        e.signal(&[fan.operand(), cast.operand()]);
        let plan = pairs_only(&e.finish());
        let mut links: Vec<Link> = plan.connections.iter().map(|used| used.link).collect();
        assert_eq!(links.len(), 1 + 3 + 3);
        links.sort();
        links.dedup();
        assert_eq!(links.len(), 7, "no two of them are one");
    }
}
