//! Part (c): every result is made of every contribution exactly once.
//!
//! The network runs on symbols, see [`super::expressions`]. "All ranks fold in the same way" is a
//! comparison of numbers; a fold of two values whose sets of ranks overlap counts a contribution
//! twice; the leaves of a value, read from left to right, tell whether rank order was kept.
//!
//! The pass is made twice: with input and output apart, and in place, where an input chunk and an
//! output chunk are one; a plan that reads its input after the output was written over it is
//! refused there.

use super::expressions::{Expressions, first_bit};
use super::net::{Block, Event, Instance, NONE, Net};
use super::order::Order;
use super::report::Counterexample;
use super::touch::touches;
use crate::plan::places::{has_input, has_output, text};
use crate::plan::{Collective, Layout, Operand, POST_SCALE, PRE_SCALE, Space, Step, StepOp};
use std::collections::{HashMap, VecDeque};

/// A place that nothing has written.
const UNDEFINED: u32 = u32::MAX;

/// One piece of an event.
struct What<'n, 'a> {
    event: &'n Event,
    instance: &'n Instance<'a>,
    step: &'n Step,
    piece: u32,
    /// Chunk number of the piece.
    chunk: u32,
}

struct Pass<'n, 'a> {
    net: &'n Net<'a>,
    block: &'n Block,
    in_place: bool,
    /// First raw leaf of each instance.
    leaf_start: Vec<u32>,
    expressions: Expressions,
    values: Vec<u32>,
    /// The event that wrote a place last, and the number of the chunk that it wrote.
    writers: Vec<u32>,
    written_as: Vec<u32>,
    /// The values of all pieces of all tokens, and where those of each token begin.
    tokens: Vec<u32>,
    token_start: Vec<u32>,
    /// The values of the pieces of the event at hand.
    pieces: Vec<u32>,
    sent: Vec<u32>,
    received: Vec<u32>,
}

/// Proves the values of a block. True: every fold of a result has the ranks in order.
pub(super) fn check(
    net: &Net,
    number: usize,
    order: &Order,
    in_place: bool,
) -> Result<bool, Counterexample> {
    let mut pass = Pass::new(net, &net.blocks[number], in_place);
    for &event in &order.events {
        pass.event(event)?;
    }
    pass.results()
}

impl<'n, 'a> Pass<'n, 'a> {
    fn new(net: &'n Net<'a>, block: &'n Block, in_place: bool) -> Pass<'n, 'a> {
        let instances = block.instances.start as usize..block.instances.end as usize;
        let instances = &net.instances[instances];
        let leaves = |instance: &Instance| instance.places.inputs * instance.places.channels();
        let total: u32 = instances.iter().map(leaves).sum();
        let mut values = vec![UNDEFINED; block.places as usize];
        let mut leaf_start = Vec::with_capacity(instances.len());
        let mut expressions = Expressions::new(total, net.nranks);
        let mut leaf = 0;
        for instance in instances {
            let places = &instance.places;
            leaf_start.push(leaf);
            for channel in 0..places.channels() {
                for chunk in 0..places.inputs {
                    let at = places.at(channel, Space::Input, chunk, in_place);
                    values[at as usize] = leaf;
                    leaf += 1;
                    if instance.plan.shape.collective.reduces() {
                        let key = channel * places.inputs + chunk;
                        expressions.add_scaled_leaf(key, instance.rank);
                    }
                }
            }
        }
        let mut token_start = Vec::with_capacity(block.sends.len());
        let mut payload = 0;
        for &event in block.sends.items() {
            token_start.push(payload);
            payload += net.events[event as usize].pieces;
        }
        Pass {
            net,
            block,
            in_place,
            leaf_start,
            expressions,
            writers: vec![NONE; values.len()],
            written_as: vec![NONE; values.len()],
            values,
            tokens: vec![UNDEFINED; payload as usize],
            token_start,
            pieces: Vec::new(),
            sent: vec![0; net.wires.len()],
            received: vec![0; net.readers as usize],
        }
    }

    fn event(&mut self, number: u32) -> Result<(), Counterexample> {
        let net = self.net;
        let event = &net.events[number as usize];
        let instance = net.instance_of(event);
        let step = &instance.plan.steps[event.step as usize];
        self.pieces.clear();
        self.apart(event, instance, step)
            .map_err(|message| self.fault(number, message))?;
        for piece in 0..event.pieces {
            let what = What {
                event,
                instance,
                step,
                piece,
                chunk: net.piece(event, piece),
            };
            let moved = self.piece(number, &what);
            moved.map_err(|message| self.fault(number, message))?;
        }
        for port in net.srcs(event).iter().filter(|port| !port.keep) {
            self.received[port.reader as usize] += 1;
        }
        for port in net.dsts(event) {
            let sent = &mut self.sent[port.connection as usize];
            let token = self.block.sends.start[port.connection as usize] + *sent;
            let start = self.token_start[token as usize] as usize;
            self.tokens[start..start + self.pieces.len()].copy_from_slice(&self.pieces);
            *sent += 1;
        }
        Ok(())
    }

