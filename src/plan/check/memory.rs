//! Part (b): no two accesses race, for every form of connection, in place and out of place.
//!
//! Vector clocks (C. Fidge 1988, F. Mattern 1989) with one entry a lane run along an order of the
//! events; credits are unlimited, so only lanes and tokens order events. Each place (a chunk of
//! input, output or scratch) remembers its last write and the reads since; a pair of accesses
//! without order, one of them a write, is a conflict. (The scheme of FastTrack, C. Flanagan and
//! S. Freund, PLDI 2009, doi:10.1145/1542476.1542490.)
//!
//! *Slots*: a value is copied when it is published, so every rank touches its own memory only.
//! *Direct read*: the reader also reads the writer's region, when it consumes the token: whatever
//! is written there afterwards must come after that read, and nothing may be written between
//! publishing and reading. *Direct write*: the write to the reader's output moves from the
//! reader's event forward to the writer's: all accesses that used to come before it must come
//! before the writer's event. Where many read a token, its writer writes into the outputs of all
//! of them. Each step is judged against slots *and* against every other step that may still be
//! direct, so that any mixture of allowed steps is safe.
//!
//! The call's borders: before it starts and after it returned, the caller touches all its buffers.
//! A call returns after its lanes and, by the rule of the executor, after every region it
//! published is released; and direct access starts after all ranks exchanged addresses, thus after
//! they entered. Both rules can be switched off, to see what they are good for.

use super::clocks::Clocks;
use super::net::{Block, Instance, NONE, Net, UsedEnd};
use super::order::Order;
use super::report::{Counterexample, Form, Forms, Refusal};
use super::touch::{Touch, region, touches};
use crate::plan::{Collective, Link, Operand, Space, Step, StepOp};

/// Rules of the executor that the proof relies on.
#[derive(Clone, Copy)]
pub(super) struct Rules {
    pub await_release: bool,
    pub address_exchange: bool,
}

/// Forms that may be direct, and why others may not.
pub(super) struct Outcome {
    pub forms: Forms,
    pub refusals: Vec<Refusal>,
}

#[derive(Clone, Copy)]
struct Access {
    event: u32,
    /// Number of the event in its lane, from 1.
    sequence: u32,
    /// The event that published what is read directly; [`NONE`] for the rank's own access.
    published: u32,
    next: u32,
}

/// The last write of a place and the reads since.
#[derive(Clone, Copy)]
struct PlaceState {
    write: u32,
    write_sequence: u32,
    reads: u32,
}

struct Pass<'n, 'a> {
    net: &'n Net<'a>,
    rules: Rules,
    clocks: Clocks<'n, 'a>,
    /// Out of place and in place.
    places: [Vec<PlaceState>; 2],
    accesses: Vec<Access>,
    /// Direct reads, to be compared with the writer's return.
    open_reads: Vec<Access>,
    out: Outcome,
}

/// Proves the memory of a block.
pub(super) fn check(
    net: &Net,
    number: usize,
    order: &Order,
    rules: Rules,
) -> Result<Outcome, Counterexample> {
    let block = &net.blocks[number];
    let mut pass = Pass::new(net, block, order, rules);
    for &event in &order.events {
        pass.event(event)?;
    }
    pass.returns();
    pass.barrier()?;
    Ok(pass.out)
}

impl<'n, 'a> Pass<'n, 'a> {
    fn new(net: &'n Net<'a>, block: &'n Block, order: &'n Order, rules: Rules) -> Pass<'n, 'a> {
        let place = PlaceState {
            write: NONE,
            write_sequence: 0,
            reads: NONE,
        };
        let places = vec![place; block.places as usize];
        let instances = block.instances.start as usize..block.instances.end as usize;
        let steps = net.instances[instances].iter().map(|i| i.plan.steps.len());
        Pass {
            net,
            rules,
            clocks: Clocks::new(net, block, order),
            places: [places.clone(), places],
            accesses: Vec::new(),
            open_reads: Vec::new(),
            out: Outcome {
                forms: Forms::new(steps),
                refusals: Vec::new(),
            },
        }
    }

