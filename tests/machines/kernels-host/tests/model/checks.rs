//! Accesses that must not be end the run with a sentence.

use crate::kernels::{self, run, words, zeros};
use kolo_kernels_host::{Access, Machine, Options};

/// Returns the complaint about one access by thread 5 of block 1; `None` if the access is allowed.
fn touch(machine: &mut Machine, at: u64, bytes: u64, is_store: bool) -> Option<String> {
    let launch = [at, bytes, is_store.into(), 5];
    let ended = run(machine, kernels::touch(), 2, 32, &launch);
    ended.err().map(|failure| failure.text)
}

fn said(prepare: impl Fn(&mut Machine) -> u64, bytes: u64, is_store: bool) -> Option<String> {
    let mut machine = Machine::new(Options::new(7));
    let at = prepare(&mut machine);
    touch(&mut machine, at, bytes, is_store)
}

const WHO: &str = "thread 5 of block 1 of grid 1 (touch, device 0) ";

#[test]
fn an_access_outside_of_all_ranges_is_named() {
    for bytes in [1, 2, 4, 8, 16] {
        for (is_store, verb) in [(false, "loads"), (true, "stores")] {
            let fits = |machine: &mut Machine| zeros(machine, "slots", 10).at() + 80 - bytes;
            assert_eq!(said(fits, bytes, is_store), None);
            let past = said(
                |machine| zeros(machine, "slots", 10).at() + 80,
                bytes,
                is_store,
            );
            let past = past.expect("past the end");
            assert!(
                past.starts_with(&format!("{WHO}{verb} {bytes} bytes at 0x")),
                "{past}"
            );
            assert!(
                past.contains("0 bytes past the end of `slots` (0x"),
                "{past}"
            );
            let before = said(
                |machine| zeros(machine, "slots", 10).at() - 16,
                bytes,
                is_store,
            );
            assert!(before.expect("before").contains("16 bytes before `slots`"));
        }
    }
    assert!(
        said(|_| 0, 8, true)
            .expect("null")
            .contains("where no memory is")
    );
    let across = |machine: &mut Machine| {
        let bytes = machine.allocate("odd", 12, 0, Access::ALL);
        bytes.at() + 8
    };
    assert!(
        said(across, 8, true)
            .expect("across")
            .contains("offset 8 of `odd`")
    );
    assert!(
        said(across, 8, true)
            .expect("across")
            .contains("which ends within")
    );
    assert_eq!(said(across, 4, true), None);
}

#[test]
fn a_misaligned_access_is_named() {
    for bytes in [2, 4, 8, 16] {
        for is_store in [false, true] {
            let at = |machine: &mut Machine| zeros(machine, "slots", 10).at() + bytes / 2;
            let text = said(at, bytes, is_store).expect("misaligned");
            let offset = format!("at offset {} of `slots`", bytes / 2);
            let multiple = format!("not at a multiple of {bytes}");
            assert!(text.contains(&offset) && text.contains(&multiple), "{text}");
        }
    }
}

#[test]
fn memory_of_other_devices_and_freed_memory_are_named() {
    let mut machine = Machine::new(Options::new(7));
    let near = machine.allocate("near", 64, 0, Access::only(0));
    assert_eq!(touch(&mut machine, near.at(), 8, true), None);
    let far = machine.allocate("far", 64, 0, Access::only(1));
    machine.allow(far.range(), Access::ALL);
    assert_eq!(touch(&mut machine, far.at(), 8, true), None);
    machine.allow(far.range(), Access::READ_ONLY);
    assert_eq!(touch(&mut machine, far.at(), 8, false), None);
    let text = touch(&mut machine, far.at(), 8, true).expect("read only");
    assert!(
        text.contains("`far`") && text.contains("where device 0 may not do it"),
        "{text}"
    );

    let mut machine = Machine::new(Options::new(7));
    let gone = machine.allocate("gone", 64, 0, Access::ALL);
    machine.free(gone).expect("nothing is under way");
    let text = touch(&mut machine, gone.at() + 8, 8, false).expect("freed");
    assert!(
        text.contains("at offset 8 of `gone`") && text.contains("which was freed"),
        "{text}"
    );
}

