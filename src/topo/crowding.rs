//! Whether the ranks of a node outnumber their cores, and how they should wait because of it.
//!
//! A rank that spins while another needs the core wastes a whole time slice, thousands of times the
//! cost of the message. So the question is not how many cores the machine has but whether every
//! local rank can run on a core of its own *within what it may use*: a matching of ranks to cores
//! (P. Hall, "On Representatives of Subsets", J. London Math. Soc. 10, 1935; found by augmenting
//! paths). A quota of processor time is a second limit: there even cores enough do not help,
//! because waiting itself uses the time up.

use super::{CpuSet, RankPlace};
use crate::base::{Error, Result};
use std::collections::HashMap;

/// How full a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowding {
    /// Ranks on the node.
    pub ranks: u32,
    /// Distinct cores that these ranks may use in union, or their quotas (rounded up) if that is
    /// less. At least 1.
    pub cores: u32,
    /// Not every rank can have a core of its own.
    pub oversubscribed: bool,
    /// Some ranks together have a quota below one processor each: waiting by running would bring
    /// them to a stop for the rest of the quota's period.
    pub throttled: bool,
}

/// How a rank waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WaitPolicy {
    /// Look again and again: fastest, where every rank has a core.
    Spin,
    /// Give the core to another rank between looks (`sched_yield`).
    Yield,
    /// Go to sleep and be woken (futex): leaves processor time to others.
    Sleep,
}

impl WaitPolicy {
    /// As the setting has it.
    pub fn name(self) -> &'static str {
        match self {
            WaitPolicy::Spin => "spin",
            WaitPolicy::Yield => "yield",
            WaitPolicy::Sleep => "sleep",
        }
    }

    /// Reads a setting: `spin`, `yield`, `sleep`, or `auto` (`None`: as the node needs it).
    pub fn parse(text: &str) -> Result<Option<WaitPolicy>> {
        match text {
            "auto" => Ok(None),
            "spin" => Ok(Some(WaitPolicy::Spin)),
            "yield" => Ok(Some(WaitPolicy::Yield)),
            "sleep" => Ok(Some(WaitPolicy::Sleep)),
            _ => Err(Error::argument(
                format!("the waiting policy `{text}` is not known"),
                "set it to auto, spin, yield or sleep",
            )),
        }
    }
}

/// How to wait: as the setting says, or (`None`) as the node needs it. Yielding hands a core over
/// in under a microsecond and waking takes several, so sleeping is chosen only where a quota
/// makes running costly.
pub fn wait_policy(crowding: Crowding, setting: Option<WaitPolicy>) -> WaitPolicy {
    match (setting, crowding) {
        (Some(policy), _) => policy,
        (
            None,
            Crowding {
                throttled: true, ..
            },
        ) => WaitPolicy::Sleep,
        (
            None,
            Crowding {
                oversubscribed: true,
                ..
            },
        ) => WaitPolicy::Yield,
        (None, _) => WaitPolicy::Spin,
    }
}

/// How full the node of these ranks is. `local` holds the places of all ranks of one node, as
/// [`super::local_places`] gives them.
pub fn crowding(local: &[&RankPlace]) -> Crowding {
    let union = local
        .iter()
        .fold(CpuSet::new(), |set, place| set.union(&place.cores));
    let quotas = Quotas::of(local);
    let (ranks, cores) = (
        local.len() as u32,
        quotas.cores.min(union.len() as u32).max(1),
    );
    let enough = ranks <= cores && quotas.enough && all_matched(local);
    Crowding {
        ranks,
        cores,
        oversubscribed: !enough,
        throttled: quotas.throttled,
    }
}

/// Processors that the quotas of a node leave.
struct Quotas {
    /// Processors' worth of time, rounded up; ranks without a quota add their cores.
    cores: u32,
    /// No group has more ranks than processors, rounded up.
    enough: bool,
    /// Some group has more ranks than processors, exactly.
    throttled: bool,
}

impl Quotas {
    fn of(local: &[&RankPlace]) -> Quotas {
        let mut groups: HashMap<u64, (u64, u64)> = HashMap::new();
        let mut free = CpuSet::new();
        for place in local {
            match place.quota {
                None => free = free.union(&place.cores),
                Some(quota) => {
                    let millicpus = u64::from(quota.millicpus);
                    let group = groups.entry(quota.group).or_insert((millicpus, 0));
                    *group = (group.0.min(millicpus), group.1 + 1);
                }
            }
        }
        let time: u64 = groups.values().map(|group| group.0).sum();
        let cores = time.div_ceil(1000) + free.len() as u64;
        Quotas {
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            enough: groups
                .values()
                .all(|&(time, ranks)| ranks <= time.div_ceil(1000)),
            throttled: groups.values().any(|&(time, ranks)| ranks * 1000 > time),
        }
    }
}

/// Whether every rank can have a core of its own.
fn all_matched(local: &[&RankPlace]) -> bool {
    let mut owner: HashMap<u32, usize> = HashMap::new();
    (0..local.len()).all(|rank| find_core(local, rank, &mut owner))
}

