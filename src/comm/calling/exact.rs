//! Exact sums between ranks: [`RedOp::SUM_EXACT`], and sums of whole local arrays.
//!
//! **Problem.** The sum of a float and another one is rounded; a correctly rounded sum over ranks
//! needs more than one float of each.
//!
//! **Idea.** The elements become limbs ([`crate::dtype::exact::wire`]), and the limbs go through
//! an ordinary integer sum of the same collective: any plan, any order, nothing is rounded. Only
//! the tokens' signature is that of the call itself, so that ranks that disagree are told so.
//!
//! A few sums travel whole, in one hand-over. A longer vector is worked off in blocks of
//! [`BLOCK`] elements: a maximum of bytes agrees on each element's window, and only the limbs
//! inside of the windows are summed ([`crate::dtype::exact::window`]), [`MOST_WORDS`] at a time.
//! The memory for it belongs to the communicator, is bounded, and is made once.

use super::call::{Call, Collective};
use super::checked::Checked;
use super::handles::RedOp;
use super::summable::part_type;
use super::whole::{format, most_whole};
use crate::dtype::exact::Summand;
use crate::dtype::exact::window::{BOUND_BYTES, Bounds};
use crate::dtype::exact::wire::Format;
use crate::dtype::{DataType, ReduceOp};

/// Elements whose windows are agreed on at once.
const BLOCK: usize = 16 << 10;
/// Words of limbs that are summed at once.
const MOST_WORDS: usize = 64 << 10;

/// Memory of a communicator for exact sums: at most 64 KiB and 512 KiB.
#[derive(Default)]
pub(in crate::comm) struct Scratch {
    bounds: Vec<u8>,
    pub words: Vec<i64>,
}

/// A call in the numbers that its elements consist of; ranks still show the call itself.
pub(super) fn in_parts(checked: &Checked) -> Checked {
    let (dtype, parts) = part_type(checked.call.dtype).unwrap_or((checked.call.dtype, 1));
    let call = Call {
        dtype,
        count: checked.call.count * parts,
        ..checked.call
    };
    Checked {
        call,
        ..checked.clone()
    }
}

/// Makes the call that moves `count` numbers from and to `place` instead of the elements.
fn instead(
    checked: &Checked,
    collective: Collective,
    (dtype, op): (DataType, ReduceOp),
    (place, count): (*mut u8, usize),
) -> Checked {
    let call = Call {
        collective,
        send: place,
        recv: place,
        count,
        dtype,
        op: RedOp::SUM,
        peer: checked.call.peer,
    };
    Checked {
        call,
        bytes: count * dtype.size_bytes(),
        signature: checked.signature,
        past: checked.past,
        number: checked.number,
        op: Some(op),
        made: None,
        parts: None,
    }
}

/// A kind of launch that an exact sum makes.
pub struct ExactLaunch {
    /// Name of the data that travel, for a person.
    pub what: &'static str,
    /// How.
    pub collective: Collective,
    /// Bytes of a rank, at most.
    pub bytes: usize,
}

/// Lists the kinds of launches of an exact sum, without making them.
#[doc(hidden)]
pub fn exact_launches(
    collective: Collective,
    dtype: DataType,
    count: usize,
    nranks: u32,
) -> Vec<ExactLaunch> {
    let (dtype, parts) = part_type(dtype).unwrap_or((dtype, 1));
    let (count, format) = (count.saturating_mul(parts), format(dtype, nranks));
    let launch = |what, collective, bytes| ExactLaunch {
        what,
        collective,
        bytes,
    };
    if count <= most_whole(&format) {
        let bytes = count * format.words() * size_of::<i64>();
        return vec![launch("whole sums", collective, bytes)];
    }
    let block = BLOCK.min(count);
    let words = MOST_WORDS.min(block * format.words());
    vec![
        launch(
            "windows of each block",
            Collective::AllReduce,
            block * BOUND_BYTES,
        ),
        launch("limbs inside of them", collective, words * size_of::<i64>()),
    ]
}

const LIMB_SUM: (DataType, ReduceOp) = (DataType::Int64, ReduceOp::Sum);
const BOUND_MAX: (DataType, ReduceOp) = (DataType::Uint8, ReduceOp::Max);

pub(super) fn sum_words(checked: &Checked, words: &mut [i64]) -> Checked {
    let place = (words.as_mut_ptr().cast(), words.len());
    instead(checked, checked.call.collective, LIMB_SUM, place)
}

/// Elements of a call, in the type that they have.
///
/// # Safety
/// `first` is the address of `count` elements of type `T` that nobody writes meanwhile.
unsafe fn elements<'a, T>(first: *const u8, count: usize) -> &'a [T] {
    // SAFETY: the caller's promise; the call's check has looked at the alignment.
    unsafe { std::slice::from_raw_parts(first.cast(), count) }
}

