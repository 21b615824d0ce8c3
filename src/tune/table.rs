//! The table of choices: [collective][size class], filled once at init, read in every call.

use super::allowed::COLLECTIVES;
use super::decided::{Decided, MARGIN};
use super::direct::{MOST_RANKS, least_bytes, paying};
use super::form::{CallForm, FormFacts};
use super::grid::{CLASSES, Cell, Grid, NOTHING, class_of};
use super::inputs::Inputs;
use super::mend::mend;
use super::predict::Predictor;
use super::usual::Usual;
use super::{Asked, Choice, ProtocolChoice, messages, placement};
use crate::algo::{self, Entry, REGISTRY};
use crate::plan::{Algorithm, Collective};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// A possible choice, for `kolo explain`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Algorithm, protocol and channels.
    pub choice: Choice,
    /// Expected time in nanoseconds.
    pub time_ns: f64,
    /// Whether the time comes from a measurement.
    pub measured: bool,
}

/// Small calls that are messages, of one collective.
#[derive(Clone, Copy, Debug)]
struct SmallMessages {
    /// Most bytes plus 1.
    limit: usize,
    /// The choice of all of them.
    choice: Choice,
    /// Their form where nothing else is in flight.
    form: CallForm,
}

/// The bound choices of one communicator.
#[derive(Clone, Debug)]
pub struct Table {
    inputs: Inputs,
    predictor: Predictor,
    forms: FormFacts,
    /// Most bytes (of a rank's contribution) for the one-shot path, plus 1.
    oneshot_limit: [usize; COLLECTIVES],
    /// Size classes, as bits, in which direct reads may pay.
    direct: [u64; COLLECTIVES],
    /// Small calls that are messages.
    messages: [SmallMessages; COLLECTIVES],
    grid: Grid,
}

/// Tables that a process remembers.
const REMEMBERED: usize = 16;

static BOUND: Mutex<VecDeque<Table>> = Mutex::new(VecDeque::new());

impl Table {
    /// Returns the table of these inputs, from memory if the process has bound it before. Pricing
    /// everything takes milliseconds, and programs make many communicators that are alike.
    pub fn remembered(inputs: Inputs) -> Table {
        // Ranks that are threads ask at the same time: one binds it, the others wait for that.
        let mut known = BOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = known.iter().find(|table| table.inputs == inputs) {
            return table.clone();
        }
        let table = Table::new(inputs);
        known.truncate(REMEMBERED - 1);
        known.push_front(table.clone());
        table
    }

    /// Binds the choices: a pure function of its inputs.
    pub fn new(inputs: Inputs) -> Table {
        let nodes = inputs.setting.machine.nodes;
        let mut table = Table {
            forms: FormFacts::new(inputs.nranks, nodes, inputs.compares),
            oneshot_limit: [0; COLLECTIVES],
            direct: [0; COLLECTIVES],
            messages: [SmallMessages {
                limit: 0,
                choice: Choice::plain(Collective::Send, Algorithm::Bundle, 1),
                form: CallForm::Bundle,
            }; COLLECTIVES],
            grid: Grid::new(),
            predictor: Predictor::of(&inputs.setting),
            inputs,
        };
        for collective in Collective::ALL {
            let mut row = [NOTHING; CLASSES];
            for (class, cell) in row.iter_mut().enumerate() {
                *cell = table.best(collective, 1 << class);
            }
            table.grid.set_row(collective, row);
        }
        mend(&mut table.grid, table.inputs.nranks);
        for collective in Collective::ALL {
            table.direct[collective as usize] =
                paying(&table.inputs, &table.predictor, &table.grid, collective);
        }
        for collective in Collective::ALL {
            table.oneshot_limit[collective as usize] = table.bound_oneshot(collective);
        }
        for collective in Collective::ALL {
            let usual = |bytes| {
                let is_oneshot =
                    messages::has_small_way(collective) && table.is_oneshot(collective, bytes);
                (!is_oneshot).then(|| table.choose(collective, bytes))
            };
            let bound = messages::bound(collective, table.inputs.nranks, usual);
            if let Some((limit, choice)) = bound {
                let form = table
                    .forms
                    .of_messages(&Asked::plain(collective, limit - 1));
                let known = &mut table.messages[collective as usize];
                (known.limit, known.choice, known.form) = (limit, choice, form);
            }
        }
        table
    }

