//! One name for two types: whoever reads `Machine` must not have to ask which.
//!
//! Types and traits of the library and the command count, private ones too. The names that still
//! stand for several are listed in `names.txt`, with the number of types; the list only shrinks.

use std::collections::BTreeMap;

/// Names of several types that are not in the list, and lines of the list that are not so.
pub fn faults(types: &[(String, String)], list: &str) -> Vec<String> {
    let mut places: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, file) in types {
        places.entry(name).or_default().push(file);
    }
    let mut found = Vec::new();
    for line in list.lines().map(str::trim) {
        let parts = line.split_once(' ').filter(|_| !line.starts_with('#'));
        let Some((name, number)) = parts else {
            continue;
        };
        let files = places.remove(name).unwrap_or_default();
        if Ok(files.len()) != number.parse() || files.len() < 2 {
            let what = format!(
                "the list has {number} types {name}, there are {}",
                files.len()
            );
            found.push(format!("names.txt: {what}: {}", files.join(" ")));
        }
    }
    let new = places.into_iter().filter(|(_, files)| files.len() > 1);
    let new = new.map(|(name, files)| format!("types of one name: {name}: {}", files.join(" ")));
    found.extend(new);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::modules::Tree;

    fn types(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let read = |path: &str| {
            let file = files.iter().find(|(name, _)| *name == path);
            file.map(|(_, text)| (*text).to_owned())
        };
        Tree::read("src/lib.rs", &read).types
    }

    const FILES: [(&str, &str); 3] = [
        (
            "src/lib.rs",
            "mod a; mod b; pub enum Own {} fn machine() {}",
        ),
        (
            "src/a.rs",
            "struct Machine; mod inner { trait Two {} type Two = u8; }",
        ),
        (
            "src/b.rs",
            "pub use crate::a::Machine as Own; enum Machine {} #[cfg(test)] mod t { struct Own; }",
        ),
    ];

    #[test]
    fn two_types_of_one_name_are_seen() {
        assert_eq!(
            faults(&types(&FILES), ""),
            [
                "types of one name: Machine: src/a.rs src/b.rs",
                "types of one name: Two: src/a.rs src/a.rs",
            ]
        );
    }

    #[test]
    fn the_list_only_shrinks() {
        let types = types(&FILES);
        let list = "# Why this is so.\n\nMachine 2\nTwo 2\n";
        assert!(faults(&types, list).is_empty());
        for other in [
            "Machine 3\nTwo 2",
            "Machine 1\nTwo 2",
            "Machine 2\nTwo 2\nOwn 1",
            "Two 2",
        ] {
            assert_eq!(faults(&types, other).len(), 1, "{other}");
        }
    }
}
