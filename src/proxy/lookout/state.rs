//! Knowledge of a lookout, and what it says to all others.

use super::crew::Crew;
use super::ear::Newcomers;
use super::message::{MOST_BOARDS, Message, News};
use super::neighbour::{Heard, Neighbour, let_in};
use crate::base::Rank;
use crate::base::clock::Moment;
use crate::proxy::patience::{BYE_LIMIT, UNMET_BYE_LIMIT};
use std::collections::HashMap;
use std::time::Duration;

/// Knowledge of a lookout.
pub(super) struct State {
    pub newcomers: Newcomers,
    pub neighbours: Vec<Neighbour>,
    /// The last number heard from each lookout.
    heard: HashMap<u32, u64>,
    said: u64,
    /// An abort was told or heard.
    pub aborted: bool,
    /// Its rank has left, but others of the node have not.
    pub stays: bool,
    /// The end of its rank was told, which others of the node have not come to.
    pub end_is_told: bool,
    /// Since when it says goodbye.
    pub parting: Option<Moment>,
    /// A thread waits for its goodbyes, and tends it alone.
    pub leaves: bool,
    pub left: bool,
}

impl State {
    pub fn new(newcomers: Newcomers, neighbours: Vec<Neighbour>) -> State {
        State {
            newcomers,
            neighbours,
            heard: HashMap::new(),
            said: 0,
            aborted: false,
            stays: false,
            end_is_told: false,
            parting: None,
            leaves: false,
            left: false,
        }
    }

    /// Returns what neighbour number `index` has said since the last time, once all that it waits
    /// to send was looked at.
    pub fn listen(&mut self, index: usize, nonce: u128) -> Vec<Heard> {
        let mut heard = self.neighbours[index].look();
        if self.neighbours[index].is_in_doubt() {
            let_in(&mut self.neighbours, &mut self.newcomers, nonce);
            heard.extend(self.neighbours[index].look_again());
        }
        heard
    }

    /// Whether what `origin` says under this number is new.
    pub fn is_new(&mut self, origin: u32, number: u64) -> bool {
        let last = self.heard.entry(origin).or_insert(0);
        let is_new = number > *last;
        *last = number.max(*last);
        is_new
    }

    /// Passes a message of neighbour number `index` on to the others.
    pub fn pass_on(&mut self, index: usize, bytes: &[u8]) {
        for (other, neighbour) in self.neighbours.iter_mut().enumerate() {
            if other != index {
                neighbour.queue(bytes.to_vec());
            }
        }
    }

    /// Says something to all lookouts.
    pub fn say(&mut self, me: Rank, news: News) {
        self.said += 1;
        let number = self.said;
        self.say_to_neighbours(me, number, news);
    }

    /// Says goodbye, which is passed on by nobody.
    pub fn say_goodbye(&mut self, me: Rank) {
        self.say_to_neighbours(me, 0, News::Bye);
    }

    fn say_to_neighbours(&mut self, me: Rank, number: u64, news: News) {
        let message = Message {
            origin: me.0,
            number,
            news,
        };
        let bytes = message.encode();
        for neighbour in &mut self.neighbours {
            neighbour.queue(bytes.clone());
        }
    }

    /// Tells what the ranks of this node do.
    pub fn say_boards(&mut self, crew: &Crew) {
        for mates in crew.mates.chunks(MOST_BOARDS) {
            let board = |rank: &Rank| (rank.0, crew.node.board(rank.index()).copy());
            self.say(crew.me, News::Boards(mates.iter().map(board).collect()));
        }
    }

    /// Tells why the communicator has stopped, if it has and nobody has told it.
    pub fn say_abort(&mut self, crew: &Crew) {
        if let Some(abort) = crew.node.abort_record().get()
            && !std::mem::replace(&mut self.aborted, true)
        {
            self.say(crew.me, News::Abort(abort));
        }
    }

    /// The neighbours that do not hear it, or that it does not hear, and that are not known to be
    /// gone.
    pub fn missing(&self) -> impl Iterator<Item = u32> {
        let missing = self.neighbours.iter().filter(|it| !it.is_met());
        missing.map(|neighbour| neighbour.rank)
    }

    /// How long goodbyes may take: those that were never met, as a start was given up, have heard
    /// nothing that must be taken back.
    pub fn bye_limit(&self) -> Duration {
        if self.neighbours.iter().all(Neighbour::was_met) {
            BYE_LIMIT
        } else {
            UNMET_BYE_LIMIT
        }
    }

    /// One look whether all neighbours have the goodbye, and what was passed on behind it.
    pub fn have_parted(&mut self) -> bool {
        // Side by side, for each of them may be waiting for this one. A way that has ended takes
        // nothing any more that others say meanwhile: so all end together.
        let have_all = |all, neighbour: &mut Neighbour| neighbour.has_all() & all;
        let settle = |all, neighbour: &mut Neighbour| neighbour.settles() & all;
        self.neighbours.iter_mut().fold(true, have_all)
            && self.neighbours.iter_mut().fold(true, settle)
    }

    /// Closes all connections.
    pub fn end(&mut self) {
        self.left = true;
        self.neighbours.clear();
        drop(self.newcomers.take());
    }
}
