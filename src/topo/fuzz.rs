//! Parsers of foreign bytes in this room, for `tests/fuzz`: none may panic, loop, or allocate far
//! more than it was given.

use super::graph::TopoFile;
use super::xml_format::XmlFormat;
use super::{CpuSet, Notes, graph_file, xml};
use crate::base::Rank;

/// A description of a machine. Format 1 of hwloc is read by the library and not here.
pub fn topology(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let notes = Notes::lenient();
    let Ok(document) = xml::open(&text, "fuzz.xml", xml::REMEDY) else {
        return;
    };
    if xml::format(&document, "fuzz.xml", &notes).is_ok_and(|format| format == XmlFormat::One) {
        return;
    }
    let lenient = TopoFile::parse(&text, "fuzz.xml", &notes);
    let strict = TopoFile::parse(&text, "fuzz.xml", &Notes::strict());
    if let Ok(file) = lenient {
        assert_eq!(strict.is_ok(), notes.lines().is_empty());
        let _ = file.describe();
    }
}

/// A file of rings and trees.
pub fn graph_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    for count in [1, 4] {
        let ranks: Vec<Rank> = (0..count).map(Rank).collect();
        if let Ok(graph) = graph_file::from_text(text, "fuzz.toml", &ranks) {
            graph.check().expect("a file is checked as a whole");
        }
    }
}

/// Sets of processors.
pub fn cpu_set(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let _ = CpuSet::parse_list(&text);
    let _ = CpuSet::parse_mask(&text);
}
