//! Values as hash-consed expressions.
//!
//! A value is a *leaf* (the input chunk of a rank, raw or scaled), or a bracket around two values
//! that are folded, or the post-scaled form of one. Equal expressions get equal numbers (A. Ershov,
//! "On programming of arithmetic operations", 1958: hash-consing), so comparing values is comparing
//! numbers, and each folded value is made once, with the set of ranks it is made of.

use super::net::NONE;

/// Facts about a scaled leaf or a fold.
#[derive(Clone, Copy)]
pub(super) struct Node {
    /// The (channel, input chunk) that all its leaves have.
    pub key: u32,
    /// Rank of the first and of the last leaf.
    pub first: u32,
    last: u32,
    /// Leaves.
    pub size: u32,
    pub is_ordered: bool,
    pub is_final: bool,
}

/// All expressions of a pass: raw leaves, then scaled leaves, then folds and final values.
pub(super) struct Expressions {
    /// Raw leaves: numbers below this.
    pub leaves: u32,
    words: usize,
    nodes: Vec<Node>,
    sets: Vec<u64>,
    table: Vec<(u64, u32)>,
    made: usize,
}

impl Expressions {
    pub fn new(leaves: u32, nranks: u32) -> Expressions {
        Expressions {
            leaves,
            words: (nranks as usize).div_ceil(64),
            nodes: Vec::new(),
            sets: Vec::new(),
            table: vec![(u64::MAX, 0); 1024],
            made: 0,
        }
    }

    /// The scaled form of raw leaf `leaf`, the chunk `key` of `rank`.
    pub fn add_scaled_leaf(&mut self, key: u32, rank: u32) {
        self.nodes.push(Node {
            key,
            first: rank,
            last: rank,
            size: 1,
            is_ordered: true,
            is_final: false,
        });
        let set = self.sets.len();
        self.sets.resize(set + self.words, 0);
        self.sets[set + rank as usize / 64] |= 1 << (rank % 64);
    }

    pub fn is_raw(&self, value: u32) -> bool {
        value < self.leaves
    }

    pub fn node(&self, value: u32) -> &Node {
        &self.nodes[(value - self.leaves) as usize]
    }

    pub fn set(&self, value: u32) -> &[u64] {
        let start = (value - self.leaves) as usize * self.words;
        &self.sets[start..start + self.words]
    }

    /// The number of the expression `(left, right)`, and whether it is new.
    fn number(&mut self, left: u32, right: u32) -> (u32, bool) {
        if self.made * 2 > self.table.len() {
            let larger = vec![(u64::MAX, 0); self.table.len() * 4];
            for (key, value) in std::mem::replace(&mut self.table, larger) {
                if key != u64::MAX {
                    let at = self.find(key);
                    self.table[at] = (key, value);
                }
            }
        }
        let key = u64::from(left) << 32 | u64::from(right);
        let at = self.find(key);
        if self.table[at].0 == key {
            return (self.table[at].1, false);
        }
        let number = self.leaves + self.nodes.len() as u32;
        self.table[at] = (key, number);
        self.made += 1;
        (number, true)
    }

    fn find(&self, key: u64) -> usize {
        let mask = self.table.len() - 1;
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask;
        while self.table[at].0 != key && self.table[at].0 != u64::MAX {
            at = (at + 1) & mask;
        }
        at
    }

    /// The fold of two values.
    pub fn fold(&mut self, left: u32, right: u32) -> Result<u32, String> {
        let (a, b) = (*self.node(left), *self.node(right));
        if a.is_final || b.is_final {
            return Err("folds a value that is already final (post-scaled)".into());
        }
        if a.key != b.key {
            return Err(format!(
                "folds chunk {} of rank {} with chunk {} of rank {}",
                a.key, a.first, b.key, b.first
            ));
        }
        let overlap = self.set(left).iter().zip(self.set(right));
        if let Some(rank) = first_bit(overlap.map(|(a, b)| a & b)) {
            let key = a.key;
            return Err(format!(
                "folds the contribution of rank {rank} to chunk {key} twice"
            ));
        }
        let (number, is_new) = self.number(left, right);
        if is_new {
            self.nodes.push(Node {
                key: a.key,
                first: a.first,
                last: b.last,
                size: a.size + b.size,
                is_ordered: a.is_ordered && b.is_ordered && a.last < b.first,
                is_final: false,
            });
            let (from, with) = (
                (left - self.leaves) as usize * self.words,
                (right - self.leaves) as usize * self.words,
            );
            for word in 0..self.words {
                let union = self.sets[from + word] | self.sets[with + word];
                self.sets.push(union);
            }
        }
        Ok(number)
    }

    /// The post-scaled form of a value.
    pub fn finish(&mut self, value: u32) -> Result<u32, String> {
        let node = *self.node(value);
        if node.is_final {
            return Err("post-scales a value twice".into());
        }
        let (number, is_new) = self.number(value, NONE);
        if is_new {
            self.nodes.push(Node {
                is_final: true,
                ..node
            });
            let from = (value - self.leaves) as usize * self.words;
            self.sets.extend_from_within(from..from + self.words);
        }
        Ok(number)
    }
}

/// The number of the first bit that is set.
pub(super) fn first_bit(words: impl Iterator<Item = u64>) -> Option<usize> {
    let found = words.enumerate().find(|&(_, word)| word != 0);
    found.map(|(at, word)| at * 64 + word.trailing_zeros() as usize)
}
