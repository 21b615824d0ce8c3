//! Which kind of topology file it is, and what can be had from it.

use super::hwloc::{PortRate, graph_of};
use super::{Graph, system};
use crate::base::{Error, Result};
use crate::topo::{Machine, Notes};
use std::path::Path;

/// A topology file of one of the two forms.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum TopoFile {
    /// hwloc's form: everything, down to the last processor.
    Machine(Machine),
    /// The form of GPU libraries: the graph alone.
    Graph(Graph),
}

/// A machine with its graph, from a file or from the running system.
#[derive(Clone, Debug)]
pub struct Description {
    /// The machine, where the description goes into such detail.
    pub machine: Option<Machine>,
    /// The graph, without workers.
    pub graph: Graph,
}

impl TopoFile {
    /// Reads a file; what cannot be used is left out with a warning. Errors: it cannot be read, is
    /// larger than 64 MiB or describes no machine; they name the file, the line and the element.
    pub fn read(path: &Path) -> Result<TopoFile> {
        let notes = Notes::lenient();
        let file = TopoFile::read_noting(path, &notes)?;
        notes.warn();
        Ok(file)
    }

    /// Reads a file, where `notes` take the warnings.
    pub fn read_noting(path: &Path, notes: &Notes) -> Result<TopoFile> {
        let text = crate::topo::detect::text_of(path)?;
        TopoFile::parse(&text, &path.display().to_string(), notes)
    }

    /// The machine that a file describes; none if it is of the form that says nothing of cores.
    /// Every rank asks this, so it does not warn: one rank of each node reads the graph too, and
    /// does. Errors: those of [`TopoFile::read`].
    pub fn machine(path: &Path) -> Result<Option<Machine>> {
        let notes = Notes::lenient();
        let file = TopoFile::read_noting(path, &notes)?;
        notes.mention();
        Ok(match file {
            TopoFile::Machine(machine) => Some(machine),
            TopoFile::Graph(_) => None,
        })
    }

    /// Reads text; `source` is what errors call it, and `notes` take the warnings.
    pub fn parse(text: &str, source: &str, notes: &Notes) -> Result<TopoFile> {
        match root(text) {
            "system" => Ok(TopoFile::Graph(system::parse(text, source, notes)?)),
            "graphs" => Err(Error::argument(
                format!("{source}: <graphs> holds rings and no machine"),
                "leave KOLO_TOPO_FILE (NCCL_TOPO_FILE) out, and let kolo search for rings; its own \
                 form of them is read from KOLO_GRAPH_FILE",
            )),
            // hwloc's reader says what is wrong with it.
            _ => Ok(TopoFile::Machine(Machine::from_xml(text, source, notes)?)),
        }
    }

    /// The machine and its graph. Errors: those of [`graph_of`].
    pub fn describe(self) -> Result<Description> {
        Ok(match self {
            TopoFile::Graph(graph) => Description {
                machine: None,
                graph,
            },
            TopoFile::Machine(machine) => Description {
                graph: graph_of(&machine, &|_| None)?,
                machine: Some(machine),
            },
        })
    }
}

impl Description {
    /// The running machine. Errors: hwloc's.
    pub fn here() -> Result<Description> {
        let machine = Machine::detect_with_devices()?;
        let rate: PortRate = &crate::topo::detect::port_rate;
        Ok(Description {
            graph: graph_of(machine, rate)?,
            machine: Some(machine.clone()),
        })
    }
}

/// The name of the outermost element: the first word after a `<` that opens one.
fn root(text: &str) -> &str {
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if rest.starts_with("!--") {
            rest = rest.find("-->").map_or("", |end| &rest[end..]);
        } else if !rest.starts_with(['?', '!']) {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric());
            return &rest[..end.unwrap_or(rest.len())];
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_element_is_found() {
        assert_eq!(
            root("<?xml version='1.0'?>\n<!-- <a> -->\n<system version=\"1\">"),
            "system"
        );
        assert_eq!(
            root("<!DOCTYPE topology SYSTEM \"x\"><topology>"),
            "topology"
        );
        assert_eq!(root("no xml"), "");
        let notes = Notes::lenient();
        let error = TopoFile::parse("<graphs version='1'/>", "g.xml", &notes).unwrap_err();
        assert!(error.what.contains("g.xml: <graphs>"), "{error}");
        let error = TopoFile::parse("<a/>", "g.xml", &notes).unwrap_err();
        assert!(error.what.contains("line 1, <a>"), "{error}");
    }
}
