//! Whole machines from files: what the tests of this module share.

mod decisions;
mod errors;
mod files;
mod graphs;
mod loads;
mod machines;
mod pictures;
mod planning;

use super::*;
use crate::base::Rank;
use std::path::{Path, PathBuf};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/topo")
        .join(name)
}

fn load(name: &str) -> Machine {
    let text = std::fs::read_to_string(path(name)).unwrap();
    Machine::from_xml_str(&text, name).unwrap()
}

fn cpus(list: &str) -> CpuSet {
    CpuSet::parse_list(list).unwrap()
}

/// A rank on `machine` that is bound to `list`.
fn bound(machine: &Machine, rank: u32, list: &str) -> RankPlace {
    let usable = Usable::of(machine, &cpus(list), None).unwrap();
    let place = RankPlace::new(Rank(rank), "node7.site", None, "boot", machine, usable);
    RankPlace { pid: 42, ..place }
}

/// A machine in one line an object, for what the files do not show.
fn small(inside: &str) -> Result<Machine, crate::base::Error> {
    let xml = format!(
        "<topology version=\"2.0\">\n<object type=\"Machine\">\n{inside}\n</object>\n</topology>"
    );
    Machine::from_xml_str(&xml, "small.xml")
}

const PU0: &str = "<object type=\"PU\" os_index=\"0\"/>";
