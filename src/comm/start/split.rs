//! Splitting a communicator. On one node children are made of what their parent has ([`kin`]);
//! elsewhere, and where members ask for unusual things, messages of the parent are the bootstrap of
//! its children.
//!
//! A rank whose arguments are wrong says so where the others show their colors; then all ranks of
//! the parent hear why, and none is left waiting in a child that cannot be made.

use super::over_parent::OverParent;
use super::{init, joining, kin, meet, summary};
use crate::base::float_env::FloatEnv;
use crate::base::{Error, Rank, Result, record};
use crate::bootstrap::Bootstrap;
use crate::bootstrap::report::Reported;
use crate::comm::calling::enqueue;
use crate::comm::calling::group;
use crate::comm::calling::tally;
use crate::comm::queue::Queue;
use crate::comm::{Call, Collective, CommConfig, RedOp};
use crate::config::Settings;
use crate::dtype::DataType;
use crate::transport::pool::Lease;
use std::sync::Arc;

/// Wishes of a rank in a split, as all ranks of the parent see them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Shown {
    /// Whether it has a color.
    is_in: u32,
    color: u32,
    key: i32,
    /// Whether its arguments were wrong.
    refused: u32,
    /// [`kin::offer`].
    offer: u64,
    /// A random number, in two halves.
    random: [u64; 2],
}

// It travels in a line.
const _: () = assert!(size_of::<Shown>() == 40);

impl Shown {
    fn nonce(&self) -> u128 {
        u128::from(self.random[0]) | u128::from(self.random[1]) << 64
    }
}

/// Gathers `N` words of each rank of the parent, on all of them.
fn gather<const N: usize>(parent: &Arc<Queue>, mine: [u64; N]) -> Result<Vec<[u64; N]>> {
    let mut all = vec![[0; N]; parent.nranks as usize];
    let call = Call {
        collective: Collective::AllGather,
        send: mine.as_ptr().cast(),
        recv: all.as_mut_ptr().cast(),
        count: N,
        dtype: DataType::Uint64,
        op: RedOp::SUM,
        peer: 0,
    };
    // SAFETY: both buffers live through this blocking call, and `all` has a block for each rank.
    unsafe { enqueue::enqueue(parent, &call, None)? };
    Ok(all)
}

fn gather_shown(parent: &Arc<Queue>, mine: Shown) -> Result<Vec<Shown>> {
    let words = [
        u64::from(mine.is_in) | u64::from(mine.color) << 32,
        u64::from(mine.key as u32) | u64::from(mine.refused) << 32,
        mine.offer,
        mine.random[0],
        mine.random[1],
    ];
    let shown = |words: [u64; 5]| Shown {
        is_in: words[0] as u32,
        color: (words[0] >> 32) as u32,
        key: words[1] as u32 as i32,
        refused: (words[1] >> 32) as u32,
        offer: words[2],
        random: [words[3], words[4]],
    };
    Ok(gather(parent, words)?.into_iter().map(shown).collect())
}

/// Tells all members why some were refused.
///
/// # Errors
/// Always: the own reason, or that of the lowest refused rank.
fn share_refusals(over: &OverParent, refused: &[bool], mine: Option<&Error>) -> Result<()> {
    let report = mine.map_or(Vec::new(), |error| record::encode(&Reported::of(error)));
    let reports = over.all_gather(&report)?;
    if let Some(error) = mine {
        return Err(error.clone());
    }
    let first = refused.iter().position(|&refused| refused).unwrap_or(0);
    let place = format!(" on {}", over.parent.place(over.members[first]));
    let why: Reported = record::decode(&reports[first])?;
    Err(why.by(Rank(first as u32), &place).told_elsewhere(true))
}

/// Files of rings and trees are for the communicator that a program begins with: a part has other
/// ranks, and must not overwrite what was written of the whole. The caller may name files for it.
fn with_orders_of_its_own(config: &CommConfig) -> CommConfig {
    let mut config = config.clone();
    for key in ["graph_file", "graph_dump_file"] {
        if !config.overrides.iter().any(|(named, _)| named == key) {
            config.overrides.push((key.to_string(), String::new()));
        }
    }
    config
}

/// Splits `parent`; collective.
///
/// # Errors
/// As [`Communicator::split`](crate::comm::Communicator::split).
pub(in crate::comm) fn split(
    parent: &Arc<Queue>,
    color: Option<u32>,
    key: i32,
    config: &CommConfig,
) -> Result<Option<Arc<Queue>>> {
    let alive = parent.alive();
    alive.map_err(|error| error.during("CommSplit"))?;
    let _timed = tally::waiting("CommSplit");
    split_alive(parent, color, key, config).map_err(|mut error| {
        // What it does by calls of its own is nothing that the program has called.
        error.operation = Some("CommSplit".into());
        parent.tells(error)
    })
}