    /// Whether the one-shot path is taken.
    #[inline(always)]
    pub fn is_oneshot(&self, collective: Collective, bytes: usize) -> bool {
        bytes < self.oneshot_limit[collective as usize]
    }

    /// The choice of a small call that is messages, and its form where nothing else is in flight,
    /// if it is one of those that are known without a look at the grid.
    #[inline(always)]
    pub fn as_messages(&self, collective: Collective, bytes: usize) -> Option<(Choice, CallForm)> {
        let known = &self.messages[collective as usize];
        (bytes < known.limit).then_some((known.choice, known.form))
    }

    /// Whether a call of this size asks where the buffers of all ranks lie. If they can be reached
    /// there, [`algo::direct`] is what runs.
    pub fn may_be_direct(&self, collective: Collective, bytes: usize) -> bool {
        let inputs = &self.inputs;
        let Some(algorithm) = algo::direct(collective) else {
            return false;
        };
        inputs.direct
            && inputs.setting.machine.nodes <= 1
            && (2..=MOST_RANKS).contains(&inputs.nranks)
            && bytes >= least_bytes(inputs, collective, algorithm)
            && self.direct[collective as usize] >> class_of(bytes) & 1 == 1
            && placement::keeps_bits(inputs, collective, algorithm)
            && (inputs.allowed).allows(collective, algorithm, ProtocolChoice::Simple)
    }

    /// Chooses for a rank's contribution of `bytes`.
    #[inline]
    pub fn choose(&self, collective: Collective, bytes: usize) -> Choice {
        if self.inputs.nranks == 1 {
            return Choice::plain(collective, Algorithm::Local, 1);
        }
        let row = &self.grid.rows[collective as usize];
        let mut class = class_of(bytes);
        if self.is_oneshot(collective, bytes) {
            let plain = Choice::plain(collective, Algorithm::OneShot, 1);
            let protocol = match row[class].algorithm {
                Algorithm::OneShot => row[class].protocol,
                _ => plain.protocol,
            };
            return Choice { protocol, ..plain };
        }
        let limit = self.oneshot_limit[collective as usize];
        let past_limit = limit > 0 && class == class_of(limit - 1);
        if row[class].algorithm == Algorithm::OneShot
            && (past_limit || bytes > self.most_of_oneshot(collective))
        {
            // The class begins with sizes that go the one-shot way, and this is not one of them.
            class = (class + 1).min(CLASSES - 1);
        }
        let cell = &row[class];
        Choice {
            algorithm: cell.algorithm,
            channels: self.channels(cell.channels, bytes, cell.multiple),
            protocol: cell.protocol,
            composed: cell.composed,
        }
    }

    /// An algorithm that must be, over its usual protocol if the user lets it.
    fn must(&self, collective: Collective, algorithm: Algorithm) -> Choice {
        let inputs = &self.inputs;
        let plain = Choice::plain(collective, algorithm, 1);
        let mut possible = ProtocolChoice::possible(collective, algorithm, inputs.nranks);
        let allowed = possible.find(|&over| inputs.allowed.allows_protocol(collective, over));
        Choice {
            protocol: allowed.unwrap_or(plain.protocol),
            ..plain
        }
    }

    /// Chooses where contributions must be folded in the order of ranks: `tests/plans.rs` holds
    /// that these algorithms do, for every number of ranks.
    pub fn choose_ordered(&self, collective: Collective, bytes: usize) -> Choice {
        let choice = self.choose(collective, bytes);
        let keeps_order = matches!(choice.algorithm, Algorithm::OneShot | Algorithm::Local);
        if !choice.composed && (keeps_order || collective.is_scan()) {
            return choice;
        }
        let shares = collective == Collective::AllReduce && self.inputs.nranks <= MOST_RANKS;
        let algorithm = if shares {
            Algorithm::TwoShot
        } else {
            Algorithm::Ordered
        };
        self.must(collective, algorithm)
    }

