//! Climbing an even ladder with all ranks at work: for data so large that bytes count.
//!
//! Every rank of a part takes a share of the work. The ranks of a cache deal the data out among
//! themselves, so that each has folded its share; ranks that have the same share in all caches of a
//! socket do so with it, and so on. At the top each share is all-reduced between the few that have
//! it, and everything is gathered again on the way down. So each byte crosses between two sockets
//! once each way, and no cache takes in more than it needs. Inside one node results are cast.
//!
//! It is a hierarchy (`hier`) of any number of levels, of which each rank leads one column.
//!
//! Reference: the recursive halves of R. Rabenseifner, "Optimization of collective reduction
//! operations", ICCS 2004, doi:10.1007/978-3-540-24685-5_1, with the parts of a machine in place of
//! halves.

use super::group::{Group, Pieces, flat};
use super::hd::Halving;
use super::ladder::Ladder;
use super::levels::{Bodies, DOUBLING, HALVING};
use super::{nvls, owners, twoshot};
use crate::plan::{Layout, Nodes, Operand, Plan, Readers, Shape};
use std::ops::Range;

const IN_OUTPUT: (Operand, Operand) = (Operand::OUTPUT, Operand::OUTPUT);
const IN_SCRATCH: (Operand, Operand) = (Operand::SCRATCH, Operand::SCRATCH);

/// A rank on an even ladder.
struct Climber {
    ladder: Ladder,
    number: u32,
    /// The last level.
    top: usize,
    /// Ranks of a part below the top: so many shares there are.
    shares: u32,
    one_memory: bool,
}

/// The ladder of ranks that share more than nodes, if it is even.
fn climber(shape: &Shape, nodes: &Nodes) -> Option<Climber> {
    if nodes.parts().levels().is_empty() {
        return None;
    }
    let ladder = Ladder::of(nodes);
    let top = ladder.height() - 1;
    ladder.is_even().then(|| Climber {
        number: ladder.number(shape.rank),
        top,
        shares: ladder.stride(top),
        one_memory: nodes.count() == 1,
        ladder,
    })
}

impl Climber {
    fn share(&self) -> u32 {
        self.number % self.shares
    }

    fn column(&self, level: usize) -> Vec<u32> {
        self.ladder.column(level, self.number)
    }

    /// By member of the own column at a level, the numbers below `end` that agree with its own in
    /// the digits up to that level.
    fn alike(&self, level: usize, end: u32) -> Vec<Vec<u32>> {
        let (stride, width) = (self.ladder.stride(level), self.ladder.width(level));
        let low = self.number % stride;
        let of = |digit| {
            let first = low + digit * stride;
            (first..end).step_by((stride * width) as usize).collect()
        };
        (0..width).map(of).collect()
    }

    /// Shares by member of the own column at a level, each as `width` chunks.
    fn slices(&self, level: usize, width: u32) -> Pieces {
        self.slices_of(level, width, &(0..width))
    }

    /// These of the chunks of [`Climber::slices`].
    fn slices_of(&self, level: usize, width: u32, run: &Range<u32>) -> Pieces {
        let chunks = |share: u32| run.clone().map(move |chunk| share * width + chunk);
        let of = |shares: Vec<u32>| shares.into_iter().flat_map(chunks).collect();
        Pieces::Listed(self.alike(level, self.shares).into_iter().map(of).collect())
    }

    /// Blocks by member of the own column at a level, in as few passes as are regular.
    fn blocks(&self, g: &Group, level: usize) -> Vec<Pieces> {
        let nranks = self.shares * self.ladder.width(self.top);
        let ranks = |numbers: Vec<u32>| -> Vec<Vec<u32>> {
            let mut blocks: Vec<u32> = numbers.into_iter().map(|at| self.ladder.rank(at)).collect();
            blocks.sort_unstable();
            g.regular(&blocks)
        };
        let parts: Vec<Vec<Vec<u32>>> = self.alike(level, nranks).into_iter().map(ranks).collect();
        let passes = parts.iter().map(Vec::len).max().unwrap_or(0);
        let of = |pass| {
            let part = |parts: &Vec<Vec<u32>>| parts.get(pass).cloned().unwrap_or_default();
            Pieces::Listed(parts.iter().map(part).collect())
        };
        (0..passes).map(of).collect()
    }

    /// Most chunks of one token where each share or block is `width` of them.
    fn largest(&self, all: u32, width: u32) -> u32 {
        all / self.ladder.width(0) * width
    }

    /// The bodies that run at the top, and the number of pieces into which a share is cut for them.
    fn at_top(&self) -> (&'static Bodies, u32) {
        match self.ladder.width(self.top) {
            0..=2 => (&DOUBLING, 1),
            members => (&HALVING, (HALVING.pieces)(members)),
        }
    }

    /// Every piece from the member that has it to the column.
    fn gather(&self, g: &mut Group, level: usize, pieces: Pieces) {
        let column = self.column(level);
        let readers = if self.one_memory && column.len() > 2 {
            Readers::group(level, &column)
        } else {
            None
        };
        let mut g = g.level(column, pieces, IN_OUTPUT, true);
        match readers {
            Some(readers) => nvls::all_gather_in(&mut g, readers),
            None => twoshot::all_gather_in(&mut g),
        }
    }

    fn scatter(&self, g: &mut Group, level: usize, pieces: Pieces, kept: Operand) {
        let source = if level == 0 { Operand::INPUT } else { kept };
        let mut g = g.level(self.column(level), pieces, (source, kept), false);
        owners::reduce_scatter_in(&mut g);
    }
}

