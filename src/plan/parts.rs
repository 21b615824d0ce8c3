//! Parts of nodes: ranks that share more than their node, level by level.
//!
//! The problem: on a node of many cores a hand-over between two sockets takes several times as long
//! as one inside a cache, so a schedule crosses them as seldom as it can. The idea: as the node of
//! a rank, so its socket and its cache are numbers that all ranks know. Levels that say nothing are
//! left out, so an algorithm sees only those that are worth a step: one in which every part is a
//! rank, or a whole part of the next level.
//!
//! Term: *part*: the ranks of a cache, of a socket, or of whatever else a level is.

use std::collections::HashMap;

/// Levels of parts, the smallest parts first. Parts nest: each lies in one part of the next level,
/// and those of the last level each in one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeParts {
    /// By level, the number of the part of every rank; numbers count up with the lowest ranks.
    levels: Vec<Vec<u32>>,
}

impl NodeParts {
    /// Parts by any numbering: `levels[k][r]` is equal for ranks that share a part of level k, the
    /// smallest parts first; `node_of[r]` is the node.
    pub fn of(levels: &[Vec<u32>], node_of: &[u32]) -> NodeParts {
        let mut kept: Vec<Vec<u32>> = Vec::new();
        let mut around = numbered(node_of.iter().map(|&node| (node, 0)));
        for names in levels.iter().rev() {
            let part = numbered(around.iter().copied().zip(names.iter().copied()));
            if part != around && count(&part) < part.len() {
                kept.push(part.clone());
                around = part;
            }
        }
        kept.reverse();
        NodeParts { levels: kept }
    }

    /// The part of every rank at each level, the smallest parts first.
    pub fn levels(&self) -> &[Vec<u32>] {
        &self.levels
    }

    /// The parts of some ranks: `members[r]` is to be rank r, and all are on one node.
    pub(super) fn restricted(&self, members: &[u32]) -> NodeParts {
        let of = |names: &Vec<u32>| members.iter().map(|&old| names[old as usize]).collect();
        let levels: Vec<Vec<u32>> = self.levels.iter().map(of).collect();
        NodeParts::of(&levels, &vec![0; members.len()])
    }
}

/// Ranks of a part, if all parts of a level have as many; `part` names that of each rank.
pub fn even_size(part: &[u32]) -> Option<u32> {
    let mut sizes = HashMap::new();
    part.iter()
        .for_each(|name| *sizes.entry(name).or_insert(0) += 1);
    let mut sizes = sizes.into_values();
    let first = sizes.next()?;
    sizes.all(|size| size == first).then_some(first)
}

/// Members of a group that hand what they have to one leader; more are taken in runs.
pub const FEW_MEMBERS: usize = 16;
/// Leaders at the top that exchange with each other at once; more do so by doubling.
pub const FEW_TOPS: usize = 4;

/// Members of a run of a group: all of a small one, else about the square root of their number, so
/// that there are as many runs.
pub fn run_of(members: usize) -> usize {
    if members <= FEW_MEMBERS {
        return members;
    }
    let root = members.isqrt();
    root + usize::from(root * root < members)
}

/// Numbers names in the order in which they first occur.
fn numbered(names: impl Iterator<Item = (u32, u32)>) -> Vec<u32> {
    let mut known = HashMap::new();
    let number = |name| {
        let next = known.len() as u32;
        *known.entry(name).or_insert(next)
    };
    names.map(number).collect()
}

/// How many parts there are.
fn count(part: &[u32]) -> usize {
    part.iter().max().map_or(0, |&last| last as usize + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_say_nothing_are_left_out() {
        let node = [0; 8];
        let cache = vec![40, 40, 41, 41, 50, 50, 51, 51];
        let socket = vec![4, 4, 4, 4, 5, 5, 5, 5];
        let both = NodeParts::of(&[cache.clone(), socket.clone()], &node);
        assert_eq!(
            both.levels(),
            [vec![0, 0, 1, 1, 2, 2, 3, 3], vec![0, 0, 0, 0, 1, 1, 1, 1]]
        );
        let alone: Vec<u32> = (0..8).collect();
        assert_eq!(
            NodeParts::of(&[alone, socket.clone()], &node)
                .levels()
                .len(),
            1
        );
        assert_eq!(
            NodeParts::of(&[socket.clone(), vec![7; 8]], &node)
                .levels()
                .len(),
            1
        );
        assert_eq!(
            NodeParts::of(&[socket.clone(), socket.clone()], &node)
                .levels()
                .len(),
            1
        );
        assert_eq!(
            NodeParts::of(std::slice::from_ref(&socket), &[0, 0, 0, 0, 1, 1, 1, 1]),
            NodeParts::default()
        );
    }

    #[test]
    fn parts_nest_whatever_their_names_are() {
        // The same name on two nodes, and a cache that would lie in two sockets.
        let two = NodeParts::of(&[vec![3, 3, 3, 3]], &[0, 1, 0, 1]);
        assert_eq!(two, NodeParts::default(), "each node is one part");
        let split = NodeParts::of(&[vec![1, 1, 1, 1], vec![0, 0, 1, 1]], &[0; 4]);
        assert_eq!(split.levels(), [vec![0, 0, 1, 1]]);
    }

    #[test]
    fn some_ranks_keep_their_parts() {
        let cache = vec![0, 1, 0, 1, 2, 3, 2, 3];
        let socket = vec![0, 0, 0, 0, 1, 1, 1, 1];
        let all = NodeParts::of(&[cache, socket], &[0; 8]);
        assert_eq!(all.restricted(&[6, 0, 4, 2]).levels(), [vec![0, 1, 0, 1]]);
        assert_eq!(all.restricted(&[0, 1, 4]).levels(), [vec![0, 0, 1]]);
        assert_eq!(all.restricted(&[1, 5]), NodeParts::default());
    }
}
