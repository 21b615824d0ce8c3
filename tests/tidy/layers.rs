//! Who may import whom: the arrows between rooms, as in `docs/ARCHITECTURE.md`.
//!
//! A room names another one by `crate::room`, alone or in braces. Arrows are transitive: `algo` may
//! use `base` because `plan` does. A path that climbs out of its room by `super` would hide an
//! arrow, so it is a fault of its own.
//!
//! The room `dtype` is a crate: the compiler holds that it imports no other. The others name it as
//! they name each other.

use crate::source::Source;

/// Room, and the rooms that it may import directly. `bin` is not here: it sees everything.
pub const ARROWS: &[(&str, &[&str])] = &[
    (
        "comm",
        &[
            "ras",
            "cuda",
            "exec",
            "proxy",
            "transport",
            "bootstrap",
            "tune",
            "algo",
            "plan",
            "topo",
            "config",
        ],
    ),
    ("ras", &["topo", "proxy"]),
    ("exec", &["cuda", "plan", "price", "wire", "dtype"]),
    ("proxy", &["plan", "transport", "bootstrap"]),
    ("tune", &["algo", "topo", "price", "plan"]),
    ("price", &["plan"]),
    ("algo", &["plan"]),
    ("transport", &["cuda", "wire", "config", "trust"]),
    ("bootstrap", &["config", "trust", "base"]),
    ("topo", &["base"]),
    ("wire", &["base"]),
    ("dtype", &[]),
    ("cuda", &["base"]),
    ("plan", &["base"]),
    ("config", &["base"]),
    ("trust", &["base"]),
    ("base", &[]),
];

/// The room that is a crate, its name there, and who may use that name: the modes of arithmetic,
/// which `base` keeps for the program, are those that folds ask for.
const CRATE: (&str, &str, &[&str]) = ("dtype", "kolo_dtype", &["src/base/float_env.rs"]);

/// Whether `from` reaches `to` along the arrows; a room always reaches itself.
pub fn may_import(from: &str, to: &str) -> bool {
    from == to
        || ARROWS
            .iter()
            .filter(|(room, _)| *room == from)
            .any(|(_, targets)| targets.iter().any(|target| may_import(target, to)))
}

pub fn faults(source: &Source) -> Vec<String> {
    let Some(room) = source.room() else {
        return Vec::new();
    };
    if !source.is_rust() || room == "bin" {
        return Vec::new();
    }
    if !ARROWS.iter().any(|(name, _)| *name == room) {
        return vec![source.fault(0, &format!("room `{room}` is not in the import table"))];
    }
    let code = source.code.join("\n");
    if room == CRATE.0 {
        return climbs(source, &code);
    }
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let line = line_of(&code, at);
        for target in targets(&code[at + "crate::".len()..]) {
            if !ARROWS.iter().any(|(name, _)| *name == target) {
                found.push(source.fault(line, &format!("`crate::{target}` names no room")));
            } else if !may_import(room, target) {
                let what = format!("room `{room}` must not import room `{target}`");
                found.push(source.fault(line, &what));
            }
        }
    }
    found.extend(climbs(source, &code));
    found.extend(names_a_part_of_an_engine(source, &code));
    found.extend(names_the_crate(source, &code));
    found
}

/// The crate's own name would hide an arrow.
fn names_the_crate(source: &Source, code: &str) -> Vec<String> {
    let (room, name, allowed) = CRATE;
    if allowed.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let what = format!("write `crate::{room}` for `{name}`");
    code.match_indices(name)
        .map(|(at, _)| source.fault(line_of(code, at), &what))
        .collect()
}

/// Communicators name their engines, and no other part of them; only where engines are made is more
/// of their rooms named.
fn names_a_part_of_an_engine(source: &Source, code: &str) -> Vec<String> {
    let may_name = ["src/exec/", "src/comm/start/"];
    if may_name.iter().any(|room| source.path.starts_with(room)) {
        return Vec::new();
    }
    let named = ["exec::host", "exec::cuda"];
    let found = named.iter().flat_map(|name| code.match_indices(name));
    let what = "names a part of an engine: ask the engine, of `exec`";
    found
        .map(|(at, _)| source.fault(line_of(code, at), what))
        .collect()
}

/// The first names after `crate::`: one, or those of a group in braces.
fn targets(rest: &str) -> Vec<&str> {
    let rest = rest.trim_start();
    let Some(group) = rest.strip_prefix('{') else {
        return vec![word(rest)];
    };
    let mut names = Vec::new();
    let mut depth = 0_i32;
    let mut start = 0;
    for (i, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                let name = word(group[start..i].trim_start());
                if !name.is_empty() {
                    names.push(name);
                }
                start = i + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names
}

/// The word at the start; `*` is one too, because a glob of everything is an import.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '*');
    &text[..end.unwrap_or(text.len())]
}

