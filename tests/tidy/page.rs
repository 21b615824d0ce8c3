//! `docs/ARCHITECTURE.md` is one page, and true where a program can tell: its length, its table of
//! rooms, its drawing, and the files that it and the other pages name.

use crate::layers::ARROWS;
use crate::source::Source;

/// Most words of the page, tables included, as `wc -w` counts them.
pub const MOST_WORDS: usize = 900;

/// Where paths in pages begin; what begins otherwise is a setting, a file of a user, a command.
pub const TOPS: &[&str] = &[
    "src/",
    "tests/",
    "docs/",
    "bindings/",
    "benches/",
    "config/",
    "examples/",
    "kernels/",
    "slurm/",
];

/// Whether a page has more words than it may have.
pub fn length(page: &str, text: &str, most: usize) -> Vec<String> {
    let words = text.split_whitespace().count();
    let what = format!("{page} has {words} words, and {most} are what it may have");
    Vec::from_iter((words > most).then_some(what))
}

/// The rooms of the page's table, each with what it imports.
fn rooms(text: &str) -> Vec<(&str, Vec<&str>)> {
    let head = |line: &&str| !line.starts_with("| room");
    let rows = text.lines().skip_while(head).skip(2);
    rows.map_while(|line| line.trim().strip_prefix('|')?.strip_suffix('|'))
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let imports = cells.last().map_or("", |cell| cell).split(',');
            let imports = imports.map(str::trim).filter(|name| *name != "-");
            (cells[0].trim_matches('`'), imports.collect())
        })
        .collect()
}

/// Where the table differs from the arrows that are held.
pub fn table(text: &str) -> Vec<String> {
    let rooms = rooms(text);
    let mut found = Vec::new();
    for (room, arrows) in ARROWS {
        let Some((_, imports)) = rooms.iter().find(|(name, _)| name == room) else {
            found.push(format!("ARCHITECTURE.md: room `{room}` has no row"));
            continue;
        };
        let (mut said, mut held) = (imports.clone(), arrows.to_vec());
        said.sort_unstable();
        held.sort_unstable();
        if said != held {
            found.push(format!(
                "ARCHITECTURE.md: `{room}` imports {held:?}, and the table says {said:?}"
            ));
        }
    }
    let is_room = |name: &str| name == "bin" || ARROWS.iter().any(|(room, _)| *room == name);
    let strangers = rooms.iter().filter(|(name, _)| !is_room(name));
    found.extend(strangers.map(|(name, _)| format!("ARCHITECTURE.md: there is no room `{name}`")));
    found
}

/// Rooms that a text does not name, where `mark` says how it names one.
pub fn unnamed(file: &str, text: &str, mark: impl Fn(&str) -> String) -> Vec<String> {
    let rooms = ARROWS.iter().map(|(room, _)| *room);
    rooms
        .filter(|room| !text.contains(&mark(room)))
        .map(|room| format!("{file} does not show room `{room}`"))
        .collect()
}

/// The paths below the root that a page names in backquotes. Its links are those of `links.rs`.
fn paths(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in text.lines() {
        for quoted in line.split('`').skip(1).step_by(2) {
            let path = quoted.split("::").next().unwrap_or(quoted);
            let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
            if TOPS.iter().any(|top| path.starts_with(top)) && path.chars().all(plain) {
                found.push(path.to_owned());
            }
        }
    }
    found
}

/// The command that has a source file write what it generates, if it does.
fn bless(source: &Source) -> Option<String> {
    let reads = |line: &String| line.contains(concat!("var_os(\"", "KOLO_BLESS\")"));
    if !source.raw.iter().any(reads) {
        return None;
    }
    let parts: Vec<&str> = source.path.trim_end_matches(".rs").split('/').collect();
    let what = match parts[..] {
        ["tests", file, ..] => format!("--test {file}"),
        ["src", "bin", program, room, _] => format!("--bin {program} {room}::"),
        ["src", room, ..] => format!("--lib {room}::"),
        ["bindings", which, "tests", file, ..] => format!("-p kolo-{which} --test {file}"),
        _ => format!("(of {})", source.path),
    };
    Some(format!("`KOLO_BLESS=1 cargo test {what}`"))
}