    /// Folds one piece and writes it to user memory and scratch.
    fn piece(&mut self, number: u32, what: &What<'_, 'a>) -> Result<(), String> {
        let instance = what.instance;
        let value = self.sources(what)?;
        self.pieces.push(value);
        for operand in instance.plan.lists.get(what.step.dsts) {
            if operand.space == Space::Connection {
                continue;
            }
            if operand.space == Space::Output && !has_output(&instance.plan.shape, instance.rank) {
                return Err("writes an output that the call does not have".into());
            }
            let at = self.place(what, operand);
            self.values[at] = value;
            self.writers[at] = number;
            self.written_as[at] = what.chunk;
        }
        Ok(())
    }

    /// The pieces of a token may be done in any order, or many at once: none may be written where
    /// another one is read or written.
    fn apart(&self, event: &Event, instance: &Instance, step: &Step) -> Result<(), String> {
        if event.pieces < 2 {
            return Ok(());
        }
        let lists = &instance.plan.lists;
        let of = |list| {
            let touched = touches(instance, event, self.net, lists.get(list));
            touched.zip((0..event.pieces).cycle())
        };
        let mode = usize::from(self.in_place);
        let writes = of(step.dsts).map(|(touch, piece)| (touch.at[mode], piece));
        let mut writes: Vec<(u32, u32)> = writes.collect();
        writes.sort_unstable();
        for (touch, piece) in of(step.srcs).chain(of(step.dsts)) {
            let at = touch.at[mode];
            let first = writes.partition_point(|&(other, _)| other < at);
            let mut same = writes[first..].iter().take_while(|write| write.0 == at);
            if same.any(|&(_, other)| other != piece) {
                let text = touch.text();
                return Err(format!("packs pieces that lie on each other at {text}"));
            }
        }
        Ok(())
    }

    fn fault(&self, number: u32, message: String) -> Counterexample {
        let place = if self.in_place { "in place, " } else { "" };
        self.net.fault(number, format!("{place}{message}"))
    }

    fn place(&self, what: &What, operand: &Operand) -> usize {
        let lane = &self.net.lanes[what.event.lane as usize];
        let places = &what.instance.places;
        let chunk = places.chunk(operand, what.chunk);
        places.of(
            (lane.number, lane.channel),
            operand.space,
            chunk,
            self.in_place,
        ) as usize
    }

    /// The result of a step: its sources, folded in order, and scaled.
    fn sources(&mut self, what: &What<'_, 'a>) -> Result<u32, String> {
        let (event, instance, step) = (what.event, what.instance, what.step);
        let sources = instance.plan.lists.get(step.srcs);
        let reduces = instance.plan.shape.collective.reduces();
        if step.op == StepOp::Fold && !reduces {
            return Err("folds, and the collective does not reduce".into());
        }
        let mut ports = self.net.srcs(event).iter();
        let mut result = UNDEFINED;
        for (index, operand) in sources.iter().enumerate() {
            let value = match operand.space {
                Space::Connection => {
                    let port = ports.next().expect("one port for each connection operand");
                    let first = self.block.sends.start[port.connection as usize];
                    let token = first + self.received[port.reader as usize];
                    let start = self.token_start[token as usize];
                    self.tokens[(start + what.piece) as usize]
                }
                Space::Input => self.input(what, operand)?,
                Space::Output => self.values[self.place(what, operand)],
                Space::Scratch => self.scratch(what, operand)?,
            };
            if value == UNDEFINED {
                let chunk = instance.places.chunk(operand, what.chunk);
                let place = text(operand.space, chunk);
                return Err(format!("reads {place}, which nothing has written"));
            }
            if reduces && self.expressions.is_raw(value) {
                return Err("reads a contribution from the output without PRE_SCALE".into());
            }
            result = match index {
                0 => value,
                _ => self.expressions.fold(result, value)?,
            };
        }
        match reduces && step.flags & POST_SCALE != 0 {
            true => self.expressions.finish(result),
            false => Ok(result),
        }
    }

