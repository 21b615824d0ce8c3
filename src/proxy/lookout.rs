//! The lookout of a node: what ranks of different nodes must know of each other beside data.
//!
//! **Problem.** Within a node the end of a process closes a socket, an abort is a word in shared
//! memory, and boards say what every rank does. Between nodes none of it is seen, and connections
//! between all processes would be far too many.
//!
//! **Idea.** The lowest rank of each node is its *lookout*. Lookouts form a ring of TCP
//! connections, with both neighbours, and pass on what they hear in both directions: so the ring
//! may be cut in one place, and everyone still hears why. An abort, or the death of a rank, is told
//! by its node's lookout; the death of a lookout, of its node or of its link is noticed by its
//! neighbours, because TCP connections end or fall silent (setting `net_link_timeout`). What a
//! lookout hears of an abort it writes to the abort record of its node, and what it hears of boards
//! to the places of these ranks on its own node's board, where every rank of the node looks anyway.
//!
//! **Cost.** Two connections in each direction for a node, whatever the number of ranks; no thread
//! (the service thread tends them) and no traffic while nothing happens but TCP's own probes.

mod crew;
mod ear;
mod message;
mod neighbour;
mod post;
mod state;
#[cfg(test)]
mod tests;

pub use crew::Crew;
pub(super) use message::fuzz;
pub use post::Post;

use crate::base::birth::{self, Birth};
use crate::base::{Error, Rank, Result, clock, turns};
use crate::proxy::attended::Attended;
use crate::proxy::death;
use crate::proxy::patience::{Until, lock_at_exit, try_lock};
use crate::proxy::service::{self, Alarm, Staying, Watch};
use crate::transport::net::Handle;
use crate::transport::net::socket::was_closed;
use crate::transport::segment::Nonce;
use ear::Newcomers;
use message::{Message, News, token};
use neighbour::{Heard, Neighbour, let_in};
use state::State;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// The lookout of this rank's node. Safe to call from any thread.
pub struct Lookout {
    me: Weak<Lookout>,
    crew: Crew,
    state: Mutex<State>,
    /// Signalled when all neighbours hear it and are heard.
    met: Condvar,
}

/// How long neighbours are waited for in a start that has no limit. Their processes have just told
/// where they listen.
const MEET_LIMIT: Duration = Duration::from_secs(60);
/// Between two looks of a thread that waits for its goodbyes.
const BYE_PAUSE: Duration = Duration::from_micros(100);

impl Lookout {
    /// Takes up its post between its neighbours, of which the ring has one or two; the service
    /// thread looks after it from now on.
    ///
    /// # Errors
    /// Of the network.
    pub fn new(post: Post, crew: Crew, neighbours: &[(Rank, Handle)]) -> Result<Arc<Lookout>> {
        let lookout = Lookout::between(post, crew, neighbours)?;
        // So all ways are begun before anybody sleeps on them.
        lookout.tend();
        service::get()?.attend(Arc::clone(&lookout) as Arc<dyn Attended>);
        Ok(lookout)
    }

    /// One that nobody looks after yet.
    fn between(post: Post, crew: Crew, neighbours: &[(Rank, Handle)]) -> Result<Arc<Lookout>> {
        let hello = Message {
            origin: crew.me.0,
            number: 0,
            news: News::Hello(token(crew.nonce, crew.me.0)),
        };
        let neighbours: Result<Vec<Neighbour>> = neighbours
            .iter()
            .map(|(rank, handle)| {
                let connecting = post.net.connect_from_any(handle)?;
                Ok(Neighbour::new(rank.0, connecting, hello.encode()))
            })
            .collect();
        let state = State::new(Newcomers::new(post.listener), neighbours?);
        Ok(Arc::new_cyclic(|me| Lookout {
            me: me.clone(),
            crew,
            state: Mutex::new(state),
            met: Condvar::new(),
        }))
    }