    fn event(&mut self, number: u32) -> Result<(), Counterexample> {
        let net = self.net;
        let event = &net.events[number as usize];
        let lane = self.clocks.lane_of(number);
        let instance = net.instance_of(event);
        let step = &instance.plan.steps[event.step as usize];
        self.clocks.begin(event, lane);
        let mut published = [NONE; 2];
        if step.op != StepOp::Token {
            let srcs = net.srcs(event);
            self.direct_reads(number, lane, srcs);
            for touch in touches(instance, event, net, instance.plan.lists.get(step.srcs)) {
                self.read(number, lane, &touch)?;
            }
            let target = self.direct_write_target(instance, step, srcs);
            let dsts = instance.plan.lists.get(step.dsts);
            for touch in touches(instance, event, net, dsts) {
                let direct = target.filter(|&(operand, _)| std::ptr::eq(operand, touch.operand));
                self.write(number, lane, &touch, direct.map(|(_, token)| token))?;
            }
            if event.dst_count > 0 {
                published = region(instance, event, net, step);
                self.offer_region(number, published);
            }
        }
        self.clocks.end(number, lane, published);
        Ok(())
    }

    /// The writer's regions are read where they are.
    fn direct_reads(&mut self, number: u32, lane: usize, srcs: &[UsedEnd]) {
        for port in srcs {
            let token = self.clocks.tokens[self.clocks.token_of(port)];
            if token.region[0] == NONE {
                continue;
            }
            let read = Access {
                event: number,
                sequence: self.clocks.sequence(lane),
                published: token.event,
                next: NONE,
            };
            if !self.rules.await_release {
                self.open_reads.push(read);
            }
            for mode in 0..2 {
                if !self.is_open(token.event, Form::DirectRead, mode) {
                    continue;
                }
                let at = token.region[mode] as usize;
                let state = self.places[mode][at];
                let clock = self.clocks.of_token(&token, lane);
                if state.write != NONE
                    && !self
                        .clocks
                        .is_past(state.write, state.write_sequence, lane, clock)
                {
                    let net = self.net;
                    self.refuse(token.event, Form::DirectRead, mode, state.write, || {
                        format!(
                            "overwrites what {} published, and {} may still read it",
                            net.place(token.event),
                            net.place(number)
                        )
                    });
                    continue;
                }
                self.push_read(mode, at, read);
            }
        }
    }

    fn push_read(&mut self, mode: usize, at: usize, read: Access) {
        let next = self.places[mode][at].reads;
        self.places[mode][at].reads = self.accesses.len() as u32;
        self.accesses.push(Access { next, ..read });
    }

    fn read(&mut self, number: u32, lane: usize, touch: &Touch) -> Result<(), Counterexample> {
        for mode in 0..2 {
            let at = touch.at[mode] as usize;
            let state = self.places[mode][at];
            if state.write != NONE
                && !self.clocks.is_past(
                    state.write,
                    state.write_sequence,
                    lane,
                    self.clocks.of_lane(lane),
                )
            {
                self.conflict(mode, number, "reads", touch, state.write, "writes")?;
            }
            let read = Access {
                event: number,
                sequence: self.clocks.sequence(lane),
                published: NONE,
                next: NONE,
            };
            self.push_read(mode, at, read);
        }
        Ok(())
    }

    fn write(
        &mut self,
        number: u32,
        lane: usize,
        touch: &Touch,
        direct: Option<usize>,
    ) -> Result<(), Counterexample> {
        for mode in 0..2 {
            let at = touch.at[mode] as usize;
            let state = self.places[mode][at];
            let last = Access {
                event: state.write,
                sequence: state.write_sequence,
                published: NONE,
                next: state.reads,
            };
            let (mut access, mut verb) = (last, "writes");
            loop {
                if access.event != NONE {
                    self.write_after(number, lane, touch, mode, (access, verb), direct)?;
                }
                if access.next == NONE {
                    break;
                }
                (access, verb) = (self.accesses[access.next as usize], "reads");
            }
            self.places[mode][at] = PlaceState {
                write: number,
                write_sequence: self.clocks.sequence(lane),
                reads: NONE,
            };
        }
        Ok(())
    }

