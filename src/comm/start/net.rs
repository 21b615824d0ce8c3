//! The network of a communicator whose ranks are on several nodes.

mod agreed;
pub(in crate::comm) mod agreeing;
pub(in crate::comm) mod folding;
mod proxied;
mod rails;
pub(in crate::comm) mod said;

use crate::base::{Error, Rank, Result, record};
use crate::bootstrap::Bootstrap;
use crate::config::Settings;
use crate::exec::host::carried::Carried;
use crate::plan::Nodes;
use crate::proxy::lookout::{Crew, Lookout, Post};
use crate::proxy::net::{Handles, Links, Open, ProxiedSenders, Setup, Taking, Through};
use crate::proxy::service::{self, Staying};
use crate::proxy::{Attended, OnDeath, Watch};
use crate::topo::channels::Channels;
use crate::topo::{self, RankPlace};
use crate::transport::fork;
use crate::transport::gpu::Stages;
use crate::transport::net::candidates;
use crate::transport::net::choose::choose;
use crate::transport::net::mpi::MpiNet;
use crate::transport::net::socket::{SocketNet, SocketOptions};
use crate::transport::net::{Handle, Net, Properties};
use crate::transport::node::NodeMemory;
use crate::wire::carrier::Carrier;
use crate::wire::stage::StageSource;
use agreed::AgreedFaces;
pub(in crate::comm) use folding::Supported;
use said::Said;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The name of the network that is the program's MPI.
const MPI: &str = "mpi";

/// Channels between ranks: of those of a layout, the others lead to a network that folds.
pub(in crate::comm) fn plain_channels(settings: &Settings, channels: usize) -> usize {
    match settings.collnet_enable() {
        true => channels / 2,
        false => channels,
    }
}

/// Lets the executors of this rank hand tokens for other nodes to `links`.
pub(in crate::comm) fn carried(links: &Arc<Links>) -> Carried {
    Carried::by(Arc::clone(links) as Arc<dyn Carrier>)
}

/// Means of a communicator on several nodes, besides memory.
pub(in crate::comm) struct Network {
    /// Connections to ranks on other nodes.
    pub links: Arc<Links>,
    /// Connections of other ranks of this node, if some send through this rank.
    pub proxied: Option<Arc<ProxiedSenders>>,
    /// Types and operations that the network folds, if it folds.
    pub folds: Option<Supported>,
    /// This rank is the lookout of its node.
    lookout: Option<Arc<Lookout>>,
    /// The devices that this rank uses.
    devices: BTreeSet<usize>,
    /// All ranks have several devices, which calls on few channels take in turn.
    pub takes_turns: bool,
    /// Which network carries the data, and why, in a sentence.
    pub why: String,
}

impl Network {
    /// Has it fold, if it can; every rank calls it.
    ///
    /// # Errors
    /// As [`folding::join`].
    pub fn fold(&mut self, party: &Party, nodes: &Nodes) -> Result<()> {
        let channels = plain_channels(party.settings, party.node.layout().channels);
        let all = (&*self.links, nodes, channels);
        self.folds = folding::join(party.bootstrap, party.settings, all)?;
        Ok(())
    }

    /// Whether sockets carry the data.
    pub fn is_socket(&self) -> bool {
        self.links.net().name() == SocketNet::NAME
    }

    /// The devices that this rank uses.
    pub fn rails(&self) -> Vec<&Properties> {
        let devices = self.links.net().devices();
        self.devices
            .iter()
            .filter_map(|&at| devices.get(at))
            .collect()
    }

    /// Whether ranks of this node send through this one.
    pub fn sends_for_others(&self) -> bool {
        let proxied = self.proxied.as_ref();
        proxied.is_some_and(|proxied| proxied.has_open())
    }

    /// The process exits, and nothing of this rank is in flight: one look whether what it has
    /// handed over has arrived, and whether other nodes have heard of the end. Nothing is closed:
    /// functions behind this one may still make calls.
    pub fn end(&self, is_last: bool) -> bool {
        let has_arrived = self.links.has_arrived(is_last);
        let tells = || self.lookout.as_ref().is_none_or(|it| it.end(is_last));
        (has_arrived || is_last) && tells()
    }

    /// The rank is about to leave, and its `watch` to end.
    pub fn retire(&self, watch: &Watch) {
        if let Some(lookout) = &self.lookout {
            lookout.retire(watch);
        }
    }

    /// Ends it all: the other nodes are told that this rank has left. Connections that are not
    /// closed yet are given up.
    pub fn close(&self) {
        if fork::in_child_of_user() {
            return;
        }
        if let Some(lookout) = &self.lookout {
            lookout.leave();
        }
        if let Ok(service) = service::get() {
            service.dismiss(&(Arc::clone(&self.links) as Arc<dyn Attended>));
        }
        self.links.close(true);
    }
}

