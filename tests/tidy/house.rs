//! Figures that say how well the house is built: each should fall.
//!
//! They are those of the lists that only shrink, and some that no list holds. The section "How
//! the house is measured" of `docs/HACKING.md` says what each is, and which command prints them.

use crate::source::Source;
use crate::{apart, circles, method_arrows, root, shapes, workspace};
use std::process::Command;

const SECTION: &str = "## How the house is measured";

/// A figure: its name, and its number where it can be told.
pub struct Figure {
    name: &'static str,
    number: Option<usize>,
}

/// How a unit test of `comm` comes to whole communicators.
const STARTS: [&str; 2] = ["Communicator::init", "Communicator::begin("];

/// The code of the unit tests of a file.
fn unit_tests(source: &Source) -> &[String] {
    if source.path.ends_with("tests.rs") || source.path.contains("/tests/") {
        return &source.code;
    }
    let begins = |pair: &[String]| {
        let module = pair[1].trim();
        pair[0].trim() == "#[cfg(test)]" && module.starts_with("mod ") && module.ends_with('{')
    };
    let at = source.code.windows(2).position(begins);
    &source.code[at.unwrap_or(source.code.len())..]
}

/// Whether a file of `comm` has unit tests that start whole communicators.
fn starts_communicators(source: &Source) -> bool {
    let starts = |line: &String| STARTS.iter().any(|word| line.contains(word));
    source.path.starts_with("src/comm/") && unit_tests(source).iter().any(starts)
}

/// Lines of the files in Rust below a folder.
fn lines(sources: &[Source], folder: &str) -> usize {
    let below = |it: &&Source| it.is_rust() && it.path.starts_with(folder);
    sources.iter().filter(below).map(|it| it.raw.len()).sum()
}

/// How often a file says where a module lies.
fn paths(source: &Source) -> usize {
    let is_one = |line: &&String| line.trim_start().starts_with("#[path = ");
    source.raw.iter().filter(is_one).count()
}

/// Crates that the lines of `cargo tree` name; a crate that is named again is marked by `(*)`.
fn crates(tree: &str) -> usize {
    let names = tree.lines().map(|line| line.trim_end_matches(" (*)"));
    let names = names.filter(|name| !name.is_empty());
    names.collect::<std::collections::BTreeSet<_>>().len()
}