    /// Compares a write, at its own event and at the event of a direct writer, with an access
    /// before it.
    fn write_after(
        &mut self,
        number: u32,
        lane: usize,
        touch: &Touch,
        mode: usize,
        (before, verb): (Access, &str),
        direct: Option<usize>,
    ) -> Result<(), Counterexample> {
        let net = self.net;
        let is_past = self.clocks.is_past(
            before.event,
            before.sequence,
            lane,
            self.clocks.of_lane(lane),
        );
        if before.published != NONE {
            if !is_past {
                self.refuse(before.published, Form::DirectRead, mode, number, || {
                    format!(
                        "writes {} while {} may still read it; it was published by {}",
                        touch.text(),
                        net.place(before.event),
                        net.place(before.published)
                    )
                });
            }
            if !self.is_open(before.published, Form::DirectRead, mode) {
                return Ok(());
            }
        } else if !is_past {
            self.conflict(mode, number, "writes", touch, before.event, verb)?;
        }
        let Some(token) = direct.map(|token| self.clocks.tokens[token]) else {
            return Ok(());
        };
        let clock = self.clocks.of_token(&token, lane);
        if !self
            .clocks
            .is_past(before.event, before.sequence, lane, clock)
        {
            self.refuse(token.event, Form::DirectWrite, mode, token.event, || {
                format!(
                    "writes {} of {} while {} still {verb} it",
                    touch.text(),
                    net.place(number),
                    net.place(before.event)
                )
            });
        }
        Ok(())
    }

    /// The output operand that a direct writer may fill, and its token.
    fn direct_write_target(
        &mut self,
        instance: &'n Instance<'a>,
        step: &Step,
        srcs: &[UsedEnd],
    ) -> Option<(&'n Operand, usize)> {
        let dsts = instance.plan.lists.get(step.dsts);
        let output = dsts.iter().find(|operand| operand.space == Space::Output);
        let mut target = None;
        for port in srcs {
            let token = self.clocks.token_of(port);
            let writer = self.clocks.tokens[token].event;
            let wire = &self.net.wires[port.connection as usize];
            // Slots of fans are given back by calls, and not by tokens.
            let is_followed = !matches!(wire.link, Link::Fan { .. });
            let whole = step.op == StepOp::Copy && !step.is_packed();
            let fits = is_followed && !port.keep && whole;
            target = output.filter(|_| fits).map(|output| (output, token));
            for mode in 0..2 {
                let Some(_) = target else {
                    self.close(writer, Form::DirectWrite, mode);
                    continue;
                };
                self.offer(writer, Form::DirectWrite, mode);
                if !self.rules.address_exchange && !self.has_entered(instance, token) {
                    let net = self.net;
                    let rank = instance.rank;
                    self.refuse(writer, Form::DirectWrite, mode, writer, || {
                        let wire =
                            super::report::link_text(net.wires[port.connection as usize].link);
                        format!("writes over {wire} before rank {rank} has entered the call")
                    });
                }
            }
        }
        target
    }

    /// Whether the event that published `token` comes after the reader has entered.
    fn has_entered(&self, reader: &Instance, token: usize) -> bool {
        let token = &self.clocks.tokens[token];
        let sender = self.clocks.lane_of(token.event);
        let clock = self.clocks.of_token(token, sender);
        let mut lanes = self.clocks.lanes(&reader.lanes);
        lanes.any(|lane| self.clocks.has_seen(lane, sender, clock))
    }

    fn offer_region(&mut self, number: u32, region: [u32; 2]) {
        for (mode, at) in region.into_iter().enumerate() {
            match at {
                NONE => self.close(number, Form::DirectRead, mode),
                _ => self.offer(number, Form::DirectRead, mode),
            }
        }
    }

