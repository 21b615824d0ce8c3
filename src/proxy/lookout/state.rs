//! Knowledge of a lookout behind its lock, and what it says to the others.

use super::crew::Crew;
use super::ear::Newcomers;
use super::message::{MOST_BOARDS, Message, News, SEEN_BYTES, SeenPart};
use super::neighbour::{self, Neighbour};
use crate::base::Rank;
use crate::base::clock::Moment;
use crate::proxy::inquiry::RingAnswers;
use std::collections::HashMap;

/// Knowledge of a lookout.
pub struct State {
    pub newcomers: Newcomers,
    pub neighbours: Vec<Neighbour>,
    /// The last number heard from each lookout.
    pub heard: HashMap<u32, u64>,
    pub said: u64,
    /// Answers to questions of this process about other nodes.
    pub gathered: Vec<RingAnswers>,
    /// Lookouts that ask what this node does, and the numbers of their questions.
    pub asked: Vec<(u32, u64)>,
    /// An abort was told or heard.
    pub aborted: bool,
    /// Its rank has left, but others of the node have not.
    pub stays: bool,
    /// Since when it says goodbye, after it has stayed.
    pub parting: Option<Moment>,
    pub left: bool,
}

impl State {
    /// Between its neighbours, and nothing has happened.
    pub fn new(newcomers: Newcomers, neighbours: Vec<Neighbour>) -> State {
        State {
            newcomers,
            neighbours,
            heard: HashMap::new(),
            said: 0,
            gathered: Vec::new(),
            asked: Vec::new(),
            aborted: false,
            stays: false,
            parting: None,
            left: false,
        }
    }

    /// One look whether all neighbours have heard the goodbye.
    pub fn have_parted(&mut self, nonce: u128) -> bool {
        neighbour::let_in(&mut self.neighbours, &mut self.newcomers, nonce);
        let mut parted = true;
        for neighbour in &mut self.neighbours {
            parted &= neighbour.parts();
        }
        parted
    }

    /// Says something to all lookouts.
    pub fn say(&mut self, me: Rank, news: News) {
        self.said += 1;
        let message = Message {
            origin: me.0,
            number: self.said,
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

    /// Says what is seen on this node, in parts.
    pub fn say_seen(&mut self, me: Rank, asker: u32, question: u64, text: &[u8]) {
        let parts = text.chunks(SEEN_BYTES);
        let all = parts.len() as u32;
        for (at, bytes) in parts.enumerate() {
            let part = SeenPart {
                asker,
                question,
                at: at as u32,
                all,
                bytes: bytes.to_vec(),
            };
            self.say(me, News::Seen(part));
        }
    }

    /// Part of an answer has come from `origin`, to this lookout or another.
    pub fn hear(&mut self, me: Rank, origin: u32, part: SeenPart) {
        let mut open = self.gathered.iter_mut();
        let is_it = |it: &&mut RingAnswers| part.asker == me.0 && it.number == part.question;
        if let Some(gathered) = open.find(is_it) {
            gathered.take(origin, part.at, part.all, part.bytes);
        }
    }
}
