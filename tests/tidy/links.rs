//! Links between pages: each leads to a file, and to a heading that is there; the table of contents
//! of the guide names each of its pages once.
//!
//! The pages that are installed, and those of the guide, lie in the same folders as in the tree.
//! So a link from one of them leads only to what lies beside them there, too.

use std::collections::BTreeMap;
use std::path::Path;

/// The table of contents, whose links begin at its own folder.
pub const CONTENTS: &str = "docs/SUMMARY.md";

/// Paths that are installed as documentation and copied for the guide; `bindings/install.sh` and
/// `docs/guide/build.sh` say the same.
const SHIPPED: &[&str] = &[
    "README.md",
    "CHANGELOG.md",
    "LICENSE-",
    "docs/",
    "examples/",
    "slurm/README.md",
    "bindings/c/include/kolo.h",
];

/// Folders without pages of the project.
const PASSED: &[&str] = &["build", "target", "__pycache__", "corpus"];

/// A page in Markdown, by its path below the root.
pub struct Page {
    pub path: String,
    pub text: String,
}

/// All pages below the root, sorted by path.
pub fn pages(root: &Path) -> Vec<Page> {
    let mut found = Vec::new();
    walk(root, "", &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn walk(root: &Path, below: &str, found: &mut Vec<Page>) {
    let entries = std::fs::read_dir(root.join(below)).expect("a folder");
    for entry in entries.map(|entry| entry.expect("an entry")) {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_passed = name.starts_with('.') || PASSED.iter().any(|one| name.starts_with(one));
        let path = format!("{below}{name}");
        if entry.path().is_dir() {
            if !is_passed {
                walk(root, &format!("{path}/"), found);
            }
        } else if name.ends_with(".md") {
            let text = std::fs::read_to_string(entry.path()).expect("a page in UTF-8");
            found.push(Page { path, text });
        }
    }
}

/// The lines outside of fenced blocks, with their numbers from 1.
pub fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((number, line))
    })
}

/// Targets of the links of a line. Links in backquotes do not count.
fn targets(line: &str) -> Vec<String> {
    let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let links = plain.split("](").skip(1);
    let target = |link: &str| link.split([')', ' ']).next().unwrap_or(link).to_owned();
    links
        .map(target)
        .filter(|target| !target.contains("://"))
        .collect()
}

/// The names that headings have as targets, as forges and mdBook make them: small letters, no
/// punctuation, hyphens for blanks, and a number behind the second of a name.
fn anchors(text: &str) -> Vec<String> {
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    let mut found = Vec::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        let depth = line.len() - title.len();
        if !(1..=6).contains(&depth) || !title.starts_with(' ') {
            continue;
        }
        let keep = |c: char| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '_' || c == '-' => Some(c),
            _ => None,
        };
        let lower = unlinked(title.trim()).to_lowercase();
        let name: String = lower.chars().filter_map(keep).collect();
        let seen = times.entry(name.clone()).or_insert(0);
        found.push(match *seen {
            0 => name,
            number => format!("{name}-{number}"),
        });
        *seen += 1;
    }
    found
}

/// A title with the words of its links in their place.
fn unlinked(title: &str) -> String {
    let mut text = title.to_owned();
    while let Some(at) = text.find("](") {
        let Some(end) = text[at..].find(')') else {
            break;
        };
        text.replace_range(at..=at + end, "");
    }
    text
}

