//! From a call to tokens: the blocking fast path, or ops for the queue.
//!
//! Data path of a small blocking call: [`Communicator::enqueue`] checks -> the owner lock -> the
//! route ([`crate::tune::route`]) is that of small calls -> [`crate::exec::host::oneshot`] ->
//! `wire::fan`. No lock that waits, no hash, no clock, no allocation. Other routes are in
//! [`super::routed`]: small messages are as direct; everything else becomes an [`Op`] in the
//! communicator's queue, which the caller drives until its own call has ended
//! ([`crate::comm::flight::drive`]).

use super::call::{Call, Checked, Collective};
use super::group;
use super::handles::RedOp;
use super::in_call::InCall;
use super::tally;
use crate::base::{Error, Result};
use crate::comm::Communicator;
use crate::comm::flight::lock::Guard;
use crate::comm::flight::op::Op;
use crate::comm::flight::stream::Stream;
use crate::comm::flight::wait::Waiter;
use crate::comm::owned::Exec;
use crate::comm::state::Inner;
use crate::exec::operation;
use crate::tune::Route;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How a message is told of that goes with those before it on its stream.
const JOINED: &str = " on a stream, joined to those before it";

impl Communicator {
    /// Runs one call, or begins it.
    ///
    /// Without stream and outside of a group it returns when the result is in place. Inside a
    /// group it only takes the call down; on a stream it begins it, in the order of the stream.
    ///
    /// # Errors
    /// `InvalidArgument` and `InvalidUsage` before anything is touched; `RemoteError` when a rank
    /// died or aborted; `Timeout` after `KOLO_TIMEOUT`. After an error of the last two kinds the
    /// communicator answers only abort, destroy and queries.
    ///
    /// # Safety
    /// The buffers hold what the call says, and nobody else touches them until it has ended.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn enqueue(&self, call: &Call, stream: Option<&Stream>) -> Result<()> {
        // Made here, from what the caller has in registers: loads wait for smaller stores before.
        self.enqueue_unseen(&mut Checked::unseen(call), stream)
    }

    /// Enqueues a call that nobody has looked at.
    fn enqueue_unseen(&self, unseen: &mut Checked, stream: Option<&Stream>) -> Result<()> {
        let run = |call: &mut Checked| {
            self.inner.callable()?;
            self.inner.look(call)?;
            self.run_checked(call, stream)
        };
        run(unseen).map_err(|error| {
            let name = unseen.call.collective.name();
            self.inner.tells(error).during(name)
        })
    }

    /// Runs a checked call, begins it, or takes it down for the end of the group.
    #[inline(always)]
    pub(in crate::comm) fn run_checked(
        &self,
        checked: &mut Checked,
        stream: Option<&Stream>,
    ) -> Result<()> {
        if let Some(stream) = stream {
            stream.takes_calls()?;
        }
        if group::active() {
            return group::push(self, checked.clone(), stream);
        }
        match stream {
            None => self.blocking(checked),
            Some(stream) => match stream.device() {
                None => self.on_stream(checked, stream, stream.joins()),
                Some(stream) => self.on_device(checked, stream),
            },
        }
    }

    /// Sends and receives at once, as `MPI_Sendrecv` does: neither message waits for the other.
    /// The peers may be the same, different ones, this rank, or [`crate::comm::NO_RANK`].
    ///
    /// # Errors
    /// As [`Communicator::enqueue`]; buffers that overlap.
    ///
    /// # Safety
    /// As [`Communicator::enqueue`], for both.
    #[doc(hidden)]
    pub unsafe fn enqueue_exchange(
        &self,
        send: &Call,
        recv: &Call,
        stream: Option<&Stream>,
    ) -> Result<()> {
        let run = || {
            self.inner.callable()?;
            let (mut send, mut recv) = (Checked::unseen(send), Checked::unseen(recv));
            self.inner.look(&mut send)?;
            self.inner.look(&mut recv)?;
            Call::check_apart(&send, &recv)?;
            if let Some(stream) = stream.filter(|stream| stream.joins() && !group::active()) {
                stream.takes_calls()?;
                let mut exec = self.inner.user()?;
                self.put_on(&mut exec, &mut send, stream, true)?;
                self.put_on(&mut exec, &mut recv, stream, true)?;
                drop(exec);
                self.inner.set_off();
                return Ok(());
            }
            let alone = stream.is_none() && !group::active() && !self.inner.seen.at_all;
            if alone && let Some(ended) = self.inner.exchange_at_once([&send, &recv]) {
                return ended;
            }
            let _timed = tally::waiting("SendRecv");
            group::start();
            let pushed = self
                .run_checked(&mut send, stream)
                .and_then(|()| self.run_checked(&mut recv, stream));
            pushed.and(group::end())
        };
        run().map_err(|error| self.inner.tells(error).during("SendRecv"))
    }

    /// Enqueues a call on a stream. A message joins the messages at the end of the queue instead of
    /// waiting for them.
    ///
    /// # Safety
    /// As [`Communicator::enqueue`], and no two of the messages that join share memory.
    pub(in crate::comm) unsafe fn enqueue_joining(
        &self,
        call: &Call,
        stream: &Stream,
    ) -> Result<()> {
        let run = || {
            self.inner.callable()?;
            let mut checked = self.inner.check(call)?;
            self.on_stream(&mut checked, stream, true)
        };
        run().map_err(|error| self.inner.tells(error).during(call.collective.name()))
    }

    #[inline]
    fn blocking(&self, checked: &mut Checked) -> Result<()> {
        let inner = &*self.inner;
        let mut exec = inner.user()?;
        let number = inner.begin(&mut exec, checked);
        match inner.seen.at_all {
            false => inner.at_once(&mut exec, checked, number),
            true => inner.observed(&mut exec, checked, number),
        }
    }

    pub(in crate::comm) fn on_stream(
        &self,
        checked: &mut Checked,
        stream: &Stream,
        join: bool,
    ) -> Result<()> {
        let mut exec = self.inner.user()?;
        self.put_on(&mut exec, checked, stream, join)?;
        drop(exec);
        self.inner.set_off();
        Ok(())
    }

    /// Puts a call on a stream; whoever called sets it off.
    fn put_on(
        &self,
        exec: &mut Exec,
        checked: &mut Checked,
        stream: &Stream,
        join: bool,
    ) -> Result<()> {
        let number = self.inner.begin(exec, checked);
        let checked = &*checked;
        if checked.is_empty() && checked.call.collective.is_point_to_point() {
            return Ok(());
        }
        let joins = join
            && checked.call.collective.is_point_to_point()
            && exec
                .queue
                .back()
                .is_some_and(|op| op.collective.is_point_to_point());
        if joins && let Some(mut bundle) = exec.queue.pop_back() {
            let joined = bundle.message(exec, checked);
            if joined.is_ok() && stream.joins() {
                // The message is all that this stream waits for.
                stream.set_last(&self.inner, bundle.watch_last(), bundle.collective.name());
            }
            exec.queue.push_back(bundle);
            joined.map_err(|error| self.inner.fail(exec, error))?;
            if self.inner.seen.at_all
                && let Some(note) = self.inner.note(exec, checked, number, JOINED)
            {
                note.ended(&Ok(()));
            }
        } else {
            self.inner.make_room(exec, checked.call.collective.name())?;
            let ops = self.inner.ops_of(exec, checked, number);
            let mut ops = ops.map_err(|error| self.inner.fail(exec, error))?;
            if self.inner.seen.at_all
                && let Some(last) = ops.last_mut()
            {
                last.note = self.inner.pending(exec, checked, number);
            }
            self.inner.put_on_stream(exec, ops, stream);
        }
        Ok(())
    }
}

