//! Circles of files inside a room: files that import each other, so that none of them can be read
//! first.
//!
//! A room is a folder of `src/`. `a.rs` and the files of its folder `a/` are separate files. The
//! circles that are still there are listed in `circles.txt`; the list only shrinks.

use crate::modules::{Import, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// A room, its files, and its circles: sets of files that reach each other.
pub struct Room {
    pub name: String,
    pub files: usize,
    pub circles: Vec<Circle>,
}

/// Files that reach each other, sorted, and what they import from each other.
pub struct Circle {
    pub files: Vec<String>,
    pub imports: Vec<Import>,
}

impl Circle {
    fn line(&self) -> String {
        self.files.join(" ")
    }
}

/// The room of a file of `src/`; none for the root of the library.
fn room(path: &str) -> Option<&str> {
    Some(path.strip_prefix("src/")?.split_once('/')?.0)
}

/// The rooms of the crates in `trees`, by name.
pub fn rooms(trees: &[Tree]) -> Vec<Room> {
    let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut imports: BTreeMap<String, Vec<Import>> = BTreeMap::new();
    for tree in trees {
        for file in tree.files() {
            if let Some(room) = room(file) {
                let files = files.entry(room.to_owned()).or_default();
                files.insert(file.clone());
            }
        }
        for import in tree.imports() {
            if let Some(name) = room(&import.from).filter(|it| room(&import.to) == Some(it)) {
                imports.entry(name.to_owned()).or_default().push(import);
            }
        }
    }
    let make = |(name, files): (String, BTreeSet<String>)| Room {
        circles: circles(&imports.remove(&name).unwrap_or_default()),
        files: files.len(),
        name,
    };
    files.into_iter().map(make).collect()
}

/// The sets of more than one file that reach each other.
pub fn circles(imports: &[Import]) -> Vec<Circle> {
    let mut next: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for import in imports {
        next.entry(&import.from).or_default().insert(&import.to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> = next
        .keys()
        .map(|from| (*from, reach(from, &next)))
        .collect();
    let mut found: BTreeSet<Vec<&str>> = BTreeSet::new();
    for (from, there) in &reached {
        let back = |to: &&&str| reached.get(**to).is_some_and(|it| it.contains(from));
        let circle: Vec<&str> = there.iter().filter(back).copied().collect();
        if !circle.is_empty() {
            found.insert(circle);
        }
    }
    let own = |files: Vec<&str>| Circle {
        imports: imports
            .iter()
            .filter(|it| files.contains(&it.from.as_str()) && files.contains(&it.to.as_str()))
            .cloned()
            .collect(),
        files: files.into_iter().map(str::to_owned).collect(),
    };
    found.into_iter().map(own).collect()
}

/// All files that `from` imports, and those that these import.
fn reach<'a>(from: &str, next: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let mut found: BTreeSet<&str> = BTreeSet::new();
    let mut ahead: Vec<&str> = next.get(from).into_iter().flatten().copied().collect();
    while let Some(file) = ahead.pop() {
        if found.insert(file) {
            ahead.extend(next.get(file).into_iter().flatten());
        }
    }
    found
}

/// Circles that are not in the list, and lines of the list that are no circle.
pub fn faults(rooms: &[Room], list: &str) -> Vec<String> {
    let listed: BTreeSet<&str> = list
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    let circles: Vec<&Circle> = rooms.iter().flat_map(|room| &room.circles).collect();
    let mut found = Vec::new();
    for circle in &circles {
        if !listed.contains(circle.line().as_str()) {
            found.push(format!(
                "a circle of files: move what they share to a file of its own\n{}",
                picture(circle)
            ));
        }
    }
    let lines: BTreeSet<String> = circles.iter().map(|circle| circle.line()).collect();
    for line in listed.iter().filter(|line| !lines.contains(**line)) {
        found.push(format!(
            "circles.txt: this circle is no longer there: {line}"
        ));
    }
    found
}

fn picture(circle: &Circle) -> String {
    format!("  {}\n{}", circle.line(), arrows(&circle.imports))
}

/// Who uses what of whom.
pub fn arrows<'a>(imports: impl IntoIterator<Item = &'a Import>) -> String {
    let mut names: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for it in imports {
        names.entry((&it.from, &it.to)).or_default().push(&it.name);
    }
    let arrow = |((from, to), names): (&(&str, &str), &Vec<&str>)| {
        format!("    {from} -> {to}: {}", names.join(", "))
    };
    let arrows: Vec<String> = names.iter().map(arrow).collect();
    arrows.join("\n")
}

/// The rooms and their circles in words.
pub fn report(rooms: &[Room]) -> String {
    let total: usize = rooms.iter().map(|room| room.circles.len()).sum();
    let mut text = format!("{} rooms, {total} circles inside rooms\n", rooms.len());
    for room in rooms {
        let (files, circles) = (room.files, room.circles.len());
        text += &format!("{}: {files} files, {circles} circles\n", room.name);
        for circle in &room.circles {
            text += &format!("  {}: {}\n", circle.files.len(), circle.line());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of room `a` of a small crate.
    fn found(files: &[(&str, &str)]) -> Vec<Circle> {
        let read = |path: &str| {
            let file = files.iter().find(|(name, _)| *name == path);
            file.map(|(_, text)| (*text).to_owned())
        };
        let mut rooms = rooms(&[Tree::read("src/lib.rs", &read)]);
        rooms.retain(|room| room.name == "a");
        rooms.pop().expect("room a").circles
    }

    fn lines(files: &[(&str, &str)]) -> Vec<String> {
        found(files).iter().map(Circle::line).collect()
    }

    const LIB: (&str, &str) = ("src/lib.rs", "pub mod a;");

    #[test]
    fn two_files_that_import_each_other_are_a_circle() {
        for back in [
            "use super::one::One;",
            "use crate::a::one::One;",
            "use crate::{a::{one::{One as Other}}};",
            "use super::one; fn f(_: one::One) {}",
            "fn f() { use super::one::*; One; }",
            "fn f() { let x = super::one::One::default(); }",
            "fn f() { format!(\"{}\", super::one::One) }",
            "impl super::one::One {}",
            "#[serde(with = super::one::One)] struct Three;",
            "mod inner { use super::super::one::One; }",
            "use super::one::said; fn f() { said!() }",
            "use super::one::made;",
        ] {
            let files = [
                LIB,
                ("src/a/mod.rs", "mod one; mod two;"),
                (
                    "src/a/one.rs",
                    "use super::two::Two; pub struct One; macro_rules! said { () => {} } \
                     declares! { made }",
                ),
                ("src/a/two.rs", &format!("pub struct Two; {back}")),
            ];
            assert_eq!(lines(&files), ["src/a/one.rs src/a/two.rs"], "{back}");
        }
    }

    #[test]
    fn what_does_not_lead_back_is_no_circle() {
        for other in [
            "use super::three::Three;",
            "#[cfg(test)] mod tests { use super::super::one::One; }",
            "#[cfg(all(test, unix))] use super::one::One;",
            "fn f() { #[cfg(test)] let x = super::one::One; }",
            "#[cfg(test)] mod two_tests;",
            "// use super::one::One;\nconst A: &str = \"super::one::One\";",
            "pub use super::one::One;",
            "use std::one::One; use super::one; use ::one::One as Other;",
            "fn f(one: u8) -> u8 { one }",
        ] {
            let files = [
                LIB,
                ("src/a/mod.rs", "mod one; mod three; mod two;"),
                ("src/a/one.rs", "use super::two::Two; pub struct One;"),
                ("src/a/three.rs", "pub struct Three;"),
                ("src/a/two.rs", &format!("pub struct Two; {other}")),
                ("src/a/two/two_tests.rs", "use super::super::one::One;"),
            ];
            assert!(lines(&files).is_empty(), "{other}");
        }
    }

    #[test]
    fn circles_of_three_and_of_a_file_with_its_folder() {
        let three = [
            LIB,
            ("src/a/mod.rs", "mod x; mod y; mod z;"),
            ("src/a/x.rs", "use super::y::Y; pub struct X;"),
            ("src/a/y.rs", "use super::z::Z; pub struct Y;"),
            ("src/a/z.rs", "use super::x::X; pub struct Z;"),
        ];
        assert_eq!(lines(&three), ["src/a/x.rs src/a/y.rs src/a/z.rs"]);
        let folder = [
            LIB,
            ("src/a/mod.rs", "mod x; mod z;"),
            ("src/a/x.rs", "mod y; use y::Y; pub struct X;"),
            ("src/a/x/y.rs", "use super::X; pub struct Y;"),
            ("src/a/z.rs", "use super::x::X;"),
        ];
        assert_eq!(lines(&folder), ["src/a/x.rs src/a/x/y.rs"]);
    }

    #[test]
    fn a_name_that_is_passed_on_counts_for_the_file_that_declares_it() {
        let through = |mods: &'static str, two: &'static str| {
            lines(&[
                LIB,
                ("src/a/mod.rs", mods),
                (
                    "src/a/one.rs",
                    "use super::Two; pub struct One; pub fn one() {}",
                ),
                ("src/a/two.rs", two),
            ])
        };
        let both = ["src/a/one.rs src/a/two.rs"];
        let mods = "mod one; mod two; pub use one::One; pub use two::Two;";
        assert_eq!(through(mods, "use super::One; pub struct Two;"), both);
        assert_eq!(
            through(mods, "use crate::a::One as O; pub struct Two;"),
            both
        );
        // Along two ways, and through a glob.
        let mods = "mod one; mod two; mod all { pub use super::one::*; } pub use all::One; \
                    pub use two::*;";
        assert_eq!(through(mods, "use super::*; pub struct Two(One);"), both);
        // A module and a function of one name.
        let mods = "mod one; mod two; pub use one::one; pub use two::Two;";
        assert_eq!(
            through(mods, "use super::one; pub struct Two; fn f() { one() }"),
            both
        );
        assert!(
            through(
                mods,
                "use super::one; pub struct Two; fn f(one: u8) { one; }"
            )
            .is_empty()
        );
        // The file that passes on has no part in it, unless it uses the name itself.
        let mods = "mod one; mod two; pub use two::Two; pub struct Own;";
        assert!(through(mods, "use super::Own; pub struct Two;").is_empty());
        let mods = "mod one; mod two; pub use two::Two; pub struct Own(Two);";
        let found = through(mods, "use super::Own; pub struct Two;");
        assert_eq!(found, ["src/a/mod.rs src/a/two.rs"]);
    }

    #[test]
    fn the_list_only_shrinks() {
        let files = [
            LIB,
            ("src/a/mod.rs", "mod x; use x::X; pub struct Y;"),
            ("src/a/x.rs", "use super::Y; pub struct X;"),
        ];
        let room = |circles| Room {
            name: "a".to_owned(),
            files: 2,
            circles,
        };
        let line = "src/a/mod.rs src/a/x.rs";
        assert!(faults(&[room(found(&files))], &format!("# Why.\n\n{line}\n")).is_empty());
        let new = faults(&[room(found(&files))], "");
        assert_eq!(new.len(), 1);
        assert!(new[0].contains("src/a/x.rs -> src/a/mod.rs: Y"), "{new:?}");
        let gone = faults(&[room(Vec::new())], line);
        assert_eq!(
            gone,
            [format!(
                "circles.txt: this circle is no longer there: {line}"
            )]
        );
        let other = faults(&[room(found(&files))], "src/a/mod.rs src/a/x.rs src/a/y.rs");
        assert_eq!(
            other.len(),
            2,
            "a circle that has become smaller is named anew"
        );
        assert!(report(&[room(found(&files))]).contains("1 rooms, 1 circles"));
    }
}