/// Writes whole sums of elements.
///
/// # Safety
/// As [`elements`].
pub(super) unsafe fn encode<T: Summand>(
    format: &Format,
    first: *const u8,
    count: usize,
    words: &mut [i64],
) {
    // SAFETY: passed on.
    let terms = unsafe { elements::<T>(first, count) };
    for (term, words) in terms.iter().zip(words.chunks_mut(format.words())) {
        format.encode(*term, words);
    }
}

/// Writes the values of whole sums to `to`.
///
/// # Safety
/// `to` has room for as many elements, and nobody else touches it.
pub(super) unsafe fn decode<T: Summand>(format: &Format, words: &[i64], to: *mut u8) {
    for (index, words) in words.chunks(format.words()).enumerate() {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<T>().add(index).write(format.decode(words)) };
    }
}

/// Writes the bounds of elements; see [`elements`].
unsafe fn bound<T: Summand>(format: &Format, first: *const u8, count: usize, bounds: &mut [u8]) {
    // SAFETY: passed on.
    let terms = unsafe { elements::<T>(first, count) };
    for (term, bytes) in terms.iter().zip(bounds.chunks_mut(BOUND_BYTES)) {
        bytes.copy_from_slice(&Bounds::of(format, *term).bytes());
    }
}

/// The bounds of elements, as all ranks know them.
fn windows(bounds: &[u8]) -> impl Iterator<Item = Bounds> {
    let whole = bounds.as_chunks::<BOUND_BYTES>().0;
    whole.iter().map(|&bytes| Bounds::from_bytes(bytes))
}

/// Writes the limbs of elements that lie in their windows; see [`elements`].
unsafe fn encode_windows<T: Summand>(
    format: &Format,
    first: *const u8,
    bounds: &[u8],
    words: &mut [i64],
) {
    // SAFETY: passed on.
    let terms = unsafe { elements::<T>(first, bounds.len() / BOUND_BYTES) };
    let mut at = 0;
    for (term, window) in terms.iter().zip(windows(bounds)) {
        let end = at + window.width(format);
        window.encode(format, *term, &mut words[at..end]);
        at = end;
    }
}

/// Writes the values of windows to `to`, which has room for them.
unsafe fn decode_windows<T: Summand>(format: &Format, bounds: &[u8], words: &[i64], to: *mut u8) {
    let mut at = 0;
    for (index, window) in windows(bounds).enumerate() {
        let end = at + window.width(format);
        let value: T = window.decode(format, &words[at..end]);
        // SAFETY: the caller's promise.
        unsafe { to.cast::<T>().add(index).write(value) };
        at = end;
    }
}

/// Calls one of the generic functions above with the type of a call.
macro_rules! typed {
    ($dtype:expr, $function:ident($($argument:expr),*)) => {
        match $dtype {
            DataType::Float32 => $function::<f32>($($argument),*),
            _ => $function::<f64>($($argument),*),
        }
    };
}
pub(super) use typed;

/// Stage in which an exact sum is.
enum Stage {
    /// Nothing yet, or a block is finished.
    Between,
    /// All sums, whole.
    Whole,
    /// The windows of a block.
    Bounds,
    /// The limbs of some elements of a block: from, to.
    Limbs(usize, usize),
}

/// An exact sum on its way through the queue: what to do when the launches so far have ended.
pub(in crate::comm) struct Exact {
    checked: Checked,
    format: Format,
    /// Whole sums that are there already, instead of elements.
    made: Option<Vec<i64>>,
    /// Elements whose results are in place, before the present block.
    finished: usize,
    /// Elements of the present block.
    block: usize,
    stage: Stage,
    is_receiver: bool,
}

// SAFETY: the pointers of the call are described, not owned; whoever runs it answers for them.
unsafe impl Send for Exact {}

impl Exact {
    pub fn new(checked: &Checked, (rank, nranks): (u32, u32), made: Option<Vec<i64>>) -> Exact {
        let checked = in_parts(checked);
        let call = &checked.call;
        Exact {
            format: format(call.dtype, nranks),
            made,
            finished: 0,
            block: 0,
            stage: Stage::Between,
            is_receiver: call.collective == Collective::AllReduce || call.peer == rank,
            checked,
        }
    }

    /// The collective that was called.
    pub fn collective(&self) -> Collective {
        self.checked.call.collective
    }

