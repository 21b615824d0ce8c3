//! Tables of what MPI does faster: written and read again, and mistakes in them.

use super::*;

fn draw_section(random: &mut fastrand::Rng) -> StaySection {
    let names = [
        "Open MPI 4.1",
        "Open MPI",
        "MPICH 4.0",
        "Intel(R) MPI 2021.12",
    ];
    let mut rows: Vec<StayRow> = Vec::new();
    for collective in 0..NAMES.len() {
        if random.bool() {
            continue;
        }
        let drawn = match random.u8(..4) {
            0 => 0,
            1 => u64::MAX,
            _ => random.u64(..) & random.u64(..),
        };
        let mut bytes = 0;
        let mut times = Vec::new();
        for _ in 0..random.usize(..4) {
            bytes += random.u64(1..1 << 20);
            times.push(Beside {
                bytes,
                kolo_us: f64::from(random.u32(1..10_000)) / 64.0,
                mpi_us: f64::from(random.u32(1..10_000)) / 64.0,
            });
        }
        rows.push(StayRow {
            collective,
            times,
            stays: drawn & every(collective),
        });
    }
    StaySection {
        mpi: names[random.usize(..names.len())].to_string(),
        ranks: random.u32(2..200),
        cores: match random.u8(..3) {
            0 => NodeCores::Own,
            1 => NodeCores::Shared,
            _ => NodeCores::Exactly(random.u32(1..300)),
        },
        rows,
    }
}

#[test]
fn what_is_written_is_read() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..300 {
        let mut table = StayTable::default();
        for _ in 0..random.usize(..6) {
            table.put(draw_section(&mut random));
        }
        let text = table.print();
        assert_eq!(StayTable::parse(&text), Ok(table), "seed {seed}:\n{text}");
        assert!(StayTable::is_one(&text));
    }
}

/// A bit of a size, or of calls of unknown size.
fn stays(words: &str, collective: &str, bit: u32) -> bool {
    let text = format!("format 1\n[MPICH 4.0, 2 ranks, 2 cpus]\n{collective} stays={words}");
    let table = StayTable::parse(&text).unwrap_or_else(|why| panic!("{words}: {why}"));
    table.sections[0].rows[0].stays >> bit & 1 != 0
}

#[test]
fn ranges_are_powers_of_two_from_low_to_below_high() {
    for (words, bits) in [
        ("64K-256K", &[16, 17][..]),
        ("-16,1M-4M", &[0, 1, 2, 3, 20, 21]),
        ("8-16", &[3]),
        ("none", &[]),
    ] {
        let found: Vec<u32> = (0..64).filter(|&b| stays(words, "bcast", b)).collect();
        assert_eq!(found, bits, "{words}");
    }
    assert!(stays("1T-", "scan", SIZES - 1) && !stays("1T-", "scan", 39));
    assert!(stays("all", "scan", 0) && stays("all", "scan", SIZES - 1));
    assert!(stays("all", "gatherv", UNKNOWN) && !stays("none", "gatherv", UNKNOWN));
    assert!(!stays("all", "gatherv", 3), "its calls have no known size");
}