    /// Returns when all neighbours hear it and are heard, so that no death and no goodbye lacks a
    /// way from then on. One that is lost meanwhile is not waited for, as its loss is told, and
    /// nobody where the communicator has stopped.
    ///
    /// # Errors
    /// Neighbours are not there within the limit, or the start was called off.
    pub fn meet(&self, until: Until) -> Result<()> {
        let (start, limit) = (clock::now(), until.limit.unwrap_or(MEET_LIMIT));
        let most = match until.birth {
            Some(birth) if birth.bell().is_some() => birth::LOOK,
            _ => clock::LOOK,
        };
        let waits = |state: &mut State| state.missing().next().is_some();
        let mut state = self.lock();
        while waits(&mut state) && !self.crew.node.aborted() {
            until.birth.map_or(Ok(()), Birth::go_on)?;
            if start.past(limit) {
                let missing: Vec<u32> = state.missing().collect();
                return Err(self.missing_error(&missing, limit));
            }
            let rest = start.left(limit).min(most);
            state = turns::wait_while((&self.state, &self.met), state, rest, waits);
        }
        Ok(())
    }

    fn missing_error(&self, missing: &[u32], limit: Duration) -> Error {
        let name = |rank: &u32| format!("rank {rank} on {}", self.place(*rank));
        let names: Vec<String> = missing.iter().map(name).collect();
        let (names, seconds) = (names.join(" and "), limit.as_secs_f64());
        let what = format!(
            "the lookout on {} and {names} have not heard each other for {seconds:.1} s",
            self.place(self.crew.me.0)
        );
        let remedy = "see whether that process was stopped, by a signal or a debugger, and that no \
                      firewall is between the nodes";
        Error::remote(Rank(missing[0]), what, remedy)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells all nodes why this one has stopped, if it has.
    pub fn tell_abort(&self) {
        self.lock().say_abort(&self.crew);
        self.tend();
    }

    /// Asks all nodes what their ranks do; the answers appear on this node's board.
    pub fn ask(&self) {
        let mut state = self.lock();
        // The others may have been waiting for this rank: they learn of it unasked.
        state.say_boards(&self.crew);
        state.say(self.crew.me, News::Ask);
        drop(state);
        self.tend();
    }

    /// The rank leaves, whose `watch` has not ended yet. Where others of its node stay, so does
    /// the lookout until they have left, too.
    pub fn retire(&self, watch: &Watch) {
        let (me, node) = (self.crew.me, &self.crew.node);
        let is_over = |rank: &Rank| self.has_left(rank.0) || self.has_ended(rank.0);
        let stays = |rank: &Rank| *rank != me && !is_over(rank);
        let Some(this) = self.me.upgrade() else {
            return;
        };
        if node.aborted() || !self.crew.mates.iter().any(stays) {
            return;
        }
        let mut state = self.lock();
        if state.left || std::mem::replace(&mut state.stays, true) {
            return;
        }
        // So the end of this process is not the end of a rank, to nobody.
        let board = (me.0, node.board(me.index()).copy());
        state.say(me, News::Boards(vec![board]));
        drop(state);
        self.tend();
        watch.stay(this);
    }

    /// Says goodbye and closes all connections, unless it stays.
    pub fn leave(&self) {
        let mut state = self.lock();
        if state.stays || state.left || state.leaves {
            return;
        }
        self.begin_parting(&mut state);
        state.leaves = true;
        let limit = state.bye_limit();
        drop(state);
        self.part(limit, || Some(self.lock()));
        self.dismiss();
    }

    /// The process of the rank exits with status 0, and nothing of the rank is in flight: one look
    /// whether the other nodes know it. They are told at once. Others of its node mostly end at the
    /// same time, and their ends are told too where they come before the last look.
    pub fn end(&self, is_last: bool) -> bool {
        // Whoever has it may have been stopped for good: whoever exits asks again, within limits.
        let Some(mut state) = try_lock(&self.state) else {
            return false;
        };
        if state.left || state.stays || state.leaves {
            return true;
        }
        let is_over = |rank: &Rank| self.has_left(rank.0) || self.has_ended(rank.0);
        if is_last || self.crew.mates.iter().all(is_over) {
            self.begin_parting(&mut state);
        } else if !std::mem::replace(&mut state.end_is_told, true) {
            state.say_boards(&self.crew);
        }
        state.neighbours.iter_mut().for_each(Neighbour::send);
        state.parting.is_some() && state.have_parted()
    }

    /// Says goodbye, once; whoever looks after it goes on.
    fn begin_parting(&self, state: &mut State) {
        if state.parting.is_some() {
            return;
        }
        // Before it: why the communicator has stopped, and who of the node has left.
        state.say_abort(&self.crew);
        state.say_boards(&self.crew);
        state.say_goodbye(self.crew.me);
        state.parting = Some(clock::now());
    }

    /// Waits until all neighbours have the goodbye, at most for `limit`, and closes. Meanwhile it
    /// passes on what it hears: where two say goodbye at the same time, nobody else may join those
    /// between them. False if somebody did not hear it in time, who sees that the connection ends.
    fn part<'a>(&self, limit: Duration, lock: impl Fn() -> Option<MutexGuard<'a, State>>) -> bool {
        let start = clock::now();
        // Not held while it rests: who tends this lookout may also tend a neighbour, which has to
        // answer.
        while let Some(mut state) = lock() {
            // The rank has left: to itself it has no more to tell.
            let _ = self.look(&mut state);
            let have_parted = state.have_parted();
            if have_parted || start.past(limit) {
                state.end();
                return have_parted;
            }
            drop(state);
            turns::sleep(BYE_PAUSE);
        }
        false
    }

