//! Types apart: an inherent `impl Type {}` in a file that does not declare the type.
//!
//! Whoever reads a type finds its methods in its file. A type that does not fit one file is several
//! types. Those that are still apart are in `apart.txt`, one line for each file: the file of the
//! `impl`, the type, and the file that declares it.

use crate::modules::Tree;
use std::collections::BTreeSet;

/// Files that have an `impl` of a type of another file of their crate.
pub fn found(trees: &[Tree]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for tree in trees {
        for (number, module) in tree.modules().iter().enumerate() {
            let here = tree.file_of(module);
            for owner in &module.members.owners {
                let declares = tree.file_of_type(number, owner);
                if let (Some(there), Some(name)) = (declares, owner.last())
                    && there != here
                {
                    found.insert(format!("{here} {name} {there}"));
                }
            }
        }
    }
    found
}

/// How many types they are.
pub fn types(found: &BTreeSet<String>) -> usize {
    let types = found.iter().filter_map(|line| line.split_once(' '));
    types.map(|(_, which)| which).collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(two: &str) -> Vec<String> {
        let read = |path: &str| match path {
            "src/lib.rs" => Some("mod one; mod two;".to_owned()),
            "src/one.rs" => Some(
                "mod below; pub struct One; pub trait Does {} impl One {} impl Does for One {}"
                    .to_owned(),
            ),
            "src/one/below.rs" => Some("struct Two;".to_owned()),
            "src/two.rs" => Some(two.to_owned()),
            _ => None,
        };
        found(&[Tree::read("src/lib.rs", &read)])
            .into_iter()
            .collect()
    }

    #[test]
    fn an_impl_in_another_file_is_seen() {
        for two in [
            "use crate::one::One; impl One { fn f(&self) {} } impl One {}",
            "impl<T> crate::one::One<T> {}",
            "mod inner { use super::super::one::*; impl One {} }",
            "fn f() { use crate::one::One; impl One {} }",
        ] {
            assert_eq!(of(two), ["src/two.rs One src/one.rs"], "{two}");
        }
        let object = "use crate::one::Does; impl dyn Does {}";
        assert_eq!(of(object), ["src/two.rs Does src/one.rs"]);
        let both = BTreeSet::from_iter(of("use crate::one::*; impl One {} impl dyn Does {}"));
        assert_eq!((both.len(), types(&both)), (2, 2));
        let lines = ["src/a.rs One src/one.rs", "src/b.rs One src/one.rs"];
        assert_eq!(types(&lines.map(str::to_owned).into()), 1);
    }

    #[test]
    fn other_impls_are_none() {
        for two in [
            "use crate::one::{Does, One}; impl Does for One {}",
            "struct One; impl One {}",
            "mod inner { pub struct One; } impl inner::One {}",
            "use std::one::One; impl One {}",
            "#[cfg(test)] impl crate::one::One {}",
            "#[cfg(test)] mod tests { impl crate::one::One {} }",
        ] {
            assert_eq!(of(two), [""; 0], "{two}");
        }
    }
}
