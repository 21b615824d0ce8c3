//! Children of a communicator on one node, made of what their parent has.
//!
//! **Problem.** Making a communicator from nothing takes a dozen exchanges and a search of the
//! machine. Programs split one for every row and column of a grid, and expect that to cost nothing.
//!
//! **Idea.** The ranks of a child know each other already. Its topology, rings and trees are the
//! parent's, restricted to its members; its processes are watched for the parent anyway; its memory
//! is a region of the file that all of them have ([`crate::transport::pool`]). What must be agreed
//! on anew passes in three small all-gathers of the parent:
//!
//! 1. *offers*: what everybody asks for, a digest of the settings that shape plans, and a random
//!    number each, of which the child takes that of its rank 0;
//! 2. *regions*: the rank 0 of each child has taken one;
//! 3. *outcomes*: whether everybody could do their part.
//!
//! All ranks of the parent take part in all three, so they always agree where they are. A child
//! whose members ask for different or unusual things is made as if from nothing, after that.

use super::heritage::Kin;
use super::made::{Made, put_together};
use super::party::Party;
use super::{device, executor, layout};
use super::{meet, stores, tuning};
use crate::base::{Error, Rank, Result, hash};
use crate::bootstrap::Bootstrap;
use crate::comm::CommConfig;
use crate::comm::failing::deaths::Deaths;
use crate::comm::flight::turn::IdleHook;
use crate::comm::logging::Acting;
use crate::comm::owned::Exec;
use crate::comm::queue::Queue;
use crate::config::Settings;
use crate::proxy::Watch;
use crate::topo::{self, RankPlace};
use crate::transport::cma::{Mark, wish};
use crate::transport::node::NodeMemory;
use crate::transport::pool::{Lease, Pool};
use crate::transport::segment::{self, Key, Nonce, Segment};
use crate::wire::doorbell::Fencing;
use crate::wire::layout::Layout;
use std::sync::Arc;

/// A word by which rank 0 of a child names the region that it has taken: the region's number plus
/// 1, with the tag above it, or one of the constants below.
pub(in crate::comm) type Said = u64;
/// The child must be made from nothing.
pub(in crate::comm) const NO_REGION: Said = 0;
/// Its ranks are threads of one process, which need no region.
const IN_PROCESS: Said = u64::MAX;
/// Where the tag of a region begins.
const TAG_SHIFT: u32 = 32;

/// Returns a digest of the settings that all members of a child must have equal, if its rank can be
/// made from its parent. 0 if `settings` differ in more from those of the parent: the child must
/// then be made from nothing.
pub(in crate::comm) fn offer(parent: &Arc<Queue>, settings: &Result<Settings>) -> u64 {
    let (Some(_), Ok(settings)) = (&parent.kin, settings) else {
        return 0;
    };
    let of_parent = &parent.settings;
    let is_usual = of_parent.graph_file().is_none()
        && settings.graph_file().is_none()
        && settings.graph_dump_file().is_none()
        && settings.ranks_per_node().is_none()
        && settings.levels() == of_parent.levels()
        && settings.ranks_per_cache().is_none()
        && settings.ranks_per_socket().is_none()
        && settings.tuner_file().is_none()
        && settings.topo_file() == of_parent.topo_file()
        && settings.hostid() == of_parent.hostid()
        && settings.shm_disable() == of_parent.shm_disable()
        && wish::from(settings).is_none()
        // What the cards of the devices say follows from these.
        && settings.nthreads() == of_parent.nthreads()
        && settings.kernels_file() == of_parent.kernels_file();
    match is_usual {
        true => hash::fnv1a(&meet::shape(settings, None)).max(1),
        false => 0,
    }
}

/// Takes a region for a child of `nranks` ranks; called by its rank 0. It keeps the lease until all
/// members have said whether they joined: then the region is theirs, or nobody's.
pub(in crate::comm) fn take(
    parent: &Arc<Queue>,
    nranks: u32,
    settings: &Settings,
) -> (Said, Lease) {
    let Some(kin) = &parent.kin else {
        return (NO_REGION, Lease::of(None));
    };
    let lengths = layout::lengths(&layout::layout(settings, nranks, true));
    match kin.segment.region() {
        None => (IN_PROCESS, Lease::of(None)),
        Some((pool, _)) => match pool.take(1, lengths) {
            Some(region) => {
                let said = u64::from(pool.tag(region)) << TAG_SHIFT | (region as u64 + 1);
                (said, Lease::of(Some((Arc::clone(pool), region))))
            }
            None => (NO_REGION, Lease::of(None)),
        },
    }
}

/// The region that rank 0 of a child took, as every member holds it.
struct Region {
    place: Option<(Arc<Pool>, usize)>,
    lease: Lease,
}