#[test]
fn a_file_that_cannot_be_used_says_where() {
    let head = "format 1\n\n[MPICH 4.0, 2 ranks, 2 cpus]\n";
    for (text, why) in [
        ("", "it is empty"),
        (
            "# x\nformat 2\n",
            "line 2 is 'format 2', expected was 'format 1'",
        ),
        ("format 1\nbcast stays=all", "line 2: no section has begun"),
        (
            "format 1\n[MPICH, two ranks, 2 cpus]",
            "line 2: '[MPICH, two ranks",
        ),
        (
            "format 1\n[MPICH 4.0, 1 ranks, 2 cpus]",
            "no head of a section",
        ),
        (
            "format 1\n[MPICH 4.0, 2 ranks, many cpus]",
            "no head of a section",
        ),
        ("format 1\n[, 2 ranks, own cores]", "no head of a section"),
    ] {
        let error = StayTable::parse(text).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
    for (lines, why) in [
        ("bcats stays=all", "line 4: 'bcats' is no collective"),
        ("bcast", "line 4: bcast lacks stays="),
        ("bcast stays=9-16", "'9-16' is no range"),
        ("bcast stays=64K-8", "'64K-8' is no range"),
        ("bcast stays=", "'' is no range"),
        (
            "gatherv stays=8-16",
            "not all ranks know the size of gatherv",
        ),
        ("bcast stay=all", "'stay=all' is neither"),
        ("bcast stays=all us=8:1", "'8:1' is no BYTES:KOLO/MPI"),
        ("bcast stays=all us=8:1/0", "'8:1/0' is no BYTES"),
        (
            "bcast stays=all us=8:1/2,8:1/2",
            "the size 8 does not exceed",
        ),
        (
            "bcast stays=all\nbcast stays=none",
            "line 5: bcast is there twice",
        ),
        (
            "[MPICH 4.0, 2 ranks, 2 cpus]",
            "line 4: [MPICH 4.0, 2 ranks, 2 cpus] is",
        ),
    ] {
        let error = StayTable::parse(&format!("{head}{lines}")).unwrap_err();
        assert!(error.contains(why), "{lines}: {error}");
    }
    assert!(StayTable::parse(&format!("{head}{}", "#".repeat(MOST_BYTES))).is_err());
}

#[test]
fn the_nearest_section_holds() {
    let text = "format 1
        [Open MPI, 4 ranks, shared cores]\nbcast stays=8-16\nscan stays=8-16
        [Open MPI 4.1, 3 ranks, 2 cpus]\nbcast stays=16-32
        [Open MPI 4.1, 4 ranks, 2 cpus]\nbcast stays=32-64
        [Open MPI 4.1, 4 ranks, 64 cpus]\nbcast stays=64-128
        [MPICH 4.0, 4 ranks, 2 cpus]\nbcast stays=128-256";
    let table = StayTable::parse(text).unwrap();
    let of = |mpi: &str, ranks: u32, cpus: u32, name: &str| {
        let job = MpiJob { mpi, ranks, cpus };
        let collective = NAMES.iter().position(|known| *known == name).unwrap();
        let row = table.row(&job, collective, |ranks| (3..=4).contains(&ranks));
        row.map(|row| words(row.collective, row.stays))
    };
    let of = |mpi, ranks, cpus, name| of(mpi, ranks, cpus, name).unwrap_or_default();
    assert_eq!(of("Open MPI 4.1", 3, 2, "bcast"), "16-32");
    assert_eq!(of("Open MPI 4.1", 4, 2, "bcast"), "32-64");
    // Neither is of this job: that of more ranks is.
    assert_eq!(of("Open MPI 4.1", 8, 2, "bcast"), "32-64");
    assert_eq!(of("Open MPI 4.1", 4, 64, "bcast"), "64-128");
    assert_eq!(of("Open MPI 4.1", 4, 3, "bcast"), "8-16");
    assert_eq!(of("Open MPI 4.1", 4, 2, "scan"), "8-16");
    assert_eq!(of("Open MPI 5.0", 4, 2, "bcast"), "8-16");
    assert_eq!(
        of("Open MPI 5.0", 4, 8, "bcast"),
        "",
        "the ranks have a core each"
    );
    assert_eq!(of("Open MPIx", 4, 2, "bcast"), "");
    assert_eq!(of("MPICH 4.0", 4, 2, "bcast"), "128-256");
    assert_eq!(of("MPICH 4.0", 4, 2, "scan"), "");
}

#[test]
fn new_lines_take_the_place_of_old_ones() {
    let parse = |lines: &str| {
        let text = format!("format 1\n[MPICH 4.0, 2 ranks, 2 cpus]\n{lines}");
        StayTable::parse(&text).unwrap()
    };
    let mut table = parse("bcast stays=all\nscan stays=all");
    table.put(
        parse("reduce stays=none\nscan stays=none")
            .sections
            .remove(0),
    );
    assert_eq!(
        table,
        parse("bcast stays=all\nreduce stays=none\nscan stays=none")
    );
    let mut other = parse("bcast stays=none").sections.remove(0);
    other.ranks = 3;
    table.put(other);
    assert_eq!(table.sections.len(), 2);
}

#[test]
fn an_mpi_is_known_by_its_name_and_version() {
    for (library, name) in [
        (
            "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4",
            "Open MPI 4.1",
        ),
        ("Open MPI v5.0.0rc12, package: x", "Open MPI 5.0"),
        ("MPICH Version:\t4.0.2\nMPICH Release date: x", "MPICH 4.0"),
        ("MPICH Version:      4.0.2", "MPICH 4.0"),
        (
            "Intel(R) MPI Library 2021.12 for Linux* OS",
            "Intel(R) MPI Library 2021.12",
        ),
        (
            "MPI VERSION    : CRAY MPICH version 8.1.9.13 (ANL base 3.4a2)",
            "MPI CRAY MPICH 8.1",
        ),
        ("MVAPICH2 Version:\t2.3.7", "MVAPICH2 2.3"),
        ("no number", "no number"),
        ("", "unknown"),
    ] {
        assert_eq!(name_of(library), name);
    }
}
