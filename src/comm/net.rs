//! The network of a communicator whose ranks are on several nodes.

use crate::base::{Error, Rank, Result};
use crate::bootstrap::Bootstrap;
use crate::config::{self, Settings};
use crate::proxy::net::{Links, Open, Setup};
use crate::transport::net::choose::{Candidate, choose};
use crate::transport::net::socket::{SocketNet, SocketOptions};
use crate::transport::net::{Handle, Net};
use crate::topo::{self, RankPlace};
use crate::transport::node::NodeMemory;
use crate::wire::Carrier;
use std::sync::Arc;

/// Hands over what executors expect.
struct Carried(Arc<Links>);

impl Carrier for Carried {
    #[inline(always)]
    fn is_remote(&self, rank: usize) -> bool {
        self.0.is_remote(rank)
    }

    fn expect(&self, launch: u64, peer: usize, channel: usize, is_send: bool, slots: u64) {
        self.0.expect(launch, (peer, channel), is_send, slots);
    }
}

/// What the executors of this rank use.
pub(super) fn carrier(links: &Arc<Links>) -> Box<dyn Carrier> {
    Box::new(Carried(Arc::clone(links)))
}

fn network(settings: &Settings) -> Result<Arc<dyn Net>> {
    let socket = SocketNet::new(SocketOptions::from(settings));
    let candidates = vec![Candidate {
        kind: config::Net::Socket,
        outcome: match socket {
            Ok(net) => Ok(Arc::new(net)),
            Err(error) => Err(error.what),
        },
    }];
    let choice = choose(settings.net(), candidates)?;
    tracing::info!("{}", choice.line);
    Ok(choice.net)
}

/// Numbers of a rank's handles: how many, and the bytes of each behind its length.
fn encode(name: &str, handles: &[Handle]) -> Vec<u8> {
    let mut bytes = vec![name.len() as u8];
    bytes.extend(name.as_bytes());
    for handle in handles {
        bytes.push(handle.bytes().len() as u8);
        bytes.extend(handle.bytes());
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<(String, Vec<Handle>)> {
    let mut rest = bytes;
    let mut part = || {
        let (&length, behind) = rest.split_first()?;
        let (part, behind) = behind.split_at_checked(usize::from(length))?;
        rest = behind;
        Some((part.to_vec(), behind.is_empty()))
    };
    let (name, mut is_last) = part()?;
    let mut handles = Vec::new();
    while !is_last {
        let (handle, last) = part()?;
        handles.push(Handle::new(&handle).ok()?);
        is_last = last;
    }
    Some((String::from_utf8(name).ok()?, handles))
}

/// Opens the network and makes it known to all ranks. Every rank calls it.
///
/// # Errors
/// The own one, or that of another rank that cannot use a network; ranks with different networks.
pub(super) fn open(
    bootstrap: &dyn Bootstrap,
    settings: &Settings,
    places: &[RankPlace],
    (node, nonce): (&NodeMemory, u128),
) -> Result<Arc<Links>> {
    let layout = *node.layout();
    let me = bootstrap.rank();
    let local = topo::local_ranks(me, places);
    let is_remote = |place: &RankPlace| !local.contains(&place.rank);
    let opened = network(settings).and_then(|net| {
        Open::new(Setup {
            net,
            source: Box::new(node.clone()),
            bell: Box::new(node.clone()),
            me,
            channels: layout.channels,
            nonce,
            is_remote: places.iter().map(is_remote).collect(),
            slot_bytes: layout.slot_bytes,
            slice: 1,
        })
    });
    let mine = match &opened {
        Ok(open) => encode(open.net().name(), open.handles()),
        Err(_) => Vec::new(),
    };
    let said = bootstrap.all_gather(&mine);
    let opened = opened?;
    let name = opened.net().name().to_string();
    let mut handles = Vec::with_capacity(places.len());
    for (rank, said) in (0..).map(Rank).zip(&said?) {
        let host = &places[rank.index()].host;
        let failed = || {
            let what = format!("rank {rank} on {host} cannot use a network between nodes");
            Error::remote(rank, what, "see the message of that rank")
        };
        let (theirs, listed) = decode(said).ok_or_else(failed)?;
        if theirs != name {
            return Err(Error::usage(
                format!("rank {rank} on {host} uses the network `{theirs}`, this rank `{name}`"),
                "set KOLO_NET to one that all nodes have, such as socket",
            )
            .with_peer(rank));
        }
        handles.push(listed);
    }
    Ok(Arc::new(opened.links(handles)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_several_devices_arrive() {
        let handles = [Handle::new(&[1, 2, 3]).unwrap(), Handle::new(&[9; 128]).unwrap()];
        for count in 0..=2 {
            let bytes = encode("socket", &handles[..count]);
            let (name, back) = decode(&bytes).unwrap();
            assert_eq!((name.as_str(), back.as_slice()), ("socket", &handles[..count]));
            assert!(decode(&bytes[..bytes.len() - 1]).is_none(), "{count}");
        }
        assert!(decode(&[]).is_none());
    }
}
