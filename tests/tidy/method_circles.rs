//! Circles of files by imports and calls of methods together.
//!
//! Files that call each other's methods cannot be read one after the other, though no import says
//! so. Whose method a call means, `methods.rs` says. Uses against the arrows between rooms are left
//! out, as `method_arrows.rs` lists them: with them, half of the library would be one circle. The
//! circles that are still there are in `method_circles.txt`: a file a line, and an empty line
//! before each circle. A circle may lose files or fall apart; no file may enter one.

use crate::circles::{self, Circle};
use crate::method_arrows::is_against;
use crate::methods;
use crate::modules::{Import, Tree};
use std::collections::BTreeSet;

const BLESS: &str = "run KOLO_BLESS=1 cargo test --test tidy";

/// The circles of a crate; `used` are the crates of this workspace that it uses.
pub fn found(tree: &Tree, used: &[&Tree]) -> Vec<Circle> {
    let imports = tree.imports().into_iter();
    let all = imports.chain(methods::calls(tree, used));
    let along: Vec<Import> = all.filter(|it| !is_against(it)).collect();
    circles::circles(&along)
}

/// The circles of the list, each as its files.
fn listed(list: &str) -> Vec<BTreeSet<&str>> {
    let mut circles = vec![BTreeSet::new()];
    for line in list
        .lines()
        .map(str::trim)
        .filter(|it| !it.starts_with('#'))
    {
        match (line, circles.last_mut()) {
            ("", _) => circles.push(BTreeSet::new()),
            (file, Some(last)) => {
                last.insert(file);
            }
            _ => {}
        }
    }
    circles.retain(|files| !files.is_empty());
    circles
}

fn files(circle: &Circle) -> BTreeSet<&str> {
    circle.files.iter().map(String::as_str).collect()
}

/// The files of a circle that are too many: those that are not in that circle of the list which has
/// most of them.
fn strangers<'a>(circle: &'a Circle, listed: &[BTreeSet<&str>]) -> BTreeSet<&'a str> {
    let all = files(circle);
    let most = listed
        .iter()
        .max_by_key(|one| one.intersection(&all).count());
    let known = |file: &&str| most.is_some_and(|one| one.contains(file));
    all.into_iter().filter(|file| !known(file)).collect()
}

/// Files that enter a circle, and circles of the list that have become smaller.
pub fn faults(circles: &[Circle], list: &str) -> Vec<String> {
    let listed = listed(list);
    let mut faults = Vec::new();
    for circle in circles {
        let new = strangers(circle, &listed);
        if !new.is_empty() {
            let is_new =
                |it: &&Import| new.contains(it.from.as_str()) || new.contains(it.to.as_str());
            let arrows = circles::arrows(circle.imports.iter().filter(is_new));
            let names: Vec<&str> = new.into_iter().collect();
            faults.push(format!(
                "{} of {} files are new in a circle of files that use each other: move what they \
                 share to a file of its own (a name that std has, too, goes into \
                 tests/tidy/foreign.rs)\n  {}\n{arrows}",
                names.len(),
                circle.files.len(),
                names.join(" ")
            ));
        }
    }
    let there: Vec<BTreeSet<&str>> = circles.iter().map(files).collect();
    for one in listed.iter().filter(|one| !there.contains(one)) {
        let first = one.first().copied().unwrap_or_default();
        faults.push(format!(
            "method_circles.txt: the circle of {first} is not this one any more: {BLESS}"
        ));
    }
    faults
}

/// The list with the circles as they are, but for files that it does not have.
pub fn shrunk(circles: &[Circle], list: &str) -> String {
    let listed = listed(list);
    let known = circles
        .iter()
        .filter(|it| strangers(it, &listed).is_empty());
    let text = known.map(|circle| format!("\n{}\n", circle.files.join("\n")));
    let head = list.lines().take_while(|line| line.starts_with('#'));
    let head: String = head.map(|line| format!("{line}\n")).collect();
    head + &text.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "pub struct One; impl One { pub fn grow_by(&self, x: &super::two::Two) {} }";

    fn circles(two: &str, three: &str) -> Vec<Circle> {
        let read = |path: &str| match path {
            "src/lib.rs" => Some("mod a;".to_owned()),
            "src/a/mod.rs" => Some("mod one; mod two; mod three;".to_owned()),
            "src/a/one.rs" => Some(ONE.to_owned()),
            "src/a/two.rs" => Some(format!("pub struct Two; {two}")),
            "src/a/three.rs" => Some(three.to_owned()),
            _ => None,
        };
        found(&Tree::read("src/lib.rs", &read), &[])
    }

    fn lines(circles: &[Circle]) -> Vec<String> {
        circles.iter().map(|it| it.files.join(" ")).collect()
    }

    const CALLS: &str = "fn f(x: T) { x.grow_by(y) }";

    #[test]
    fn a_method_closes_a_circle() {
        assert_eq!(lines(&circles(CALLS, "")), ["src/a/one.rs src/a/two.rs"]);
        let own = "struct Three; impl Three { pub fn shrink_by(&self) { x.grow_by(y) } }";
        let three = circles("fn f(x: T) { x.shrink_by() }", own);
        assert_eq!(lines(&three), ["src/a/one.rs src/a/three.rs src/a/two.rs"]);
        assert_eq!(lines(&circles("", own)), [""; 0]);
        assert_eq!(
            lines(&circles("fn f(x: T) { x.grow_by(y, z) }", "")),
            [""; 0]
        );
    }

    #[test]
    fn a_circle_of_the_list_only_shrinks() {
        let two = circles(CALLS, "");
        assert_eq!(
            faults(&two, "# Why.\n\nsrc/a/one.rs\nsrc/a/two.rs\n"),
            [""; 0]
        );
        let new = faults(&two, "");
        assert_eq!(new.len(), 1);
        let arrow = "src/a/two.rs -> src/a/one.rs: .grow_by()";
        assert!(
            new[0].contains("2 of 2 files are new") && new[0].contains(arrow),
            "{new:?}"
        );
        // One file more, and two circles that have become one.
        let more = faults(&two, "src/a/one.rs\nsrc/a/other.rs\n");
        assert!(
            more.len() == 2 && more[0].contains("1 of 2 files are new"),
            "{more:?}"
        );
        let apart = "src/a/one.rs\nsrc/a/three.rs\n\nsrc/a/two.rs\nsrc/a/four.rs\n";
        assert!(faults(&two, apart)[0].contains("1 of 2 files are new"));
        // One file less, and none.
        let list = "# Why.\n\nsrc/a/one.rs\nsrc/a/three.rs\nsrc/a/two.rs\n";
        assert_eq!(faults(&two, list).len(), 1);
        assert_eq!(faults(&[], list).len(), 1);
        assert_eq!(shrunk(&two, list), "# Why.\n\nsrc/a/one.rs\nsrc/a/two.rs\n");
        assert_eq!(shrunk(&[], list), "# Why.\n");
        assert_eq!(shrunk(&two, "# Why.\n\nsrc/a/one.rs\n"), "# Why.\n");
    }
}
