//! Tables of what MPI does faster, as the drop-in reads them.

use crate::decide::{self, Across, Agreement, Attach, Class, Collective, Decision, Elements};
use crate::decide::{Known, Left, Reason, Size, Span, Stage};
use crate::{mpi_calls, table};
use kolo::tune::mpi_table::{self, MpiJob, NodeCores, StayRow, StaySection, StayTable};

const JOB: MpiJob = MpiJob {
    mpi: "Open MPI 4.1",
    ranks: 4,
    cpus: 2,
};

/// A table for some numbers of ranks, of which most hold for the job.
fn draw(random: &mut fastrand::Rng) -> StayTable {
    let mut table = StayTable::default();
    for ranks in 2..=6 {
        let mut rows = Vec::new();
        for collective in 0..Collective::COUNT {
            let drawn = random.u64(..) & random.u64(..);
            if random.bool() {
                rows.push(StayRow {
                    collective,
                    stays: drawn & mpi_table::every(collective),
                    times: Vec::new(),
                });
            }
        }
        table.put(StaySection {
            mpi: ["Open MPI 4.1", "Open MPI", "MPICH 4.0"][random.usize(..3)].to_string(),
            ranks,
            cores: [
                NodeCores::Exactly(2),
                NodeCores::Exactly(3),
                NodeCores::Shared,
            ][random.usize(..3)],
            rows,
        });
    }
    table
}

/// The calls that a drawn table leaves to MPI in the job.
pub fn drawn(random: &mut fastrand::Rng) -> Left {
    table::of_tables(&[&draw(random)], &JOB)
}

/// The table's names and bits are those of the decision.
#[test]
fn a_table_speaks_of_the_same_calls() {
    for collective in Collective::ALL {
        let place = collective as usize;
        assert_eq!(mpi_table::NAMES[place], collective.name().to_lowercase());
        assert_eq!(mpi_table::is_sized(place), !collective.is_of_unknown_size());
        let unknown = mpi_table::every(place) >> mpi_table::UNKNOWN;
        assert_eq!(unknown == 1, collective.is_of_unknown_size());
    }
}

/// An inclusive scan of integers of 4 bytes.
fn scan(ranks: u32, count: u64) -> (Collective, u32, Size) {
    let elements = Elements {
        class: Some(Class::Integer),
        bytes: 4,
        count,
        sums: true,
        ordered: false,
    };
    (Collective::Scan, ranks, Size::Elements(elements))
}

#[test]
fn what_was_measured_goes_before_what_is_built_in() {
    let parse = |lines: &str| StayTable::parse(&format!("format 1\n{lines}")).unwrap();
    let measured = parse(
        "[Open MPI 4.1, 4 ranks, 2 cpus]\nbcast stays=64K-128K\nscan stays=none
        [Open MPI 4.1, 2 ranks, 2 cpus]\nbcast stays=8-16",
    );
    let built_in = parse(
        "[Open MPI, 4 ranks, shared cores]\nbcast stays=all\nscan stays=all\ngatherv stays=all
        [Open MPI, 8 ranks, shared cores]\nscan stays=1M-",
    );
    let of = |tables: &[&StayTable], named: &str, asked: (Collective, u32, Size)| {
        let listed = mpi_calls::read(named).unwrap();
        let faster = table::of_tables(tables, &JOB).without(&listed.named);
        let agreed = Agreement {
            min_ranks: 2,
            attach: Attach::After(0),
            float_sums_stay: false,
            placement: false,
            across: Across::Stays,
            left: Left::NONE,
            faster: Left::NONE,
        };
        let mut known = Known {
            stage: Stage::Attached,
            nranks: asked.1,
            span: Span {
                most: asked.1,
                in_order: true,
            },
            begun: 0,
            spent: 0,
        };
        decide::decide(
            &agreed.leaving(listed.left, faster),
            &mut known,
            asked.0,
            asked.2,
        )
    };
    let (faster, left) = (Decision::Pass(Reason::Faster), Decision::Pass(Reason::Left));
    let both = [&measured, &built_in];
    let bcast = |ranks, bytes| (Collective::Bcast, ranks, Size::Bytes(bytes));
    let gatherv = |ranks| (Collective::Gatherv, ranks, Size::Unknown);
    for (named, asked, wanted) in [
        ("all", bcast(4, 64 << 10), faster),
        ("all", bcast(3, 127 << 10), faster),
        ("all", bcast(4, 128 << 10), Decision::Take),
        ("all", bcast(2, 15), faster),
        ("all", bcast(2, 64 << 10), Decision::Take),
        ("all", bcast(8, 64 << 10), Decision::Take),
        ("all", scan(4, 2), Decision::Take),
        ("all", scan(8, 1 << 18), faster),
        ("all", scan(8, (1 << 18) - 1), Decision::Take),
        ("all", gatherv(4), faster),
        ("all", gatherv(2), Decision::Take),
        // The user's words win, either way.
        ("bcast", bcast(4, 64 << 10), Decision::Take),
        ("bcast:-64K", bcast(4, 64 << 10), left),
        ("^scan", scan(8, 1 << 18), left),
        ("^scan", bcast(4, 64 << 10), faster),
        ("^bcast:64K-", bcast(4, 64 << 10), left),
        ("gatherv", gatherv(4), Decision::Take),
    ] {
        assert_eq!(of(&both, named, asked), wanted, "{named}: {asked:?}");
    }
    assert_eq!(of(&[&built_in], "all", scan(4, 2)), faster);
}