/// Gives `rank` a core, moving others to other cores of theirs where that helps: a breadth-first
/// search for an augmenting path. False if there is none.
fn find_core(local: &[&RankPlace], rank: usize, owner: &mut HashMap<u32, usize>) -> bool {
    let mut came_from: HashMap<u32, usize> = HashMap::new();
    let mut holds: HashMap<usize, u32> = HashMap::new();
    let mut queue = std::collections::VecDeque::from([rank]);
    while let Some(seeker) = queue.pop_front() {
        for core in local[seeker].cores.iter() {
            if came_from.contains_key(&core) {
                continue;
            }
            came_from.insert(core, seeker);
            if let Some(&other) = owner.get(&core) {
                holds.insert(other, core);
                queue.push_back(other);
                continue;
            }
            // A free core: hand it back along the path, each rank taking what the next one left.
            let (mut core, mut taker) = (core, seeker);
            loop {
                owner.insert(core, taker);
                if taker == rank {
                    return true;
                }
                core = holds[&taker];
                taker = came_from[&core];
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::Quota;
    use super::*;
    use crate::base::Rank;

    fn places(cores: &[&str]) -> Vec<RankPlace> {
        let place = |(index, list): (usize, &&str)| RankPlace {
            rank: Rank(index as u32),
            host: "n".to_owned(),
            host_hash: 1,
            boot_id: String::new(),
            pid: 1,
            process: 0,
            cpus: CpuSet::parse_list(list).unwrap(),
            cores: CpuSet::parse_list(list).unwrap(),
            quota: None,
            numa: CpuSet::single(0),
            sharing: Default::default(),
        };
        cores.iter().enumerate().map(place).collect()
    }

    fn of(places: &[RankPlace]) -> Crowding {
        crowding(&places.iter().collect::<Vec<_>>())
    }

    /// (cores, oversubscribed, throttled)
    fn facts(places: &[RankPlace]) -> (u32, bool, bool) {
        let Crowding {
            cores,
            oversubscribed,
            throttled,
            ranks,
        } = of(places);
        assert_eq!(ranks as usize, places.len());
        (cores, oversubscribed, throttled)
    }

    #[test]
    fn ranks_need_a_core_each_within_their_bindings() {
        assert_eq!(facts(&places(&["0-1", "0-1"])), (2, false, false));
        assert_eq!(facts(&places(&["0-1", "0-1", "0-1"])), (2, true, false));
        assert_eq!(
            facts(&places(&["0", "0"])),
            (1, true, false),
            "bound to one core"
        );
        assert_eq!(
            facts(&places(&["0", "0", "0-7"])),
            (8, true, false),
            "cores enough elsewhere"
        );
        assert_eq!(facts(&places(&["0", "1", "2"])), (3, false, false));
        // The first takes core 0 at first and has to move twice.
        assert_eq!(facts(&places(&["0-1", "0,2", "0"])), (3, false, false));
        assert_eq!(facts(&places(&["0-3"; 8])), (4, true, false));
    }

    #[test]
    fn a_matching_is_found_whenever_there_is_one() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..400 {
            let ranks = random.usize(1..7);
            let mut all = places(&vec!["0"; ranks]);
            for place in &mut all {
                place.cores = (0..random.usize(1..4)).map(|_| random.u32(0..7)).collect();
            }
            // Hall's condition over all subsets of ranks is the oracle.
            let hall = (1_u32..1 << ranks).all(|subset| {
                let members = all.iter().enumerate().filter(|(i, _)| subset >> i & 1 == 1);
                let union = members.fold(CpuSet::new(), |set, (_, place)| set.union(&place.cores));
                union.len() >= subset.count_ones() as usize
            });
            assert_eq!(of(&all).oversubscribed, !hall, "{all:?}");
        }
    }

    #[test]
    fn quotas_are_shared_within_a_group_and_add_up_between_groups() {
        let with = |quotas: &[Option<(u32, u64)>]| {
            let mut all = places(&vec!["0-63"; quotas.len()]);
            for (place, quota) in all.iter_mut().zip(quotas) {
                place.quota = quota.map(|(millicpus, group)| Quota { millicpus, group });
            }
            facts(&all)
        };
        assert_eq!(with(&[Some((2000, 1)), Some((2000, 1))]), (2, false, false));
        assert_eq!(
            with(&[Some((2000, 1)); 3]),
            (2, true, true),
            "one container"
        );
        assert_eq!(
            with(&[Some((1500, 1)); 2]),
            (2, false, true),
            "rounded up, yet not in full"
        );
        assert_eq!(
            with(&[Some((1000, 1)), Some((1000, 2))]),
            (2, false, false),
            "a container each"
        );
        assert_eq!(
            with(&[Some((500, 1)), Some((500, 2)), None]),
            (64, false, true)
        );
        assert_eq!(
            with(&[Some((1000, 1)), Some((1000, 1)), Some((9000, 2))]),
            (10, true, true)
        );
    }

    #[test]
    fn policies() {
        let spin = Crowding {
            ranks: 2,
            cores: 2,
            oversubscribed: false,
            throttled: false,
        };
        assert_eq!(wait_policy(spin, None), WaitPolicy::Spin);
        let full = Crowding {
            oversubscribed: true,
            ..spin
        };
        assert_eq!(wait_policy(full, None), WaitPolicy::Yield);
        let short = Crowding {
            throttled: true,
            ..full
        };
        assert_eq!(wait_policy(short, None), WaitPolicy::Sleep);
        for (text, policy) in [
            ("spin", WaitPolicy::Spin),
            ("yield", WaitPolicy::Yield),
            ("sleep", WaitPolicy::Sleep),
        ] {
            for crowding in [spin, full, short] {
                assert_eq!(
                    wait_policy(crowding, WaitPolicy::parse(text).unwrap()),
                    policy
                );
            }
        }
        assert_eq!(WaitPolicy::parse("auto").unwrap(), None);
        assert!(WaitPolicy::parse("nap").unwrap_err().what.contains("`nap`"));
    }
}
