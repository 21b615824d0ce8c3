//! `reproducible = placement`: the bits of a sum are those of the fold in the order of ranks,
//! whatever the nodes, sizes and settings; and they are not without it.

use super::drawn;
use super::support::{made_on, on_nodes, ranks_of};
use kolo::comm::{Communicator, RawCalls, RedOp};
use kolo::dtype::{Element, bf16};
use std::ops::{Add, Div, Mul};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const PLACEMENT: (&str, &str) = ("reproducible", "placement");
/// From one element to several rounds of slots of 8 KiB, and past the least size of direct reads.
const COUNTS: [usize; 5] = [1, 7, 300, 3000, 20_001];
/// Settings that choose other plans where bits are free.
const SETTINGS: [&[(&str, &str)]; 8] = [
    &[],
    &[("direct", "false")],
    &[("eager_limit", "1")],
    &[("eager_limit", "16K"), ("algo", "^twoshot")],
    &[("min_nchannels", "2"), ("max_nchannels", "4")],
    &[("proto", "ll")],
    &[("ranks_per_node", "2")],
    &[("cma", "on"), ("algo", "ring,tree")],
];

/// A type in which steps fold.
trait Wide: Copy + Add<Output = Self> + Mul<Output = Self> + Div<Output = Self> {}

impl Wide for f32 {}
impl Wide for f64 {}

/// A type of floats.
trait Term: Element + Copy {
    /// The type in which a step folds.
    type Wide: Wide;

    fn wide(self) -> Self::Wide;
    /// Rounds to nearest.
    fn rounded(wide: Self::Wide) -> Self;
    fn of(value: f64) -> Self;
    fn bits(self) -> u64;
}

macro_rules! terms {
    ($($term:ident $wide:ident $bf16:ident;)*) => { $(
        impl Term for $term {
            type Wide = $wide;

            fn wide(self) -> $wide {
                self.into()
            }

            fn rounded(wide: $wide) -> $term {
                conversions::$bf16(wide)
            }

            fn of(value: f64) -> $term {
                conversions::$bf16(value as $wide)
            }

            fn bits(self) -> u64 {
                self.to_bits().into()
            }
        }
    )* };
}

terms! { f32 f32 same; f64 f64 same; bf16 f32 narrow; }

mod conversions {
    pub fn same<T>(value: T) -> T {
        value
    }

    pub fn narrow(value: f32) -> kolo::dtype::bf16 {
        kolo::dtype::bf16::from_f32(value)
    }
}

/// The contribution of a rank: terms that swallow each other, and others of any size.
fn term<T: Term>(rank: usize, element: usize) -> T {
    let mixed = (rank as u64 * 0x1_0000_0001 + element as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = mixed ^ mixed >> 32;
    T::of(match mixed % 8 {
        0 => 1e16,
        1 => -1e16,
        2 => 1.0,
        3 => 1e-30,
        _ => (mixed as i64 >> (mixed % 40)) as f64 * 1e-12,
    })
}

fn terms<T: Term>(rank: usize, elements: std::ops::Range<usize>) -> Vec<T> {
    elements.map(|element| term(rank, element)).collect()
}

/// A communicator's rank with a count, and what it found to differ from the fold.
struct Case<'a> {
    comm: &'a Communicator,
    count: usize,
    n: usize,
    me: usize,
    what: &'a str,
    differing: &'a AtomicUsize,
    /// Whether a difference ends the test; else it is counted.
    holds: bool,
}

