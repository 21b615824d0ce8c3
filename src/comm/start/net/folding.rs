//! Whether the network folds for this communicator, and the groups that do.
//!
//! All ranks must come to the same, for their plans follow from it: each says whether it has a
//! network that folds, what that folds, and how it is joined; what all can do counts. Then the
//! heads of each column join a group for each channel, and say once more whether they could.

use crate::algo::collnet;
use crate::base::record::{self, Record};
use crate::base::{Error, Rank, Result};
use crate::bootstrap::Bootstrap;
use crate::config::Settings;
use crate::dtype::{DataType, ReduceOp};
use crate::plan::Nodes;
use crate::proxy::net::Links;
use crate::proxy::net::fold::Fold;
use crate::transport::net::plugin::fold::{FoldDoor, FoldNet};
use crate::transport::net::{Handle, candidates};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Types and operations of a folding network have numbers below these.
const TYPES: i32 = 12;
const OPERATIONS: i32 = 4;

/// Types and operations that a network folds: a bit for each pair of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supported(u64);

impl Supported {
    /// Asks a network for each pair.
    fn by(net: &FoldNet) -> Supported {
        let mut bits = 0;
        for dtype in 0..TYPES {
            for operation in 0..OPERATIONS {
                let bit = u64::from(net.supports(dtype, operation));
                bits |= bit << (dtype * OPERATIONS + operation);
            }
        }
        Supported(bits)
    }

    /// The numbers by which the network folds this type with this operation, if it does.
    pub fn numbers(self, dtype: DataType, op: ReduceOp) -> Option<(i32, i32)> {
        let operation = match op {
            // What is left to do for an average, the plan does with its result.
            ReduceOp::Sum | ReduceOp::Avg => 0,
            ReduceOp::Prod => 1,
            ReduceOp::Max => 2,
            ReduceOp::Min => 3,
            _ => return None,
        };
        let dtype = dtype.number();
        let is_known = (0..TYPES).contains(&dtype);
        let folds = is_known && self.0 >> (dtype * OPERATIONS + operation) & 1 == 1;
        folds.then_some((dtype, operation))
    }
}

/// Facts about its folding network that a rank tells the others.
#[derive(PartialEq, Serialize, Deserialize)]
struct Told {
    supported: Supported,
    /// One a channel.
    handles: Vec<Handle>,
}

impl Record for Told {
    const NAME: &'static str = "what a rank folds";
}

/// Decodes `bytes` as such facts, for `tests/fuzz`.
pub fn fuzz(bytes: &[u8]) -> (&'static str, bool) {
    record::fuzz::<Told>(bytes)
}

/// Has the network fold, where the setting `collnet_enable` asks for it and it can. Every rank
/// calls it.
///
/// # Errors
/// Of the bootstrap; of this or another rank whose network does not do what it said.
pub fn join(
    bootstrap: &dyn Bootstrap,
    settings: &Settings,
    (links, nodes, channels): (&Links, &Nodes, usize),
) -> Result<Option<Supported>> {
    // Imagined nodes have no network between them.
    if !settings.collnet_enable() || settings.ranks_per_node().is_some() {
        return Ok(None);
    }
    let (mine, mut doors) = match open(
        settings,
        channels,
        crate::comm::start::layout::slot_bytes(settings),
    ) {
        Ok(opened) => opened,
        Err(why) => {
            tracing::info!("collnet is played by ranks: no network folds, because {why}");
            (
                Told {
                    supported: Supported::default(),
                    handles: Vec::new(),
                },
                Vec::new(),
            )
        }
    };
    let told = bootstrap.all_gather(&record::encode(&mine))?;
    let told: Vec<Told> = record::decode_all(&told)?;
    let all = told
        .iter()
        .fold(u64::MAX, |all, told| all & told.supported.0);
    if all == 0 {
        tracing::info!("collnet is played by ranks: not every rank has a network that folds");
        return Ok(None);
    }
    let joined = match collnet::heads(nodes, bootstrap.rank().0) {
        None => Ok(Vec::new()),
        Some((heads, me)) => doors
            .drain(..)
            .enumerate()
            .map(|(channel, door)| {
                let of_head = |&head: &u32| {
                    let handle = told[head as usize].handles.get(channel).cloned();
                    handle.ok_or_else(|| no_handle(head, channel))
                };
                let handles: Vec<Handle> = heads.iter().map(of_head).collect::<Result<_>>()?;
                let group = door.join(&handles, me)?;
                Ok(Fold {
                    group,
                    next: Rank(heads[(me + 1) % heads.len()]),
                    previous: Rank(heads[(me + heads.len() - 1) % heads.len()]),
                })
            })
            .collect::<Result<Vec<Fold>>>(),
    };
    let well = bootstrap.all_gather(&[u8::from(joined.is_ok())])?;
    let groups = joined?;
    if let Some(rank) = well.iter().position(|well| well.first() != Some(&1)) {
        let rank = Rank(rank as u32);
        let what = format!("rank {rank} could not join the group of ranks whose data are folded");
        return Err(Error::remote(rank, what, "see the message of that rank"));
    }
    // A call may be two launches: a reduce and a broadcast.
    let launches = 2 * settings.calls_in_flight() as usize;
    links.fold_by(groups, launches);
    Ok(Some(Supported(all)))
}

#[cold]
fn no_handle(head: u32, channel: usize) -> Error {
    Error::usage(
        format!("the network of rank {head} folds, and has no place to meet on channel {channel}"),
        "use the same settings and the same version of the network's library on all ranks",
    )
    .with_peer(Rank(head))
}

/// Opens the network that folds, with a door for each channel.
fn open(
    settings: &Settings,
    channels: usize,
    slot_bytes: usize,
) -> std::result::Result<(Told, Vec<FoldDoor>), String> {
    let net: Arc<FoldNet> = candidates::folding(settings)?;
    if net.largest() < slot_bytes {
        return Err(format!(
            "{} folds {} bytes at once, and slots have {slot_bytes}: lower KOLO_BUFFSIZE",
            net.name(),
            net.largest(),
        ));
    }
    let opened: Result<Vec<_>> = (0..channels).map(|_| net.listen()).collect();
    let (handles, doors) = opened.map_err(Error::into_what)?.into_iter().unzip();
    let supported = Supported::by(&net);
    tracing::info!(
        "collnet: {} (version {}) folds in the network",
        net.name(),
        net.version()
    );
    Ok((Told { supported, handles }, doors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_network_knows_is_given_to_it() {
        let all = Supported(u64::MAX);
        assert_eq!(all.numbers(DataType::Float64, ReduceOp::Max), Some((8, 2)));
        assert_eq!(all.numbers(DataType::Int8, ReduceOp::Avg), Some((0, 0)));
        assert_eq!(all.numbers(DataType::Complex64, ReduceOp::Sum), None);
        let one = Supported(1 << (7 * OPERATIONS + 3));
        for dtype in DataType::ALL {
            for op in ReduceOp::ALL {
                let is_it = (dtype, op) == (DataType::Float32, ReduceOp::Min);
                assert_eq!(
                    one.numbers(dtype, op),
                    is_it.then_some((7, 3)),
                    "{dtype:?} {op:?}"
                );
            }
        }
    }
}
