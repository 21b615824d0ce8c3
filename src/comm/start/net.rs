//! The network of a communicator whose ranks are on several nodes.

mod agreed;
pub(in crate::comm) mod agreeing;
pub(in crate::comm) mod folding;
mod proxied;
mod rails;
pub(in crate::comm) mod said;

use super::party::{Party, plain_channels};
use crate::base::{Error, Rank, Result, record};
use crate::comm::network::Network;
use crate::exec::host::carried::Carried;
use crate::plan::Nodes;
use crate::proxy::lookout::{Crew, Lookout, Post};
use crate::proxy::net::{Handles, Links, Open, Through};
use crate::proxy::service::{self, Staying};
use crate::proxy::{Attended, OnDeath, Watch};
use crate::transport::net::candidates;
use crate::transport::net::choose::choose;
use crate::transport::net::mpi::MpiNet;
use crate::transport::net::socket::SocketOptions;
use crate::transport::net::{Handle, Net};
use crate::wire::carrier::Carrier;
use agreed::AgreedFaces;
pub(in crate::comm) use folding::Supported;
use said::Said;
use std::sync::Arc;

/// The name of the network that is the program's MPI.
const MPI: &str = "mpi";

/// Lets the executors of this rank hand tokens for other nodes to `links`.
pub(in crate::comm) fn carried(links: &Arc<Links>) -> Carried {
    Carried::by(Arc::clone(links) as Arc<dyn Carrier>)
}

/// Has a network fold, if it can; every rank calls it.
///
/// # Errors
/// As [`folding::join`].
pub(in crate::comm) fn fold(network: &mut Network, party: &Party, nodes: &Nodes) -> Result<()> {
    let channels = plain_channels(party.settings, party.node.layout().channels);
    let all = (&*network.links, nodes, channels);
    network.folds = folding::join(party.bootstrap, party.settings, all)?;
    Ok(())
}

/// Network and proxies of a rank, opened before it knows the others.
struct Opened {
    open: Open,
    post: Option<Post>,
    /// The rank through which this one sends on each channel, if not by itself.
    proxies: Vec<Option<Rank>>,
    /// Why this network.
    why: String,
}

/// Chooses the network, and says which and why. The program's MPI is opened where the ranks met
/// through it, or taken over from the parent.
fn network(party: &Party, agreed: &AgreedFaces) -> Result<(Arc<dyn Net>, String)> {
    let (functions, context) = party.bootstrap.point_to_point();
    let of_parent = party.inherited.as_ref().filter(|net| net.name() == MPI);
    let open = || match of_parent {
        Some(net) => Ok(Arc::clone(net)),
        // SAFETY: the functions are as the bootstrap found them in its table.
        None => unsafe { MpiNet::new(functions.cast(), context) }
            .map(|net| Arc::new(net) as Arc<dyn Net>),
    };
    let has_mpi = of_parent.is_some() || !functions.is_null();
    let mpi: Option<&dyn Fn() -> Result<Arc<dyn Net>>> = match has_mpi {
        true => Some(&open),
        false => None,
    };
    let sockets = || agreed.sockets(SocketOptions::from(party.settings));
    let all = candidates::all(party.settings, Some(&sockets), mpi);
    let choice = choose(party.settings.net(), all)?;
    Ok((choice.net, choice.line))
}

fn open(party: &Party, agreed: &AgreedFaces) -> Result<Opened> {
    let (me, mates) = (party.bootstrap.rank(), party.mates());
    // What lookouts say to each other goes over TCP, whatever carries the data.
    let post = match mates.first() == Some(&me) {
        true => {
            let sockets = agreed.sockets(SocketOptions::from(party.settings));
            Some(Post::new(sockets)?)
        }
        false => None,
    };
    let (net, why) = network(party, agreed)?;
    let open = Open::new(party.setup(net, me))?;
    let proxies = proxied::proxies(party, open.net())?;
    Ok(Opened {
        open,
        post,
        proxies,
        why,
    })
}