/// Paths of `super` that leave the room.
fn climbs(source: &Source, code: &str) -> Vec<String> {
    let below = source
        .path
        .trim_start_matches("src/")
        .trim_end_matches(".rs");
    let depth = below.split('/').filter(|part| *part != "mod").count();
    let mut found = Vec::new();
    let mut skip_to = 0;
    for (at, _) in code.match_indices("super::") {
        if at < skip_to {
            continue;
        }
        let mut count = 0;
        let mut end = at;
        while code[end..].starts_with("super::") {
            count += 1;
            end += "super::".len();
        }
        skip_to = end;
        if count >= depth + inline_modules(&code[..at]) {
            let what = "`super` leaves the room: write the path with `crate::`";
            found.push(source.fault(line_of(code, at), what));
        }
    }
    found
}

/// How many `mod name {` are still open at the end of `before`.
fn inline_modules(before: &str) -> usize {
    let mut open = Vec::new();
    for (i, c) in before.char_indices() {
        if c == '{' {
            let mut words = before[..i].split_whitespace().rev();
            words.next();
            open.push(words.next() == Some("mod"));
        } else if c == '}' {
            open.pop();
        }
    }
    open.iter().filter(|is_module| **is_module).count()
}

fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str) -> Vec<String> {
        faults(&Source::new(path, text))
    }

    #[test]
    fn arrows_are_transitive_and_end_in_base() {
        assert!(may_import("comm", "base") && may_import("exec", "wire"));
        assert!(may_import("tune", "base") && may_import("proxy", "wire"));
        assert!(!may_import("plan", "algo") && !may_import("algo", "wire"));
        assert!(!may_import("transport", "plan") && !may_import("wire", "config"));
        for (room, targets) in ARROWS {
            for target in *targets {
                assert!(
                    !may_import(target, room),
                    "{room} and {target} import each other"
                );
            }
        }
    }

    #[test]
    fn a_forbidden_import_is_a_fault() {
        let found = check("src/plan/step.rs", "//! x\nuse crate::wire::Slot;\n");
        assert_eq!(
            found,
            ["src/plan/step.rs:2: room `plan` must not import room `wire`"]
        );
        assert_eq!(
            check("src/plan/step.rs", "fn f() { crate::algo::ring() }").len(),
            1
        );
        assert_eq!(check("src/wire/mod.rs", "use crate::*;").len(), 1);
        assert_eq!(check("src/wire/mod.rs", "use crate::Slot;").len(), 1);
        assert_eq!(check("src/attic/mod.rs", "//! x").len(), 1);
    }

    #[test]
    fn groups_over_several_lines_are_read() {
        let good = "use crate::{\n    base::{error::{Error}, ids},\n    config::Settings,\n};";
        assert!(check("src/bootstrap/mod.rs", good).is_empty());
        let bad = "use crate::{base::{Error, Rank}, wire::Slot};";
        assert_eq!(check("src/topo/mod.rs", bad).len(), 1);
    }

    #[test]
    fn super_must_not_leave_the_room() {
        assert_eq!(check("src/wire/mod.rs", "use super::plan::Step;").len(), 1);
        assert_eq!(
            check("src/wire/slot.rs", "use super::super::plan::Step;").len(),
            1
        );
        assert!(check("src/wire/slot.rs", "use super::Line;").is_empty());
        assert!(check("src/wire/mod.rs", "mod tests { use super::*; }").is_empty());
        assert_eq!(
            check("src/wire/mod.rs", "mod a { use super::super::b; }").len(),
            1
        );
    }

    #[test]
    fn parts_of_engines_are_named_where_they_are_made() {
        let text = "use crate::exec::host::Wires;\n";
        assert_eq!(check("src/comm/flight/op.rs", text).len(), 1);
        assert!(check("src/comm/start/executor.rs", text).is_empty());
        let kernel = "use crate::exec::cuda::names;\n";
        assert_eq!(check("src/comm/calling/device.rs", kernel).len(), 1);
        let engines = "use crate::exec::{CudaEngine, HostEngine};\n";
        assert!(check("src/comm/flight/op.rs", engines).is_empty());
    }

    #[test]
    fn a_room_that_is_a_crate_is_named_like_the_others() {
        let text = "use kolo_dtype::DataType;\n";
        assert_eq!(check("src/exec/combine.rs", text).len(), 1);
        assert_eq!(check("src/plan/step.rs", text).len(), 1);
        assert!(check("src/base/float_env.rs", text).is_empty());
        let inside = "use crate::{DataType, lanes::Lanes};\n";
        assert!(check("src/dtype/isa/avx2.rs", inside).is_empty());
        assert_eq!(check("src/dtype/mod.rs", "use super::plan::Step;").len(), 1);
        assert_eq!(check("src/plan/step.rs", "use crate::dtype::Isa;").len(), 1);
    }

    #[test]
    fn comments_do_not_import() {
        assert!(check("src/plan/mod.rs", "//! see crate::exec\n").is_empty());
    }
}
