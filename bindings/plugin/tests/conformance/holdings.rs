//! Holdings of a process: what could be left after closing.

use crate::site;
use std::collections::BTreeMap;
use std::time::Duration;

/// Resources that could leak: open files, threads, and what the site counts.
#[derive(Debug, PartialEq, Eq)]
pub struct Holdings {
    other: String,
    files: BTreeMap<String, usize>,
    threads: usize,
}

pub fn holdings() -> Holdings {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        if let Ok(target) = std::fs::read_link(entry.unwrap().path()) {
            // Numbers of sockets differ; the open folder itself is none of the process's.
            let name = target.to_string_lossy();
            let kind = name
                .split_once(":[")
                .map_or(&*name, |(kind, _)| kind)
                .to_string();
            if !kind.ends_with("/fd") {
                *files.entry(kind).or_insert(0) += 1;
            }
        }
    }
    Holdings {
        other: site::resources(),
        files,
        threads: threads(),
    }
}

/// A thread that was joined is listed for a moment more.
fn threads() -> usize {
    let counts = (0..10).map(|_| {
        std::thread::sleep(Duration::from_millis(5));
        std::fs::read_dir("/proc/self/task").unwrap().count()
    });
    counts.min().unwrap()
}