impl Region {
    fn of(kin: &Kin, said: Said) -> Result<Region> {
        let Some((pool, _)) = kin.segment.region().filter(|_| said != IN_PROCESS) else {
            let lease = Lease::of(None);
            return Ok(Region { place: None, lease });
        };
        let (number, tag) = (said as u32 as usize, (said >> TAG_SHIFT) as u32);
        let region = number.wrapping_sub(1);
        let lease = pool.join(region, tag).ok_or_else(|| {
            let what = "rank 0 has given the memory of the new communicator back";
            Error::remote(Rank(0), what, "see the message of rank 0")
        })?;
        let place = Some((Arc::clone(pool), region));
        Ok(Region { place, lease })
    }
}

/// The memory of a child, as member `me` sees it. `fencing` is that of the parent, which has asked
/// all processes.
fn memory(
    region: Region,
    (layout, me): (Layout, usize),
    nonce: u128,
    fencing: Fencing,
) -> Result<(Arc<Segment>, NodeMemory)> {
    let lengths = layout::lengths(&layout);
    let key = Key::new(Nonce(nonce), Rank(0));
    let segment = segment::shared(key, || match &region.place {
        Some((pool, region)) => Segment::of_pool(pool, *region, lengths),
        None => Segment::in_process(lengths.0, lengths.1),
    })?;
    let memory = (Arc::clone(&segment), region.lease);
    let offset = layout::head_offset(&layout);
    // SAFETY: the segment has the layout's head and parts from there on; what a region held before
    // was given back to the system, so all is zero.
    let node = unsafe { NodeMemory::of(memory, offset, layout, me) };
    Ok((segment, node.fenced_by(fencing)))
}

/// A child that is to be made, as one of its members sees it.
pub(in crate::comm) struct Child<'a> {
    pub parent: &'a Arc<Queue>,
    /// Ranks of the parent, in the order of the child.
    pub members: &'a [u32],
    pub me: u32,
    /// Of the members.
    pub bootstrap: &'a dyn Bootstrap,
    /// None: that of the parent.
    pub idle: Option<IdleHook>,
    /// Over the processes of the parent's ranks, which it has until it ends.
    pub watch: Option<Arc<Watch>>,
}

/// Makes the child in a region that is not [`NO_REGION`]. `nonce` is its rank 0's random number.
pub(in crate::comm) fn make(
    child: &Child,
    (settings, config): (Settings, &CommConfig),
    region: Said,
    nonce: u128,
) -> Result<Arc<Queue>> {
    let parent = &child.parent;
    let several = || Error::internal("a child of a parent on several nodes");
    let kin = parent.kin.as_ref().ok_or_else(several)?;
    let _acting = Acting::rank(Rank(child.me));
    let region = Region::of(kin, region)?;
    let (members, me) = (child.members, child.me as usize);
    let places = kin.places_of(members);
    let local: Vec<&RankPlace> = places.iter().collect();
    let crowding = topo::crowding(&local);
    let inputs = tuning::heard(&tuning::seen(&settings, crowding), &settings, &places)?;
    let nodes = kin.nodes.restricted(members).map_err(Error::internal)?;
    let layout = layout::layout(&settings, places.len() as u32, true);
    let (segment, node) = memory(region, (layout, me), nonce, parent.node.fencing())?;
    let node = node.homed_at(layout::homes(Rank(child.me), &places));
    let deaths = Arc::<Deaths>::default();
    let in_first = kin.in_first_of(members);
    kin.first.adopt(&deaths, Arc::clone(&in_first));
    let services = kin.services_of(members);
    let party = Party {
        bootstrap: child.bootstrap,
        settings: &settings,
        places: &places,
        node: &node,
        nonce,
        inherited: None,
        channels: None,
        stages: None,
        registrations: Arc::default(),
    };
    let stores = stores::of_child(kin.stores, &settings, &local, crowding);
    let direct = executor::direct(&party, services.clone(), Mark::new(meet::draw()?), None);
    let devices = kin.devices_of(members);
    let device = device::make(&party, (devices.as_deref(), None), &services, &inputs)?;
    let exec = Exec {
        device,
        ..executor::exec(&party, (inputs, nodes.clone(), stores), direct, None)
    };
    let pinning = match settings.affinity() == parent.settings.affinity() {
        true => parent.pinning.clone(),
        false => super::pinning::settle(&party, &local, None)?,
    };
    let kin = Kin {
        places: places.clone(),
        services,
        nodes,
        stores,
        segment,
        first: Arc::clone(&kin.first),
        in_first,
        devices,
    };
    let made = Made {
        exec,
        watch: child.watch.clone(),
        deaths,
        crowding,
        pinning,
        network: None,
        kin: Some(kin),
        idle: child.idle.clone().or_else(|| parent.idle.clone()),
        name: config.name.clone(),
    };
    Ok(put_together(&party, made))
}