impl Inner {
    /// Runs a call that has begun, on the calling thread.
    #[inline(always)]
    pub(in crate::comm) fn at_once(
        &self,
        exec: &mut Exec,
        checked: &Checked,
        number: Option<u64>,
    ) -> Result<()> {
        if !exec.queue.is_empty() {
            return self.behind(exec, checked, number);
        }
        match exec.route(checked) {
            Route::Nothing => Ok(()),
            Route::Small | Route::Alone => self.oneshot(exec, checked, number),
            larger => self.larger(exec, checked, number, larger),
        }
    }

    /// A small call, without interpretation. Inline wherever it is called: a call of 8 bytes has
    /// so few instructions that one more call would be seen.
    #[inline(always)]
    pub(in crate::comm) fn oneshot(
        &self,
        exec: &mut Exec,
        checked: &Checked,
        number: Option<u64>,
    ) -> Result<()> {
        let collective = checked.call.collective;
        let small = checked.small();
        if self.nranks == 1 {
            if collective != Collective::Barrier {
                exec.counts.steps_planned += 1;
                // SAFETY: the promise of `enqueue`.
                unsafe { exec.engine.alone(&small) };
            }
            return Ok(());
        }
        let mut waiter = Waiter::new(self, (collective.name(), number));
        // SAFETY: the promise of `enqueue`.
        let ended = unsafe { exec.engine.small(&small, &mut waiter) };
        drop(waiter);
        exec.counts.steps_planned += exec.counts.small_steps[collective as usize];
        match ended {
            Ok(()) => Ok(()),
            Err(stop) => Err(self.stopped_by(exec, stop, number)),
        }
    }

    /// The call, with everything checked that one rank can see.
    pub(in crate::comm) fn check(&self, call: &Call) -> Result<Checked> {
        let mut checked = Checked::unseen(call);
        self.look(&mut checked)?;
        Ok(checked)
    }

