//! Tests of data that may be seen in parts, and of data that never may.

use crate::kernels::{self, run, words, wrong, zeros};
use kolo_kernels_host::Machine;

const SEEDS: u64 = 200;

/// On how many seeds a place was seen in parts, and a word of 8 bytes was.
fn torn(how: u64) -> (u64, u64) {
    let parts = |what: usize| {
        wrong(SEEDS, |options| {
            let mut machine = Machine::new(options);
            let place = zeros(&mut machine, "place", 64);
            let torn = zeros(&mut machine, "torn", 32);
            let broken = zeros(&mut machine, "broken", 32);
            let launch = [place.at(), torn.at(), broken.at(), 20, how];
            run(&mut machine, kernels::torn(), 2, 32, &launch).expect("they end");
            words(&machine, [torn, broken][what])
                .iter()
                .any(|&times| times > 0)
        })
    };
    (parts(0), parts(1))
}

#[test]
fn sixteen_bytes_land_as_two_halves() {
    for how in [0, 1] {
        let (torn, broken) = torn(how);
        assert!(torn > 20, "{how}: {torn}");
        assert_eq!(broken, 0, "{how}: half a word was seen");
    }
}

#[test]
fn a_line_of_128_bytes_is_whole_if_the_warp_stores_it() {
    assert_eq!(torn(2), (0, 0));
    let (torn, broken) = torn(3);
    assert!(torn > 20, "stored by store16: {torn}");
    assert_eq!(broken, 0);
}

#[test]
fn a_line_does_not_wait_for_data_but_after_a_fence() {
    let early = |has_fence: u64| {
        wrong(SEEDS, |options| {
            let mut machine = Machine::new(options);
            let data = zeros(&mut machine, "data", 32);
            let lines = zeros(&mut machine, "lines", 64);
            let seen = zeros(&mut machine, "seen", 32);
            let launch = [data.at(), lines.at(), seen.at(), has_fence];
            run(&mut machine, kernels::after(), 2, 32, &launch).expect("they end");
            words(&machine, seen).iter().any(|&word| word != 7)
        })
    };
    assert_eq!(early(1), 0);
    assert!(early(0) > 20);
}