    /// Chooses a way in which a fold has few sources, whatever the number of ranks.
    pub fn choose_large(&self, collective: Collective, bytes: usize) -> Choice {
        let algorithm = match collective.is_scan() {
            true => self.usual().scan(bytes),
            false => Algorithm::Ring,
        };
        self.must(collective, algorithm)
    }

    /// Chooses for contributions that are scaled when they are read, so that all ranks have the
    /// same bits.
    pub fn choose_agreeing(&self, collective: Collective, bytes: usize, usual: Choice) -> Choice {
        let Some(other) = placement::agreeing(collective, usual.algorithm) else {
            return usual;
        };
        let mut over = ProtocolChoice::possible(collective, other, self.inputs.nranks);
        if over.any(|over| self.inputs.allowed.allows(collective, other, over)) {
            self.must(collective, other)
        } else {
            self.choose_large(collective, bytes)
        }
    }

    /// Chooses for contributions that are scaled when they are read, where bits depend on nothing
    /// but the number of ranks. `many`: a fold cannot scale so many sources.
    pub fn choose_scaled(&self, collective: Collective, bytes: usize, many: bool) -> Choice {
        match placement::of_scaled(collective, many) {
            Some(algorithm) => self.must(collective, algorithm),
            None => self.choose(collective, bytes),
        }
    }

    /// The time that the table expects, in nanoseconds; infinite where nothing computes the
    /// collective.
    pub fn expected_ns(&self, collective: Collective, bytes: usize) -> f64 {
        self.cell(collective, bytes).time_ns
    }

    /// The cell of a size.
    pub fn cell(&self, collective: Collective, bytes: usize) -> &Cell {
        &self.grid.rows[collective as usize][class_of(bytes)]
    }

    /// The first size that the one-shot path does not take; 0 where it is never taken.
    pub fn oneshot_limit(&self, collective: Collective) -> usize {
        self.oneshot_limit[collective as usize]
    }

    /// The facts that decide the forms of calls.
    #[inline(always)]
    pub fn forms(&self) -> &FormFacts {
        &self.forms
    }

    /// The inputs it was made from.
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// Everything that may run, fastest first.
    pub fn candidates(&self, collective: Collective, bytes: usize) -> Vec<Candidate> {
        self.found(collective, bytes, &|_, _| true)
    }

    /// Of everything that may run what is chosen from: flagged lines, which won nowhere where they
    /// were measured by hand, need a measurement, or a user who rules slots out.
    fn eligible(&self, collective: Collective, bytes: usize) -> Vec<Candidate> {
        let inputs = &self.inputs;
        let has_slots = (inputs.allowed).allows_protocol(collective, ProtocolChoice::Simple);
        self.found(collective, bytes, &|entry, over| {
            let way = (entry.algorithm, over);
            let measured = || inputs.measured.time_ns(collective, way, bytes).is_some();
            !over.is_lines() || !has_slots || measured()
        })
    }

    fn found(
        &self,
        collective: Collective,
        bytes: usize,
        counts: &dyn Fn(&Entry, ProtocolChoice) -> bool,
    ) -> Vec<Candidate> {
        let inputs = &self.inputs;
        let meant = |entry: &Entry| inputs.nranks <= entry.most_ranks;
        let usual = |entry: &Entry, over| over == ProtocolChoice::of(collective, entry.algorithm);
        let allowed = |entry: &Entry, over| {
            meant(entry)
                && inputs.allowed.allows(collective, entry.algorithm, over)
                && counts(entry, over)
        };
        // Where the user allows nothing that computes this collective at this size, or nothing is
        // meant for so many ranks, what is there has to do.
        let mut found = self.among(collective, bytes, &allowed);
        if found.is_empty() {
            found = self.among(collective, bytes, &|entry, over| {
                meant(entry) && usual(entry, over)
            });
        }
        if found.is_empty() {
            let folds = inputs.reproducible && collective.reduces();
            found = self.among(collective, bytes, &|entry, over| {
                (folds || entry.algorithm == Algorithm::Ring) && usual(entry, over)
            });
        }
        found.sort_by(|a, b| a.time_ns.total_cmp(&b.time_ns));
        found
    }