    fn scratch(&self, what: &What, operand: &Operand) -> Result<u32, String> {
        let at = self.place(what, operand);
        let (was, is) = (self.written_as[at], what.chunk);
        if was != is && was != NONE && what.instance.plan.layout == Layout::Split {
            let place = text(Space::Scratch, what.instance.places.chunk(operand, is));
            return Err(format!(
                "reads {place} as chunk {is}, and it holds chunk {was}: their lengths differ"
            ));
        }
        Ok(self.values[at])
    }

    fn input(&self, what: &What, operand: &Operand) -> Result<u32, String> {
        let (event, instance, step) = (what.event, what.instance, what.step);
        if !has_input(&instance.plan.shape, instance.rank) {
            return Err("reads an input that the call does not have".into());
        }
        let value = self.values[self.place(what, operand)];
        let chunk = instance.places.chunk(operand, what.chunk);
        let channel = u32::from(self.net.lanes[event.lane as usize].channel);
        if value != self.leaf(instance, channel, chunk) {
            let place = text(Space::Input, chunk);
            let at = self.place(what, operand);
            let writer = self.net.place(self.writers[at]);
            return Err(format!("reads {place} after {writer} has written over it"));
        }
        if !instance.plan.shape.collective.reduces() {
            return Ok(value);
        }
        match step.flags & PRE_SCALE {
            0 => Err("reads its contribution without PRE_SCALE".into()),
            _ => Ok(value + self.expressions.leaves),
        }
    }

    /// The raw leaf of an input chunk.
    fn leaf(&self, instance: &Instance, channel: u32, chunk: u32) -> u32 {
        let start = self.leaf_start[(instance.number - self.block.instances.start) as usize];
        start + channel * instance.places.inputs + chunk
    }

    /// Compares every output with what the collective defines.
    fn results(&self) -> Result<bool, Counterexample> {
        let net = self.net;
        let mut rank_ordered = true;
        let mut sends = Sends::new(net, self.block);
        let mut reference = Vec::new();
        for number in self.block.instances.clone() {
            let instance = &net.instances[number as usize];
            if !has_output(&instance.plan.shape, instance.rank) {
                continue;
            }
            let sender = sends.sender_of(instance);
            let places = &instance.places;
            for channel in 0..places.channels() {
                for chunk in 0..places.outputs {
                    let at = places.at(channel, Space::Output, chunk, self.in_place) as usize;
                    let place = text(Space::Output, chunk);
                    let fault = |message: String| match self.writers[at] {
                        NONE => instance.at_end(message),
                        writer => self.fault(writer, message),
                    };
                    // In place, an input that is already where it belongs need not be written.
                    if self.values[at] == UNDEFINED || (self.writers[at] == NONE && !self.in_place)
                    {
                        return Err(fault(format!("returns, and nothing has written {place}")));
                    }
                    let wanted = self.wanted(instance, sender, channel, chunk);
                    let judged = self.judge(self.values[at], &wanted, &place);
                    rank_ordered &= judged.map_err(fault)?;
                    if instance.plan.shape.collective != Collective::AllReduce {
                        continue;
                    }
                    let position = (channel * places.outputs + chunk) as usize;
                    if position == reference.len() {
                        reference.push(self.values[at]);
                    }
                    if reference[position] != self.values[at] {
                        return Err(fault(format!(
                            "folds {place} in another order than rank 0: the bits may differ"
                        )));
                    }
                }
            }
        }
        Ok(rank_ordered)
    }

    fn wanted(&self, instance: &Instance, sender: Option<u32>, channel: u32, chunk: u32) -> Wanted {
        let shape = &instance.plan.shape;
        let of_rank = |rank: u32| &self.net.instances[(self.block.instances.start + rank) as usize];
        let inputs = instance.places.inputs;
        let leaf = |rank: u32, chunk: u32| Wanted::Leaf(self.leaf(of_rank(rank), channel, chunk));
        match shape.collective {
            Collective::AllReduce | Collective::Reduce => Wanted::Fold(channel * inputs + chunk),
            Collective::ReduceScatter => Wanted::Fold(channel * inputs + instance.rank),
            Collective::Broadcast => leaf(shape.root, chunk),
            Collective::AllGather | Collective::Gather => leaf(chunk, 0),
            Collective::AllToAll => leaf(chunk, instance.rank),
            Collective::Scatter => leaf(shape.root, instance.rank),
            Collective::Scan => Wanted::Prefix(channel * inputs + chunk, instance.rank + 1),
            Collective::Exscan => Wanted::Prefix(channel * inputs + chunk, instance.rank),
            _ => {
                let sender = sender.map(|number| &self.net.instances[number as usize]);
                sender.map_or(Wanted::Nothing, |s| Wanted::Leaf(self.leaf(s, 0, 0)))
            }
        }
    }