/// Shares are folded level by level, all-reduced at the top, and gathered. Between more than two
/// nodes that goes by halves of a share (`hd`): one is at work inside while the other one crosses.
pub fn all_reduce(shape: &Shape, nodes: &Nodes) -> Option<Plan> {
    let climber = climber(shape, nodes)?;
    let (bodies, width) = climber.at_top();
    let by_halves = width > 1 && !climber.one_memory;
    let (top, at_once) = (climber.top, if by_halves { width / 2 } else { width });
    Some(flat(shape, climber.shares * width, Layout::Split, |g| {
        g.e.pieces(climber.largest(climber.shares, at_once));
        let fold = |g: &mut Group, run: Range<u32>| {
            for level in 0..top {
                let slices = climber.slices_of(level, width, &run);
                climber.scatter(g, level, slices, Operand::OUTPUT);
            }
        };
        let across = |g: &mut Group, stage: &dyn Fn(&mut Group)| {
            let chunks = (0..width).map(|chunk| vec![climber.share() * width + chunk]);
            let pieces = Pieces::Listed(chunks.collect());
            stage(&mut g.level(climber.column(top), pieces, IN_OUTPUT, true));
        };
        let spread = |g: &mut Group, run: Range<u32>| {
            for level in (0..top).rev() {
                climber.gather(g, level, climber.slices_of(level, width, &run));
            }
        };
        if by_halves {
            let (ladder, number) = (&climber.ladder, climber.number);
            let halving = Halving::of(ladder.width(top), ladder.digit(top, number));
            return halving.between(g, &fold, &across, &spread);
        }
        fold(g, 0..width);
        across(g, &|members| (bodies.all_reduce)(members));
        spread(g, 0..width);
    }))
}

/// The root deals shares to the ranks of its part, each goes to those who have it at the top, and
/// all are gathered.
pub fn broadcast(shape: &Shape, nodes: &Nodes) -> Option<Plan> {
    let climber = climber(shape, nodes)?;
    let (first, at) = rooted(&climber, shape);
    Some(flat(shape, climber.shares, Layout::Split, |g| {
        g.e.pieces(climber.largest(climber.shares, 1));
        for share in 0..climber.shares {
            let owner = climber.ladder.rank(first + share);
            owners::deal(g, shape.root, owner, i64::from(share));
        }
        let pieces = Pieces::Listed(vec![vec![climber.share()]]);
        let mut tops = g.level(climber.column(climber.top), pieces, IN_OUTPUT, true);
        (climber.at_top().0.broadcast)(&mut tops, at);
        for level in (0..climber.top).rev() {
            climber.gather(g, level, climber.slices(level, 1));
        }
    }))
}

/// Shares are folded level by level and at the top, and go to the root from the ranks of its part.
pub fn reduce(shape: &Shape, nodes: &Nodes) -> Option<Plan> {
    let climber = climber(shape, nodes)?;
    let (first, at) = rooted(&climber, shape);
    Some(flat(shape, climber.shares, Layout::Split, |g| {
        g.e.pieces(climber.largest(climber.shares, 1));
        for level in 0..climber.top {
            climber.scatter(g, level, climber.slices(level, 1), Operand::SCRATCH);
        }
        let pieces = Pieces::Listed(vec![vec![climber.share()]]);
        let mut tops = g.level(climber.column(climber.top), pieces, IN_SCRATCH, true);
        (climber.at_top().0.reduce)(&mut tops, at);
        for share in 0..climber.shares {
            let owner = climber.ladder.rank(first + share);
            owners::hand_in(g, shape.root, owner, i64::from(share));
        }
    }))
}

/// The number of the first rank of the root's part, and the root's digit at the top.
fn rooted(climber: &Climber, shape: &Shape) -> (u32, u32) {
    let root = climber.ladder.number(shape.root);
    (root - root % climber.shares, root / climber.shares)
}

/// Blocks go to those at the top who have the same share, and then to wider and wider columns.
pub fn all_gather(shape: &Shape, nodes: &Nodes) -> Option<Plan> {
    let climber = climber(shape, nodes)?;
    Some(flat(shape, shape.nranks, Layout::Blocks, |g| {
        g.e.pieces(climber.largest(shape.nranks, 1));
        g.copy(i64::from(g.me), false);
        let column = climber.column(climber.top);
        let pieces = Pieces::Listed(column.iter().map(|&rank| vec![rank]).collect());
        (climber.at_top().0.all_gather)(&mut g.level(column, pieces, IN_OUTPUT, true));
        for level in (0..climber.top).rev() {
            for pieces in climber.blocks(g, level) {
                climber.gather(g, level, pieces);
            }
        }
    }))
}

/// The way of [`all_gather`] backwards, folding.
pub fn reduce_scatter(shape: &Shape, nodes: &Nodes) -> Option<Plan> {
    let climber = climber(shape, nodes)?;
    Some(flat(shape, shape.nranks, Layout::Blocks, |g| {
        g.e.pieces(climber.largest(shape.nranks, 1));
        for level in 0..climber.top {
            for pieces in climber.blocks(g, level) {
                climber.scatter(g, level, pieces, Operand::SCRATCH);
            }
        }
        let column = climber.column(climber.top);
        let pieces = Pieces::Listed(column.iter().map(|&rank| vec![rank]).collect());
        (climber.at_top().0.reduce_scatter)(&mut g.level(column, pieces, IN_SCRATCH, true));
        let me = i64::from(g.me);
        g.put(&[Operand::SCRATCH], &[Operand::OUTPUT], me, false);
    }))
}
