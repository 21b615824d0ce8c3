//! Communicators whose ranks all belong to one that lives, whatever bootstrap they meet over.
//!
//! **Problem.** A program of MPI makes communicators by the hundred, and wants one of kolo's for
//! each. Only the ranks of the new one are in that call, so it is no split; made from nothing it
//! would cost as much as the first.
//!
//! **Idea.** Each rank shows which communicators on one node it has, by their random numbers, and
//! its rank in each. If one of them is known to all, the new one is made of what that has, as by a
//! split ([`super::kin`]); what a split asks its parent passes over the bootstrap:
//!
//! 1. *shown*: the communicators of every rank, and a random number; that of rank 0 counts;
//! 2. *region*: rank 0 has taken one;
//! 3. *outcomes*: whether everybody could do their part.
//!
//! All ranks see the same of each other, so all of them go this way or none does.

use super::kin::{self, Child};
use super::{living, meet, summary};
use crate::base::record::{self, Record};
use crate::base::{Rank, Result};
use crate::bootstrap::Bootstrap;
use crate::bootstrap::report::Reported;
use crate::comm::flight::turn::IdleHook;
use crate::comm::logging::Acting;
use crate::comm::queue::Queue;
use crate::comm::{CommConfig, CommDevice};
use crate::config::Settings;
use crate::proxy::Watch;
use crate::transport::pool::Lease;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How many communicators a rank shows.
const SHOWN: usize = 4;

/// A communicator as one of its ranks shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct KnownParent {
    /// The random number of its memory.
    id: u128,
    /// The rank there of who shows it.
    rank: u32,
    /// [`kin::offer`].
    offer: u64,
}

/// Communicators that a rank shows, and a random number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct KnownParents {
    random: u128,
    parents: Vec<KnownParent>,
}

impl Record for KnownParents {
    const NAME: &'static str = "the communicators of a rank";
    const MOST_BYTES: usize = 1 << 10;
}

/// Reads what a rank shows, for `tests/fuzz`.
pub(in crate::comm) fn fuzz(bytes: &[u8]) -> (&'static str, bool) {
    record::fuzz::<KnownParents>(bytes)
}

/// A communicator of this process. Another thread may end it meanwhile, so what is needed of it is
/// held.
struct LivingParent {
    parent: Arc<Queue>,
    watch: Arc<Watch>,
    known: KnownParent,
}

/// Those of this process that are fit: the largest, as they have most in common with others.
fn mine(settings: &Result<Settings>, config: &CommConfig) -> Vec<LivingParent> {
    let mut all = living::all();
    // Equal ones stay in the order in which they were made, which is that of other ranks.
    all.sort_by_key(|queue| std::cmp::Reverse(queue.nranks));
    all.truncate(SHOWN);
    let candidates = all.into_iter().filter_map(|parent| {
        let watch = parent.watch()?;
        // A child is where its parent is.
        let on_host = [parent.device, config.device] == [CommDevice::Host; 2];
        let known = KnownParent {
            id: parent.nonce.0,
            rank: parent.rank,
            offer: if on_host {
                kin::offer(&parent, settings)
            } else {
                0
            },
        };
        Some(LivingParent {
            parent,
            watch,
            known,
        })
    });
    candidates.filter(|one| one.known.offer != 0).collect()
}

/// The first communicator of rank 0 that all ranks have and offer alike, and who they are there.
fn common(said: &[KnownParents]) -> Option<(u128, Vec<u32>)> {
    let first = said.first()?.parents.iter();
    first.copied().find_map(|known| {
        let same = |other: &&KnownParent| (other.id, other.offer) == (known.id, known.offer);
        let of = |shown: &KnownParents| shown.parents.iter().find(same).map(|found| found.rank);
        let members: Vec<u32> = said.iter().map(of).collect::<Option<_>>()?;
        let mut sorted = members.clone();
        sorted.sort_unstable();
        sorted.dedup();
        (sorted.len() == members.len()).then_some((known.id, members))
    })
}