impl Network {
    /// When the communicator has stopped: nothing moves any more, and nothing touches the memory of
    /// callers.
    pub fn let_go(&self) {
        self.links.let_go();
        if let Some(proxied) = &self.proxied {
            proxied.give_up();
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.close();
    }
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

/// Facts about the ranks that are known before the network is open.
pub(in crate::comm) struct Party<'a> {
    pub bootstrap: &'a dyn Bootstrap,
    pub settings: &'a Settings,
    pub places: &'a [RankPlace],
    pub node: &'a NodeMemory,
    pub nonce: u128,
    /// The network of the communicator that this one is split from.
    pub inherited: Option<Arc<dyn Net>>,
    /// Channels that the searches of all nodes found.
    pub channels: Option<Arc<Channels>>,
    /// Where the connections of devices to other nodes lie.
    pub stages: Option<Arc<Stages>>,
}

impl Party<'_> {
    /// Chooses the network, and says which and why. The program's MPI is opened where the ranks met
    /// through it, or taken over from the parent.
    fn network(&self, agreed: &AgreedFaces) -> Result<(Arc<dyn Net>, String)> {
        let (functions, context) = self.bootstrap.point_to_point();
        let of_parent = self.inherited.as_ref().filter(|net| net.name() == MPI);
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
        let sockets = || agreed.sockets(SocketOptions::from(self.settings));
        let all = candidates::all(self.settings, Some(&sockets), mpi);
        let choice = choose(self.settings.net(), all)?;
        Ok((choice.net, choice.line))
    }

    fn mates(&self) -> Vec<Rank> {
        topo::local_ranks(self.bootstrap.rank(), self.places)
    }

    fn open(&self, agreed: &AgreedFaces) -> Result<Opened> {
        let (me, mates) = (self.bootstrap.rank(), self.mates());
        // What lookouts say to each other goes over TCP, whatever carries the data.
        let post = match mates.first() == Some(&me) {
            true => {
                let sockets = agreed.sockets(SocketOptions::from(self.settings));
                Some(Post::new(sockets)?)
            }
            false => None,
        };
        let (net, why) = self.network(agreed)?;
        let open = Open::new(self.setup(net, me))?;
        let proxies = self.proxies(open.net())?;
        Ok(Opened {
            open,
            post,
            proxies,
            why,
        })
    }

    /// Collects the inputs of the engine that moves what `sender`, a rank of this node, sends.
    fn setup(&self, net: Arc<dyn Net>, sender: Rank) -> Setup {
        let layout = *self.node.layout();
        let mates = self.mates();
        let is_remote = |place: &RankPlace| !mates.contains(&place.rank);
        Setup {
            net,
            source: Box::new(self.node.clone()),
            stages: self.stages.clone().map(|it| it as Arc<dyn StageSource>),
            bell: Box::new(self.node.clone()),
            me: sender,
            channels: layout.channels,
            nonce: self.nonce,
            is_remote: self.places.iter().map(is_remote).collect(),
            slot_bytes: layout.slot_bytes,
            slice: 1,
            taking: Taking {
                every: self.settings.proxy_append_every(),
                batch: self.settings.proxy_append_batch() as usize,
            },
        }
    }

    /// Opens the network and makes it known to all ranks, unless all are on one node. Every rank
    /// calls it. `watch` is the watch over this rank's node, `on_lost` is called when another node
    /// is lost.
    ///
    /// # Errors
    /// The own one, or that of another rank that cannot use a network; ranks with different
    /// networks; nodes that no network joins.
    pub fn meet(&self, watch: &Watch, on_lost: OnDeath) -> Result<Option<Network>> {
        if self.mates().len() == self.places.len() {
            return Ok(None);
        }
        let agreed = self.agree()?;
        let opened = self.open(&agreed);
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
                ports: self.ports(open.net().devices()),
                handles: open.handles().clone(),
            }),
            Err(_) => None,
        };
        let said = self.bootstrap.all_gather(&record::encode(&mine));
        let Opened {
            open,
            post,
            proxies,
            why,
        } = opened?;
        let said = self.heard(open.net().name(), &said?)?;
        let lookout = match post {
            Some(post) => Some(self.look_out(post, &said, watch, on_lost)?),
            None => None,
        };
        let handles: Vec<Handles> = said.iter().map(|said| said.handles.clone()).collect();
        let handles = Arc::from(handles);
        let through = Through::new(watch.caller(), proxies);
        let me = self.bootstrap.rank();
        let devices = self.devices(&said[me.index()].ports, open.net().devices().len());
        let rails = self.rails(&said);
        let links = open
            .links(Arc::clone(&handles), through)
            .over(rails.clone());
        let links = Arc::new(links);
        let is_sender = |rank: &Rank| said[rank.index()].proxies.contains(&me);
        let senders = self.mates().into_iter().filter(is_sender).collect();
        let proxied = self.proxied(senders, (links.net(), &handles), rails, watch);
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
            takes_turns: self.take_turns(&said),
            why,
        }))
    }

    /// Decodes what the ranks have told. It fails unless all use the network `name`.
    fn heard(&self, name: &str, said: &[Vec<u8>]) -> Result<Vec<Said>> {
        let all: Vec<Option<Said>> = record::decode_all(said)?;
        let understood = (0..).map(Rank).zip(all).map(|(rank, said)| {
            let host = &self.places[rank.index()].host;
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
        understood.collect()
    }

    /// Takes up the post of this node's lookout.
    fn look_out(
        &self,
        post: Post,
        said: &[Said],
        watch: &Watch,
        on_lost: OnDeath,
    ) -> Result<Arc<Lookout>> {
        let me = self.bootstrap.rank();
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
            let place = &self.places[rank.index()];
            (rank.0, place.to_string())
        };
        let crew = Crew {
            me,
            nonce: self.nonce,
            mates: self.mates(),
            node: self.node.clone(),
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
}