    fn dismiss(&self) {
        if let (Ok(service), Some(this)) = (service::get(), self.me.upgrade()) {
            service.parted(Nonce(self.crew.nonce), &(this.clone() as Arc<dyn Staying>));
            service.dismiss(&(this as Arc<dyn Attended>));
        }
    }

    /// Moves what can move; what was lost is returned, to be told outside the lock.
    fn look(&self, state: &mut State) -> Vec<(Rank, String)> {
        let mut lost = Vec::new();
        let nonce = self.crew.nonce;
        let_in(&mut state.neighbours, &mut state.newcomers, nonce);
        for index in 0..state.neighbours.len() {
            for heard in state.listen(index, nonce) {
                let (rank, was_met) = {
                    let neighbour = &state.neighbours[index];
                    (neighbour.rank, neighbour.was_met())
                };
                match heard {
                    Heard::Message(message) => self.take(state, index, message, &mut lost),
                    // Its rank had left, and then its process exited without goodbye.
                    Heard::Lost(error)
                        if self.has_left(rank) && (was_closed(&error) || !was_met) => {}
                    Heard::Lost(_) if self.has_ended(rank) => {}
                    // Both have given up a start.
                    Heard::Lost(_) if state.parting.is_some() && !was_met => {}
                    Heard::Lost(error) => {
                        let text = self.lost_text(rank, was_met, &error);
                        state.say(self.crew.me, News::Lost(rank, text.clone()));
                        lost.push((Rank(rank), text));
                    }
                }
            }
        }
        state.neighbours.iter_mut().for_each(Neighbour::send);
        lost
    }

    fn has_left(&self, rank: u32) -> bool {
        self.crew.node.board(rank as usize).has_left()
    }

    fn has_ended(&self, rank: u32) -> bool {
        self.crew.node.board(rank as usize).has_ended()
    }

    fn place(&self, rank: u32) -> &str {
        self.crew.places.get(&rank).map_or("?", String::as_str)
    }

    fn lost_text(&self, rank: u32, was_met: bool, error: &Error) -> String {
        let what = match was_met {
            true => "the process ended, or its node or network did",
            false => "there was no connection to it yet",
        };
        let (there, here) = (self.place(rank), self.place(self.crew.me.0));
        format!("on {there}, {what} (noticed on {here}): {}", error.what)
    }