#[test]
fn the_table_of_the_settings_is_read_or_refused() {
    assert!(StayTable::parse(table::BUILT_IN).is_ok());
    assert_eq!(table::faster("none", &JOB), Ok(Left::NONE));
    assert!(table::faster("built-in", &JOB).is_ok());
    let path = std::env::temp_dir().join(format!("kolo-table-{}", std::process::id()));
    let name = path.display().to_string();
    let missing = table::faster(&name, &JOB).unwrap_err();
    assert!(missing.contains(&name), "{missing}");
    let head = "format 1\n[Open MPI 4.1, 4 ranks, 2 cpus]\n";
    std::fs::write(&path, format!("{head}alltoallv stays=all")).unwrap();
    let good = table::faster(&name, &JOB);
    std::fs::write(&path, format!("{head}alltoallv stays=8-16")).unwrap();
    let wrong = table::faster(&name, &JOB).unwrap_err();
    std::fs::remove_file(&path).unwrap();
    assert!(good.is_ok_and(|left| left.has(Collective::Alltoallv, 4, Size::Unknown)));
    assert!(wrong.contains("line 3") && wrong.contains(&name), "{wrong}");
    let folder = table::faster(&std::env::temp_dir().display().to_string(), &JOB);
    assert!(folder.unwrap_err().contains("no file"));
}

#[test]
fn time_is_saved_where_it_was_measured() {
    let path = std::env::temp_dir().join(format!("kolo-saved-{}", std::process::id()));
    let name = path.display().to_string();
    let lines = "bcast stays=none us=8:1.0/3.0,16:2.0/1.5,1024:5.0/9.0
        gatherv stays=none us=8:1.0/9.0,16:1.0/9.0\nbarrier stays=none us=0:1.0/1.25";
    let head = "format 1\n[Open MPI 4.1, 4 ranks, 2 cpus]\n";
    std::fs::write(&path, format!("{head}{lines}")).unwrap();
    let place = Left::place(4);
    // Calls of 2 ranks, and of sizes in between, were not measured.
    let ran = |collective: Collective, at: usize, bit: u32| match (collective, bit) {
        _ if at != place => 1000,
        (Collective::Bcast, 3) => 10,
        (Collective::Bcast, 4) => 4,
        (Collective::Bcast, 5) => 1000,
        (Collective::Barrier, mpi_table::UNKNOWN) => 8,
        (Collective::Gatherv, mpi_table::UNKNOWN) => 1000,
        _ => 0,
    };
    let saved = table::saved(&name, &JOB, ran).unwrap();
    let none = table::saved(&name, &MpiJob { cpus: 3, ..JOB }, ran);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(saved.calls, 10 + 4 + 8);
    assert!((saved.seconds - (10.0 * 2.0 - 4.0 * 0.5 + 8.0 * 0.25) * 1e-6).abs() < 1e-12);
    assert_eq!(none, None, "it was measured on other nodes");
    assert_eq!(table::saved("built-in", &JOB, ran), None);
}
