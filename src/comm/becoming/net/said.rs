//! What a rank tells all others about its network.

use crate::base::Rank;
use crate::transport::net::Handle;
use std::collections::BTreeSet;

/// What a rank tells the others.
#[derive(Debug, PartialEq, Eq)]
pub struct Said {
    /// The name of its network.
    pub name: String,
    /// Where the lookout of its node listens, if it is the one; empty if not.
    pub lookout: Handle,
    /// Ranks of its node through which it sends.
    pub proxies: BTreeSet<Rank>,
    /// The device of each port of its node, or [`NO_DEVICE`].
    pub ports: Vec<u8>,
    /// How its devices are reached.
    pub handles: Vec<Handle>,
}

/// Stands for a port that is none of the network's devices.
pub const NO_DEVICE: u8 = u8::MAX;

/// All parts in a row, each behind its length.
pub fn encode(said: &Said) -> Vec<u8> {
    let mut bytes = Vec::new();
    let handles = said.handles.iter().map(Handle::bytes);
    let proxies = said.proxies.iter().flat_map(|rank| rank.0.to_le_bytes());
    let proxies: Vec<u8> = proxies.collect();
    let first = [
        said.name.as_bytes(),
        said.lookout.bytes(),
        &proxies,
        &said.ports,
    ];
    for part in first.into_iter().chain(handles) {
        bytes.push(part.len() as u8);
        bytes.extend(part);
    }
    bytes
}

pub fn decode(bytes: &[u8]) -> Option<Said> {
    let mut rest = bytes;
    let mut part = || {
        let (&length, behind) = rest.split_first()?;
        let (part, behind) = behind.split_at_checked(usize::from(length))?;
        rest = behind;
        Some((part.to_vec(), behind.is_empty()))
    };
    let (name, _) = part()?;
    let (lookout, _) = part()?;
    let (proxies, _) = part()?;
    let (ports, mut is_last) = part()?;
    let proxies = proxies
        .chunks(4)
        .map(|rank| Some(Rank(u32::from_le_bytes(rank.try_into().ok()?))));
    let mut handles = Vec::new();
    while !is_last {
        let (handle, last) = part()?;
        handles.push(Handle::new(&handle).ok()?);
        is_last = last;
    }
    Some(Said {
        name: String::from_utf8(name).ok()?,
        lookout: Handle::new(&lookout).ok()?,
        proxies: proxies.collect::<Option<_>>()?,
        ports,
        handles,
    })
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
                proxies: (0..count as u32).map(|rank| Rank(rank * 300)).collect(),
                lookout: handle(&[7; 128][..128 * count.min(1)]),
                ports: vec![1, NO_DEVICE, 0][..count].to_vec(),
                handles: [handle(&[1, 2, 3]), handle(&[9; 128])][..count].to_vec(),
            };
            let bytes = encode(&said);
            assert_eq!(decode(&bytes), Some(said));
            assert_eq!(decode(&bytes[..bytes.len() - 1]), None, "{count}");
        }
        assert_eq!(decode(&[]), None);
    }
}