    /// Takes the result of the launch that has ended, and prepares the next one, if there is one.
    ///
    /// # Safety
    /// The buffers of the call hold what it says, and no launch of this call is in flight.
    pub unsafe fn next(&mut self, scratch: &mut Scratch) -> Option<Checked> {
        loop {
            match self.stage {
                Stage::Between if self.finished == self.checked.call.count => return None,
                Stage::Between if self.checked.call.count <= most_whole(&self.format) => {
                    self.stage = Stage::Whole;
                    // SAFETY: passed on.
                    return Some(unsafe { self.begin_whole(scratch) });
                }
                Stage::Between => {
                    // SAFETY: passed on.
                    return Some(unsafe { self.begin_bounds(scratch) });
                }
                Stage::Whole => {
                    // SAFETY: passed on.
                    unsafe { self.end_whole(scratch) };
                }
                Stage::Bounds => self.stage = Stage::Limbs(0, 0),
                Stage::Limbs(from, to) => {
                    // SAFETY: passed on.
                    unsafe { self.end_limbs(scratch, from, to) };
                    if to == self.block {
                        self.finished += self.block;
                        self.stage = Stage::Between;
                        continue;
                    }
                    // SAFETY: passed on.
                    if let Some(next) = unsafe { self.begin_limbs(scratch, to) } {
                        return Some(next);
                    }
                }
            }
        }
    }

    /// The address of an element in a buffer of the call.
    fn at<P>(&self, buffer: *mut P, index: usize) -> *mut P {
        let bytes = index * self.checked.call.dtype.size_bytes();
        buffer.wrapping_byte_add(bytes)
    }

    unsafe fn begin_whole(&mut self, scratch: &mut Scratch) -> Checked {
        let call = self.checked.call;
        let words = &mut scratch.words;
        words.clear();
        match &self.made {
            Some(made) => words.extend_from_slice(made),
            None => {
                words.resize(call.count * self.format.words(), 0);
                // SAFETY: our caller promises the buffers.
                unsafe {
                    typed!(
                        call.dtype,
                        encode(&self.format, call.send, call.count, words)
                    );
                }
            }
        }
        sum_words(&self.checked, words)
    }

    unsafe fn end_whole(&mut self, scratch: &Scratch) {
        let call = self.checked.call;
        if self.is_receiver {
            // SAFETY: our caller promises the buffers.
            unsafe { typed!(call.dtype, decode(&self.format, &scratch.words, call.recv)) };
        }
        self.finished = call.count;
        self.stage = Stage::Between;
    }

    unsafe fn begin_bounds(&mut self, scratch: &mut Scratch) -> Checked {
        let call = self.checked.call;
        self.block = BLOCK.min(call.count - self.finished);
        self.stage = Stage::Bounds;
        let first = self.at(call.send.cast_mut(), self.finished);
        let bounds = &mut scratch.bounds;
        bounds.resize(self.block * BOUND_BYTES, 0);
        // SAFETY: our caller promises the buffers.
        unsafe { typed!(call.dtype, bound(&self.format, first, self.block, bounds)) };
        let place = (bounds.as_mut_ptr(), bounds.len());
        // Every rank must know the windows, whoever gets the sums.
        instead(&self.checked, Collective::AllReduce, BOUND_MAX, place)
    }

    /// Elements from `from` on, as many as have room; nothing to do if none of them has a limb.
    unsafe fn begin_limbs(&mut self, scratch: &mut Scratch, from: usize) -> Option<Checked> {
        let call = self.checked.call;
        let Scratch { bounds, words } = scratch;
        let mut room = MOST_WORDS;
        let bounds = &bounds[from * BOUND_BYTES..];
        let fitting = windows(bounds).take_while(|window| {
            let left = room.checked_sub(window.width(&self.format));
            room = left.unwrap_or(room);
            left.is_some()
        });
        let to = from + fitting.count();
        self.stage = Stage::Limbs(from, to);
        words.resize(MOST_WORDS - room, 0);
        let first = self.at(call.send.cast_mut(), self.finished + from);
        let bounds = &bounds[..(to - from) * BOUND_BYTES];
        // SAFETY: our caller promises the buffers.
        unsafe {
            typed!(
                call.dtype,
                encode_windows(&self.format, first, bounds, words)
            )
        };
        if words.is_empty() {
            return None;
        }
        Some(sum_words(&self.checked, words))
    }

    unsafe fn end_limbs(&mut self, scratch: &Scratch, from: usize, to: usize) {
        let call = self.checked.call;
        let Scratch { bounds, words } = scratch;
        let bounds = &bounds[from * BOUND_BYTES..to * BOUND_BYTES];
        let place = self.at(call.recv, self.finished + from);
        if self.is_receiver {
            // SAFETY: our caller promises the buffers.
            unsafe {
                typed!(
                    call.dtype,
                    decode_windows(&self.format, bounds, words, place)
                )
            };
        }
    }
}
