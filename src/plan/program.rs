//! A program: one rank's plan as a flat image that every executor reads.
//!
//! **Problem.** A plan is made of vectors, which suit what emits and checks it. An executor wants
//! to walk it without chasing pointers, and a device has to be handed one piece of memory that
//! means the same at any address.
//!
//! **Idea.** [`Program::lower`] writes a finished plan once into one piece of memory: a header, and
//! behind it five parts, each an array of entries of a fixed size. Entries name each other by
//! index, the header names the parts by their distance from its own beginning: the image can be
//! copied anywhere. What binds it to a device (connections, fold functions, buffers, windows)
//! belongs to that device's engine.
//!
//! ```text
//! ProgramHeader 96 B | steps 16 B each | connections 16 B | lanes 16 B | lists 8 B | operands 8 B
//! ```

mod entries;

pub use entries::{
    ALL_OTHERS, ConnectionEntry, ConnectionKind, Extent, LaneEntry, ListEntry, MAGIC, NO_LANE,
    ProgramHeader, VERSION,
};

use super::{ListId, Operand, Plan, Step};
use crate::base::{Error, Result, hash};
use std::mem::offset_of;

/// Unit of which an image is made, so that each part begins where 16-byte entries may.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Aligned([u8; 16]);

/// The plan of one rank, lowered. Cheap to read, never changed.
#[derive(Clone)]
pub struct Program {
    image: Box<[Aligned]>,
}

impl Program {
    /// Lowers a plan, which is complete: its connections are where they stay.
    ///
    /// # Errors
    /// A plan beyond 4 GiB, which no algorithm makes.
    pub fn lower(plan: &Plan) -> Result<Program> {
        let mut laid = Extents::default();
        let lists = (0..plan.lists.len()).map(|number| plan.lists.get(ListId(number as u16)));
        let mut operands = Vec::new();
        let ranges: Vec<ListEntry> = lists
            .map(|list| {
                let first = operands.len() as u32;
                operands.extend_from_slice(list);
                ListEntry {
                    first,
                    count: list.len() as u32,
                }
            })
            .collect();
        let sections: Vec<LaneEntry> = plan
            .lanes
            .iter()
            .map(|lane| LaneEntry {
                first: lane.steps.start as u32,
                count: lane.steps.len() as u32,
                channel: u32::from(lane.channel),
                reserved: 0,
            })
            .collect();
        let header = ProgramHeader {
            steps: laid.part(plan.steps.len(), size_of::<Step>()),
            connections: laid.part(plan.connections.len(), size_of::<ConnectionEntry>()),
            lanes: laid.part(sections.len(), size_of::<LaneEntry>()),
            lists: laid.part(ranges.len(), size_of::<ListEntry>()),
            operands: laid.part(operands.len(), size_of::<Operand>()),
            ..ProgramHeader::of(plan)
        };
        let bytes = laid.bytes.next_multiple_of(size_of::<Aligned>());
        let header = ProgramHeader {
            bytes: u32::try_from(bytes).map_err(|_| too_large(plan, bytes))?,
            ..header
        };
        let mut image = vec![Aligned([0; 16]); bytes / size_of::<Aligned>()].into_boxed_slice();
        put(&mut image, header.steps, &plan.steps);
        put(&mut image, header.connections, &uses(plan));
        put(&mut image, header.lanes, &sections);
        put(&mut image, header.lists, &ranges);
        put(&mut image, header.operands, &operands);
        let whole = Extent { at: 0, count: 1 };
        put(&mut image, whole, &[header]);
        let mut program = Program { image };
        let hash = hash::fnv1a(&program.image()[offset_of!(ProgramHeader, bytes)..]);
        put(
            &mut program.image,
            whole,
            &[ProgramHeader { hash, ..header }],
        );
        Ok(program)
    }

    /// The image: what is copied to where a device reads it, at a place that 16 divides.
    pub fn image(&self) -> &[u8] {
        let bytes = size_of_val::<[Aligned]>(&self.image);
        // SAFETY: an `Aligned` is 16 bytes without gaps; every byte was written, because no entry
        // has gaps.
        unsafe { std::slice::from_raw_parts(self.image.as_ptr().cast(), bytes) }
    }

    /// The header, at the beginning.
    #[inline]
    pub fn header(&self) -> &ProgramHeader {
        // SAFETY: `lower`, which alone makes programs, wrote a header there; the image is aligned
        // for it, and has room for more than one.
        unsafe { &*self.image.as_ptr().cast::<ProgramHeader>() }
    }

    /// The entries of a part.
    ///
    /// # Safety
    /// `part` is one of the header, and `T` what `lower` wrote there.
    #[inline]
    unsafe fn entries<T>(&self, part: Extent) -> &[T] {
        // SAFETY: our caller's promise: as many entries of that type were written there, at a
        // place inside of the image that their size, and so their alignment, divides.
        unsafe {
            let first = self.image.as_ptr().cast::<u8>().add(part.at as usize);
            std::slice::from_raw_parts(first.cast(), part.count as usize)
        }
    }

    /// Steps of all lanes.
    #[inline]
    pub fn steps(&self) -> &[Step] {
        // SAFETY: that part was written with steps.
        unsafe { self.entries(self.header().steps) }
    }

    /// Connections; operands name them by index.
    #[inline]
    pub fn connections(&self) -> &[ConnectionEntry] {
        // SAFETY: that part was written with uses.
        unsafe { self.entries(self.header().connections) }
    }

