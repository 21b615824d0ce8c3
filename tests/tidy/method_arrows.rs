//! Rooms use each other along the arrows, by calls of methods and by macros, too.
//!
//! A value that a room is handed may be of a room above it: its methods are called without an
//! import. Whose method a call means, `methods.rs` says. A macro of another room needs no path, so
//! `layers.rs` does not see it; here it counts. Uses against the arrows that are still there are in
//! `method_arrows.txt`: the file that uses, the file that is used, and the name.

use crate::layers::may_import;
use crate::methods;
use crate::modules::{Import, Tree};
use std::collections::BTreeSet;

/// The room of a file of the library.
fn room(path: &str) -> Option<&str> {
    Some(path.strip_prefix("src/")?.split_once('/')?.0)
}

/// Whether a file uses one of a room that its own must not import.
pub fn is_against(it: &Import) -> bool {
    match (room(&it.from), room(&it.to)) {
        (Some(from), Some(to)) => !may_import(from, to),
        _ => false,
    }
}

/// Uses against the arrows; `used` are the crates of this workspace that the library uses.
pub fn found(library: &Tree, used: &[&Tree]) -> BTreeSet<String> {
    let uses = methods::calls(library, used).into_iter();
    let uses = uses.chain(library.imports());
    let against = uses.filter(is_against);
    against
        .map(|it| format!("{} {} {}", it.from, it.to, it.name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(plan: &str, comm: &str) -> Vec<String> {
        let read = |path: &str| match path {
            "src/lib.rs" => Some("mod comm; mod plan;".to_owned()),
            "src/comm/mod.rs" => Some(format!("pub struct Comm; {comm}")),
            "src/plan/mod.rs" => Some(format!("pub struct Plan; {plan}")),
            _ => None,
        };
        found(&Tree::read("src/lib.rs", &read), &[])
            .into_iter()
            .collect()
    }

    #[test]
    fn a_call_of_a_room_above_is_seen() {
        let enqueues = "impl Comm { pub fn enqueue_it(&self) {} }";
        let calls = "fn f(x: T) { x.enqueue_it() }";
        let against = ["src/plan/mod.rs src/comm/mod.rs .enqueue_it()"];
        assert_eq!(of(calls, enqueues), against);
        let hidden = "impl Comm { fn enqueue_it(&self) {} }";
        assert_eq!(of(calls, hidden), [""; 0]);
        let lowers = "impl Plan { pub fn lower_it(&self) {} }";
        assert_eq!(of(lowers, "fn f(x: T) { x.lower_it() }"), [""; 0]);
    }

    #[test]
    fn a_macro_of_a_room_above_is_seen() {
        let declares = "macro_rules! table { () => {} }";
        let against = ["src/plan/mod.rs src/comm/mod.rs table"];
        assert_eq!(of("table!();", declares), against);
        assert_eq!(of(declares, "table!();"), [""; 0]);
    }
}
