//! Results of a call on this rank, for `KOLO_PMPI=verify`: the elements that it writes, and of a
//! reduction its operation and input.

use crate::arguments::{Folded, Side};
use crate::comms;
use crate::decide::{Class, Stage};
use crate::kinds::{self, Op};
use crate::turn::{Elements, in_place};
use crate::vectors::Blocks;
use mpi::ffi::MPI_Comm;
use std::ffi::{c_int, c_void};

/// The elements that a call writes here.
pub struct Results {
    pub comm: MPI_Comm,
    /// Elements that are put back before MPI runs the call.
    pub restored: Vec<Elements>,
    /// Elements that MPI and kolo must leave alike.
    pub compared: Vec<Elements>,
    pub fold: Option<Fold>,
}

/// The operation of a reduction.
#[derive(Clone, Copy)]
pub struct Fold {
    pub class: Option<Class>,
    pub op: Op,
    /// Elements that this rank contributes.
    pub from: Elements,
    /// Elements that a receive buffer of any rank needs.
    pub room: usize,
}

/// A rank of a communicator, and how many there are.
#[derive(Clone, Copy)]
pub struct Place {
    comm: MPI_Comm,
    rank: usize,
    nranks: usize,
}

impl Place {
    /// # Safety
    /// That of [`comms::of`].
    pub unsafe fn of(comm: MPI_Comm) -> Option<Place> {
        // SAFETY: the caller's promise.
        let state = unsafe { comms::find(comm)? };
        // Between two groups the arguments of a call mean other things.
        (state.known.stage != Stage::Mpi).then_some(Place {
            comm,
            rank: state.rank as usize,
            nranks: state.known.nranks as usize,
        })
    }

    fn is(&self, root: c_int) -> bool {
        usize::try_from(root) == Ok(self.rank)
    }

    fn results(&self, written: Vec<Elements>) -> Option<Results> {
        Some(Results {
            comm: self.comm,
            restored: written.clone(),
            compared: written,
            fold: None,
        })
    }

    /// Nothing but the call itself.
    pub fn nothing(&self) -> Option<Results> {
        self.results(Vec::new())
    }

    /// One buffer.
    pub fn buffer(&self, buffer: &Side) -> Option<Results> {
        self.results(vec![buffer.elements()?])
    }

    /// A block of each rank.
    pub fn blocks(&self, block: &Side) -> Option<Results> {
        let block = block.elements()?;
        self.results(vec![block.part(0, block.count.checked_mul(self.nranks)?)])
    }

    /// A block of each rank, on the root.
    pub fn blocks_on(&self, root: c_int, block: &Side) -> Option<Results> {
        if self.is(root) {
            self.blocks(block)
        } else {
            self.nothing()
        }
    }

    /// A buffer that the root may leave where it lies.
    pub fn unless_in_place(&self, buffer: &Side) -> Option<Results> {
        if in_place(buffer.at) {
            self.nothing()
        } else {
            self.buffer(buffer)
        }
    }

    /// Blocks of different sizes.
    pub fn unequal(&self, blocks: &Blocks) -> Option<Results> {
        self.results(blocks.all().collect())
    }

    /// # Safety
    /// `counts` numbers of the program, see [`Blocks`].
    pub fn unequal_on(
        &self,
        root: c_int,
        blocks: impl FnOnce(usize) -> Option<Blocks>,
    ) -> Option<Results> {
        if self.is(root) {
            self.unequal(&blocks(self.nranks)?)
        } else {
            self.nothing()
        }
    }

    /// How many ranks there are.
    pub fn nranks(&self) -> usize {
        self.nranks
    }

    /// A reduction that takes `sent` elements of each rank and leaves `received` here.
    pub fn folded(&self, call: &Folded, (sent, received): (usize, usize)) -> Option<Results> {
        let kind = kinds::kind(call.datatype)?;
        let inside = in_place(call.send);
        let elements = |at, count: usize| Elements::new(at, count as i64, call.datatype, kind);
        let from = elements(if inside { call.recv } else { call.send }, sent)?;
        let is_missing = |at: *const c_void, count| count > 0 && (at.is_null() || in_place(at));
        if is_missing(from.at, sent) || is_missing(call.recv, received) {
            return None;
        }
        let compared = elements(call.recv, received)?;
        // In place, all that goes in lies where the result will begin.
        let restored = if inside {
            elements(call.recv, sent.max(received))?
        } else {
            compared
        };
        Some(Results {
            comm: self.comm,
            restored: vec![restored],
            compared: vec![compared],
            fold: Some(Fold {
                class: kind.class,
                op: kinds::op(call.op)?,
                from,
                room: sent.max(received),
            }),
        })
    }

    /// One result for all ranks.
    pub fn everywhere(&self, call: &Folded, count: i64) -> Option<Results> {
        let count = usize::try_from(count).ok()?;
        self.folded(call, (count, count))
    }

    /// A result on the root.
    pub fn folded_on(&self, root: c_int, call: &Folded, count: i64) -> Option<Results> {
        let count = usize::try_from(count).ok()?;
        match self.is(root) {
            true => self.folded(call, (count, count)),
            false => {
                let mut results = self.folded(call, (count, 0))?;
                (results.restored, results.compared) = (Vec::new(), Vec::new());
                Some(results)
            }
        }
    }

    /// The ranks below this one; the first has nothing of it.
    pub fn before_this(&self, call: &Folded, count: i64) -> Option<Results> {
        let elements = usize::try_from(count).ok()?;
        let received = if self.rank == 0 { 0 } else { elements };
        let mut results = self.folded(call, (elements, received))?;
        if self.rank == 0 {
            results.compared.clear();
            if !in_place(call.send) {
                results.restored.clear();
            }
        }
        Some(results)
    }

    /// A block of `each` of the result.
    pub fn block_of(&self, call: &Folded, each: &[usize]) -> Option<Results> {
        let sum = |sum: usize, &count: &usize| sum.checked_add(count);
        let all = each.iter().try_fold(0, sum)?;
        self.folded(call, (all, *each.get(self.rank)?))
    }

    /// A block of `count` elements of the result.
    pub fn equal_block(&self, call: &Folded, count: i64) -> Option<Results> {
        let count = usize::try_from(count).ok()?;
        self.folded(call, (count.checked_mul(self.nranks)?, count))
    }
}
