//! Verdict of the checker: a report of what it proved, or a counterexample.

use crate::plan::{Link, ListId, Plan, dump};
use std::fmt;
use std::fmt::Write;

/// A connection in words.
pub(super) fn link_text(link: Link) -> String {
    match link {
        Link::Pair {
            writer,
            reader,
            channel,
        } => format!("connection {writer}->{reader} of channel {channel}"),
        Link::Fan { writer } => format!("the fan of rank {writer}"),
        Link::Cast {
            writer,
            channel,
            readers,
        } => match readers.place() {
            0 => format!("the cast of rank {writer} on channel {channel}"),
            place => format!("cast {place} of rank {writer} on channel {channel}"),
        },
    }
}

/// How the bytes of a token reach the reader. Packed tokens always use slots: their pieces lie
/// apart in user memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Form {
    /// Copied into a slot when they are published.
    Slot,
    /// The reader reads the writer's user buffer when it consumes the token: the source of a copy
    /// from user memory, else the output that the step writes too. The region stays published
    /// until the token is released. A copy of the *input* that is scaled must use slots unless the
    /// scale is one.
    DirectRead,
    /// The writer writes into the reader's output when it publishes. If the reader's step is
    /// scaled, it must use slots unless the scale is one.
    DirectWrite,
}

impl Form {
    /// The form in messages.
    pub fn name(self) -> &'static str {
        match self {
            Form::Slot => "slot",
            Form::DirectRead => "direct read",
            Form::DirectWrite => "direct write",
        }
    }
}

/// A verdict for both ways a call may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Placement {
    /// Input and output are different memory.
    pub out_of_place: bool,
    /// Input and output coincide.
    pub in_place: bool,
}

/// Which steps may be direct: a set of (plan, step, form, in place).
///
/// Any mixture of allowed steps is safe together with slots for the others. A step is in the set
/// for a form if *all* connections it writes may have that form, in all its repetitions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forms {
    start: Vec<usize>,
    /// Low half: the step may be direct. High half: the step has memory that could be.
    bits: Vec<u8>,
}

fn bit(form: Form, in_place: bool) -> u8 {
    match (form, in_place) {
        (Form::Slot, _) => 0,
        (Form::DirectRead, false) => 1,
        (Form::DirectRead, true) => 2,
        (Form::DirectWrite, false) => 4,
        (Form::DirectWrite, true) => 8,
    }
}

impl Forms {
    pub(super) fn new(steps: impl Iterator<Item = usize>) -> Forms {
        let mut start = vec![0];
        start.extend(steps.scan(0, |sum, steps| {
            *sum += steps;
            Some(*sum)
        }));
        let bits = vec![0x0f; start[start.len() - 1]];
        Forms { start, bits }
    }

    pub(super) fn refuse(&mut self, plan: usize, step: usize, form: Form, in_place: bool) {
        self.bits[self.start[plan] + step] &= !bit(form, in_place);
    }

    pub(super) fn refuse_in_place(&mut self) {
        let in_place = bit(Form::DirectRead, true) | bit(Form::DirectWrite, true);
        self.bits.iter_mut().for_each(|bits| *bits &= !in_place);
    }

    /// Notes that a repetition of the step could have the form.
    pub(super) fn offer(&mut self, plan: usize, step: usize, form: Form, in_place: bool) {
        self.bits[self.start[plan] + step] |= bit(form, in_place) << 4;
    }

    pub(super) fn is_open(&self, plan: usize, step: usize, form: Form, in_place: bool) -> bool {
        self.bits[self.start[plan] + step] & bit(form, in_place) != 0
    }

    /// Whether what step `step` (an index into [`Plan::steps`]) of plan `plan` (the rank, for
    /// collectives) publishes may have this form.
    pub fn allows(&self, plan: usize, step: usize, form: Form, in_place: bool) -> bool {
        let wanted = bit(form, in_place) | bit(form, in_place) << 4;
        self.bits[self.start[plan] + step] & wanted == wanted
    }

    /// All (plan, step) that may have this form.
    pub fn steps(&self, form: Form, in_place: bool) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.start.len().saturating_sub(1)).flat_map(move |plan| {
            (0..self.start[plan + 1] - self.start[plan])
                .filter(move |&step| self.allows(plan, step, form, in_place))
                .map(move |step| (plan, step))
        })
    }

    /// Whether there are steps that could have this form, and all of them may.
    pub(super) fn all(&self, form: Form, in_place: bool) -> bool {
        let (may, could) = (bit(form, in_place), bit(form, in_place) << 4);
        let mut candidates = self.bits.iter().filter(|&&b| b & could != 0).peekable();
        candidates.peek().is_some() && candidates.all(|b| b & may != 0)
    }
}