    /// Whether a final value is the wanted one; and whether its leaves are in rank order.
    fn judge(&self, value: u32, wanted: &Wanted, place: &str) -> Result<bool, String> {
        let (key, ranks) = match *wanted {
            Wanted::Leaf(leaf) if leaf == value => return Ok(true),
            Wanted::Leaf(leaf) => {
                let (holds, wants) = (self.leaf_text(value), self.leaf_text(leaf));
                return Err(format!("{place} ends as {holds} instead of {wants}"));
            }
            Wanted::Nothing => return Err(format!("{place} has no sender")),
            Wanted::Fold(key) => (key, None),
            Wanted::Prefix(key, ranks) => (key, Some(ranks)),
        };
        if self.expressions.is_raw(value) {
            return Err(format!("{place} is the unscaled input"));
        }
        let node = self.expressions.node(value);
        if node.key != key {
            return Err(format!(
                "{place} ends as chunk {} instead of {key}",
                node.key
            ));
        }
        if let Some(ranks) = ranks {
            return self.judge_prefix(value, ranks, place);
        }
        if node.size < self.net.nranks {
            let set = self.expressions.set(value).iter();
            let missing = first_bit(set.map(|word| !word)).unwrap_or(0);
            return Err(format!("{place} lacks the contribution of rank {missing}"));
        }
        match node.is_final {
            true => Ok(node.is_ordered),
            false => Err(format!("{place} is written without POST_SCALE")),
        }
    }

    /// A scan: the contributions of the first `ranks` ranks and of no other. Nothing is scaled at
    /// the end.
    fn judge_prefix(&self, value: u32, ranks: u32, place: &str) -> Result<bool, String> {
        let held = self.expressions.set(value);
        let wanted = |word: usize| match ranks as usize {
            ranks if ranks >= 64 * (word + 1) => u64::MAX,
            ranks if ranks > 64 * word => (1 << (ranks % 64)) - 1,
            _ => 0,
        };
        let missing = held
            .iter()
            .enumerate()
            .map(|(word, set)| wanted(word) & !set);
        if let Some(rank) = first_bit(missing) {
            return Err(format!("{place} lacks the contribution of rank {rank}"));
        }
        let beyond = held
            .iter()
            .enumerate()
            .map(|(word, set)| set & !wanted(word));
        if let Some(rank) = first_bit(beyond) {
            return Err(format!(
                "{place} has the contribution of rank {rank}, which comes later"
            ));
        }
        let node = self.expressions.node(value);
        match node.is_final {
            true => Err(format!(
                "{place} is written with POST_SCALE, which a scan has not"
            )),
            false => Ok(node.is_ordered),
        }
    }

    fn leaf_text(&self, leaf: u32) -> String {
        let number = self.leaf_start.partition_point(|&start| start <= leaf) - 1;
        let instance = &self.net.instances[self.block.instances.start as usize + number];
        let chunk = (leaf - self.leaf_start[number]) % instance.places.inputs;
        format!("{} of rank {}", text(Space::Input, chunk), instance.rank)
    }
}

/// The value that an output chunk must have.
enum Wanted {
    /// The input chunk with this leaf.
    Leaf(u32),
    /// All ranks' contributions to this chunk.
    Fold(u32),
    /// The contributions of so many ranks to this chunk.
    Prefix(u32, u32),
    /// No send belongs to the receive.
    Nothing,
}

/// Point-to-point: the k-th receive from a peer takes the k-th send to this rank.
struct Sends {
    by_pair: HashMap<(u32, u32), VecDeque<u32>>,
}

impl Sends {
    fn new(net: &Net, block: &Block) -> Sends {
        let mut by_pair: HashMap<_, VecDeque<u32>> = HashMap::new();
        for number in block.instances.clone() {
            let instance = &net.instances[number as usize];
            let shape = &instance.plan.shape;
            if shape.collective == Collective::Send {
                let pair = (instance.rank, shape.root);
                by_pair.entry(pair).or_default().push_back(number);
            }
        }
        Sends { by_pair }
    }

    fn sender_of(&mut self, instance: &Instance) -> Option<u32> {
        let shape = &instance.plan.shape;
        if shape.collective != Collective::Recv {
            return None;
        }
        self.by_pair
            .get_mut(&(shape.root, instance.rank))?
            .pop_front()
    }
}
