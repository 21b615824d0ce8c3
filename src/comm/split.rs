//! Splitting a communicator: messages of the parent are the bootstrap of its children.
//!
//! A rank whose arguments are wrong says so where the others show their colors; then all ranks of
//! the parent hear why, and none is left waiting in a child that cannot be made.

use super::{Call, Collective, CommConfig, Communicator, RedOp, group, init};
use crate::base::{Error, Rank, Result};
use crate::bootstrap::{Bootstrap, report};
use crate::dtype::DataType;
use std::sync::Arc;

/// The members of one color, as a bootstrap. They exchange messages of the parent among
/// themselves, so a color that fails does not hold up the others.
struct OverParent<'a> {
    parent: &'a Communicator,
    /// Ranks of the parent, in the order of the child.
    members: Vec<u32>,
    me: u32,
}

/// One message; the caller answers for the buffer.
fn message(collective: Collective, place: *mut u8, bytes: usize, peer: u32) -> Call {
    let (send, recv) = (place.cast_const(), place);
    Call {
        collective,
        send,
        recv,
        count: bytes,
        dtype: DataType::Uint8,
        op: RedOp::SUM,
        peer,
    }
}

impl OverParent<'_> {
    /// Sends `mine` to every other member, and receives into the others' buffers.
    fn exchange(&self, mine: &mut [u8], others: &mut [Vec<u8>]) -> Result<()> {
        group::start();
        let mut result = Ok(());
        for (index, &peer) in self.members.iter().enumerate() {
            if index as u32 == self.me {
                continue;
            }
            let send = message(Collective::Send, mine.as_mut_ptr(), mine.len(), peer);
            let theirs = &mut others[index];
            let recv = message(Collective::Recv, theirs.as_mut_ptr(), theirs.len(), peer);
            // SAFETY: the buffers live until the group has ended, which is below.
            result = result.and(unsafe { self.parent.enqueue(&send, None) });
            // SAFETY: as above.
            result = result.and(unsafe { self.parent.enqueue(&recv, None) });
        }
        result.and(group::end())
    }
}

impl OverParent<'_> {
    /// Passes everything on around a ring: where ranks are on several nodes, not everyone should
    /// need a connection with everyone.
    fn around_the_ring(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let (me, n) = (self.me as usize, self.members.len());
        let mut all = vec![Vec::new(); n];
        all[me] = mine.to_vec();
        for step in 1..n {
            let (passed, awaited) = ((me + n - step + 1) % n, (me + n - step) % n);
            let mut length = (all[passed].len() as u64).to_le_bytes();
            let mut theirs = [0; 8];
            self.pass_on(&mut length, &mut theirs)?;
            let mut arrived = vec![0; u64::from_le_bytes(theirs) as usize];
            let mut block = std::mem::take(&mut all[passed]);
            self.pass_on(&mut block, &mut arrived)?;
            all[passed] = block;
            all[awaited] = arrived;
        }
        Ok(all)
    }

    /// Sends to the next member while receiving from the one before.
    fn pass_on(&self, mine: &mut [u8], theirs: &mut [u8]) -> Result<()> {
        let (me, n) = (self.me as usize, self.members.len());
        let (next, before) = (self.members[(me + 1) % n], self.members[(me + n - 1) % n]);
        let send = message(Collective::Send, mine.as_mut_ptr(), mine.len(), next);
        let recv = message(Collective::Recv, theirs.as_mut_ptr(), theirs.len(), before);
        group::start();
        // SAFETY: the buffers live until the group has ended, which is below.
        let result = unsafe { self.parent.enqueue(&send, None) };
        // SAFETY: as above.
        let result = result.and(unsafe { self.parent.enqueue(&recv, None) });
        result.and(group::end())
    }
}

