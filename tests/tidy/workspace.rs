//! The sources and crates of the workspace as the rules read them, once for all rules.
//!
//! `tests/loom` is not here: it compiles files of the library again.

use crate::circles::Circle;
use crate::modules::Tree;
use crate::source::{self, Source};
use crate::{method_circles, read, root};
use std::sync::OnceLock;

/// The roots of the crates. The library uses the crate behind it; all others use both.
const ROOTS: [&str; 13] = [
    "src/lib.rs",
    "src/dtype/mod.rs",
    "src/bin/kolo/main.rs",
    "bindings/c/src/lib.rs",
    "bindings/fortran/interfaces/src/main.rs",
    "bindings/mpi/src/lib.rs",
    "bindings/ofi/src/lib.rs",
    "bindings/pmpi/src/lib.rs",
    "bindings/plugin/src/lib.rs",
    "bindings/verbs/src/lib.rs",
    "tests/machines/device-tests/src/main.rs",
    "tests/machines/kernels-host/lib.rs",
    "tests/machines/softgpu/src/lib.rs",
];

/// Members of the workspace of which no root is read; that of loom has no code of its own.
pub fn unread(manifest: &str) -> Vec<String> {
    let lines = manifest.lines();
    let members = lines
        .filter_map(|line| line.strip_prefix("members = ["))
        .flat_map(|names| names.split('"').skip(1).step_by(2));
    let is_read = |name: &str| {
        let folder = format!("{name}/");
        [".", "tests/loom"].contains(&name) || ROOTS.iter().any(|root| root.starts_with(&folder))
    };
    members
        .filter(|name| !is_read(name))
        .map(|name| format!("{name}: workspace.rs does not read this crate"))
        .collect()
}

/// How many of them are in `src/`: the library, the room that is a crate of its own, the command.
const OF_SRC: usize = 3;

/// Every source file of the project, sorted by path.
pub fn sources() -> &'static [Source] {
    static SOURCES: OnceLock<Vec<Source>> = OnceLock::new();
    SOURCES.get_or_init(|| source::all(root()))
}

pub fn all() -> &'static [Tree] {
    static ALL: OnceLock<Vec<Tree>> = OnceLock::new();
    ALL.get_or_init(|| ROOTS.map(|root| Tree::read(root, &read)).into())
}

pub fn of_src() -> &'static [Tree] {
    &all()[..OF_SRC]
}

pub fn library() -> &'static Tree {
    &all()[0]
}

/// The crates of the workspace whose methods the code of a crate may call.
pub fn used(tree: &Tree) -> Vec<&'static Tree> {
    let at = all().iter().position(|it| it.files() == tree.files());
    match at {
        Some(0) => vec![&all()[1]],
        Some(1) => Vec::new(),
        _ => all()[..2].iter().collect(),
    }
}

/// The circles of files of all crates, by imports and methods.
pub fn method_circles() -> &'static [Circle] {
    static CIRCLES: OnceLock<Vec<Circle>> = OnceLock::new();
    let found = |tree| method_circles::found(tree, &used(tree));
    CIRCLES.get_or_init(|| all().iter().flat_map(found).collect())
}