/// Makes the communicator of what another one has. `None`, on all ranks: they have none in common,
/// or it cannot be; then it is to be made from nothing.
pub(in crate::comm) fn adopt(
    bootstrap: &dyn Bootstrap,
    (settings, config): (&Result<Settings>, &CommConfig),
    idle: Option<&IdleHook>,
) -> Result<Option<Arc<Queue>>> {
    let random = meet::draw();
    let parents = match &random {
        Ok(_) => mine(settings, config),
        // What fails here is told where all ranks hear of it.
        Err(_) => Vec::new(),
    };
    let shown = KnownParents {
        random: random.unwrap_or(0),
        parents: parents.iter().map(|one| one.known).collect(),
    };
    let said: Vec<KnownParents> =
        record::decode_all(&bootstrap.all_gather(&record::encode(&shown))?)?;
    let Some((id, members)) = common(&said) else {
        return Ok(None);
    };
    let found = parents.iter().find(|one| one.known.id == id);
    let (Some(LivingParent { parent, watch, .. }), Ok(settings)) = (found, settings) else {
        return Ok(None);
    };
    // Held until all have joined the region, or it has failed.
    let (region, _held) = region(bootstrap, parent, settings)?;
    if region == kin::NO_REGION {
        return Ok(None);
    }
    let child = Child {
        parent,
        members: &members,
        me: bootstrap.rank().0,
        bootstrap,
        idle: idle.cloned(),
        watch: Some(Arc::clone(watch)),
    };
    let made = kin::make(&child, (settings.clone(), config), region, said[0].random);
    let report = made.as_ref().err();
    let report = report.map_or(Vec::new(), |error| record::encode(&Reported::of(error)));
    let reports = bootstrap.all_gather(&report);
    // The own error says more.
    let made = made?;
    let everybody = reports.and_then(|reports| heard(&child, &reports));
    everybody.inspect_err(|error| made.stop(error))?;
    if made.rank == 0 {
        let _acting = Acting::rank(Rank(0));
        let (name, of) = (&made.name, &parent.name);
        tracing::info!("communicator {name}: made of what communicator {of} has");
    }
    summary::tell(&made, config);
    Ok(Some(made))
}

/// The region that rank 0 takes, and on rank 0 what holds it.
fn region(
    bootstrap: &dyn Bootstrap,
    parent: &Arc<Queue>,
    settings: &Settings,
) -> Result<(kin::Said, Lease)> {
    let (said, held) = match bootstrap.rank() {
        Rank(0) => kin::take(parent, bootstrap.nranks(), settings),
        _ => (kin::NO_REGION, Lease::of(None)),
    };
    let mut said = said.to_le_bytes().to_vec();
    bootstrap.broadcast(Rank(0), &mut said)?;
    let said = said.as_slice().try_into();
    Ok((said.map_or(kin::NO_REGION, u64::from_le_bytes), held))
}

/// Why another rank has failed, if one has.
fn heard(child: &Child, reports: &[Vec<u8>]) -> Result<()> {
    let Some(rank) = reports.iter().position(|report| !report.is_empty()) else {
        return Ok(());
    };
    let place = format!(" on {}", child.parent.place(child.members[rank]));
    let why: Reported = record::decode(&reports[rank])?;
    Err(why.by(Rank(rank as u32), &place).told_elsewhere(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(parents: &[(u128, u32, u64)]) -> KnownParents {
        let parents = parents
            .iter()
            .map(|&(id, rank, offer)| KnownParent { id, rank, offer });
        KnownParents {
            random: 0,
            parents: parents.collect(),
        }
    }

    #[test]
    fn the_first_that_all_have_and_offer_alike_is_taken() {
        let zero = shown(&[(9, 3, 5), (8, 1, 6), (7, 0, 5)]);
        let one = shown(&[(7, 2, 5), (8, 0, 6)]);
        let two = shown(&[(8, 2, 6), (9, 0, 5), (7, 1, 5)]);
        let all = [zero.clone(), one.clone(), two.clone()];
        assert_eq!(common(&all), Some((8, vec![1, 0, 2])));
        // Other settings on one rank, a communicator less, the same rank twice.
        assert_eq!(
            common(&[zero.clone(), shown(&[(8, 0, 7)]), two.clone()]),
            None
        );
        assert_eq!(common(&[zero.clone(), shown(&[(9, 1, 5)]), one]), None);
        assert_eq!(common(&[zero.clone(), shown(&[(7, 0, 5)]), two]), None);
        assert_eq!(common(&[zero, KnownParents::default()]), None);
        assert_eq!(common(&[]), None);
    }
}