/// Whether a page of commands lacks that of a file which writes something.
pub fn unblessed(page: &str, source: &Source) -> Vec<String> {
    let lacks = |command: &String| !page.contains(command.as_str());
    let command = bless(source).filter(lacks);
    Vec::from_iter(command.map(|command| source.fault(0, &format!("HACKING.md lacks {command}"))))
}

/// Files that a page of `docs/` names and that are not there.
pub fn missing(page: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let paths = paths(text).into_iter();
    paths
        .filter(|path| !exists(path))
        .map(|path| format!("{page} names `{path}`, which is not there"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(rows: &[(&str, String)]) -> String {
        let mut text = String::from("text\n\n| room | holds | imports |\n|---|---|---|\n");
        for (room, imports) in rows {
            text += &format!("| `{room}` | something | {imports} |\n");
        }
        text + "\n| other | table |\n"
    }

    fn good() -> Vec<(&'static str, String)> {
        let rows = ARROWS.iter().map(|(room, imports)| match imports {
            [] => (*room, "-".to_owned()),
            _ => (*room, imports.join(", ")),
        });
        rows.chain([("bin", "all".to_owned())]).collect()
    }

    #[test]
    fn a_page_too_long_is_a_fault() {
        let told = |word: &str, times: usize| length("a.md", &word.repeat(times), MOST_WORDS);
        assert!(told("word ", MOST_WORDS).is_empty());
        assert_eq!(told("word\n", MOST_WORDS + 1).len(), 1);
    }

    #[test]
    fn the_table_must_say_what_is_held() {
        assert_eq!(table(&page(&good())), [""; 0]);
        let change = |room: &str, new: (&'static str, &str)| {
            let mut rows = good();
            let row = rows.iter_mut().find(|(name, _)| *name == room);
            *row.expect("a room") = (new.0, new.1.to_owned());
            table(&page(&rows)).len()
        };
        assert_eq!(change("algo", ("algo", "plan, wire")), 1);
        assert_eq!(change("algo", ("algo", "-")), 1);
        assert_eq!(change("algo", ("attic", "plan")), 2);
        assert_eq!(table("no table").len(), ARROWS.len());
    }

    #[test]
    fn a_room_that_is_not_shown_is_named() {
        let drawn: String = ARROWS.iter().map(|(room, _)| format!(">{room}<")).collect();
        let mark = |room: &str| format!(">{room}<");
        assert!(unnamed("x.svg", &drawn, mark).is_empty());
        assert_eq!(
            unnamed("x.svg", &drawn.replace(">wire<", ">wires<"), mark),
            ["x.svg does not show room `wire`"]
        );
    }

    #[test]
    fn a_command_that_the_page_lacks_is_named() {
        let text = concat!("//! x\nif env::var_os(\"", "KOLO_BLESS\").is_some() {}\n");
        let lacking = |path: &str, page: &str| unblessed(page, &Source::new(path, text)).len();
        let page = "| write | `KOLO_BLESS=1 cargo test -p kolo-c --test header` |";
        assert_eq!(lacking("bindings/c/tests/header.rs", page), 0);
        assert_eq!(lacking("bindings/c/tests/head.rs", page), 1);
        assert_eq!(lacking("src/config/tests/generated.rs", page), 1);
        let page = "`KOLO_BLESS=1 cargo test --lib config::`";
        assert_eq!(lacking("src/config/tests/generated.rs", page), 0);
        let page = "`KOLO_BLESS=1 cargo test --bin kolo pages::`";
        assert_eq!(lacking("src/bin/kolo/pages/reference_tests.rs", page), 0);
        assert!(unblessed("", &Source::new("src/a.rs", "//! x\n")).is_empty());
    }

    #[test]
    fn what_a_page_names_must_be_there() {
        let exists = |path: &str| ["src/a.rs", "docs/b.md"].contains(&path);
        let good = "`src/a.rs::works` `docs/b.md` [d](https://e) `/etc/kolo`";
        assert_eq!(missing("p.md", good, &exists), [""; 0]);
        assert_eq!(missing("p.md", "`src/b.rs`", &exists).len(), 1);
        assert!(missing("p.md", "`src/a.rs *.c` `src/{a,b}`", &exists).is_empty());
    }
}