#[test]
fn memory_stays_while_a_store_to_it_is_under_way() {
    let (mut kept, mut went) = (0, 0);
    for seed in 0..100 {
        let mut machine = Machine::new(Options::new(seed));
        let [data, flag, seen] = ["data", "flag", "seen"].map(|name| zeros(&mut machine, name, 32));
        let launch = kernels::launch(&[data.at(), flag.at(), seen.at(), 0, 0]);
        machine
            .launch(0, &kernels::message(), 2, 64, &launch)
            .expect("it fits");
        machine.run_some(20 + seed).expect("it goes on");
        match machine.free(data) {
            Err(failure) => {
                assert!(failure.text.contains("is under way"), "{failure}");
                kept += 1;
                machine.run().expect("it is still there");
                assert_eq!(words(&machine, seen), (100..132).collect::<Vec<u64>>());
            }
            Ok(()) => {
                went += 1;
                let failure = machine.run().expect_err("it is gone").text;
                assert!(
                    failure.contains("`data`") && failure.contains("was freed"),
                    "{failure}"
                );
            }
        }
    }
    assert!(kept > 5 && went > 5, "{kept} {went}");
}

#[test]
fn ranges_may_not_meet() {
    let mut machine = Machine::new(Options::new(0));
    let mut bytes = vec![0_u64; 64];
    let home = bytes.as_mut_ptr().cast::<u8>();
    let mut add = |base: u64, bytes: usize| {
        // SAFETY: no kernel runs, so nobody uses the memory.
        let range = unsafe { machine.register("part", base, home, bytes, Access::ALL) };
        range.is_some()
    };
    let base = home as u64 + (1 << 20);
    assert!(add(base, 256));
    assert!(!add(base + 240, 32) && !add(base - 16, 32) && !add(base, 0) && !add(base + 1, 8));
    assert!(add(base + 256, 16) && add(base - 16, 16));
    assert!(!add(base - 64, 1024));
    assert!(
        !add(base + 1024 + 8, 16),
        "not as far from a multiple of 16"
    );
}

#[test]
fn kernels_use_addresses_that_the_host_cannot() {
    let mut machine = Machine::new(Options::new(4));
    let mut bytes = vec![0_u64; 64];
    let home = bytes.as_mut_ptr().cast::<u8>();
    let base = (1 << 60) + home as u64 % 16;
    // SAFETY: the vector outlives the machine's last run, and nobody else uses it until then.
    let range = unsafe { machine.register("far away", base, home, 512, Access::ALL) };
    assert!(range.is_some());
    run(&mut machine, kernels::widths(), 1, 32, &[base]).expect("it ends");
    let word = |half: u64| if half == 0 { 0x0000_0001_0001_0101 } else { 2 };
    assert_eq!(bytes, (0..64).map(|i| word(i % 2)).collect::<Vec<u64>>());
}

#[test]
fn every_width_is_stored_in_its_place_only() {
    for seed in 0..50 {
        let mut machine = Machine::new(Options::new(seed));
        let memory = machine.allocate("memory", 512 + 32, 0x41, Access::ALL);
        let launch = [memory.at() + 16];
        run(&mut machine, kernels::widths(), 1, 32, &launch).expect("it ends");
        let all = words(&machine, memory);
        assert_eq!(all[..2], [0x4141_4141_4141_4141; 2]);
        assert_eq!(all[66..], [0x4141_4141_4141_4141; 2]);
        for pair in all[2..66].chunks(2) {
            let pair: [u64; 2] = pair.try_into().expect("two words");
            assert_eq!(
                pair,
                [0x4141_4142_4142_4242, 0x4141_4141_4141_4184],
                "seed {seed}"
            );
        }
    }
}

#[test]
fn shared_memory_begins_with_garbage() {
    let mut options = Options::new(2);
    options.resident_blocks = 1;
    let mut machine = Machine::new(options);
    for _ in 0..2 {
        let out = zeros(&mut machine, "out", 32);
        run(&mut machine, kernels::garbage(), 3, 32, &[out.at()]).expect("it ends");
        assert!(words(&machine, out).iter().all(|&word| word != 0));
    }
}

#[test]
fn a_grid_that_cannot_be_is_refused() {
    for (device, blocks, threads) in [(1, 1, 32), (0, 0, 32), (0, 1, 33), (0, 1, 1056), (0, 1, 0)] {
        let mut machine = Machine::new(Options::new(2));
        let launch = kernels::launch(&[0]);
        let refused = machine.launch(device, &kernels::garbage(), blocks, threads, &launch);
        let text = refused.expect_err("it cannot be").text;
        assert!(text.contains("cannot be launched on device"), "{text}");
    }
}
