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

use crate::base::clock;
use crate::base::turns;
use crate::base::{Error, Rank, Result};
use crate::proxy::inquiry::{self, Inquiry, RingAnswers};
use crate::proxy::patience::{BYE_LIMIT, lock_at_exit, try_lock};
use crate::proxy::service::{self, Alarm, Staying, Watch};
use crate::proxy::{attended::Attended, death};
use crate::transport::net::Handle;
use crate::transport::net::socket::was_closed;
use crate::transport::segment::Nonce;
use ear::Newcomers;
use message::{Message, News, token};
use neighbour::{Heard, Neighbour};
use state::State;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// The rest between two looks at what has come.
const REST: Duration = Duration::from_millis(2);

/// The lookout of this rank's node. Safe to call from any thread.
pub struct Lookout {
    me: Weak<Lookout>,
    crew: Crew,
    state: Mutex<State>,
}

impl Lookout {
    /// Takes up its post between its neighbours, of which the ring has one or two; the service
    /// thread looks after it from now on.
    ///
    /// # Errors
    /// Of the network.
    pub fn new(post: Post, crew: Crew, neighbours: &[(Rank, Handle)]) -> Result<Arc<Lookout>> {
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
        let neighbours = neighbours?;
        let lookout = Arc::new_cyclic(|me| Lookout {
            me: me.clone(),
            state: Mutex::new(State::new(Newcomers::new(post.listener), neighbours)),
            crew,
        });
        service::get()?.attend(Arc::clone(&lookout) as Arc<dyn Attended>);
        Ok(lookout)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tends it on whichever thread this is. The service thread must hear of it, as it sleeps on
    /// what there was before: not on who was let in here, nor on a way for what could not be said.
    fn tend_here(&self) {
        self.tend();
        if let Ok(service) = service::get() {
            service.look_again();
        }
    }

    /// Tells all nodes why this one has stopped, if it has.
    pub fn tell_abort(&self) {
        let mut state = self.lock();
        self.say_abort(&mut state);
        drop(state);
        self.tend_here();
    }

    fn say_abort(&self, state: &mut State) {
        if let Some(abort) = self.crew.node.abort_record().get()
            && !std::mem::replace(&mut state.aborted, true)
        {
            state.say(self.crew.me, News::Abort(abort));
        }
    }

    /// Asks all nodes what their ranks do; the answers appear on this node's board.
    pub fn ask(&self) {
        let mut state = self.lock();
        // The others may have been waiting for this rank: they learn of it unasked.
        state.say_boards(&self.crew);
        state.say(self.crew.me, News::Ask);
        drop(state);
        self.tend_here();
    }

    /// Asks the lookouts of all other nodes, and gives their answers: those that are whole within
    /// `limit`, and the places (`host (pid)`) of those who have not answered.
    pub fn look_around(&self, limit: Duration) -> (Vec<Vec<u8>>, Vec<String>) {
        let start = clock::now();
        let mut state = self.lock();
        state.say_boards(&self.crew);
        let question = state.said + 1;
        state.gathered.push(RingAnswers::new(question));
        state.say(self.crew.me, News::Look(question));
        // This one is answered at once, whatever the processes there do.
        state.say(self.crew.me, News::Ask);
        drop(state);
        self.tend_here();
        loop {
            let mut state = self.lock();
            let Some(at) = state.gathered.iter().position(|it| it.number == question) else {
                return Default::default();
            };
            let is_asked = |rank: u32| rank != self.crew.me.0 && !self.has_left(rank);
            let is_silent = |rank: u32| is_asked(rank) && !state.gathered[at].is_whole(rank);
            let places = self.crew.places.iter();
            let silent = places.filter(|(rank, _)| is_silent(**rank));
            let silent: Vec<String> = silent.map(|(_, place)| place.clone()).collect();
            if silent.is_empty() || start.past(limit) || state.left {
                return (state.gathered.swap_remove(at).whole(), silent);
            }
            drop(state);
            turns::sleep(REST);
        }
    }

    /// The lookout of rank `asker` asks; whoever answers takes a thread for it.
    fn is_asked(&self, asker: u32, question: u64) {
        let me = self.me.clone();
        let answer = move |text: &[u8]| {
            let Some(lookout) = me.upgrade() else {
                return;
            };
            let mut state = lookout.lock();
            state.say_boards(&lookout.crew);
            state.say_seen(lookout.crew.me, asker, question, text);
            drop(state);
            lookout.tend_here();
        };
        inquiry::came(Inquiry::Node(Nonce(self.crew.nonce)), Box::new(answer));
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
        self.tend_here();
        watch.stay(this);
    }

    /// Says goodbye and closes all connections, unless it stays.
    pub fn leave(&self) {
        let mut state = self.lock();
        if state.stays || state.left {
            return;
        }
        self.last_news(&mut state);
        self.part(state, BYE_LIMIT);
        self.dismiss();
    }

    /// The process of the rank exits with status 0, and nothing of the rank is in flight: one look
    /// whether the other nodes know it. Others of its node mostly end at the same time, and their
    /// ends are told too where they come before the last look.
    pub fn end(&self, is_last: bool) -> bool {
        let Some(mut state) = try_lock(&self.state) else {
            return false;
        };
        if state.left || state.stays {
            return true;
        }
        let is_over = |rank: &Rank| self.has_left(rank.0) || self.has_ended(rank.0);
        if !is_last && !self.crew.mates.iter().all(is_over) {
            return false;
        }
        self.begin_parting(&mut state);
        state.have_parted(self.crew.nonce)
    }

    /// Says goodbye, once; whoever looks after it goes on.
    fn begin_parting(&self, state: &mut State) {
        if state.parting.is_some() {
            return;
        }
        self.last_news(state);
        let bye = self.bye();
        for neighbour in &mut state.neighbours {
            neighbour.queue(bye.clone());
        }
        state.parting = Some(clock::now());
    }

    /// Tells the others, before a goodbye, why the communicator has stopped and who of the node has
    /// left.
    fn last_news(&self, state: &mut State) {
        self.say_abort(state);
        state.say_boards(&self.crew);
    }

    fn part(&self, mut state: MutexGuard<State>, limit: Duration) {
        state.left = true;
        let neighbours = std::mem::take(&mut state.neighbours);
        let newcomers = state.newcomers.take();
        // The thread that tends this lookout may also tend a neighbour's, which has to answer.
        drop(state);
        // Who does not hear it sees that the connection ends.
        let _ = neighbour::part(neighbours, newcomers, self.crew.nonce, &self.bye(), limit);
    }

    fn bye(&self) -> Vec<u8> {
        let message = Message {
            origin: self.crew.me.0,
            number: 0,
            news: News::Bye,
        };
        message.encode()
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
        let State {
            neighbours,
            newcomers,
            ..
        } = state;
        neighbour::let_in(neighbours, newcomers, self.crew.nonce);
        for index in 0..state.neighbours.len() {
            let mut heard = state.neighbours[index].look();
            if state.neighbours[index].is_in_doubt() {
                let State {
                    neighbours,
                    newcomers,
                    ..
                } = state;
                neighbour::let_in(neighbours, newcomers, self.crew.nonce);
                heard.extend(neighbours[index].look_again());
            }
            let rank = state.neighbours[index].rank;
            for heard in heard {
                match heard {
                    Heard::Message(message) => self.take(state, index, message, &mut lost),
                    // Its rank had left, and then its process exited without goodbye.
                    Heard::Lost(error)
                        if self.has_left(rank)
                            && (was_closed(&error) || !state.neighbours[index].was_met()) => {}
                    Heard::Lost(_) if self.has_ended(rank) => {}
                    Heard::Lost(error) => {
                        let was_met = state.neighbours[index].was_met();
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

    fn lost_text(&self, rank: u32, was_met: bool, error: &Error) -> String {
        let place = |rank: u32| self.crew.places.get(&rank).map_or("?", String::as_str);
        let what = match was_met {
            true => "the process ended, or its node or network did",
            false => "there was no connection to it yet",
        };
        let (there, here) = (place(rank), place(self.crew.me.0));
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
                state.neighbours[index].departed = true;
                if !self.has_ended(rank) {
                    node.board(rank as usize).leave(false);
                }
                node.wake_others();
                let board = (rank, node.board(rank as usize).copy());
                return state.say(self.crew.me, News::Boards(vec![board]));
            }
            _ => {}
        }
        let last = state.heard.entry(message.origin).or_insert(0);
        if message.origin == self.crew.me.0 || message.number <= *last {
            return;
        }
        *last = message.number;
        let bytes = message.encode();
        for (other, neighbour) in state.neighbours.iter_mut().enumerate() {
            if other != index {
                neighbour.queue(bytes.clone());
            }
        }
        match message.news {
            News::Abort(abort) => {
                state.aborted = true;
                node.set_abort(&abort);
            }
            // Somebody has not heard yet that its process ended in good order.
            News::Lost(rank, _) if self.has_ended(rank) => {}
            News::Lost(rank, text) => lost.push((Rank(rank), text)),
            News::Ask => state.say_boards(&self.crew),
            News::Look(question) => state.asked.push((message.origin, question)),
            News::Seen(part) => state.hear(self.crew.me, message.origin, part),
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
            self.tend_here();
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
        self.tend_here();
    }

    fn go_on(&self) {
        self.tend_here();
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
        self.last_news(&mut state);
        self.part(state, limit);
    }
}

impl Attended for Lookout {
    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        let state = self.lock();
        let mut all = state.newcomers.watch(set) && state.parting.is_none();
        for neighbour in &state.neighbours {
            all &= neighbour.watch(set);
        }
        all
    }

    fn tend(&self) {
        let mut state = self.lock();
        if state.left {
            return;
        }
        if let Some(since) = state.parting {
            state.left = state.have_parted(self.crew.nonce) || since.past(BYE_LIMIT);
            if state.left {
                state.neighbours.clear();
                drop(state.newcomers.take());
                drop(state);
                self.dismiss();
            }
            return;
        }
        let lost = self.look(&mut state);
        let (stays, asked) = (state.stays, std::mem::take(&mut state.asked));
        drop(state);
        { asked.into_iter() }.for_each(|(asker, question)| self.is_asked(asker, question));
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
    }
}

impl std::fmt::Debug for Lookout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lookout(rank {})", self.crew.me)
    }
}