    /// Lanes, in order of channels.
    #[inline]
    pub fn lanes(&self) -> &[LaneEntry] {
        // SAFETY: that part was written with sections.
        unsafe { self.entries(self.header().lanes) }
    }

    /// The operands of a list, in order.
    #[inline]
    pub fn list(&self, id: ListId) -> &[Operand] {
        // SAFETY: those parts were written with ranges and with operands.
        let (lists, operands) = unsafe {
            let header = self.header();
            (
                self.entries::<ListEntry>(header.lists),
                self.entries::<Operand>(header.operands),
            )
        };
        let ListEntry { first, count } = lists[usize::from(id.0)];
        &operands[first as usize..][..count as usize]
    }

    /// The steps of a lane.
    #[inline]
    pub fn lane_steps(&self, lane: usize) -> &[Step] {
        let LaneEntry { first, count, .. } = self.lanes()[lane];
        &self.steps()[first as usize..][..count as usize]
    }

    /// Steps executed by one round of a lane, repetitions counted (a packed step counts once).
    pub fn lane_steps_per_round(&self, lane: usize) -> u64 {
        let steps = self.lane_steps(lane).iter();
        steps.map(|step| u64::from(step.tokens())).sum()
    }

    /// Modulus of chunk numbers.
    #[inline]
    pub fn chunks(&self) -> u32 {
        self.header().chunks
    }

    /// Chunks in the largest token.
    #[inline]
    pub fn pieces(&self) -> u32 {
        self.header().pieces
    }

    /// Chunks of scratch memory that each lane has.
    #[inline]
    pub fn scratch(&self) -> u32 {
        self.header().scratch
    }
}

/// Lays one part behind the other.
struct Extents {
    bytes: usize,
}

impl Default for Extents {
    fn default() -> Extents {
        Extents {
            bytes: size_of::<ProgramHeader>(),
        }
    }
}

impl Extents {
    fn part(&mut self, count: usize, entry_bytes: usize) -> Extent {
        // Too large an image is refused when all parts are laid.
        let part = Extent {
            at: self.bytes as u32,
            count: count as u32,
        };
        self.bytes += count * entry_bytes;
        part
    }
}

/// The connections of a plan, each with its lane.
fn uses(plan: &Plan) -> Vec<ConnectionEntry> {
    let mut uses: Vec<ConnectionEntry> =
        plan.connections.iter().map(ConnectionEntry::from).collect();
    for lane in 0..plan.lanes.len() {
        for step in plan.lane_steps(lane) {
            let lists = [step.srcs, step.dsts].map(|list| plan.lists.get(list));
            let operands = lists.into_iter().flatten();
            for index in operands.filter_map(Operand::as_connection) {
                uses[index].lane = lane as u32;
            }
        }
    }
    uses
}

/// Writes the entries of a part.
fn put<T: Copy>(image: &mut [Aligned], part: Extent, entries: &[T]) {
    let bytes = size_of_val::<[T]>(entries);
    assert!(
        entries.len() == part.count as usize
            && part.at as usize + bytes <= size_of_val::<[Aligned]>(image)
    );
    // SAFETY: the bytes lie inside of the image, which is ours alone; `T` has no destructor.
    unsafe {
        let place = image.as_mut_ptr().cast::<u8>().add(part.at as usize);
        entries
            .as_ptr()
            .cast::<u8>()
            .copy_to_nonoverlapping(place, bytes);
    }
}

#[cold]
fn too_large(plan: &Plan, bytes: usize) -> Error {
    Error::usage(
        format!(
            "the plan of rank {} for {:?} by {} takes {bytes} bytes, more than 4 GiB",
            plan.shape.rank,
            plan.shape.collective,
            plan.shape.algorithm.name()
        ),
        "choose another algorithm with KOLO_ALGO",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Algorithm, Collective, Emitter, Layout, Shape};

    fn plan(root: u32) -> Plan {
        let shape = Shape {
            collective: Collective::Broadcast,
            algorithm: Algorithm::Ring,
            rank: 1,
            nranks: 3,
            root,
            channels: 2,
        };
        let mut e = Emitter::new(shape, 3, Layout::Blocks);
        for channel in 0..2 {
            let (from, to) = (e.lane(channel).from(0), e.lane(channel).to(2));
            e.recv_copy_send(from, to, 0);
        }
        e.finish()
    }

    /// The hash covers the content alone, and the content whole.
    #[test]
    fn equal_plans_have_equal_hashes() {
        let hash = |plan: &Plan| Program::lower(plan).expect("a program").header().hash;
        let first = plan(0);
        assert_eq!(hash(&first), hash(&first.clone()));
        assert_ne!(hash(&first), hash(&plan(2)), "another root");
        for at in 0..first.steps.len() {
            let mut other = first.clone();
            other.steps[at].chunk += 1;
            assert_ne!(hash(&first), hash(&other), "another step {at}");
        }
    }

    /// Nothing in an image names an address: a copy reads the same where it lies.
    #[test]
    fn an_image_may_be_copied() {
        let program = Program::lower(&plan(0)).expect("a program");
        let copy = program.clone();
        let (there, here) = (program.image().as_ptr(), copy.image().as_ptr());
        assert_ne!(there, here);
        assert_eq!(program.image(), copy.image());
        let mut scribbled = program;
        scribbled.image.fill(Aligned([0xff; 16]));
        drop(scribbled);
        assert_eq!(copy.steps(), plan(0).steps);
        assert_eq!(copy.header().bytes as usize, copy.image().len());
    }
}