    /// Without the rule that a call awaits the release of what it published: may it return while
    /// a region is still read?
    fn returns(&mut self) {
        for read in std::mem::take(&mut self.open_reads) {
            let net = self.net;
            let writer = net.instance_of(&net.events[read.published as usize]);
            let clocks = &self.clocks;
            let awaited = clocks
                .lanes(&writer.lanes)
                .any(|lane| clocks.is_past(read.event, read.sequence, lane, clocks.of_lane(lane)));
            if !awaited {
                for mode in 0..2 {
                    self.refuse(read.published, Form::DirectRead, mode, read.published, || {
                        format!(
                            "publishes its buffer, and the call returns while {} may still read it",
                            net.place(read.event)
                        )
                    });
                }
            }
        }
    }

    /// Nobody leaves a barrier before everybody has entered.
    fn barrier(&self) -> Result<(), Counterexample> {
        let (net, clocks) = (self.net, &self.clocks);
        let first = clocks.block.lanes.start as usize;
        for number in clocks.block.instances.clone() {
            let instance = &net.instances[number as usize];
            if instance.plan.shape.collective != Collective::Barrier || net.nranks == 1 {
                continue;
            }
            let mut heard = vec![false; net.nranks as usize];
            heard[instance.rank as usize] = true;
            for lane in clocks.lanes(&instance.lanes) {
                let seen = clocks.of_lane(lane).iter().zip(clocks.mates(lane));
                for (_, mate) in seen.filter(|&(&seen, _)| seen > 0) {
                    let mate = net.lanes[first + mate].instance;
                    heard[net.instances[mate as usize].rank as usize] = true;
                }
            }
            if let Some(missing) = heard.iter().position(|heard| !heard) {
                let message = format!("leaves the barrier, and rank {missing} may not be in it");
                return Err(instance.at_end(message));
            }
        }
        Ok(())
    }

    fn conflict(
        &mut self,
        mode: usize,
        number: u32,
        verb: &str,
        touch: &Touch,
        other: u32,
        other_verb: &str,
    ) -> Result<(), Counterexample> {
        if mode == 1 && self.out.refusals.iter().any(|r| r.form == Form::Slot) {
            return Ok(());
        }
        let message = format!(
            "{}{verb} {} while {} {other_verb} it",
            if mode == 1 { "in place, " } else { "" },
            touch.text(),
            self.net.place(other)
        );
        let because = self.net.fault(number, message);
        if mode == 0 {
            return Err(because);
        }
        self.out.refusals.push(Refusal {
            form: Form::Slot,
            in_place: true,
            because,
        });
        Ok(())
    }

    /// Plan and step of an event.
    fn step_at(&self, event: u32) -> (usize, usize) {
        let event = &self.net.events[event as usize];
        let instance =
            self.net.lanes[event.lane as usize].instance - self.clocks.block.instances.start;
        (instance as usize, event.step as usize)
    }

    fn is_open(&self, event: u32, form: Form, mode: usize) -> bool {
        let (plan, step) = self.step_at(event);
        self.out.forms.is_open(plan, step, form, mode == 1)
    }

    fn offer(&mut self, event: u32, form: Form, mode: usize) {
        let (plan, step) = self.step_at(event);
        self.out.forms.offer(plan, step, form, mode == 1);
    }

    fn close(&mut self, event: u32, form: Form, mode: usize) {
        let (plan, step) = self.step_at(event);
        self.out.forms.refuse(plan, step, form, mode == 1);
    }

    /// The step that published may not be direct; `at` is where it shows.
    fn refuse(
        &mut self,
        published: u32,
        form: Form,
        mode: usize,
        at: u32,
        message: impl FnOnce() -> String,
    ) {
        self.close(published, form, mode);
        let in_place = mode == 1;
        let mut known = self.out.refusals.iter();
        if known.any(|refusal| (refusal.form, refusal.in_place) == (form, in_place)) {
            return;
        }
        let place = if in_place { "in place, " } else { "" };
        let message = format!("{place}{}: {}", form.name(), message());
        self.out.refusals.push(Refusal {
            form,
            in_place,
            because: self.net.fault(at, message),
        });
    }
}
