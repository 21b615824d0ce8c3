//! The members of one color of a split, as a bootstrap.

use crate::base::{Rank, Result};
use crate::bootstrap::{Bootstrap, ContributionList};
use crate::comm::calling::enqueue;
use crate::comm::calling::group;
use crate::comm::queue::Queue;
use crate::comm::{Call, Collective, RedOp};
use crate::dtype::DataType;
use std::sync::Arc;

/// The members of one color, as a bootstrap. They exchange messages of the parent among
/// themselves, so a color that fails does not hold up the others.
pub(in crate::comm) struct OverParent<'a> {
    pub parent: &'a Arc<Queue>,
    /// Ranks of the parent, in the order of the child.
    pub members: Vec<u32>,
    pub me: u32,
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
            result = result.and(unsafe { enqueue::enqueue(self.parent, &send, None) });
            // SAFETY: as above.
            result = result.and(unsafe { enqueue::enqueue(self.parent, &recv, None) });
        }
        result.and(group::end())
    }
}

impl OverParent<'_> {
    fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        if self.parent.network.is_some() {
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
        let result = unsafe { enqueue::enqueue(self.parent, &send, None) };
        // SAFETY: as above.
        let result = result.and(unsafe { enqueue::enqueue(self.parent, &recv, None) });
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

    fn all_gather(&self, mine: &[u8]) -> Result<ContributionList> {
        self.gather(mine).map(ContributionList::from)
    }

    fn broadcast(&self, root: Rank, data: &mut Vec<u8>) -> Result<()> {
        let mine = if self.rank() == root {
            data.as_slice()
        } else {
            &[]
        };
        *data = self.gather(mine)?.swap_remove(root.index());
        Ok(())
    }

    fn barrier(&self) -> Result<()> {
        self.all_gather(&[]).map(|_| ())
    }
}
