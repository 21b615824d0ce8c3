//! Every collective once per size, on whatever communicator: each rank checks each element.
//!
//! For networks: what `tests/ranks` proves of the collectives is not repeated here, only that the
//! data that crossed the network are those that were sent.

use kolo::comm::{Blocks, CommConfig, Communicator, RedOp};

/// Value that no input contains.
const POISON: i64 = 0x5a5a_5a5a_5a5a_5a5a;

fn value(rank: usize, element: usize, iteration: usize) -> i64 {
    ((rank * 31 + element * 7 + iteration * 13) % 101) as i64 - 50
}

fn input(rank: usize, count: usize, iteration: usize) -> Vec<i64> {
    let elements = 0..count;
    elements.map(|at| value(rank, at, iteration)).collect()
}

/// One call of each kind with `count` elements a rank; `iteration` varies data and roots.
fn of_size(comm: &Communicator, count: usize, iteration: usize) {
    let it = Checked {
        comm,
        me: comm.rank() as usize,
        n: comm.nranks() as usize,
        root: iteration as u32 % comm.nranks(),
        count,
        iteration,
    };
    it.folds();
    it.prefixes();
    it.rooted();
    it.blocks();
    it.neighbours();
    comm.barrier().unwrap();
}

/// All collectives with each of these counts, then the short ones on both halves of a split, in
/// which neighbours of the parent are apart.
pub fn everything(comm: &Communicator, counts: &[usize]) {
    for (iteration, &count) in counts.iter().enumerate() {
        of_size(comm, count, iteration);
    }
    let color = comm.rank() % 2;
    let child = comm.split(Some(color), 0, &CommConfig::default()).unwrap();
    let child = child.expect("every rank has a color");
    of_size(&child, 1000, 1);
    of_size(comm, 10, 2);
    child.destroy().unwrap();
}

/// The least bytes that [`everything`] carries from `here` ranks of one node to `there` ranks of
/// another: what all-to-all, all-gather and two all-reduces must.
#[allow(dead_code, reason = "not every network counts")]
pub fn least_bytes(counts: &[usize], (here, there): (usize, usize)) -> u64 {
    let elements: usize = counts.iter().sum();
    (elements * (here * there + here + 2) * size_of::<i64>()) as u64
}

struct Checked<'a> {
    comm: &'a Communicator,
    me: usize,
    n: usize,
    root: u32,
    count: usize,
    iteration: usize,
}

