//! How much of a large grid runs: a part that is drawn anew each time, or with `KOLO_TEST_FULL=1`
//! (`make test-full`) all of it. The seed is printed, and `KOLO_TEST_SEED` draws the same again.

#![allow(dead_code)] // Each program of tests uses a part of it.

use std::env;

/// Whether everything runs.
pub fn is_full() -> bool {
    env::var_os("KOLO_TEST_FULL").is_some()
}

fn seed() -> u64 {
    let seed = env::var("KOLO_TEST_SEED").ok();
    let seed = seed.and_then(|text| text.parse().ok());
    seed.unwrap_or_else(|| fastrand::u64(..))
}

/// A source of numbers for cases that a test draws by itself.
pub fn random(what: &str) -> fastrand::Rng {
    let seed = seed();
    println!("{what}: KOLO_TEST_SEED={seed}");
    fastrand::Rng::with_seed(seed)
}

/// Of each of these groups, up to `most` cases.
pub fn of_each<T>(what: &str, groups: impl IntoIterator<Item = Vec<T>>, most: usize) -> Vec<T> {
    let seed = seed();
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut drawn, mut all) = (Vec::new(), 0);
    for mut group in groups {
        all += group.len();
        if !is_full() {
            random.shuffle(&mut group);
            group.truncate(most);
        }
        drawn.extend(group);
    }
    println!(
        "{what}: {} of {all} cases, KOLO_TEST_SEED={seed}",
        drawn.len()
    );
    drawn
}
