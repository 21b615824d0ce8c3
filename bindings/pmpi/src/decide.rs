//! Whether kolo takes a call: the one decision, the same on all ranks.
//!
//! A call that some ranks gave to kolo and others to MPI would wait for ever. So whatever is looked
//! at here is the same on all ranks by MPI's own rules: what was agreed at the start, the
//! communicator and what was called on it before, and of the call only what MPI wants equal. Never
//! looked at: pointers, MPI_IN_PLACE, how types lie in memory, root-only arguments elsewhere, time.
//! This file knows no MPI, so that a test can draw a million calls (tests/dropin.rs).

pub use crate::mpi_calls::{LeftSizes, MpiCollective as Collective, SIZES, UNKNOWN};

/// Types by what is the same for C's and Fortran's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    Integer,
    Unsigned,
    Floating,
    Complex,
    Logical,
    Bytes,
    Pair,
    Other,
}

/// The elements of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    /// None: a derived type.
    pub class: Option<Class>,
    /// Bytes of one, its padding included.
    pub bytes: usize,
    pub count: u64,
    /// MPI's own sum or product, the only operations whose bits hang on the order.
    pub sums: bool,
    /// An operation of the program that does not commute: it folds in the order of ranks.
    pub ordered: bool,
}

/// The size of a call, as far as all ranks know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Nothing.
    Unknown,
    /// Bytes of one contribution, or of all together where these differ.
    Bytes(u64),
    Elements(Elements),
}

impl Size {
    /// Whether the call is a reduction of floats, or of who knows what.
    #[inline]
    pub fn is_of_floats(self) -> bool {
        use Class::{Complex, Floating};
        matches!(
            self,
            Size::Elements(Elements {
                class: None | Some(Floating | Complex),
                ..
            })
        )
    }
}

/// Communicators by their ranks: 2, up to 4, up to 8 and so on, all of more in the last one.
pub const RANKS: usize = 8;

/// Calls that stay with MPI, though kolo could take them: bits by collective and ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Left(pub [[u64; RANKS]; Collective::COUNT]);

impl Left {
    pub const NONE: Left = Left([[0; RANKS]; Collective::COUNT]);

    /// Those but for these calls, whatever the number of ranks.
    pub fn without(mut self, named: &[u64; Collective::COUNT]) -> Left {
        for (by_ranks, named) in self.0.iter_mut().zip(named) {
            by_ranks.iter_mut().for_each(|bits| *bits &= !named);
        }
        self
    }

    /// Bits that hold for any number of ranks.
    pub fn of_all_ranks(bits: LeftSizes) -> Left {
        Left(bits.map(|bits| [bits; RANKS]))
    }

    /// The place of so many ranks.
    #[inline]
    pub fn place(nranks: u32) -> usize {
        (nranks.max(2) - 1).ilog2().min(RANKS as u32 - 1) as usize
    }

    /// The bit of a size.
    #[inline]
    pub fn bit(size: Size) -> u32 {
        match size {
            Size::Unknown => UNKNOWN,
            Size::Bytes(bytes) => bytes.max(1).ilog2().min(SIZES - 1),
            Size::Elements(elements) => {
                let bytes = elements.count.saturating_mul(elements.bytes as u64);
                bytes.max(1).ilog2().min(SIZES - 1)
            }
        }
    }

    #[inline]
    pub fn has(&self, collective: Collective, nranks: u32, size: Size) -> bool {
        self.0[collective as usize][Left::place(nranks)] >> Left::bit(size) & 1 != 0
    }
}

/// When a communicator is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attach {
    /// When so many collectives have begun on it before.
    After(u64),
    /// When those before would have taken longer than attaching takes.
    Earned,
}

/// Who runs collectives of communicators whose ranks are on several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Across {
    /// MPI.
    Stays,
    /// Kolo, with its own network between the nodes.
    Kolo,
    /// Kolo on each node, and MPI between the nodes.
    Levels,
}

/// How the ranks of a communicator lie on nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The most ranks on one node.
    pub most: u32,
    /// The ranks of each node follow each other.
    pub in_order: bool,
}

/// Settings that were agreed at the start: world rank 0's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreement {
    /// Communicators of fewer ranks stay with MPI.
    pub min_ranks: u32,
    pub attach: Attach,
    /// Sums and products of floats stay with MPI.
    pub float_sums_stay: bool,
    /// Bits of float sums depend on nothing but the number of ranks, as kolo's then do.
    pub placement: bool,
    pub across: Across,
    pub left: Left,
    /// Those of `left` that stay because MPI is faster.
    pub faster: Left,
}

impl Agreement {
    /// With the calls that the settings leave, and those that MPI was measured to do faster.
    pub fn leaving(self, listed: [u64; Collective::COUNT], faster: Left) -> Agreement {
        let mut left = Left::of_all_ranks(listed);
        let mut only = faster;
        for ((left, faster), listed) in left.0.iter_mut().zip(&mut only.0).zip(listed) {
            for (left, faster) in left.iter_mut().zip(faster) {
                *faster &= !listed;
                *left |= *faster;
            }
        }
        Agreement {
            left,
            faster: only,
            ..self
        }
    }
}

/// Where a communicator stands. It only goes on, from a collective to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its calls are counted.
    Counted,
    Attached,
    /// Never will be.
    Mpi,
}

