//! The connections of a node's memory, where their ends ask for them.

use super::{NodeMemory, cast_name, pair_name};
use crate::base::{Error, Result};
use crate::wire::cast::{CastHeader, CastMemory};
use crate::wire::layout::{ENCODINGS, FIRST_BYTES, SMALL_AREA_BYTES};
use crate::wire::ll::LinesMemory;
use crate::wire::pair::PairMemory;
use crate::wire::{Slots, Source};
use std::ops::Range;

impl Source for NodeMemory {
    fn pair(&self, writer: usize, reader: usize, channel: usize) -> Result<PairMemory> {
        self.check(&[writer, reader], channel)?;
        let layout = &self.layout;
        let part = layout.pair(writer, reader, channel);
        let what = || pair_name(writer, reader, channel);
        let home = self.homes.of_pair(writer, reader);
        let base = self.part(&part, FIRST_BYTES, home, &what)?;
        // SAFETY: places in the part, zeroed, mapped while `_owner` lives, which the communicator
        // keeps longer than its connections.
        Ok(unsafe {
            let header = base.add(layout.pair_header(writer, reader, channel));
            let slots = base.add(part.header_bytes);
            PairMemory::new(header.cast(), slots, layout.slot_bytes)
        })
    }

    fn lines(
        &self,
        writer: usize,
        reader: usize,
        channel: usize,
        encoding: usize,
    ) -> Result<LinesMemory> {
        self.check(&[writer, reader], channel)?;
        if encoding >= ENCODINGS {
            return Err(Error::internal("flagged lines of an unknown encoding"));
        }
        let part = self.layout.lines((writer, reader), channel, encoding);
        let what = || pair_name(writer, reader, channel);
        let home = self.homes.of_pair(writer, reader);
        let base = self.part(&part, FIRST_BYTES, home, &what)?;
        // SAFETY: as above; each encoding has a part of its own.
        Ok(unsafe {
            let credit = base.add(self.layout.lines_credit((writer, reader), channel));
            LinesMemory::new(credit.cast(), base.add(part.header_bytes).cast())
        })
    }

    fn cast(&self, writer: usize, channel: usize, cast: usize) -> Result<CastMemory> {
        self.check(&[writer], channel)?;
        let layout = &self.layout;
        let part = layout.cast(writer, channel, cast);
        let name = || cast_name(writer, channel, cast);
        let home = self.homes.of_rank(writer);
        let base = self.part(&part, part.header_bytes, home, &name)?;
        // SAFETY: as above; there is a credit for each rank behind the header.
        Ok(unsafe {
            let credits = base.add(size_of::<CastHeader>()).cast_const();
            let (slots, credits) = (base.add(part.header_bytes), (credits.cast(), layout.ranks));
            CastMemory::new(base.cast(), credits, slots, layout.slot_bytes)
        })
    }

    fn take_small(&self, writer: usize, reader: usize, channel: usize) -> Result<()> {
        self.check(&[writer, reader], channel)?;
        let Some((segment, start)) = &self.parts else {
            return Ok(());
        };
        let part = self.layout.pair(writer, reader, channel);
        let place = (start + part.offset + FIRST_BYTES, SMALL_AREA_BYTES);
        segment.reserve(place, &pair_name(writer, reader, channel))
    }

    fn reserve(&self, slots: Slots, place: Range<usize>) -> Result<u64> {
        let Some((segment, start)) = &self.parts else {
            return Ok(0);
        };
        let (part, area, what) = self.area(slots)?;
        let part_offset = start + part.offset;
        let offset = part_offset + area.start + place.start;
        let place = (offset, place.len());
        let now = self.account.take(place.1);
        let taken = segment.reserve(place, &what);
        taken.inspect_err(|_| self.account.give(place.1))?;
        segment.populate(part_offset, place);
        Ok(now)
    }

    fn give_back(&self, slots: Slots, bytes: usize) -> bool {
        let (Some((segment, start)), Ok((part, area, _))) = (&self.parts, self.area(slots)) else {
            return false;
        };
        let part_offset = start + part.offset;
        let place = (part_offset + area.start, area.len());
        let is_given = segment.give_back(part_offset, place);
        if is_given {
            self.account.give(bytes);
        }
        is_given
    }
}