    fn among(
        &self,
        collective: Collective,
        bytes: usize,
        takes: &dyn Fn(&Entry, ProtocolChoice) -> bool,
    ) -> Vec<Candidate> {
        let nranks = self.inputs.nranks;
        let entries = REGISTRY.iter().filter(|entry| {
            entry.collective == collective
                && placement::keeps_bits(&self.inputs, collective, entry.algorithm)
                && self.can_carry(entry, bytes)
        });
        let ways = entries.flat_map(|entry| {
            let possible = ProtocolChoice::possible(collective, entry.algorithm, nranks);
            possible.map(move |over| (entry, over))
        });
        let taken = ways.filter(|(entry, over)| takes(entry, *over));
        taken
            .map(|(entry, over)| self.candidate(entry, over, bytes))
            .collect()
    }

    fn candidate(&self, entry: &Entry, protocol: ProtocolChoice, bytes: usize) -> Candidate {
        let inputs = &self.inputs;
        let (collective, algorithm) = (entry.collective, entry.algorithm);
        let way = (algorithm, protocol);
        let measured = inputs.measured.time_ns(collective, way, bytes);
        let channels = measured.map_or(0, |(_, channels)| channels);
        let choice = Choice {
            algorithm,
            channels: self.channels(channels, bytes, entry.channels),
            protocol,
            composed: false,
        };
        // Without a closed form an algorithm runs where nothing else does.
        let expected = || self.predictor.time_ns(collective, &choice, bytes);
        let known = measured.map(|(time_ns, _)| time_ns);
        let time_ns = known.or_else(expected).unwrap_or(f64::MAX);
        let sound = time_ns.is_finite() && time_ns > 0.0;
        Candidate {
            choice,
            time_ns: if sound { time_ns } else { f64::MAX },
            measured: measured.is_some(),
        }
    }

    /// Whether the algorithm can move so many bytes at all, between all ranks.
    fn can_carry(&self, entry: &Entry, bytes: usize) -> bool {
        let (setting, n) = (&self.inputs.setting, self.inputs.nranks);
        let nodes = setting.machine.nodes;
        let holds = setting.holds((entry.most_pieces)(n, nodes));
        let reaches = holds && (!entry.one_memory || nodes <= 1);
        reaches && (entry.most_rounds == 0 || bytes <= self.most_in_token(entry))
    }

    /// Most bytes of a rank's contribution that go with one token of a fan.
    fn most_in_token(&self, entry: &Entry) -> usize {
        self.inputs.setting.eager_bytes / entry.blocks_in_token(self.inputs.nranks)
    }

    /// Most bytes of a contribution on the one-shot way of a collective.
    fn most_of_oneshot(&self, collective: Collective) -> usize {
        let entry = crate::algo::find(collective, Algorithm::OneShot);
        entry.map_or(0, |entry| self.most_in_token(entry))
    }