/// Opens the network and makes it known to all ranks, unless all are on one node. Every rank
/// calls it. `watch` is the watch over this rank's node, `on_lost` is called when another node
/// is lost.
///
/// # Errors
/// The own one, or that of another rank that cannot use a network; ranks with different
/// networks; nodes that no network joins.
pub(in crate::comm) fn meet(
    party: &Party,
    watch: &Watch,
    on_lost: OnDeath,
) -> Result<Option<Network>> {
    if party.mates().len() == party.places.len() {
        return Ok(None);
    }
    let agreed = agreeing::agree(party)?;
    let opened = open(party, &agreed);
    let mine = match &opened {
        Ok(Opened {
            open,
            post,
            proxies,
            ..
        }) => Some(Said {
            name: open.net().name().to_string(),
            lookout: match post {
                Some(post) => post.handle().clone(),
                None => Handle::new(&[])?,
            },
            proxies: proxies.iter().copied().flatten().collect(),
            ports: rails::ports(party, open.net().devices()),
            handles: open.handles().clone(),
        }),
        Err(_) => None,
    };
    let said = party.bootstrap.all_gather(&record::encode(&mine));
    let Opened {
        open,
        post,
        proxies,
        why,
    } = opened?;
    let said = said?.once(|said| heard(party, open.net().name(), said))?;
    let HeardNetworks { said, handles } = &*said;
    let lookout = match post {
        Some(post) => Some(look_out(party, post, said, watch, on_lost)?),
        None => None,
    };
    let through = Through::new(watch.caller(), proxies);
    let me = party.bootstrap.rank();
    let devices = rails::devices(party, &said[me.index()].ports, open.net().devices().len());
    let rails = rails::rails(party, said);
    let links = Links::opened(open, Arc::clone(handles), through).over(rails.clone());
    let links = Arc::new(links);
    let is_sender = |rank: &Rank| said[rank.index()].proxies.contains(&me);
    let senders = party.mates().into_iter().filter(is_sender).collect();
    let proxied = proxied::proxied(party, senders, (links.net(), handles), rails, watch);
    // Where only threads of the program may use the network, they accept as they wait.
    if links.net().any_thread() {
        service::get()?.attend(Arc::clone(&links) as Arc<dyn Attended>);
    }
    Ok(Some(Network {
        links,
        proxied,
        folds: None,
        lookout,
        devices,
        takes_turns: rails::take_turns(said),
        why,
    }))
}

/// Facts about the networks of all ranks, held once for those of a process.
struct HeardNetworks {
    said: Vec<Said>,
    handles: Arc<[Handles]>,
}

/// Decodes what the ranks have told. It fails unless all use the network `name`.
fn heard(party: &Party, name: &str, said: &[Vec<u8>]) -> Result<HeardNetworks> {
    let all: Vec<Option<Said>> = record::decode_all(said)?;
    let understood = (0..).map(Rank).zip(all).map(|(rank, said)| {
        let host = &party.places[rank.index()].host;
        let Some(said) = said else {
            let what = format!("rank {rank} on {host} cannot use a network between nodes");
            return Err(Error::remote(rank, what, "see the message of that rank"));
        };
        if said.name != name {
            let theirs = &said.name;
            return Err(Error::usage(
                format!("rank {rank} on {host} uses the network {theirs}, this rank {name}"),
                "set KOLO_NET to one that all nodes have, such as socket",
            )
            .with_peer(rank));
        }
        Ok(said)
    });
    let said: Vec<Said> = understood.collect::<Result<_>>()?;
    let handles: Vec<Handles> = said.iter().map(|said| said.handles.clone()).collect();
    Ok(HeardNetworks {
        said,
        handles: handles.into(),
    })
}

/// Takes up the post of this node's lookout.
fn look_out(
    party: &Party,
    post: Post,
    said: &[Said],
    watch: &Watch,
    on_lost: OnDeath,
) -> Result<Arc<Lookout>> {
    let me = party.bootstrap.rank();
    let ring: Vec<Rank> = (0..)
        .map(Rank)
        .zip(said)
        .filter(|(_, said)| !said.lookout.bytes().is_empty())
        .map(|(rank, _)| rank)
        .collect();
    let at = ring.iter().position(|&rank| rank == me).unwrap_or(0);
    let next = ring[(at + 1) % ring.len()];
    let previous = ring[(at + ring.len() - 1) % ring.len()];
    let mut neighbours = vec![next];
    if previous != next {
        neighbours.push(previous);
    }
    let reached = |rank: Rank| (rank, said[rank.index()].lookout.clone());
    let reached: Vec<_> = neighbours.into_iter().map(reached).collect();
    let place = |rank: &Rank| {
        let place = &party.places[rank.index()];
        (rank.0, place.to_string())
    };
    let crew = Crew {
        me,
        nonce: party.nonce,
        mates: party.mates(),
        node: party.node.clone(),
        on_lost,
        places: ring.iter().map(place).collect(),
    };
    let lookout = Lookout::new(post, crew, &reached)?;
    let heeding = Arc::downgrade(&lookout);
    watch.heed_exit();
    watch.heed(Arc::new(move |why| {
        let Some(lookout) = heeding.upgrade() else {
            return;
        };
        lookout.alarmed(why);
    }));
    Ok(lookout)
}