/// Facts that were proved.
#[derive(Clone, Debug)]
pub struct Report {
    /// The least capacity, in tokens, that does not deadlock: one for each slice count of the
    /// options. 0 where nothing is exchanged. One token fewer was seen to deadlock.
    pub least_tokens: Vec<u32>,
    /// Every fold of a final value has ranks 0..n in order (true if nothing is folded).
    pub rank_ordered: bool,
    /// Whether all steps that publish user memory may be read directly.
    pub direct_read_ok: Placement,
    /// Whether all steps whose reader copies to its output may write there directly.
    pub direct_write_ok: Placement,
    /// Whether the call may be made in place with slots.
    pub in_place_ok: bool,
    /// Steps of one round on all ranks, repetitions counted.
    pub events: u64,
    /// Which steps may be direct.
    pub forms: Forms,
    /// The first conflict of each form that some step may not have, and of slots in place.
    pub refusals: Vec<Refusal>,
}

/// Why a form is not allowed for all steps.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The form.
    pub form: Form,
    /// Whether input and output coincide.
    pub in_place: bool,
    /// Fault that would follow.
    pub because: Counterexample,
}

impl Report {
    /// Why some step may not have this form, if so.
    pub fn refusal(&self, form: Form, in_place: bool) -> Option<&Counterexample> {
        self.refusals
            .iter()
            .find(|refusal| (refusal.form, refusal.in_place) == (form, in_place))
            .map(|refusal| &refusal.because)
    }
}

/// A fault, with the place where it shows.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// The rank.
    pub rank: u32,
    /// The lane of its plan.
    pub lane: usize,
    /// The step of the lane.
    pub step: usize,
    /// Sentence about the fault. It names the other side where there is one.
    pub message: String,
    /// The plan around the step.
    pub context: String,
}

/// Steps shown before and after the faulty one.
const AROUND: usize = 2;
/// Columns of a step in a context.
const COLUMNS: usize = 120;

impl Counterexample {
    pub(super) fn new(
        plan: &Plan,
        rank: u32,
        lane: usize,
        step: usize,
        message: String,
    ) -> Counterexample {
        Counterexample {
            rank,
            lane,
            step,
            message,
            context: context(plan, lane, step),
        }
    }
}

fn context(plan: &Plan, lane: usize, step: usize) -> String {
    let shape = &plan.shape;
    let mut text = format!(
        "  {} {} of {} ranks, root {}, {} channels; rank {}, lane {lane}:\n",
        shape.collective.name(),
        shape.algorithm.name(),
        shape.nranks,
        shape.root,
        shape.channels,
        shape.rank,
    );
    let steps = plan.lanes.get(lane).map(|lane| lane.steps.clone());
    let Some(steps) = steps.and_then(|range| plan.steps.get(range)) else {
        return text;
    };
    let first = step.saturating_sub(AROUND);
    for (number, shown) in steps.iter().enumerate().skip(first).take(2 * AROUND + 1) {
        if ![shown.srcs, shown.dsts]
            .into_iter()
            .all(|list| is_known(plan, list))
        {
            continue;
        }
        let mark = if number == step { '>' } else { ' ' };
        let line = dump::step_text(plan, shown);
        let cut: String = line.chars().take(COLUMNS).collect();
        let dots = if cut.len() < line.len() { " ..." } else { "" };
        let _ = writeln!(text, "  {mark} {number:>3}  {cut}{dots}");
    }
    text
}

/// Whether a list can be shown: a faulty plan may name lists and connections that do not exist.
fn is_known(plan: &Plan, list: ListId) -> bool {
    usize::from(list.0) < plan.lists.len() && {
        let mut used = plan
            .lists
            .get(list)
            .iter()
            .filter_map(|o| o.as_connection());
        used.all(|connection| connection < plan.connections.len())
    }
}

impl fmt::Display for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Counterexample {
            rank, lane, step, ..
        } = self;
        write!(
            f,
            "rank {rank}, lane {lane}, step {step}: {}\n{}",
            self.message, self.context
        )
    }
}

impl std::error::Error for Counterexample {}
