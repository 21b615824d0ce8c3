//! Whole machines from files: what the tests of this module share.

mod decisions;
mod drawn;
mod errors;
mod files;
mod foreign;
mod graphs;
mod loads;
mod machines;
mod pairs;
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
    RankPlace {
        pid: 42,
        process: 0,
        ..place
    }
}

/// A machine in one line an object, for what the files do not show; read strictly.
fn small(inside: &str) -> Result<Machine, crate::base::Error> {
    small_as("2.0", inside, &Notes::strict())
}

fn small_as(version: &str, inside: &str, notes: &Notes) -> Result<Machine, crate::base::Error> {
    let xml = format!(
        "<topology version=\"{version}\">\n<object type=\"Machine\">\n{inside}\n</object>\n\
         </topology>"
    );
    Machine::from_xml(&xml, "small.xml", notes)
}

const PU0: &str = "<object type=\"PU\" os_index=\"0\"/>";