/// Crates that some packages of the workspace are built from, these counted.
fn crates_of(packages: &[&str]) -> Option<usize> {
    let mut command = Command::new(env!("CARGO"));
    command.args(["tree", "--offline", "--locked"]);
    command.args(["-e", "normal,build", "--prefix", "none"]);
    command.args(packages.iter().flat_map(|name| ["-p", name]));
    let output = command.current_dir(root()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output.status.success().then(|| crates(&text))
}

/// All figures, of today.
pub fn figures(sources: &[Source]) -> Vec<Figure> {
    let trees = workspace::all();
    let (apart, shapes) = (apart::found(trees), shapes::numbers(trees));
    let rooms = circles::rooms(workspace::of_src());
    let by_imports: usize = rooms.iter().map(|room| room.circles.len()).sum();
    let by_methods = workspace::method_circles();
    let files = by_methods.iter().map(|circle| circle.files.len()).sum();
    let library = workspace::library();
    let against = method_arrows::found(library, &workspace::used(library));
    let of_shape = |shape: &str| {
        let all = shapes.iter().filter(|(name, _)| name.starts_with(shape));
        all.map(|(_, number)| number).sum()
    };
    let starting = sources.iter().filter(|it| starts_communicators(it));
    let figure = |name, number| Figure {
        name,
        number: Some(number),
    };
    vec![
        figure("circles by imports, inside rooms", by_imports),
        figure("circles by imports and methods", by_methods.len()),
        figure("files in them", files),
        figure("uses against the arrows", against.len()),
        figure("types apart", apart::types(&apart)),
        figure("files with an impl of another file's type", apart.len()),
        figure("parameters that are tuples", of_shape(shapes::TUPLES)),
        figure("matches on truth values", of_shape(shapes::TRUTHS)),
        figure("modules by #[path]", sources.iter().map(paths).sum()),
        figure(
            "files of comm whose unit tests start communicators",
            starting.count(),
        ),
        figure("lines of src/comm", lines(sources, "src/comm/")),
        figure("lines of src/exec/host", lines(sources, "src/exec/host")),
        Figure {
            name: "crates of the library",
            number: crates_of(&["kolo", "kolo-c"]),
        },
        Figure {
            name: "crates of the library and the command",
            number: crates_of(&["kolo", "kolo-c", "kolo-command"]),
        },
    ]
}

/// The figures as a table.
pub fn text(figures: &[Figure]) -> String {
    let lines = figures.iter().map(|one| match one.number {
        Some(number) => format!("{number:>7}  {}\n", one.name),
        None => format!("      ?  {}\n", one.name),
    });
    lines.collect()
}

/// Figures that the section of the page does not name.
pub fn faults(figures: &[Figure], page: &str) -> Vec<String> {
    let section = page.split_once(SECTION).map_or("", |(_, behind)| behind);
    let section = section.split("\n## ").next().unwrap_or_default();
    let unnamed = figures.iter().filter(|one| {
        let cell = format!("| {} |", one.name.replace("#[path]", "`#[path]`"));
        !section.contains(&cell)
    });
    let faults = unnamed.map(|one| format!("HACKING.md, \"{SECTION}\": no row `{}`", one.name));
    faults.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_test_that_starts_communicators_is_seen() {
        let is = |path: &str, text: &str| starts_communicators(&Source::new(path, text));
        let inner = "fn f() {}\n#[cfg(test)]\nmod tests {\nlet a = Communicator::init_all(2);\n}\n";
        assert!(is("src/comm/a.rs", inner));
        assert!(is("src/comm/a_tests.rs", "Communicator::begin(2)\n"));
        assert!(is("src/comm/a/tests/b.rs", "Communicator::init_all(2)\n"));
        assert!(!is("src/exec/a.rs", inner));
        for text in [
            "let a = Communicator::init_all(2);\n#[cfg(test)]\nmod tests {\n}\n",
            "#[cfg(test)]\nmod a_tests;\nfn f() { Communicator::init_all(2) }\n",
            "#[cfg(test)]\nmod tests {\n// Communicator::init_all(2)\n}\n",
        ] {
            assert!(!is("src/comm/a.rs", text), "{text}");
        }
    }

    #[test]
    fn lines_paths_and_crates_are_counted() {
        let a = Source::new("src/comm/a.rs", "//! A.\n#[path = \"b.rs\"]\nmod b;\n");
        let [c, d] = ["src/common/c.rs", "src/comm/d.txt"].map(|path| Source::new(path, "x\n"));
        assert_eq!(paths(&a), 1);
        assert_eq!(paths(&Source::new("a.rs", "// #[path = \"b.rs\"]\n")), 0);
        assert_eq!(lines(&[a, c, d], "src/comm/"), 3);
        assert_eq!(crates("kolo v1\nlibc v2\nlibc v2 (*)\n\nlibc v3\n"), 3);
    }

    #[test]
    fn every_figure_has_a_row() {
        let one = |name, number| Figure { name, number };
        let figures = [
            one("types apart", Some(43)),
            one("modules by #[path]", None),
        ];
        let row = "| types apart | text |\n";
        let page = format!("{SECTION}\n\n{row}| modules by `#[path]` | text |\n\n## More\n");
        assert_eq!(faults(&figures, &page), [""; 0]);
        assert_eq!(faults(&figures, &format!("{SECTION}\n{row}")).len(), 1);
        let elsewhere = format!("{SECTION}\n{row}\n## More\n| modules by `#[path]` | text |\n");
        assert_eq!(faults(&figures, &elsewhere).len(), 1);
        assert_eq!(
            text(&figures),
            "     43  types apart\n      ?  modules by #[path]\n"
        );
    }
}
