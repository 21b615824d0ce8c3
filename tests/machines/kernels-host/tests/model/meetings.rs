//! Calls of a warp, barriers, and runs in which nothing goes on.

use crate::kernels::{self, run, words, wrong, zeros};
use kolo_kernels_host::{Machine, Options};

#[test]
fn a_warp_votes_and_tells() {
    const ROUNDS: u64 = 40;
    let expected = |thread: u64| -> u64 {
        let round = |r: u64| {
            let told = 100 * r + (thread + r) % 32;
            told + u64::from(r.is_multiple_of(2)) * 1_000_000 + u64::from(r < 32) * 100_000_000
        };
        (0..ROUNDS).map(round).sum()
    };
    for seed in 0..50 {
        let mut machine = Machine::new(Options::new(seed));
        let out = zeros(&mut machine, "out", 32);
        let counts = run(&mut machine, kernels::votes(), 1, 32, &[out.at(), ROUNDS]).expect("ends");
        assert_eq!(
            words(&machine, out),
            (0..32).map(expected).collect::<Vec<_>>(),
            "seed {seed}"
        );
        assert_eq!(counts.meetings, 4 * ROUNDS);
    }
}

#[test]
fn barriers_hand_two_buffers_over() {
    const ROUNDS: u64 = 12;
    let expected = |lane: u64| (0..ROUNDS).map(|r| 1000 * r + 31 - lane).sum::<u64>();
    let mixed = |mistake: u64| {
        wrong(60, |options| {
            let mut machine = Machine::new(options);
            let out = zeros(&mut machine, "out", 32);
            let launch = [out.at(), ROUNDS, mistake];
            let ended = run(&mut machine, kernels::two_buffers(), 1, 64, &launch);
            ended.is_err() || words(&machine, out) != (0..32).map(expected).collect::<Vec<_>>()
        })
    };
    assert_eq!(mixed(0), 0);
    assert!(mixed(1) > 20 && mixed(2) > 20);
}

/// The text of the failure of one slip, the same on every seed but for the threads that it names.
fn slip(which: u64, threads: u32, has: &[&str]) {
    for seed in 0..20 {
        let mut options = Options::new(seed);
        options.most_switches = 300_000;
        let mut machine = Machine::new(options);
        let place = zeros(&mut machine, "place", 128);
        let launch = [which, place.at()];
        let failure = run(&mut machine, kernels::slip(), 1, threads, &launch).expect_err("a slip");
        assert_eq!(failure.seed, seed);
        for part in has {
            assert!(
                failure.text.contains(part),
                "slip {which}, {part}: {failure}"
            );
        }
        assert_eq!(machine.run(), Err(failure), "it stays so");
    }
}

#[test]
fn slips_at_barriers_and_in_warps_are_named() {
    slip(
        0,
        96,
        &["block 0 of grid 1 (slip, device 0)", "with another count"],
    );
    slip(1, 64, &["comes to a barrier twice"]);
    slip(
        2,
        64,
        &["of block 0", "the threads of its warp that came before it"],
    );
    slip(4, 64, &["comes to a barrier that cannot be"]);
    slip(5, 64, &["of block 0", "have no line of 128 bytes together"]);
    slip(6, 64, &["a word that is not one of its shared memory"]);
}

#[test]
fn who_waits_for_ever_is_named_and_where() {
    slip(
        3,
        64,
        &[
            "nothing goes on",
            "threads 0 to 39 at barrier 0, where 63 of 64 have come",
            "thread 40 ended",
            "threads 41 to 63 at barrier 0",
        ],
    );
    slip(
        7,
        64,
        &[
            "nothing goes on",
            "threads 0 to 32 ended; thread 33 spinning; threads 34",
        ],
    );
    slip(8, 64, &["nothing goes on", "thread 33 ready"]);
    slip(
        9,
        64,
        &["thread 9 ended; threads 10 to 31 in a call of the warp, where 31 of 32"],
    );
}

#[test]
fn a_run_that_goes_on_too_long_ends() {
    let mut options = Options::new(1);
    options.most_switches = 1000;
    let mut machine = Machine::new(options);
    let place = zeros(&mut machine, "place", 64);
    let failure = run(&mut machine, kernels::slip(), 1, 64, &[7, place.at()]).expect_err("long");
    assert!(
        failure.text.contains("did not end within 1000 switches"),
        "{failure}"
    );
}

/// Two grids of two blocks that all wait for each other, on one device or on two.
fn meet(resident_blocks: u32, devices: u32) -> Result<(), String> {
    for seed in 0..30 {
        let mut options = Options::new(seed);
        options.resident_blocks = resident_blocks;
        options.devices = devices;
        let mut machine = Machine::new(options);
        let there = zeros(&mut machine, "there", 4);
        for grid in 0..2 {
            let launch = kernels::launch(&[there.at(), 4, 2 * grid]);
            let device = grid as u32 % devices;
            machine
                .launch(device, &kernels::meet(), 2, 32, &launch)
                .expect("it fits");
        }
        machine.run().map_err(|failure| failure.text)?;
        assert_eq!(words(&machine, there), [1; 4]);
    }
    Ok(())
}

#[test]
fn blocks_beyond_the_limit_wait_until_others_end() {
    assert_eq!(meet(4, 1), Ok(()));
    assert_eq!(meet(2, 2), Ok(()));
    let text = meet(3, 1).expect_err("one block never begins");
    assert!(
        text.contains("block 0 of grid 2 (meet, device 0): thread 0 spinning"),
        "{text}"
    );
    let waits = "grid 2 (meet, device 0): 1 blocks wait until others end (at most 3 are on a";
    assert!(text.contains(waits), "{text}");
    // Grids that do not wait for each other take turns.
    let mut options = Options::new(3);
    options.resident_blocks = 1;
    let mut machine = Machine::new(options);
    let there = zeros(&mut machine, "there", 4);
    for _ in 0..3 {
        let launch = kernels::launch(&[there.at(), 0, 0]);
        machine
            .launch(0, &kernels::meet(), 4, 32, &launch)
            .expect("it fits");
    }
    assert_eq!(machine.run().expect("they end").blocks, 12);
}
