//! Protocols: how tokens are handed over, and which of them an algorithm can use.

use crate::plan::{self, Algorithm, Collective};

/// The way in which a token is handed over, as a setting names it and the tuner chooses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ProtocolChoice {
    /// Slots with a head and a tail count.
    Simple,
    /// One token with its signature and sequence: the one-shot path.
    Eager,
    /// Lines whose flag travels with every 4 bytes of payload.
    Ll,
    /// Lines of 128 bytes, 120 of them payload, with one flag each.
    Ll128,
}

/// Most ranks of a communicator whose pairs may have flagged lines. A packed token has at most a
/// piece for each rank, and the largest element has 16 bytes: so every token fits its slots. And
/// each pair has memory of its own for each kind of lines.
const LINES_RANKS: u32 = 256;

impl ProtocolChoice {
    /// All of them.
    pub const ALL: [ProtocolChoice; 4] = [
        ProtocolChoice::Simple,
        ProtocolChoice::Eager,
        ProtocolChoice::Ll,
        ProtocolChoice::Ll128,
    ];

    /// The name in settings.
    pub fn name(self) -> &'static str {
        match self {
            ProtocolChoice::Simple => "simple",
            ProtocolChoice::Eager => "eager",
            ProtocolChoice::Ll => "ll",
            ProtocolChoice::Ll128 => "ll128",
        }
    }

    /// The protocol over which an algorithm's tokens go where nothing says otherwise.
    pub fn of(collective: Collective, algorithm: Algorithm) -> ProtocolChoice {
        match (algorithm, collective) {
            // One-shot reduce goes over pairs; the others over fans.
            (Algorithm::OneShot, Collective::Reduce) => ProtocolChoice::Simple,
            (Algorithm::OneShot, _) => ProtocolChoice::Eager,
            _ => ProtocolChoice::Simple,
        }
    }

    /// Whether the tokens of an algorithm can go this way among `nranks` ranks, whatever the size
    /// and the type (of at most 16 bytes: `exec::host::launch::protocol` looks at larger ones).
    /// Flagged lines are for pairs only. Fans and casts publish by their line alone. Buffers that
    /// are read where they lie need no payload. A message must suit a peer that may name another
    /// size.
    pub fn is_possible(self, collective: Collective, algorithm: Algorithm, nranks: u32) -> bool {
        let usual = ProtocolChoice::of(collective, algorithm);
        if self == usual {
            return true;
        }
        let cast_only = matches!(
            (algorithm, collective),
            (
                Algorithm::Nvls,
                Collective::AllGather | Collective::Broadcast
            ) | (Algorithm::TwoShot, Collective::AllGather)
                | (Algorithm::Leader, Collective::Broadcast)
        );
        let over_pairs = usual == ProtocolChoice::Simple
            && algorithm != Algorithm::Local
            && !collective.is_point_to_point()
            && !cast_only;
        self.is_lines() && over_pairs && nranks <= LINES_RANKS
    }

    /// Every protocol that the algorithm can use, the usual one first.
    pub fn possible(
        collective: Collective,
        algorithm: Algorithm,
        nranks: u32,
    ) -> impl Iterator<Item = ProtocolChoice> {
        ProtocolChoice::ALL
            .into_iter()
            .filter(move |protocol| protocol.is_possible(collective, algorithm, nranks))
    }

    /// Whether payload carries its own flags.
    pub fn is_lines(self) -> bool {
        matches!(self, ProtocolChoice::Ll | ProtocolChoice::Ll128)
    }

    /// Returns the protocol of a plan's pair connections.
    pub fn of_pairs(self) -> plan::Protocol {
        match self {
            ProtocolChoice::Simple | ProtocolChoice::Eager => plan::Protocol::Simple,
            ProtocolChoice::Ll => plan::Protocol::Ll,
            ProtocolChoice::Ll128 => plan::Protocol::Ll128,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algo::{self, REGISTRY};
    use crate::plan::{Link, Nodes, Shape};

    /// Bytes of the largest element.
    const ELEMENT_BYTES: usize = 16;

    #[test]
    fn the_usual_protocol_is_possible_and_comes_first() {
        for entry in REGISTRY {
            let (collective, algorithm) = (entry.collective, entry.algorithm);
            let first = ProtocolChoice::possible(collective, algorithm, 1000).next();
            assert_eq!(first, Some(ProtocolChoice::of(collective, algorithm)));
        }
    }

    /// All protocols that are said to be possible are so for the plans: they have pairs, and every
    /// token fits.
    #[test]
    fn plans_with_flagged_lines_have_pairs_and_their_tokens_fit() {
        for entry in REGISTRY {
            for (nodes, per_node) in [
                (1, 2),
                (1, 7),
                (3, 5),
                (1, 64),
                (16, 16),
                (1, 256),
                (256, 1),
            ] {
                let nranks = nodes * per_node;
                let (collective, algorithm) = (entry.collective, entry.algorithm);
                let possible = ProtocolChoice::Ll.is_possible(collective, algorithm, nranks);
                if nranks > entry.most_ranks || !possible {
                    continue;
                }
                let shape = Shape {
                    collective,
                    algorithm,
                    rank: 0,
                    nranks,
                    root: 0,
                    channels: entry.channels,
                };
                let plan = algo::plan(&shape, &Nodes::uniform(nodes, per_node)).unwrap();
                let is_pair = |used: &plan::ConnectionUse| matches!(used.link, Link::Pair { .. });
                let name = algorithm.name();
                assert!(
                    plan.connections.iter().any(is_pair),
                    "{collective:?} {name}"
                );
                for protocol in [plan::Protocol::Ll, plan::Protocol::Ll128] {
                    let bytes = plan.pieces as usize * ELEMENT_BYTES;
                    let fits = bytes <= protocol.slot_bytes();
                    assert!(fits, "{collective:?} {name} {nranks}: {}", plan.pieces);
                }
            }
        }
    }
}