impl Bootstrap for OverParent<'_> {
    fn rank(&self) -> Rank {
        Rank(self.me)
    }

    fn nranks(&self) -> u32 {
        self.members.len() as u32
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        if self.parent.inner.network.is_some() {
            return self.around_the_ring(mine);
        }
        let mut length = (mine.len() as u64).to_le_bytes();
        let mut lengths = vec![vec![0; 8]; self.members.len()];
        self.exchange(&mut length, &mut lengths)?;
        let mut all: Vec<Vec<u8>> = lengths
            .iter()
            .map(|bytes| {
                let length = bytes.as_slice().try_into().map_or(0, u64::from_le_bytes);
                vec![0; length as usize]
            })
            .collect();
        let mut own = mine.to_vec();
        self.exchange(&mut own, &mut all)?;
        all[self.me as usize] = own;
        Ok(all)
    }

    fn broadcast(&self, root: Rank, data: &mut Vec<u8>) -> Result<()> {
        let mine = if self.rank() == root {
            data.as_slice()
        } else {
            &[]
        };
        *data = self.all_gather(mine)?.swap_remove(root.index());
        Ok(())
    }

    fn barrier(&self) -> Result<()> {
        self.all_gather(&[]).map(|_| ())
    }
}

/// What a rank asks for: whether it has a color, the color, the key, whether it was refused.
fn gather_colors(parent: &Communicator, mine: [u32; 4]) -> Result<Vec<[u32; 4]>> {
    let mut all = vec![[0u32; 4]; parent.nranks() as usize];
    let call = Call {
        collective: Collective::AllGather,
        send: mine.as_ptr().cast(),
        recv: all.as_mut_ptr().cast(),
        count: mine.len(),
        dtype: DataType::Uint32,
        op: RedOp::SUM,
        peer: 0,
    };
    // SAFETY: both buffers live through this blocking call, and `all` has a block for each rank.
    unsafe { parent.enqueue(&call, None)? };
    Ok(all)
}

/// Tells all ranks of `parent` why some were refused.
///
/// # Errors
/// Always: the own reason, or that of the lowest refused rank.
fn share_refusals(parent: &Communicator, all: &[[u32; 4]], mine: Option<&Error>) -> Result<()> {
    let everybody = OverParent {
        parent,
        members: (0..parent.nranks()).collect(),
        me: parent.rank(),
    };
    let report = mine.map_or(Vec::new(), report::encode);
    let reports = everybody.all_gather(&report)?;
    if let Some(error) = mine {
        return Err(error.clone());
    }
    let first = all.iter().position(|shown| shown[3] != 0).unwrap_or(0);
    let place = format!(" on {}", parent.inner.place(first as u32));
    Err(report::decode(Rank(first as u32), &place, &reports[first]))
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
pub(super) fn split(
    parent: &Communicator,
    color: Option<u32>,
    key: i32,
    config: &CommConfig,
) -> Result<Option<Communicator>> {
    if group::active() {
        return Err(Error::usage(
            "CommSplit inside a group",
            "split before GroupStart or after GroupEnd",
        ));
    }
    let mine = [
        u32::from(color.is_some()),
        color.unwrap_or(0),
        key as u32,
        u32::from(config.refused.is_some()),
    ];
    let all = gather_colors(parent, mine)?;
    if all.iter().any(|shown| shown[3] != 0) {
        share_refusals(parent, &all, config.refused.as_ref())?;
    }
    if color.is_none() {
        return Ok(None);
    }
    let mut members: Vec<(i32, u32)> = (0u32..)
        .zip(&all)
        .filter(|(_, shown)| shown[..2] == mine[..2])
        .map(|(rank, shown)| (shown[2] as i32, rank))
        .collect();
    members.sort_unstable();
    let members: Vec<u32> = members.into_iter().map(|(_, rank)| rank).collect();
    let me = members
        .iter()
        .position(|&rank| rank == parent.rank())
        .unwrap_or(0) as u32;
    let means = init::Means {
        idle: parent.inner.idle.clone(),
        net: parent.inner.links().map(|links| Arc::clone(links.net())),
    };
    let config = &with_orders_of_its_own(config);
    init::over(
        &OverParent {
            parent,
            members,
            me,
        },
        config,
        means,
    )
    .map(Some)
}