impl Checked<'_> {
    fn input(&self, rank: usize) -> Vec<i64> {
        input(rank, self.count, self.iteration)
    }

    /// The fold of an element over ranks.
    fn sum(&self, ranks: std::ops::Range<usize>, element: usize) -> i64 {
        ranks.map(|rank| value(rank, element, self.iteration)).sum()
    }

    fn sums(&self, ranks: std::ops::Range<usize>, from: usize, count: usize) -> Vec<i64> {
        let elements = from..from + count;
        elements.map(|at| self.sum(ranks.clone(), at)).collect()
    }

    fn same<T: PartialEq>(&self, what: &str, got: &[T], wanted: &[T]) {
        assert!(
            got == wanted,
            "{what}: rank {} of {}, {} elements, wrong from element {:?}",
            self.me,
            self.n,
            self.count,
            got.iter().zip(wanted).position(|(a, b)| a != b)
        );
    }

    fn folds(&self) {
        let (comm, count) = (self.comm, self.count);
        let mut recv = vec![POISON; count];
        comm.all_reduce(&self.input(self.me), &mut recv, RedOp::SUM)
            .unwrap();
        let sums = self.sums(0..self.n, 0, count);
        self.same("all_reduce", &recv, &sums);
        let mut data = self.input(self.me);
        comm.all_reduce_in_place(&mut data, RedOp::MAX).unwrap();
        let most = |at| {
            (0..self.n)
                .map(|rank| value(rank, at, self.iteration))
                .max()
        };
        let wanted: Vec<i64> = (0..count).filter_map(most).collect();
        self.same("all_reduce_in_place", &data, &wanted);
        let mut real: Vec<f64> = self.input(self.me).iter().map(|&v| v as f64).collect();
        comm.all_reduce_in_place(&mut real, RedOp::SUM_EXACT)
            .unwrap();
        let wanted: Vec<f64> = sums.iter().map(|&sum| sum as f64).collect();
        self.same("exact sum", &real, &wanted);
        let send = input(self.me, count * self.n, self.iteration);
        comm.reduce_scatter(&send, &mut recv, RedOp::SUM).unwrap();
        let wanted = self.sums(0..self.n, self.me * count, count);
        self.same("reduce_scatter", &recv, &wanted);
    }

    fn prefixes(&self) {
        let mut recv = vec![POISON; self.count];
        let send = self.input(self.me);
        self.comm.scan(&send, &mut recv, RedOp::SUM).unwrap();
        self.same("scan", &recv, &self.sums(0..self.me + 1, 0, self.count));
        let mut recv = vec![POISON; self.count];
        self.comm.exscan(&send, &mut recv, RedOp::SUM).unwrap();
        let wanted = match self.me {
            0 => vec![POISON; self.count],
            me => self.sums(0..me, 0, self.count),
        };
        self.same("exscan", &recv, &wanted);
    }

    fn rooted(&self) {
        let Checked { comm, root, .. } = *self;
        let here = comm.rank() == root;
        let only_here = |wanted: Vec<i64>| match here {
            true => wanted,
            false => vec![POISON; wanted.len()],
        };
        let mut data = only_here(self.input(root as usize));
        comm.broadcast(&mut data, root).unwrap();
        self.same("broadcast", &data, &self.input(root as usize));
        let mine = self.input(self.me);
        let mut recv = vec![POISON; self.count];
        comm.reduce(&mine, &mut recv, RedOp::SUM, root).unwrap();
        let wanted = only_here(self.sums(0..self.n, 0, self.count));
        self.same("reduce", &recv, &wanted);
        let all: Vec<i64> = (0..self.n).flat_map(|rank| self.input(rank)).collect();
        let mut recv = vec![POISON; all.len()];
        comm.gather(&mine, &mut recv, root).unwrap();
        self.same("gather", &recv, &only_here(all.clone()));
        let mut block = vec![POISON; self.count];
        comm.scatter(&only_here(all), &mut block, root).unwrap();
        self.same("scatter", &block, &mine);
    }

    /// The size of the block from one rank to another.
    fn size(&self, from: usize, to: usize) -> usize {
        (self.count * (1 + (from + 2 * to) % 3)) / 2
    }

    fn blocks(&self) {
        let (comm, me) = (self.comm, self.me);
        let mine = self.input(me);
        let all: Vec<i64> = (0..self.n).flat_map(|rank| self.input(rank)).collect();
        let mut recv = vec![POISON; all.len()];
        comm.all_gather(&mine, &mut recv).unwrap();
        self.same("all_gather", &recv, &all);
        let send = input(me, self.count * self.n, self.iteration);
        let theirs = |rank| input(rank, self.count * self.n, self.iteration);
        comm.all_to_all(&send, &mut recv).unwrap();
        let block = |rank| theirs(rank)[me * self.count..][..self.count].to_vec();
        let wanted: Vec<i64> = (0..self.n).flat_map(block).collect();
        self.same("all_to_all", &recv, &wanted);

        let sizes: Vec<usize> = (0..self.n).map(|rank| self.size(rank, 0)).collect();
        let part = |rank: usize| input(rank, sizes[rank], self.iteration);
        let all: Vec<i64> = (0..self.n).flat_map(part).collect();
        let packed = Blocks::Packed(&sizes);
        let mut recv = vec![POISON; all.len()];
        comm.all_gather_v(&part(me), &mut recv, packed).unwrap();
        self.same("all_gather_v", &recv, &all);
        let mut recv = vec![POISON; all.len()];
        comm.gather_v(&part(me), &mut recv, packed, self.root)
            .unwrap();
        if comm.rank() == self.root {
            self.same("gather_v", &recv, &all);
        }
        let mut recv = vec![POISON; sizes[me]];
        comm.scatter_v(&all, packed, &mut recv, self.root).unwrap();
        self.same("scatter_v", &recv, &part(me));
        let send = input(me, all.len(), self.iteration);
        comm.reduce_scatter_v(&send, &mut recv, &sizes, RedOp::SUM)
            .unwrap();
        let before = sizes[..me].iter().sum();
        let wanted = self.sums(0..self.n, before, sizes[me]);
        self.same("reduce_scatter_v", &recv, &wanted);

        let out: Vec<usize> = (0..self.n).map(|to| self.size(me, to)).collect();
        let into: Vec<usize> = (0..self.n).map(|from| self.size(from, me)).collect();
        let block = |from: usize, to: usize| input(from * 64 + to, self.size(from, to), 0);
        let send: Vec<i64> = (0..self.n).flat_map(|to| block(me, to)).collect();
        let wanted: Vec<i64> = (0..self.n).flat_map(|from| block(from, me)).collect();
        let mut recv = vec![POISON; wanted.len()];
        let blocks = (Blocks::Packed(&out), Blocks::Packed(&into));
        comm.all_to_all_v(&send, blocks.0, &mut recv, blocks.1)
            .unwrap();
        self.same("all_to_all_v", &recv, &wanted);
    }

    /// Point to point, and the same on a ring of neighbours.
    fn neighbours(&self) {
        let (comm, n) = (self.comm, self.comm.nranks());
        let (next, previous) = ((comm.rank() + 1) % n, (comm.rank() + n - 1) % n);
        let (to_next, to_previous) = (self.input(self.me), self.input(self.me + 100));
        let mut from_previous = vec![POISON; self.count];
        let mut from_next = vec![POISON; self.count];
        comm.scope(|scope| {
            scope.send(&to_next, next)?;
            scope.send(&to_previous, previous)?;
            scope.recv(&mut from_previous, previous)?;
            scope.recv(&mut from_next, next)
        })
        .unwrap();
        let wanted = (
            self.input(previous as usize),
            self.input(next as usize + 100),
        );
        self.same("sent on", &from_previous, &wanted.0);
        self.same("sent back", &from_next, &wanted.1);
        let graph = comm.cartesian(&[n], &[true]).unwrap();
        let send = [to_previous, to_next].concat();
        let mut recv = vec![POISON; send.len()];
        comm.neighbor_all_to_all(&send, &mut recv, &graph).unwrap();
        let wanted = [wanted.0, wanted.1].concat();
        self.same("neighbor_all_to_all", &recv, &wanted);
        let send = self.input(self.me);
        comm.neighbor_all_gather(&send, &mut recv, &graph).unwrap();
        let around = [previous, next].map(|rank| self.input(rank as usize));
        self.same("neighbor_all_gather", &recv, &around.concat());
    }
}