fn split_alive(
    parent: &Arc<Queue>,
    color: Option<u32>,
    key: i32,
    config: &CommConfig,
) -> Result<Option<Arc<Queue>>> {
    if group::active() {
        return Err(Error::usage(
            "CommSplit inside a group",
            "split before GroupStart or after GroupEnd",
        ));
    }
    let config = &CommConfig {
        device: parent.device,
        ..with_orders_of_its_own(config)
    };
    // Estimating times is not the program's arithmetic.
    let _program = FloatEnv::hold();
    let settings = joining::settings(config);
    let random = meet::draw()?;
    let mine = Shown {
        is_in: u32::from(color.is_some()),
        color: color.unwrap_or(0),
        key,
        refused: u32::from(config.refused.is_some()),
        offer: kin::offer(parent, &settings),
        random: [random as u64, (random >> 64) as u64],
    };
    let all = gather_shown(parent, mine)?;
    if all.iter().any(|shown| shown.refused != 0) {
        let refused: Vec<bool> = all.iter().map(|shown| shown.refused != 0).collect();
        let everybody = OverParent {
            parent,
            members: (0..parent.nranks).collect(),
            me: parent.rank,
        };
        share_refusals(&everybody, &refused, config.refused.as_ref())?;
    }
    let families = families(&all);
    let family = families.iter().find(|one| one.contains(&parent.rank));
    let over = family.map(|members| OverParent {
        parent,
        members: members.clone(),
        me: members
            .iter()
            .position(|&rank| rank == parent.rank)
            .unwrap_or(0) as u32,
    });
    let offers = |members: &[u32]| is_offer(&all, members);
    if families.iter().any(|members| offers(members)) {
        let made = of_kin(&all, over.as_ref(), parent, (settings, config))?;
        if made.is_some() {
            return Ok(made);
        }
    }
    let Some(over) = over else {
        return Ok(None);
    };
    let means = init::Means {
        idle: parent.idle.clone(),
        net: parent.links().map(|links| Arc::clone(links.net())),
        adopts: false,
    };
    joining::over(&over, config, means).map(Some)
}

/// The members of each child, in its order.
fn families(all: &[Shown]) -> Vec<Vec<u32>> {
    let mut asking: Vec<(u32, i32, u32)> = (0..)
        .zip(all)
        .filter(|(_, shown)| shown.is_in != 0)
        .map(|(rank, shown)| (shown.color, shown.key, rank))
        .collect();
    asking.sort_unstable();
    let same = asking.chunk_by(|one, next| one.0 == next.0);
    same.map(|members| members.iter().map(|(_, _, rank)| *rank).collect())
        .collect()
}

/// Whether these members want a child that can be made of what the parent has.
fn is_offer(all: &[Shown], members: &[u32]) -> bool {
    let first = all[members[0] as usize].offer;
    first != 0
        && members
            .iter()
            .all(|&rank| all[rank as usize].offer == first)
}

/// The exchanges after the first one, which all ranks of the parent take part in. `None` for a rank
/// whose child must be made from nothing, or that has none.
fn of_kin(
    all: &[Shown],
    over: Option<&OverParent>,
    parent: &Arc<Queue>,
    (settings, config): (Result<Settings>, &CommConfig),
) -> Result<Option<Arc<Queue>>> {
    let offering = over.filter(|over| is_offer(all, &over.members));
    // Held until all have joined the region, or the splitting has failed.
    let (region, _held) = match (offering, &settings) {
        (Some(over), Ok(settings)) if over.me == 0 => {
            kin::take(parent, over.members.len() as u32, settings)
        }
        _ => (kin::NO_REGION, Lease::of(None)),
    };
    let regions = gather(parent, [region])?;
    let offering = offering.and_then(|over| {
        let first = over.members[0] as usize;
        let region = regions[first][0];
        (region != kin::NO_REGION).then(|| (over, region, all[first].nonce()))
    });
    let made = offering.map(|(over, region, nonce)| {
        let child = kin::Child {
            parent,
            members: &over.members,
            me: over.me,
            bootstrap: over,
            idle: None,
            watch: parent.watch(),
        };
        settings.and_then(|settings| kin::make(&child, (settings, config), region, nonce))
    });
    let failed = made.as_ref().is_some_and(Result::is_err);
    let outcomes = gather(parent, [u64::from(failed)])?;
    let (Some((over, ..)), Some(made)) = (offering, made) else {
        return Ok(None);
    };
    let members = over.members.iter();
    let failed: Vec<bool> = members
        .map(|&rank| outcomes[rank as usize][0] != 0)
        .collect();
    if failed.contains(&true) {
        share_refusals(over, &failed, made.as_ref().err())?;
    }
    made.inspect(|part| summary::tell(part, config)).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_ordered_by_key_and_then_by_rank() {
        let shown = |color: Option<u32>, key| Shown {
            is_in: u32::from(color.is_some()),
            color: color.unwrap_or(0),
            key,
            ..Shown::default()
        };
        let all = [
            shown(Some(7), 1),
            shown(None, -9),
            shown(Some(0), 0),
            shown(Some(7), -1),
            shown(Some(7), 1),
        ];
        assert_eq!(families(&all), [vec![2], vec![3, 0, 4]]);
        assert!(!is_offer(&all, &[2]));
    }
}