impl Case<'_> {
    fn compare<T: Term>(&self, call: &str, found: &[T], wanted: impl Fn(usize) -> T) {
        for (at, value) in found.iter().enumerate() {
            if value.bits() == wanted(at).bits() {
                continue;
            }
            self.differing.fetch_add(1, Ordering::Relaxed);
            assert!(
                !self.holds,
                "{call} of {} on {} ranks, {}: element {at} of rank {} is {:x} and not {:x}",
                T::DTYPE,
                self.n,
                self.what,
                self.me,
                value.bits(),
                wanted(at).bits(),
            );
            return;
        }
    }

    /// The fold of all ranks in one step, divided.
    fn fold<T: Term>(&self, element: usize, divisor: Option<T>) -> T {
        let terms = (0..self.n).map(|rank| term::<T>(rank, element).wide());
        let sum = terms.reduce(|a, b| a + b).expect("a rank");
        T::rounded(divisor.map_or(sum, |divisor| sum / divisor.wide()))
    }

    /// The fold of so many ranks, one by one and rounded at each.
    fn chained<T: Term>(&self, element: usize, ranks: usize, factor: T) -> T {
        let scaled = |rank| term::<T>(rank, element).wide() * factor.wide();
        let add = |sum: T, rank| T::rounded(sum.wide() + scaled(rank));
        (1..ranks).fold(T::rounded(scaled(0)), add)
    }

    fn all<T: Term>(&self) {
        let (comm, n, count) = (self.comm, self.n, self.count);
        let poison = vec![T::of(77.0); count];
        let mine = terms::<T>(self.me, 0..count);
        let one = T::of(1.0);
        let mut got = poison.clone();
        comm.all_reduce(&mine, &mut got, RedOp::SUM).unwrap();
        self.compare("all-reduce", &got, |at| self.fold(at, None));
        got.copy_from_slice(&mine);
        comm.all_reduce_in_place(&mut got, RedOp::AVG).unwrap();
        self.compare("average in place", &got, |at| {
            self.fold(at, Some(T::of(n as f64)))
        });
        for root in [0, n / 2] {
            got.copy_from_slice(&poison);
            comm.reduce(&mine, &mut got, RedOp::SUM, root as u32)
                .unwrap();
            match self.me == root {
                true => self.compare("reduce", &got, |at| self.fold(at, None)),
                false => assert!(got.iter().all(|x| x.bits() == poison[0].bits())),
            }
        }
        got.copy_from_slice(&poison);
        comm.scan(&mine, &mut got, RedOp::SUM).unwrap();
        self.compare("scan", &got, |at| self.chained(at, self.me + 1, one));
        got.copy_from_slice(&mine);
        comm.exscan_in_place(&mut got, RedOp::SUM).unwrap();
        if self.me > 0 {
            self.compare("exscan in place", &got, |at| self.chained(at, self.me, one));
        }
        self.blocks::<T>();
    }

    /// Calls that are chains among many ranks.
    fn chains<T: Term>(&self) {
        let (comm, n, one) = (self.comm, self.n, T::of(1.0));
        let mine = terms::<T>(self.me, 0..self.count);
        let mut got = vec![T::of(77.0); self.count];
        comm.all_reduce(&mine, &mut got, RedOp::SUM).unwrap();
        self.compare("all-reduce", &got, |at| self.chained(at, n, one));
        got.fill(T::of(77.0));
        comm.reduce(&mine, &mut got, RedOp::SUM, 7).unwrap();
        if self.me == 7 {
            self.compare("reduce", &got, |at| self.chained(at, n, one));
        }
        self.scaled::<T>();
        // Between nodes every two ranks have a connection for this, too many for one process.
        if !on_nodes() {
            let all = terms::<T>(self.me, 0..n * self.count);
            comm.reduce_scatter(&all, &mut got, RedOp::SUM).unwrap();
            let first = self.me * self.count;
            self.compare("reduce-scatter", &got, |at| self.fold(first + at, None));
        }
    }

    /// Blocks of one size, and of sizes that differ.
    fn blocks<T: Term>(&self) {
        let (comm, n, count) = (self.comm, self.n, self.count);
        let all = terms::<T>(self.me, 0..n * count);
        let mut got = vec![T::of(77.0); count];
        comm.reduce_scatter(&all, &mut got, RedOp::SUM).unwrap();
        let first = self.me * count;
        self.compare("reduce-scatter", &got, |at| self.fold(first + at, None));
        let counts: Vec<usize> = (0..n).map(|rank| count * (rank % 3) + rank).collect();
        let first: usize = counts[..self.me].iter().sum();
        let all = terms::<T>(self.me, 0..counts.iter().sum());
        let mut got = vec![T::of(77.0); counts[self.me]];
        comm.reduce_scatter_v(&all, &mut got, &counts, RedOp::SUM)
            .unwrap();
        self.compare("reduce-scatter-v", &got, |at| self.fold(first + at, None));
    }

    /// The sum of contributions that are scaled.
    fn scaled_sum<T: Term>(&self, factor: T) -> Vec<T> {
        // SAFETY: an element is its bytes.
        let bytes =
            unsafe { std::slice::from_raw_parts((&raw const factor).cast(), size_of::<T>()) };
        let op = self.comm.pre_mul_sum(bytes, T::DTYPE).unwrap();
        let mine = terms::<T>(self.me, 0..self.count);
        let mut got = vec![T::of(77.0); self.count];
        self.comm.all_reduce(&mine, &mut got, op).unwrap();
        self.comm.destroy_op(op).unwrap();
        got
    }

    fn scaled<T: Term>(&self) {
        let factor = T::of(0.7);
        let got = self.scaled_sum(factor);
        self.compare("scaled", &got, |at| self.chained(at, self.n, factor));
    }
}

