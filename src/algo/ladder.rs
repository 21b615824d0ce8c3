//! Ladders: the levels of a communicator as algorithms climb them, from the ranks of a cache to all
//! ranks.
//!
//! *Parts* of a level are the ranks of a cache, of a socket, of a node; the last level has one
//! part, all ranks. The *leader* of a part is its lowest rank. The *group* of a rank at a level
//! climbs there together: the leaders of the parts of the level below that lie in the same part
//! (at the first level the ranks themselves). Where all parts of a level have the same size, the
//! ladder is *even*: then a rank has a number whose digits say where it sits, the nearest level
//! first, and ranks whose numbers differ in the digit of a level only are a *column*.

use crate::plan::Nodes;
use crate::plan::parts::even_size;

/// The levels of a communicator.
pub struct Ladder {
    /// By level, the leader of each rank's part.
    leaders: Vec<Vec<u32>>,
    /// Ranks by number.
    order: Vec<u32>,
    /// Ranks of a part by level, where all have as many; else empty.
    sizes: Vec<u32>,
}

impl Ladder {
    /// The caches, sockets and nodes of a communicator.
    pub fn of(nodes: &Nodes) -> Ladder {
        let n = nodes.nranks();
        let mut levels: Vec<Vec<u32>> = nodes.parts().levels().to_vec();
        if nodes.count() > 1 && nodes.count() < n {
            levels.push((0..n).map(|rank| nodes.node_of(rank)).collect());
        }
        levels.push(vec![0; n as usize]);
        let leaders: Vec<Vec<u32>> = levels.iter().map(|part| lowest(part)).collect();
        let mut order: Vec<u32> = (0..n).collect();
        let place = |&rank: &u32| -> Vec<u32> {
            let outermost_first = leaders.iter().rev();
            outermost_first.map(|of| of[rank as usize]).collect()
        };
        order.sort_by_key(place);
        let sizes: Option<Vec<u32>> = leaders.iter().map(|of| even_size(of)).collect();
        Ladder {
            sizes: sizes.unwrap_or_default(),
            leaders,
            order,
        }
    }

    /// How many levels there are, at least one.
    pub fn height(&self) -> usize {
        self.leaders.len()
    }

    /// The leader of the part of a rank.
    pub fn leader(&self, level: usize, rank: u32) -> u32 {
        self.leaders[level][rank as usize]
    }

    /// Whether a rank leads its parts of all levels below this one.
    pub fn climbs_to(&self, level: usize, rank: u32) -> bool {
        level == 0 || self.leader(level - 1, rank) == rank
    }

    /// The group of a rank at a level, its leader first.
    pub fn group(&self, level: usize, rank: u32) -> Vec<u32> {
        let leader = self.leader(level, rank);
        let here = |&rank: &u32| self.leader(level, rank) == leader && self.climbs_to(level, rank);
        (0..self.order.len() as u32).filter(here).collect()
    }

    /// Whether all parts of every level have the same size.
    pub fn is_even(&self) -> bool {
        !self.sizes.is_empty()
    }

    /// Parts of the level below in a part of this one, on an even ladder.
    pub fn width(&self, level: usize) -> u32 {
        self.sizes[level] / self.stride(level)
    }

    /// How far apart the numbers of a column are, on an even ladder.
    pub fn stride(&self, level: usize) -> u32 {
        match level {
            0 => 1,
            _ => self.sizes[level - 1],
        }
    }

    /// The number of a rank.
    pub fn number(&self, rank: u32) -> u32 {
        let at = self.order.iter().position(|&other| other == rank);
        at.expect("every rank has a number") as u32
    }

    /// The rank with a number.
    pub fn rank(&self, number: u32) -> u32 {
        self.order[number as usize]
    }

    /// The digit of a number at a level.
    pub fn digit(&self, level: usize, number: u32) -> u32 {
        number / self.stride(level) % self.width(level)
    }

    /// The column of a number at a level: the ranks by their digit.
    pub fn column(&self, level: usize, number: u32) -> Vec<u32> {
        let first = number - self.digit(level, number) * self.stride(level);
        let member = |digit| self.rank(first + digit * self.stride(level));
        (0..self.width(level)).map(member).collect()
    }
}

/// For every rank the lowest rank of its part.
fn lowest(part: &[u32]) -> Vec<u32> {
    let mut first = std::collections::HashMap::new();
    let ranks = (0..).zip(part);
    ranks
        .map(|(rank, &part)| *first.entry(part).or_insert(rank))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 12 ranks: two sockets in turn, in each three caches of two.
    fn cyclic() -> Ladder {
        let socket: Vec<u32> = (0..12).map(|rank| rank % 2).collect();
        let cache: Vec<u32> = (0..12).map(|rank| rank / 4).collect();
        Ladder::of(&Nodes::one(12).with_parts(&[cache, socket]))
    }

    #[test]
    fn leaders_climb() {
        let ladder = cyclic();
        assert_eq!(ladder.height(), 3);
        assert_eq!(ladder.group(0, 6), [4, 6]);
        assert_eq!(ladder.group(1, 4), [0, 4, 8]);
        assert_eq!(ladder.group(2, 1), [0, 1]);
        assert!(ladder.climbs_to(1, 5) && !ladder.climbs_to(2, 5) && !ladder.climbs_to(1, 7));
        let flat = Ladder::of(&Nodes::one(4));
        assert_eq!((flat.height(), flat.group(0, 2)), (1, vec![0, 1, 2, 3]));
        let nodes = Ladder::of(&Nodes::uniform(3, 2));
        assert_eq!((nodes.height(), nodes.group(1, 4)), (2, vec![0, 2, 4]));
        assert_eq!(Ladder::of(&Nodes::uniform(3, 1)).height(), 1);
    }

    #[test]
    fn columns_have_one_rank_of_each_part() {
        let ladder = cyclic();
        assert!(ladder.is_even());
        assert_eq!([0, 1, 2].map(|level| ladder.width(level)), [2, 3, 2]);
        let number = ladder.number(6);
        assert_eq!(ladder.rank(number), 6);
        assert_eq!(
            [0, 1, 2].map(|level| ladder.digit(level, number)),
            [1, 1, 0]
        );
        assert_eq!(ladder.column(0, number), [4, 6]);
        assert_eq!(ladder.column(1, number), [2, 6, 10]);
        assert_eq!(ladder.column(2, number), [6, 7]);
        let uneven = Nodes::one(5).with_parts(&[vec![0, 0, 1, 1, 1]]);
        assert!(!Ladder::of(&uneven).is_even());
    }
}
