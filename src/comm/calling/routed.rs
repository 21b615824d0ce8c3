//! From a route to tokens, but for the shortest ones ([`super::enqueue`]): on the calling thread at
//! once, or as ops for the queue.
//!
//! Which way a call goes is [`Route`]'s answer, the same on all ranks. Whether it runs at once is
//! this rank's own affair: what passes between ranks is the same either way.

use super::call::{Checked, Collective};
use super::exact;
use super::messages;
use super::waiting_call::WaitingCall;
use crate::base::{Error, Result};
use crate::comm::flight::op::Op;
use crate::comm::owned::Exec;
use crate::comm::state::Inner;
use crate::exec::combine::Combine;
use crate::plan::Algorithm;
use crate::topo::WaitPolicy;
use crate::tune::{Choice, Route};
use std::sync::Arc;

impl Exec {
    /// Which way a call goes.
    #[inline(always)]
    pub fn route(&self, checked: &Checked) -> Route {
        Route::of(&checked.asked(), &self.table)
    }
}

impl Inner {
    /// Runs a call, which is not as short as can be, while nothing else is in flight.
    ///
    /// # Errors
    /// The communicator has stopped, but for a message to oneself.
    pub(in crate::comm) fn larger(
        &self,
        exec: &mut Exec,
        checked: &Checked,
        number: Option<u64>,
        route: Route,
    ) -> Result<()> {
        let is_message = checked.call.collective.is_point_to_point();
        if is_message {
            self.refuse_own(checked)?;
        }
        self.relieve(exec);
        let at_once = match route {
            _ if is_message => self.message_at_once(exec, checked),
            // First, as these are the shortest.
            Route::Messages(choice) => return self.small_messages(exec, checked, number, choice),
            Route::Parts => {
                let parts = checked.parts.as_deref();
                let small = parts.filter(|parts| messages::are_small(checked, parts));
                small.map(|parts| messages::run_parts(self, exec, checked, parts, number))
            }
            route => self.rooted_at_once(exec, checked, number, route),
        };
        if let Some(ended) = at_once {
            self.let_readers_run(exec, checked.bytes);
            return ended;
        }
        let is_message = checked.call.collective.is_point_to_point();
        match route {
            Route::Exact => return self.exact(exec, checked, number),
            // The plan waits for the receive.
            Route::Messages(_) if self.seen.compared && is_message => {}
            Route::Messages(choice) => return self.small_messages(exec, checked, number, choice),
            Route::Composed => {
                let parts = self.parts_of(exec, checked);
                let parts = parts.map_err(|error| self.fail(exec, error))?;
                return parts
                    .iter()
                    .try_for_each(|part| self.at_once(exec, part, number));
            }
            _ => {}
        }
        let mut op = exec.spare_op(checked.call.collective);
        // The memory of a connection is taken when it is first used, and the others count on this
        // call from its beginning.
        let added = self.add_to(&mut op, exec, checked, route);
        added.map_err(|error| self.fail(exec, error))?;
        self.run_alone(exec, op, WaitingCall::of(checked, number))?;
        self.let_readers_run(exec, checked.bytes);
        Ok(())
    }

    /// Where ranks outnumber cores, a rank that leaves a call and computes keeps its core for a
    /// whole time slice. Whoever has yet to read much of what it wrote gets the core first.
    #[inline]
    fn let_readers_run(&self, exec: &mut Exec, bytes: usize) {
        /// Reading less takes no longer than some changes of thread.
        const MUCH: usize = 256 << 10;
        let is_crowded = self.wait.policy != WaitPolicy::Spin;
        if is_crowded && bytes >= MUCH && exec.engine.ports().is_unread() {
            std::thread::yield_now();
        }
    }