/// A communicator, as far as all ranks know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub stage: Stage,
    pub nranks: u32,
    pub span: Span,
    /// Collectives that were begun on it.
    pub begun: u64,
    /// Time that those would have taken, in picoseconds.
    pub spent: u64,
}

impl Known {
    /// Whether its ranks are on several nodes.
    pub fn spans(&self) -> bool {
        self.span.most < self.nranks
    }

    /// Whether such a call can be made of calls on each node and between the nodes.
    fn has_levels(&self, collective: Collective, size: Size) -> bool {
        match (collective, size) {
            (Collective::Barrier | Collective::Bcast, _) => true,
            (Collective::Reduce | Collective::Allreduce, Size::Elements(elements)) => {
                self.span.in_order || !elements.ordered
            }
            // MPI's counts and displacements are `int` there.
            (Collective::Allgather, Size::Bytes(bytes)) => {
                let all = bytes.saturating_mul(u64::from(self.nranks));
                self.span.in_order && all <= i32::MAX as u64
            }
            _ => false,
        }
    }
}

/// Why MPI runs a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// The communicator is not attached yet.
    Early,
    /// It has too few ranks, or attaching failed, or it cannot be attached.
    Communicator,
    /// A reduction of a derived type.
    Derived,
    /// A reduction of elements of a size that kolo cannot move as one.
    OddSize,
    /// Sums of floats are to be MPI's.
    FloatSum,
    /// The settings leave this collective to MPI, or calls of this size.
    Left,
    /// MPI was measured to be faster.
    Faster,
    /// The communicator is on several nodes, and this call not made of calls on each of them.
    Across,
}

impl Reason {
    /// How many there are.
    pub const COUNT: usize = 8;
}

/// Who runs a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Kolo runs it.
    Take,
    /// Kolo runs it once the communicator is attached, which is now to be done.
    Attach,
    /// MPI runs it.
    Pass(Reason),
}

/// Attaching takes about as long as this: 1 ms on one node, 20 ms on several.
const ATTACHING: [u64; 2] = [1_000_000_000, 20_000_000_000];

/// A fixed price: 2 microseconds for each doubling of ranks, and 5 GB/s. In picoseconds.
pub fn price(nranks: u32, size: Size) -> u64 {
    let bytes = match size {
        Size::Unknown => 0,
        Size::Bytes(bytes) => bytes,
        Size::Elements(elements) => elements.count.saturating_mul(elements.bytes as u64),
    };
    let steps = u64::from(nranks.next_power_of_two().trailing_zeros());
    (2_000_000 * steps).saturating_add(bytes.saturating_mul(200))
}

/// Decides on a call, and keeps what is known of the communicator afterwards, but for the stage
/// where it is to be attached.
#[inline]
pub fn decide(
    agreed: &Agreement,
    known: &mut Known,
    collective: Collective,
    size: Size,
) -> Decision {
    if known.stage == Stage::Mpi {
        return Decision::Pass(Reason::Communicator);
    }
    if let Some(reason) = stays(agreed, size) {
        return Decision::Pass(reason);
    }
    let bound = agreed.placement && size.is_of_floats();
    if agreed.left.has(collective, known.nranks, size) {
        let why = why_left(agreed, collective, known.nranks, size);
        // What was measured on one node says nothing of several.
        if why != Reason::Faster || !known.spans() && !bound {
            return Decision::Pass(why);
        }
    }
    if bound && known.spans() && agreed.across != Across::Kolo {
        return Decision::Pass(Reason::Across);
    }
    if known.spans() && agreed.across == Across::Levels && !known.has_levels(collective, size) {
        return Decision::Pass(Reason::Across);
    }
    if known.stage == Stage::Attached {
        return Decision::Take;
    }
    let stays = known.spans() && agreed.across == Across::Stays;
    if known.nranks < agreed.min_ranks || stays {
        known.stage = Stage::Mpi;
        return Decision::Pass(Reason::Communicator);
    }
    let earned = match agreed.attach {
        // None may be MPI's.
        _ if bound => true,
        Attach::After(calls) => known.begun >= calls,
        Attach::Earned => known.spent >= ATTACHING[usize::from(known.spans())],
    };
    known.begun += 1;
    known.spent = known.spent.saturating_add(price(known.nranks, size));
    if earned {
        Decision::Attach
    } else {
        Decision::Pass(Reason::Early)
    }
}

#[cold]
fn why_left(agreed: &Agreement, collective: Collective, nranks: u32, size: Size) -> Reason {
    if agreed.faster.has(collective, nranks, size) {
        Reason::Faster
    } else {
        Reason::Left
    }
}

/// Why MPI runs such a call on any communicator.
#[inline]
fn stays(agreed: &Agreement, size: Size) -> Option<Reason> {
    let Size::Elements(elements) = size else {
        return None;
    };
    let Some(class) = elements.class else {
        return Some(Reason::Derived);
    };
    if !matches!(elements.bytes, 1 | 2 | 4 | 8 | 16) {
        return Some(Reason::OddSize);
    }
    let floats = matches!(class, Class::Floating | Class::Complex);
    (agreed.float_sums_stay && elements.sums && floats).then_some(Reason::FloatSum)
}