/// Nodes of ranks: dealt in turn to two and to three, and in blocks that differ.
const PLACES: [fn(u32, u32) -> u32; 4] = [
    |rank, _| rank % 2,
    |rank, _| rank % 3,
    |rank, n| u32::from(rank + 1 == n),
    |rank, _| (rank + 1).ilog2(),
];

/// How many results differ from those in the order of ranks.
fn differing(n: u32, settings: &[(&str, &str)], place: usize, counts: &[usize]) -> usize {
    let what = format!("place {place}, {settings:?}");
    let holds = settings.contains(&PLACEMENT);
    let differing = AtomicUsize::new(0);
    let comms = made_on(n, settings, |rank| PLACES[place](rank, n));
    ranks_of(&comms, |comm| {
        for &count in counts {
            let case = Case {
                comm,
                count,
                n: n as usize,
                me: comm.rank() as usize,
                what: &what,
                differing: &differing,
                holds,
            };
            case.all::<f32>();
            case.all::<f64>();
            case.all::<bf16>();
            case.scaled::<f64>();
            case.scaled::<bf16>();
        }
    });
    differing.into_inner()
}

#[test]
fn sums_have_the_bits_of_the_fold_in_the_order_of_ranks() {
    let places = if on_nodes() { PLACES.len() } else { 1 };
    let of = |n: u32| {
        let each = move |place| SETTINGS.map(|settings| (n, settings, place));
        (0..places).flat_map(each).collect()
    };
    for (n, settings, place) in drawn::of_each("bits", (2..=9).map(of), 1) {
        let mut all = vec![PLACEMENT, ("buffsize", "64K")];
        all.extend(settings);
        differing(n, &all, place, &COUNTS);
    }
    differing(17, &[PLACEMENT], places - 1, &[1, 3000]);
}

/// Among more ranks than one step folds, a chain rounds at each.
#[test]
fn sums_of_many_ranks_are_chains() {
    const RANKS: u32 = 258;
    let comms = made_on(RANKS, &[PLACEMENT], |rank| rank / 50);
    ranks_of(&comms, |comm| {
        let case = Case {
            comm,
            count: 3,
            n: RANKS as usize,
            me: comm.rank() as usize,
            what: "many",
            differing: &AtomicUsize::new(0),
            holds: true,
        };
        case.chains::<bf16>();
        case.chains::<f64>();
    });
}

/// Scaled contributions of a narrow type are rounded where they are sent, and not where they are
/// folded: all ranks have the same bits all the same.
#[test]
fn all_ranks_have_the_bits_of_scaled_sums() {
    for (n, algorithm) in [
        (2, "auto"),
        (3, "auto"),
        (7, "auto"),
        (5, "rd"),
        (4, "oneshot"),
    ] {
        let found = Mutex::new(Vec::new());
        let comms = made_on(n, &[("algo", algorithm)], |rank| rank % 2);
        ranks_of(&comms, |comm| {
            for count in [1, 300, 3000] {
                let case = Case {
                    comm,
                    count,
                    n: n as usize,
                    me: comm.rank() as usize,
                    what: algorithm,
                    differing: &AtomicUsize::new(0),
                    holds: true,
                };
                let bits = case.scaled_sum(bf16::of(0.7)).into_iter().map(Term::bits);
                let bits: Vec<u64> = bits.collect();
                found.lock().unwrap().push((count, bits));
            }
        });
        let mut found = found.into_inner().unwrap();
        found.sort();
        found.dedup();
        let different = found.len();
        assert_eq!(
            different, 3,
            "{n} ranks, {algorithm}: results of three counts"
        );
    }
}

/// Without the setting the first test would find differences.
#[test]
fn kolo_s_own_choices_fold_in_other_orders_too() {
    assert!(differing(9, &[], 0, &[3000, 20_001]) > 0);
}