    /// Checks everything that one rank can see.
    #[inline(always)]
    fn look(&self, checked: &mut Checked) -> Result<()> {
        checked.look(self.rank, self.nranks)?;
        let call = &checked.call;
        if call.collective == Collective::Send {
            self.has_sent.store(true, Ordering::Relaxed);
        }
        if call.collective.reduces() && call.op.0 >= RedOp::FIRST_DYNAMIC {
            self.combine_as_made(checked)?;
        }
        Ok(())
    }

    /// With an operation that the program made, as it is now.
    #[cold]
    fn combine_as_made(&self, checked: &mut Checked) -> Result<()> {
        let call = &checked.call;
        let (combine, code) = self.made_combine(call.collective, call.op, call.dtype)?;
        checked.signature = call.signature(code).0;
        checked.made = Some(Arc::new(combine));
        Ok(())
    }

    /// The owner lock for a call of the user.
    #[inline(always)]
    pub(in crate::comm) fn user(&self) -> Result<InCall<'_>> {
        let guard = match self.exec.at_once() {
            Some(guard) => guard,
            None => self.user_beside()?,
        };
        Ok(InCall {
            guard,
            inner: self,
            unwinds: usize::from(std::thread::panicking()),
        })
    }

    /// Takes the owner lock where somebody is inside: a driver, which leaves, or a call, which is a
    /// mistake.
    #[cold]
    fn user_beside(&self) -> Result<Guard<'_, Exec>> {
        if operation::inside_operation() {
            if let Ok(guard) = self.exec.user_in_operation() {
                return Ok(guard);
            }
            // Whoever is inside may be this very thread, so nothing is waited for. An operation has
            // no way to say that it failed: the communicator says it.
            let error = operation::misuse(
                "an operation of the program has called kolo on a communicator that is inside a \
                 call",
            );
            self.stop(&error);
            return Err(error);
        }
        self.exec.user().map_err(|_| {
            Error::usage(
                "another thread is inside a call of this communicator",
                "use one communicator per thread, or let one thread call at a time",
            )
        })
    }

    /// Totals a collective, notes it on the board, and signs its tokens with what was before it.
    #[inline(always)]
    pub(in crate::comm) fn begin(&self, exec: &mut Exec, checked: &mut Checked) -> Option<u64> {
        exec.may_panic("begin");
        self.flip_if_due(exec);
        if checked.call.collective.is_point_to_point() {
            return None;
        }
        exec.counts.calls += 1;
        self.node
            .board(self.rank as usize)
            .begin(exec.counts.calls, checked.signature);
        checked.number = exec.counts.calls;
        checked.past = exec.past.before(checked.signature);
        checked.signature ^= checked.past;
        Some(exec.counts.calls)
    }

    /// Flips a bit in the call for which that is set. Messages have no number: before the first
    /// collective they belong to call 0, and so on.
    #[inline(always)]
    pub(in crate::comm) fn flip_if_due(&self, exec: &mut Exec) {
        if let Some((call, slot)) = exec.faults.flip
            && call == exec.counts.calls
        {
            exec.faults.flip = None;
            exec.engine.ports().flip_bit_in(slot);
        }
    }

    /// `KOLO_CHECK`: all ranks show their signatures before the call.
    #[cold]
    pub(in crate::comm) fn check_first(
        &self,
        exec: &mut Exec,
        checked: &Checked,
        number: Option<u64>,
    ) -> Result<()> {
        if self.nranks == 1 {
            return Ok(());
        }
        if exec.engine.is_between_nodes() {
            let check = self.check_op(exec, checked);
            let check = check.map_err(|error| self.fail(exec, error))?;
            return self.run_alone(
                exec,
                Box::new(check),
                (checked.call.collective.name(), number).into(),
            );
        }
        // It is this call in which others are waited for, and not the barrier that shows it.
        let shown = checked.shown().small();
        let mut waiter = Waiter::new(self, (checked.call.collective.name(), number));
        // SAFETY: the promise of `enqueue`; nothing but the signature is exchanged.
        let ended = unsafe { exec.engine.small(&shown, &mut waiter) };
        drop(waiter);
        exec.counts.steps_planned += exec.counts.small_steps[Collective::Barrier as usize];
        ended.map_err(|stop| self.stopped_by(exec, stop, number))
    }

    /// Puts ops into the queue, behind what is on the stream already.
    pub(in crate::comm) fn put_on_stream(
        self: &Arc<Inner>,
        exec: &mut Exec,
        ops: Vec<Op>,
        stream: &Stream,
    ) {
        for mut op in ops {
            if stream.joins() && op.collective.is_point_to_point() {
                stream.set_last(self, op.watch_last(), op.collective.name());
            } else {
                stream.follow(self, &mut op);
            }
            self.keep_caller(&mut op);
            exec.queue.push_back(op);
        }
    }
}
