//! The network of a communicator whose ranks are on several nodes.

use crate::base::{Error, Rank, Result};
use crate::bootstrap::Bootstrap;
use crate::config::Settings;
use crate::exec::carried::Carried;
use crate::proxy::lookout::{Crew, Lookout, Post};
use crate::proxy::net::{Links, Open, Setup};
use crate::proxy::service::{self, Alarm};
use crate::proxy::{Attended, OnDeath, Watch};
use crate::topo::{self, RankPlace};
use crate::transport::net::candidates;
use crate::transport::net::choose::choose;
use crate::transport::net::mpi::MpiNet;
use crate::transport::net::socket::{SocketNet, SocketOptions};
use crate::transport::net::{Handle, Net, Properties};
use crate::transport::node::NodeMemory;
use crate::wire::Carrier;
use std::sync::Arc;

/// The name of the network that is the program's MPI.
const MPI: &str = "mpi";

/// Hands over what executors expect.
struct ByLinks(Arc<Links>);

impl Carrier for ByLinks {
    #[inline(always)]
    fn is_remote(&self, rank: usize) -> bool {
        self.0.is_remote(rank)
    }

    fn expect(&self, launch: u64, peer: usize, channel: usize, is_send: bool, slots: u64) {
        self.0.expect(launch, (peer, channel), is_send, slots);
    }

    fn takes_parts(&self) -> bool {
        self.0.net().takes_parts()
    }

    fn want(&self, peer: usize, channel: usize, position: u64, data: (*mut u8, usize)) {
        self.0.want((peer, channel), position, data);
    }
}

/// What the executors of this rank use.
pub(super) fn carried(links: &Arc<Links>) -> Carried {
    Carried::by(Box::new(ByLinks(Arc::clone(links))))
}

/// What a rank tells the others.
#[derive(Debug, PartialEq, Eq)]
struct Said {
    /// The name of its network.
    name: String,
    /// Where the lookout of its node listens, if it is the one; empty if not.
    lookout: Handle,
    /// How its devices are reached.
    handles: Vec<Handle>,
}