    /// Runs a call behind those that are in flight.
    #[cold]
    pub(in crate::comm) fn behind(
        &self,
        exec: &mut Exec,
        checked: &Checked,
        number: Option<u64>,
    ) -> Result<()> {
        self.refuse_own(checked)?;
        let ops = self.ops_of(exec, checked, number);
        let ops = ops.map_err(|error| self.fail(exec, error))?;
        let Some(last) = ops.last().map(|op| Arc::clone(&op.completion)) else {
            return Ok(());
        };
        exec.queue.extend(ops);
        self.drive_until(exec, &last, (checked.call.collective.name(), number))
    }

    /// Refuses a blocking message to this rank itself.
    pub(in crate::comm) fn refuse_own(&self, checked: &Checked) -> Result<()> {
        let call = &checked.call;
        let to_itself = call.collective.is_point_to_point() && call.peer == self.rank;
        match to_itself && checked.bytes > 0 {
            false => Ok(()),
            true => Err(Error::usage(
                "a blocking message to oneself can never match",
                "put Send and Recv to oneself into one group (GroupStart, GroupEnd), or, in Rust, \
                 into one send_recv or scope",
            )),
        }
    }

    /// The ops of a call: a check of signatures if wanted, and the call itself.
    ///
    /// # Errors
    /// The communicator is not stopped yet; it must be, for others count on a call that has begun.
    pub(in crate::comm) fn ops_of(
        &self,
        exec: &mut Exec,
        checked: &Checked,
        number: Option<u64>,
    ) -> Result<Vec<Op>> {
        let call = &checked.call;
        let mut ops = Vec::with_capacity(2);
        // The same on all ranks, whatever is in flight here: each queued collective has its check.
        if self.seen.compared && self.nranks > 1 && !call.collective.is_point_to_point() {
            ops.push(self.check_op(exec, checked)?);
        }
        self.push_ops(exec, checked, &mut ops)?;
        for op in &mut ops {
            op.number = number;
        }
        Ok(ops)
    }

    /// Appends the ops of the call itself.
    fn push_ops(&self, exec: &mut Exec, checked: &Checked, ops: &mut Vec<Op>) -> Result<()> {
        match exec.route(checked) {
            Route::Nothing => Ok(()),
            Route::Exact => {
                let ranks = (self.rank, self.nranks);
                ops.push(Op::exact(exact::Exact::new(checked, ranks, None)));
                Ok(())
            }
            Route::Composed => {
                let parts = self.parts_of(exec, checked)?;
                parts
                    .iter()
                    .try_for_each(|part| self.push_ops(exec, part, ops))
            }
            route => {
                let mut op = Op::new(checked.call.collective);
                self.add_to(&mut op, exec, checked, route)?;
                ops.push(op);
                Ok(())
            }
        }
    }

    /// Adds one call, which goes by one plan or as messages, to an op.
    fn add_to(&self, op: &mut Op, exec: &mut Exec, checked: &Checked, route: Route) -> Result<()> {
        let call = &checked.call;
        if call.collective.is_point_to_point() {
            return op.message(exec, checked);
        }
        let combine = checked.combine();
        op.by_program |= combine.is_by_program();
        if let Some(parts) = &checked.parts {
            return parts
                .iter()
                .try_for_each(|part| op.part(exec, checked, &combine, part));
        }
        if let Route::MayDirect(choice) = route {
            op.direct(checked, combine, choice);
            return Ok(());
        }
        let choice = route.choice(&checked.asked(), &exec.table);
        let choice = choice.ok_or_else(|| Error::internal("a call of several plans has no choice"));
        op.collective(exec, checked, combine, choice?)
    }

    pub(in crate::comm) fn check_op(&self, exec: &mut Exec, checked: &Checked) -> Result<Op> {
        let shown = checked.shown();
        // Fans reach the ranks of one node only.
        let algorithm = match exec.engine.is_between_nodes() {
            false => Algorithm::OneShot,
            true => Algorithm::Dissemination,
        };
        let choice = Choice::plain(Collective::Barrier, algorithm, 1);
        // The call that is compared is what it waits in.
        let mut op = Op::new(checked.call.collective);
        let copy = Combine::copy(shown.call.dtype);
        op.collective(exec, &shown, copy, choice)?;
        Ok(op)
    }
}
