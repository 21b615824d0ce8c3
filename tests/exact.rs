//! Exact sums between ranks: the same bits for every number of ranks and decomposition, equal to
//! the correctly rounded sum of another crate. Seeds are in the messages.

use accurate::sum::OnlineExactSum;
use accurate::traits::*;
use fastrand::Rng;
use kolo::comm::{CommConfig, Communicator, group};
use kolo::dtype::exact::ExactSum;

type Settings = [(&'static str, &'static str)];

/// Runs `body` on `nranks` threads, one communicator each.
fn ranks(nranks: u32, overrides: &Settings, body: impl Fn(&Communicator) + Sync) {
    let comms = comms(nranks, overrides);
    std::thread::scope(|scope| {
        for comm in &comms {
            scope.spawn(|| {
                let _guard = AbortOnPanic(comm);
                body(comm);
            });
        }
    });
    end(&comms);
}

fn comms(nranks: u32, overrides: &Settings) -> Vec<Communicator> {
    let overrides = overrides
        .iter()
        .map(|(k, v)| (k.to_string(), v.to_string()))
        .collect();
    let config = CommConfig {
        overrides,
        ..CommConfig::default()
    };
    Communicator::init_all(nranks, &config).expect("init")
}

fn end(comms: &[Communicator]) {
    for comm in comms {
        let (executed, planned) = comm.step_counts().expect("alive");
        assert_eq!(executed, planned, "there is no path beside the plan");
        comm.destroy().expect("destroy");
    }
}

/// A rank that fails an assertion must not leave the others waiting.
struct AbortOnPanic<'a>(&'a Communicator);

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.abort();
        }
    }
}

fn same(found: f64, wanted: f64, what: &impl std::fmt::Debug) {
    let equal = found.to_bits() == wanted.to_bits() || (found.is_nan() && wanted.is_nan());
    assert!(equal, "{what:?}: {found:e} instead of {wanted:e}");
}

/// Cuts an array into `nranks` parts at random, some of them empty.
fn part(rng: &mut Rng, length: usize, nranks: u32) -> Vec<usize> {
    let mut cuts: Vec<usize> = (1..nranks).map(|_| rng.usize(..=length)).collect();
    cuts.push(0);
    cuts.push(length);
    cuts.sort_unstable();
    cuts
}

#[test]
fn an_array_has_one_sum_however_it_is_distributed() {
    for seed in 0..6 {
        let mut rng = Rng::with_seed(seed);
        let length = [7, 700, 30_000][seed as usize % 3];
        let size = |rng: &mut Rng| 2f64.powi(rng.i32(-300..300));
        let mut terms: Vec<f64> = (0..length)
            .map(|_| (rng.f64() - 0.5) * size(&mut rng))
            .collect();
        let wanted = OnlineExactSum::zero().absorb(terms.iter().copied()).sum();
        let mut different_plain_sums = std::collections::HashSet::new();
        for nranks in 1..=9 {
            rng.shuffle(&mut terms);
            different_plain_sums.insert(terms.iter().sum::<f64>().to_bits());
            let cuts = part(&mut rng, length, nranks);
            let settings: &Settings = if nranks % 3 == 0 {
                &[("algo", "ring")]
            } else {
                &[]
            };
            ranks(nranks, settings, |comm| {
                let rank = comm.rank() as usize;
                let mine = &terms[cuts[rank]..cuts[rank + 1]];
                let what = format!("{length} terms on {nranks} ranks, seed {seed}");
                same(comm.sum_exact(mine).unwrap(), wanted, &what);
                let mask: Vec<bool> = mine.iter().map(|term| *term > 0.0).collect();
                let positive = comm.sum_exact_masked(mine, &mask).unwrap();
                let rest: Vec<f64> = mine.iter().copied().filter(|term| *term <= 0.0).collect();
                let mut both = [ExactSum::new(), ExactSum::new()];
                both[0].extend(rest.iter().copied());
                both[1].add_masked(mine, &mask);
                let mut sums = [0.0; 2];
                comm.sums_exact_of(&both, &mut sums).unwrap();
                assert_eq!(sums[1].to_bits(), positive.to_bits(), "{what}");
                both[0].merge(&both[1].clone());
                same(comm.sum_exact_of(&both[0]).unwrap(), wanted, &what);
            });
        }
        assert!(
            length == 7 || different_plain_sums.len() > 1,
            "seed {seed} proves nothing"
        );
    }
}

#[test]
fn many_sums_and_none() {
    ranks(3, &[], |comm| {
        let made = |at: usize| ExactSum::from_iter([0.5 + at as f64, f64::from(comm.rank())]);
        let sums: Vec<ExactSum<f64>> = (0..50).map(made).collect();
        let mut values = vec![0.0; 50];
        comm.sums_exact_of(&sums, &mut values).unwrap();
        for (at, value) in values.iter().enumerate() {
            assert_eq!(*value, 3.0 * (0.5 + at as f64) + 3.0);
        }
        comm.sums_exact_of::<f32>(&[], &mut []).unwrap();
        let empty: f64 = comm.sum_exact(&[]).unwrap();
        assert_eq!(empty.to_bits(), 0);
        let zero = comm
            .sum_exact(&vec![-0.0f32; comm.rank() as usize])
            .unwrap();
        assert_eq!(zero.to_bits(), (-0.0f32).to_bits());
    });
}

/// A value cannot be returned before the group has run, and masks fit their terms.
#[test]
fn misuse_is_told() {
    let comms = comms(1, &[]);
    group::start();
    assert!(comms[0].sum_exact(&[1.0f64]).is_err());
    group::end().unwrap();
    let error = comms[0].sum_exact_masked(&[1.0, 2.0], &[true]).unwrap_err();
    assert!(
        error.to_string().contains("1 entries for 2 terms"),
        "{error}"
    );
    let two = [ExactSum::<f64>::new(), ExactSum::new()];
    assert!(comms[0].sums_exact_of(&two, &mut [0.0]).is_err());
    end(&comms);
}