/// `target` as a path below the root, seen from the folder of `page`; None above the root.
fn below_root(page: &str, target: &str) -> Option<String> {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

fn is_shipped(path: &str) -> bool {
    let inside = |one: &&str| path.starts_with(*one) || one.trim_end_matches('/') == path;
    SHIPPED.iter().any(inside)
}

/// Links of a page that lead nowhere, or out of what is shipped with it. `read` gives the text of a
/// file below the root, an empty one of a folder.
pub fn faults(page: &Page, read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in prose(&page.text) {
        for link in targets(line) {
            let mut fault =
                |what: &str| found.push(format!("{}:{number}: {link}: {what}", page.path));
            let (name, anchor) = match link.split_once('#') {
                Some((name, anchor)) => (name, Some(anchor)),
                None => (link.as_str(), None),
            };
            let target = match name {
                "" => Some((page.path.clone(), page.text.clone())),
                name => below_root(&page.path, name)
                    .and_then(|path| read(&path).map(|text| (path, text))),
            };
            let Some((path, text)) = target else {
                fault("no such file");
                continue;
            };
            if is_shipped(&page.path) && !is_shipped(&path) {
                fault("is not installed beside this page, nor in the guide");
            }
            if anchor.is_some_and(|anchor| !anchors(&text).iter().any(|one| one == anchor)) {
                fault("no such heading");
            }
        }
    }
    found
}

/// Shipped pages that the table of contents does not name, and those that it names twice.
pub fn contents(pages: &[Page]) -> Vec<String> {
    let Some(list) = pages.iter().find(|page| page.path == CONTENTS) else {
        return vec![format!("{CONTENTS} is not there")];
    };
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    for (_, line) in prose(&list.text) {
        for path in targets(line)
            .iter()
            .filter_map(|link| below_root(CONTENTS, link))
        {
            *times.entry(path).or_insert(0) += 1;
        }
    }
    let is_page = |page: &&Page| is_shipped(&page.path) && page.path != CONTENTS;
    let mut found = Vec::new();
    for page in pages.iter().filter(is_page) {
        if !times.contains_key(&page.path) {
            found.push(format!("{CONTENTS} lacks {}", page.path));
        }
    }
    let twice = times.iter().filter(|(_, times)| **times > 1);
    found.extend(twice.map(|(path, times)| format!("{CONTENTS} names {path} {times} times")));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &str) -> Page {
        Page {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    fn read(path: &str) -> Option<String> {
        match path {
            "docs/b.md" => {
                Some("# B\n\n```\n# no heading\n```\n## What `x_y` is, now\n# B\n".into())
            }
            "README.md" => Some("# kolo\n".into()),
            "src/lib.rs" | "docs/guide" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn a_link_leads_to_a_file_and_a_heading() {
        let count = |text: &str| faults(&page("docs/a.md", text), &read).len();
        assert_eq!(
            count("# A\n[b](b.md#what-x_y-is-now) [top](#a) [r](../README.md#kolo)"),
            0
        );
        assert_eq!(
            count("[b](b.md#b) [b](b.md#b-1) [folder](guide/) [w](https://x.org/)"),
            0
        );
        assert_eq!(count("[c](c.md)"), 1);
        assert_eq!(count("[c](../../b.md)"), 1);
        assert_eq!(count("[b](b.md#no-heading) ![d](d.png)"), 2);
        assert_eq!(count("[b](b.md#b-2)"), 1);
        assert_eq!(count("```\n[c](c.md)\n```\n`[c](c.md)`"), 0);
    }

    #[test]
    fn shipped_pages_lead_to_what_is_shipped() {
        let told = faults(&page("docs/a.md", "\n[lib](../src/lib.rs)"), &read);
        assert_eq!(told.len(), 1);
        assert!(
            told[0].starts_with("docs/a.md:2: ../src/lib.rs: is not"),
            "{told:?}"
        );
        assert!(faults(&page("tests/a.md", "[lib](../src/lib.rs)"), &read).is_empty());
    }

    #[test]
    fn each_page_is_in_the_contents_once() {
        let list = "# S\n- [a](a.md)\n- [r](../README.md)\n- [g](guide/g.md)\n";
        let all = |list: &str| {
            let rest = [
                "README.md",
                "docs/a.md",
                "docs/guide/g.md",
                "tests/README.md",
            ];
            let mut all: Vec<Page> = rest.iter().map(|path| page(path, "")).collect();
            all.push(page(CONTENTS, list));
            contents(&all)
        };
        assert!(all(list).is_empty(), "{:?}", all(list));
        assert_eq!(
            all("- [a](a.md)\n[r](../README.md)"),
            ["docs/SUMMARY.md lacks docs/guide/g.md"]
        );
        assert_eq!(
            all(&format!("{list}[a](a.md)")),
            ["docs/SUMMARY.md names docs/a.md 2 times"]
        );
        assert_eq!(contents(&[]).len(), 1);
    }
}
