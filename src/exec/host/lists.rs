//! The places of one fold, kept from step to step so that none allocates.

use super::launch::Launch;
use crate::dtype::FoldParams;
use crate::exec::reach::Base;
use crate::plan::{Operand, POST_SCALE, PRE_SCALE, Protocol, Space, Step, StepOp};

/// The places of one fold, kept so that no step allocates.
#[derive(Default)]
pub struct Lists {
    pub srcs: Vec<*const u8>,
    pub dsts: Vec<*mut u8>,
    pub pieces: Pieces,
    pub private: Private,
}

/// The lists of a packed step while its pieces are done.
#[derive(Default)]
pub struct Pieces {
    /// Where the payload of each connection operand begins, sources first.
    pub slots: Vec<Option<*mut u8>>,
    /// Where the pieces at hand begin, for each operand.
    pub first: Vec<*mut u8>,
    /// Where the next piece lies.
    pub next: Vec<*mut u8>,
}

/// The lists of a fold of fetched sources.
#[derive(Default)]
pub struct Private {
    /// Which sources those are: place in the list, rank, number of the buffer.
    pub sources: Vec<(usize, usize, usize)>,
    /// The places of the piece at hand.
    pub srcs: Vec<*const u8>,
    pub dsts: Vec<*mut u8>,
}

/// Has source number `index` of a fold scaled. Plans of many ranks fold more sources than a mask
/// has bits, and the own input stands where its rank does.
#[inline]
fn scale(params: &mut FoldParams, index: usize) {
    if index < 64 {
        params.pre_scale_mask |= 1 << index;
        return;
    }
    debug_assert_eq!(params.pre_scale_beyond, 0, "a rank has one input");
    params.pre_scale_beyond = index;
}

impl Lists {
    /// Folds or copies `count` elements between the places that `place` gives for each source and
    /// then each destination, in order. A null destination is left out.
    ///
    /// # Safety
    /// Each place holds `count` elements of the kernel's type; a destination equals a source or
    /// does not overlap it, or is null.
    #[inline]
    pub unsafe fn fold(
        &mut self,
        step: &Step,
        launch: &Launch,
        count: usize,
        mut place: impl FnMut(&Operand) -> *mut u8,
    ) {
        let plan = &launch.plan;
        let kernel = &launch.kernel;
        let element_bytes = kernel.element_bytes;
        let mut params = kernel.params;
        (params.pre_scale_mask, params.pre_scale_beyond) = (0, 0);
        params.stream_mask = 0;
        let streams = count * element_bytes >= launch.stream_bytes
            && launch.plan.protocol == Protocol::Simple;
        let results_stream = launch.trial.is_some_and(|(trial, _)| trial.streams);
        self.srcs.clear();
        self.dsts.clear();
        for operand in plan.list(step.srcs) {
            let place = place(operand);
            if operand.space == Space::Input && kernel.pre_scaled && step.flags & PRE_SCALE != 0 {
                scale(&mut params, self.srcs.len());
            }
            self.srcs.push(place.cast_const());
        }
        params.divisor = kernel.divisor.filter(|_| step.flags & POST_SCALE != 0);
        let pre_scaled = params.pre_scale_mask != 0 || params.pre_scale_beyond != 0;
        let scaled = params.divisor.is_some() || pre_scaled;
        let copies = step.op == StepOp::Copy && !scaled;
        for operand in plan.list(step.dsts) {
            let place = place(operand);
            let left_out = place.is_null() || (copies && place.cast_const() == self.srcs[0]);
            if !left_out {
                let past_cache = match operand.space {
                    Space::Output => results_stream,
                    _ => streams && launch.plan.is_read_elsewhere(operand),
                };
                // A hint has no room for more destinations.
                if past_cache && self.dsts.len() < 64 {
                    params.stream_mask |= 1 << self.dsts.len();
                }
                self.dsts.push(place);
            }
        }
        if self.dsts.is_empty() {
            return;
        }
        if copies {
            // SAFETY: our caller's promise.
            unsafe { (kernel.copy)(&self.srcs, &self.dsts, count * element_bytes, &params) };
        } else {
            // SAFETY: our caller's promise.
            unsafe { (kernel.fold)(&self.srcs, &self.dsts, count, &params) };
        }
    }

    /// Folds or copies the pieces at hand, `count` elements.
    ///
    /// # Safety
    /// The places that [`Pieces`] has found hold them.
    pub unsafe fn fold_joined(&mut self, step: &Step, launch: &Launch, count: usize) {
        if count == 0 {
            return;
        }
        let places = std::mem::take(&mut self.pieces.first);
        let mut next = places.iter();
        let place = |_: &Operand| *next.next().expect("one place for each operand");
        // SAFETY: our caller's promise; the checker has shown that no piece lies on another's.
        unsafe { self.fold(step, launch, count, place) };
        self.pieces.first = places;
    }
}

impl Pieces {
    pub fn bind(&mut self, slots: impl Iterator<Item = Option<*mut u8>>) {
        self.slots.clear();
        self.slots.extend(slots);
    }

    /// Finds the places of the next piece, which begins `offset` bytes into each slot.
    pub fn locate<'a>(
        &mut self,
        operands: impl Iterator<Item = &'a Operand>,
        offset: usize,
        user: impl Fn(&Operand) -> *mut u8,
    ) {
        self.next.clear();
        let places = self.slots.iter().zip(operands);
        self.next.extend(places.map(|(slot, operand)| match slot {
            Some(slot) => slot.wrapping_add(offset),
            None => user(operand),
        }));
    }

    /// Whether the next piece lies `bytes` behind the beginning of those at hand, everywhere.
    pub fn follow(&self, bytes: usize) -> bool {
        let mut places = self.first.iter().zip(&self.next);
        places.all(|(first, &next)| std::ptr::eq(first.wrapping_add(bytes), next))
    }

    /// The next piece is the first of those at hand.
    pub fn begin(&mut self) {
        std::mem::swap(&mut self.first, &mut self.next);
    }
}

impl Private {
    pub fn clear(&mut self) {
        self.sources.clear();
    }

    /// Notes that the source at `place` lies in this buffer of `rank`, if it must be fetched.
    #[inline(always)]
    pub fn note(&mut self, place: usize, bases: &[[Base; 2]], (rank, buffer): (usize, usize)) {
        if bases[rank][buffer].owner().is_some() {
            self.sources.push((place, rank, buffer));
        }
    }

    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Whether the source at `place` must be fetched: its address says nothing here.
    pub fn has(&self, place: usize) -> bool {
        self.sources.iter().any(|source| source.0 == place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::{self, DataType, ReduceOp};

    /// As ranks of large nodes fold: everybody's input, the own one in its place.
    #[test]
    fn the_own_input_is_scaled_wherever_it_stands() {
        let values: Vec<i64> = (0..300).map(|rank| 7 * rank + 1).collect();
        let srcs: Vec<*const u8> = values
            .iter()
            .map(|value| std::ptr::from_ref(value).cast())
            .collect();
        let fold = dtype::fold(DataType::Int64, ReduceOp::PreMulSum).unwrap();
        for own in [0, 1, 63, 64, 65, 127, 255, 299] {
            let mut params = FoldParams::default();
            params.scalar[..8].copy_from_slice(&1000_i64.to_ne_bytes());
            scale(&mut params, own);
            let mut sum = -1_i64;
            // SAFETY: every source and the result are one element.
            unsafe { fold(&srcs, &[(&raw mut sum).cast()], 1, &params) };
            let expected = values.iter().sum::<i64>() + 999 * values[own];
            assert_eq!(sum, expected, "number {own}");
        }
    }
}
