//! Contents of tokens, as numbers: both ends of a connection must come to the same one.
//!
//! The length of a chunk of blocks does not depend on its number, so there only the number of
//! pieces counts, and a reader may put a block elsewhere. Chunks of split data differ in length:
//! there a token is the list of its chunks, however the steps of the two ends express it.

use crate::plan::{Layout, Plan, Step, StepOp};
use std::collections::HashMap;

/// A token of several pieces; the other bits are their number, or that of their list.
const PACKED: u32 = 1 << 31;

/// The lists of chunks that packed tokens hold.
#[derive(Default)]
pub(super) struct Contents {
    numbers: HashMap<Vec<(u32, u32)>, u32>,
    /// Each as runs: first chunk and length.
    lists: Vec<Vec<(u32, u32)>>,
}

impl Contents {
    /// The content of token `token` of a step: 0 nothing; 1 one chunk of blocks; 1 + c chunk c of
    /// a split; see [`PACKED`] for more than one.
    pub fn of(&mut self, plan: &Plan, step: &Step, token: u16) -> u32 {
        let pieces = step.pieces();
        match (step.op, plan.layout, pieces) {
            (StepOp::Token, ..) => 0,
            (_, Layout::Blocks, 1) => 1,
            (_, Layout::Blocks, _) => PACKED | pieces,
            (_, Layout::Split, 1) => 1 + step.piece_at(token, 0, plan.chunks),
            (_, Layout::Split, _) => PACKED | 1 << 30 | self.list(runs(plan, step)),
        }
    }

    fn list(&mut self, list: Vec<(u32, u32)>) -> u32 {
        if let Some(&number) = self.numbers.get(&list) {
            return number;
        }
        let number = self.lists.len() as u32;
        self.lists.push(list.clone());
        self.numbers.insert(list, number);
        number
    }

    /// A content in words.
    pub fn text(&self, content: u32) -> String {
        if content == 0 {
            return "nothing".into();
        }
        if content & PACKED == 0 {
            return format!("chunk {} (where lengths differ)", content - 1);
        }
        let number = content & !(PACKED | 1 << 30);
        if content & 1 << 30 == 0 {
            return format!("{number} chunks");
        }
        let runs = self.lists[number as usize].iter();
        let runs: Vec<String> = runs
            .map(|&(first, length)| match length {
                1 => format!("{first}"),
                _ => format!("{first} and the {} behind it", length - 1),
            })
            .collect();
        format!("chunks {}", runs.join(", "))
    }
}

/// The pieces of a packed step as the longest runs of consecutive chunks, in order: equal for
/// equal lists of pieces.
fn runs(plan: &Plan, step: &Step) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    let mut next = None;
    for piece in 0..step.pieces() {
        let chunk = step.piece_at(0, piece, plan.chunks);
        match runs.last_mut().filter(|_| next == Some(chunk)) {
            Some((_, length)) => *length += 1,
            None => runs.push((chunk, 1)),
        }
        next = Some((chunk + 1) % plan.chunks.max(1));
    }
    runs
}