/// All parts in a row, each behind its length.
fn encode(said: &Said) -> Vec<u8> {
    let mut bytes = Vec::new();
    let handles = said.handles.iter().map(Handle::bytes);
    for part in [said.name.as_bytes(), said.lookout.bytes()]
        .into_iter()
        .chain(handles)
    {
        bytes.push(part.len() as u8);
        bytes.extend(part);
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<Said> {
    let mut rest = bytes;
    let mut part = || {
        let (&length, behind) = rest.split_first()?;
        let (part, behind) = behind.split_at_checked(usize::from(length))?;
        rest = behind;
        Some((part.to_vec(), behind.is_empty()))
    };
    let (name, _) = part()?;
    let (lookout, mut is_last) = part()?;
    let mut handles = Vec::new();
    while !is_last {
        let (handle, last) = part()?;
        handles.push(Handle::new(&handle).ok()?);
        is_last = last;
    }
    Some(Said {
        name: String::from_utf8(name).ok()?,
        lookout: Handle::new(&lookout).ok()?,
        handles,
    })
}

/// What a communicator on several nodes has besides memory.
pub(super) struct Network {
    /// Connections to ranks on other nodes.
    pub links: Arc<Links>,
    /// This rank is the lookout of its node.
    lookout: Option<Arc<Lookout>>,
}

impl Network {
    /// Whether sockets carry the data.
    pub fn is_socket(&self) -> bool {
        self.links.net().name() == SocketNet::NAME
    }

    /// The devices that a rank with so many channels uses, each channel one.
    pub fn rails(&self, channels: usize) -> &[Properties] {
        let devices = self.links.net().devices();
        &devices[..devices.len().min(channels)]
    }

    /// Ends it all: the other nodes are told that this rank has left. Connections that are not
    /// closed yet are given up.
    pub fn close(&self) {
        if let Some(lookout) = &self.lookout {
            lookout.leave();
        }
        if let Ok(service) = service::get() {
            service.dismiss(&(Arc::clone(&self.links) as Arc<dyn Attended>));
        }
        self.links.close(true);
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.close();
    }
}

/// What a rank opens before it knows the others.
struct Opened {
    open: Open,
    post: Option<Post>,
}

/// What a rank knows of the others before the network is open.
pub(super) struct Party<'a> {
    pub bootstrap: &'a dyn Bootstrap,
    pub settings: &'a Settings,
    pub places: &'a [RankPlace],
    pub node: &'a NodeMemory,
    pub nonce: u128,
    /// The network of the communicator that this one is split from.
    pub inherited: Option<Arc<dyn Net>>,
}

impl Party<'_> {
    /// Chooses the network, and says which and why. The program's MPI is opened where the ranks met
    /// through it, or taken over from the parent.
    fn network(&self) -> Result<Arc<dyn Net>> {
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
        let choice = choose(self.settings.net(), candidates::all(self.settings, mpi))?;
        tracing::info!("{}", choice.line);
        Ok(choice.net)
    }

    fn mates(&self) -> Vec<Rank> {
        topo::local_ranks(self.bootstrap.rank(), self.places)
    }

    fn open(&self) -> Result<Opened> {
        let layout = *self.node.layout();
        let (me, mates) = (self.bootstrap.rank(), self.mates());
        let is_remote = |place: &RankPlace| !mates.contains(&place.rank);
        // What lookouts say to each other goes over TCP, whatever carries the data.
        let post = match mates.first() == Some(&me) {
            true => {
                let socket = SocketNet::new(SocketOptions::from(self.settings))?;
                Some(Post::new(Arc::new(socket))?)
            }
            false => None,
        };
        let open = Open::new(Setup {
            net: self.network()?,
            source: Box::new(self.node.clone()),
            bell: Box::new(self.node.clone()),
            me,
            channels: layout.channels,
            nonce: self.nonce,
            is_remote: self.places.iter().map(is_remote).collect(),
            slot_bytes: layout.slot_bytes,
            slice: 1,
        })?;
        Ok(Opened { open, post })
    }

    /// Opens the network and makes it known to all ranks, unless all are on one node. Every rank
    /// calls it. `watch` is the
    /// watch over this rank's node, `on_lost` is called when another node is lost.
    ///
    /// # Errors
    /// The own one, or that of another rank that cannot use a network; ranks with different
    /// networks.
    pub fn meet(&self, watch: &Watch, on_lost: OnDeath) -> Result<Option<Network>> {
        if self.mates().len() == self.places.len() {
            return Ok(None);
        }
        let opened = self.open();
        let mine = match &opened {
            Ok(Opened { open, post }) => encode(&Said {
                name: open.net().name().to_string(),
                lookout: match post {
                    Some(post) => post.handle().clone(),
                    None => Handle::new(&[])?,
                },
                handles: open.handles().clone(),
            }),
            Err(_) => Vec::new(),
        };
        let said = self.bootstrap.all_gather(&mine);
        let Opened { open, post } = opened?;
        let said = self.heard(open.net().name(), &said?)?;
        let lookout = match post {
            Some(post) => Some(self.look_out(post, &said, watch, on_lost)?),
            None => None,
        };
        let handles = said.into_iter().map(|said| said.handles).collect();
        let links = Arc::new(open.links(handles));
        // Where only threads of the program may use the network, they accept as they wait.
        if links.net().any_thread() {
            service::get()?.attend(Arc::clone(&links) as Arc<dyn Attended>);
        }
        Ok(Some(Network { links, lookout }))
    }

    /// What all ranks said, if all use the network `name`.
    fn heard(&self, name: &str, said: &[Vec<u8>]) -> Result<Vec<Said>> {
        let understood = (0..).map(Rank).zip(said).map(|(rank, said)| {
            let host = &self.places[rank.index()].host;
            let Some(said) = decode(said) else {
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
        watch.heed(Arc::new(move |why| {
            let Some(lookout) = heeding.upgrade() else {
                return;
            };
            match why {
                Alarm::Abort => lookout.tell_abort(),
                Alarm::Ask => lookout.ask(),
            }
        }));
        Ok(lookout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rank_says_arrives() {
        let handle = |bytes: &[u8]| Handle::new(bytes).unwrap();
        for count in 0..=2 {
            let said = Said {
                name: "socket".into(),
                lookout: handle(&[7; 128][..128 * count.min(1)]),
                handles: [handle(&[1, 2, 3]), handle(&[9; 128])][..count].to_vec(),
            };
            let bytes = encode(&said);
            assert_eq!(decode(&bytes), Some(said));
            assert_eq!(decode(&bytes[..bytes.len() - 1]), None, "{count}");
        }
        assert_eq!(decode(&[]), None);
    }
}