    fn best(&self, collective: Collective, bytes: usize) -> Cell {
        let mut candidates = self.eligible(collective, bytes);
        let limit = self.built_in_limit(collective);
        let default = self.usual().algorithm(collective, bytes, limit);
        if default != Algorithm::OneShot && !self.inputs.allowed.is_restricted(collective) {
            // Beyond the limit one-shot needs a measurement.
            candidates.retain(|c| c.measured || c.choice.algorithm != Algorithm::OneShot);
        }
        let is_default = |c: &&Candidate| c.choice.algorithm == default;
        let over = ProtocolChoice::of(collective, default);
        let usual = candidates
            .iter()
            .find(|c| is_default(c) && c.choice.protocol == over);
        // Where the user does not allow its protocol, another one has to do.
        let usual = usual.or_else(|| candidates.iter().find(is_default));
        // What was measured to be fastest, or what kolo has always used, stands ...
        let standing = candidates.iter().find(|c| c.measured).or(usual);
        // ... until an estimate is much better; but where kolo's choice was measured, or one-shot
        // asked for by the user, estimates do not count.
        let asked = self.inputs.eager_limit.is_some() && default == Algorithm::OneShot;
        let by_hand = asked || self.usual().is_by_hand(collective, default);
        let (chosen, decided) = match (standing, candidates.first()) {
            (Some(standing), _) if by_hand && !standing.measured => (standing, Decided::ByHand),
            (Some(standing), Some(fastest)) => {
                let ratio = standing.time_ns / fastest.time_ns;
                match (ratio > MARGIN, standing.measured) {
                    (true, _) => (fastest, Decided::Faster(ratio, standing.choice.algorithm)),
                    (false, true) => (standing, Decided::Measured),
                    (false, false) => (standing, Decided::Usual(ratio)),
                }
            }
            (None, Some(fastest)) => (
                fastest,
                Decided::least(self.inputs.reproducible && collective.reduces()),
            ),
            _ => return NOTHING,
        };
        Cell {
            algorithm: chosen.choice.algorithm,
            protocol: chosen.choice.protocol,
            channels: match chosen.measured {
                true => chosen.choice.channels,
                false => 0,
            },
            multiple: crate::algo::find(collective, chosen.choice.algorithm)
                .map_or(1, |entry| entry.channels),
            composed: false,
            mended: false,
            measured: chosen.measured,
            time_ns: chosen.time_ns,
            decided,
        }
    }

    fn usual(&self) -> Usual {
        let inputs = &self.inputs;
        Usual {
            nranks: inputs.nranks,
            one_node: inputs.setting.machine.nodes == 1,
            oversubscribed: inputs.oversubscribed,
        }
    }

    /// Most bytes for which one-shot is the default.
    fn built_in_limit(&self, collective: Collective) -> usize {
        let inputs = &self.inputs;
        let limit = self.usual().oneshot_limit(collective);
        let limit = inputs.eager_limit.unwrap_or(limit);
        limit.min(self.most_of_oneshot(collective))
    }

    /// Channels for a call: `wanted`, or by its size, in multiples of what the algorithm asks for.
    fn channels(&self, wanted: u16, bytes: usize, multiple: u16) -> u16 {
        let (least, most) = (self.inputs.channels.0.max(1), self.inputs.channels.1.max(1));
        let channels = match wanted {
            0 => (bytes / self.inputs.channel_bytes.max(1)).min(usize::from(most)) as u16,
            wanted => wanted,
        };
        let channels = channels.clamp(least, most);
        // Halves of an odd number are not alike.
        let multiple = multiple.clamp(1, most);
        channels
            .next_multiple_of(multiple)
            .min(most / multiple * multiple)
    }

    /// The first size that the one-shot path does not take.
    fn bound_oneshot(&self, collective: Collective) -> usize {
        let has_entry = crate::algo::find(collective, Algorithm::OneShot).is_some();
        if self.inputs.nranks == 1 || !has_entry {
            return 0;
        }
        let row = &self.grid.rows[collective as usize];
        let taken = |cell: &&Cell| cell.algorithm == Algorithm::OneShot && !cell.composed;
        let classes = row.iter().take_while(taken).count();
        if classes == 0 {
            return 0;
        }
        let most = self.most_of_oneshot(collective);
        let exact = self.built_in_limit(collective);
        let only = self.inputs.allowed.is_restricted(collective)
            || collective == Collective::Barrier
            || self.inputs.measured.knows(collective, Algorithm::OneShot);
        // Without a measurement the limit is that of the bytes read, not of a class.
        let limit = match only {
            true => (1usize << classes).saturating_sub(1).min(most),
            false => exact.min((1usize << classes).saturating_sub(1)),
        };
        limit + 1
    }
}