    /// Acts on a message of neighbour number `index`, and passes it on.
    fn take(
        &self,
        state: &mut State,
        index: usize,
        message: Message,
        lost: &mut Vec<(Rank, String)>,
    ) {
        let node = &self.crew.node;
        match &message.news {
            News::Hello(_) => return,
            News::Bye => {
                let rank = state.neighbours[index].rank;
                if !self.has_ended(rank) {
                    node.board(rank as usize).leave(false);
                }
                node.wake_others();
                let board = (rank, node.board(rank as usize).copy());
                return state.say(self.crew.me, News::Boards(vec![board]));
            }
            _ => {}
        }
        if message.origin == self.crew.me.0 || !state.is_new(message.origin, message.number) {
            return;
        }
        state.pass_on(index, &message.encode());
        match message.news {
            News::Abort(abort) => {
                state.aborted = true;
                node.set_abort(&abort);
            }
            // Somebody has not heard yet that its process ended in good order.
            News::Lost(rank, _) if self.has_ended(rank) => {}
            News::Lost(rank, text) => lost.push((Rank(rank), text)),
            News::Ask => state.say_boards(&self.crew),
            News::Boards(boards) => {
                for (rank, words) in boards {
                    let known = (rank as usize) < node.layout().ranks;
                    if known && !self.crew.mates.contains(&Rank(rank)) {
                        let had_ended = self.has_ended(rank);
                        node.board(rank as usize).put(&words);
                        // Whoever waits for it without a look at boards must hear of it.
                        if !had_ended && self.has_ended(rank) {
                            lost.push((Rank(rank), "its process has ended".into()));
                        }
                    }
                }
            }
            News::Hello(_) | News::Bye => {}
        }
    }
}

impl Staying for Lookout {
    fn alarmed(&self, why: Alarm) {
        match why {
            Alarm::Abort => self.tell_abort(),
            Alarm::Ask => self.ask(),
        }
    }

    fn died(&self, ranks: &[Rank], text: &str) {
        let (ended, dead): (Vec<Rank>, Vec<Rank>) =
            ranks.iter().partition(|rank| self.has_ended(rank.0));
        if !ended.is_empty() {
            let boards = ended.iter().map(|rank| self.crew.node.board(rank.index()));
            boards.for_each(|board| board.vanish());
            self.lock().say_boards(&self.crew);
            self.tend();
        }
        if let Some(error) = death::error(&dead, "died", text) {
            self.crew.node.abort(self.crew.me.0, &error);
            self.tell_abort();
        }
    }

    fn relieved(&self) {
        let mut state = self.lock();
        if !state.left {
            self.begin_parting(&mut state);
        }
        drop(state);
        self.tend();
    }

    fn go_on(&self) {
        self.tend();
    }

    fn exit(&self, behind: &[Rank], text: &str, limit: Duration) {
        let Some(mut state) = lock_at_exit(&self.state, limit).filter(|state| !state.left) else {
            return;
        };
        let behind: Vec<Rank> = behind
            .iter()
            .copied()
            .filter(|rank| !self.has_left(rank.0) && !self.has_ended(rank.0))
            .collect();
        if let Some(error) = death::error(&behind, "died", text) {
            self.crew.node.abort(self.crew.me.0, &error);
        }
        state.say_abort(&self.crew);
        self.begin_parting(&mut state);
        state.leaves = true;
        drop(state);
        self.part(limit, || lock_at_exit(&self.state, limit));
    }
}

impl Attended for Lookout {
    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        let state = self.lock();
        if state.leaves {
            return true;
        }
        let mut all = state.newcomers.watch(set) && state.parting.is_none();
        for neighbour in &state.neighbours {
            all &= neighbour.watch(set);
        }
        all
    }

    fn tend(&self) {
        let mut state = self.lock();
        if state.left || state.leaves {
            return;
        }
        let lost = self.look(&mut state);
        if state.missing().next().is_none() {
            self.met.notify_all();
        }
        if let Some(since) = state.parting
            && (state.have_parted() || since.past(state.bye_limit()))
        {
            state.end();
        }
        let (stays, left) = (state.stays, state.left);
        drop(state);
        for (rank, text) in lost {
            // Where its own rank has left, there may be nobody to hear `on_lost`.
            if stays
                && !self.has_ended(rank.0)
                && let Some(error) = death::error(&[rank], "cannot be reached", &text)
            {
                self.crew.node.abort(self.crew.me.0, &error);
            }
            (self.crew.on_lost)(&[rank], &text);
        }
        if left {
            self.dismiss();
        }
    }
}

impl std::fmt::Debug for Lookout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lookout(rank {})", self.crew.me)
    }
}
