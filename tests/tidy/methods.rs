//! Which file calls methods of which: what the imports of a file do not show.
//!
//! A method belongs to the file that has its `impl`, a method of a trait to the file that declares
//! the trait. Three rules say whose method a call means:
//!
//! - `Type::name` and `Self::name`, and `self.name(..)` inside an `impl` of a type that has such a
//!   method of its own, mean that type's.
//! - `value.name(..)` does not say the type. It may mean those methods of the crate that have the
//!   name, take as many arguments, and may be called there. If they all stand in one file, it means
//!   that file; if they stand in several, it counts for nothing.
//! - A name that others have, too, means nothing without its type: one of `foreign.rs`, one of a
//!   trait of another crate that is implemented here, and one of a crate of this workspace that
//!   this one uses.
//!
//! So some calls are not seen, and those that are seen are rarely mistaken. Arguments of macros are
//! read word by word, and theirs are not counted.

use crate::foreign;
use crate::members::{Call, Method, Reach};
use crate::modules::{Import, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// A method, where it is declared.
struct Declared<'a> {
    module: usize,
    file: &'a str,
    /// Where the type is declared.
    type_file: Option<&'a str>,
    method: &'a Method,
}

/// The methods of a crate, by name.
struct Methods<'a> {
    tree: &'a Tree,
    by_name: BTreeMap<&'a str, Vec<Declared<'a>>>,
    foreign: BTreeSet<&'a str>,
}

impl<'a> Methods<'a> {
    fn new(tree: &'a Tree, used: &[&'a Tree]) -> Methods<'a> {
        let mut by_name: BTreeMap<&str, Vec<Declared>> = BTreeMap::new();
        let mut foreign = foreign::names();
        for (number, module) in tree.modules().iter().enumerate() {
            for method in &module.members.methods {
                by_name.entry(&method.name).or_default().push(Declared {
                    module: number,
                    file: tree.file_of(module),
                    type_file: tree.file_of_type(number, &method.owner),
                    method,
                });
            }
            for (of, name) in &module.members.implemented {
                if tree.file_of_type(number, of).is_none() {
                    foreign.insert(name);
                }
            }
        }
        let others = used.iter().flat_map(|it| it.modules());
        let theirs = others.flat_map(|it| &it.members.methods);
        let seen = theirs.filter(|it| it.reach == Reach::Everyone && it.arguments.is_some());
        foreign.extend(seen.map(|it| it.name.as_str()));
        Methods {
            tree,
            by_name,
            foreign,
        }
    }

    /// Whether code of `module` may call it.
    fn may_call(&self, module: usize, it: &Declared) -> bool {
        match it.method.reach {
            Reach::Everyone => true,
            Reach::Own => self.tree.is_below(module, it.module),
            Reach::Above => self.tree.is_below(module, self.tree.above(it.module)),
        }
    }

    /// The file of method `name` of the type that code of `module` names so.
    fn of_type(&self, module: usize, owner: &[String], name: &str) -> Option<&'a str> {
        let named = self.by_name.get(name)?;
        let type_file = self.tree.file_of_type(module, owner)?;
        let is_it = |it: &&Declared| {
            it.type_file == Some(type_file) && it.method.owner.last() == owner.last()
        };
        named.iter().find(is_it).map(|it| it.file)
    }

    /// The only file whose method a call of `module` can mean.
    fn only(&self, module: usize, call: &Call) -> Option<&'a str> {
        if self.foreign.contains(call.name.as_str()) {
            return None;
        }
        let fits = |it: &&Declared| {
            let takes = it.method.arguments;
            let as_many = call.arguments.is_none() || takes == call.arguments;
            takes.is_some() && as_many && self.may_call(module, it)
        };
        let mut may_mean = self.by_name.get(call.name.as_str())?.iter().filter(fits);
        let file = may_mean.next()?.file;
        may_mean.all(|it| it.file == file).then_some(file)
    }

    fn meant(&self, module: usize, call: &Call) -> Option<&'a str> {
        let own = call.owner.as_ref();
        let said = own.and_then(|owner| self.of_type(module, owner, &call.name));
        said.or_else(|| self.only(module, call).filter(|_| call.is_dotted))
    }
}

/// Calls between files of a crate; `used` are the crates of this workspace whose methods it may
/// call, too.
pub fn calls(tree: &Tree, used: &[&Tree]) -> BTreeSet<Import> {
    let methods = Methods::new(tree, used);
    let mut found = BTreeSet::new();
    for (number, module) in tree.modules().iter().enumerate() {
        let from = tree.file_of(module);
        let mut enter = |to: Option<&str>, name: &str| {
            if let Some(to) = to.filter(|to| *to != from) {
                found.insert(Import {
                    from: from.to_owned(),
                    to: to.to_owned(),
                    name: format!(".{name}()"),
                });
            }
        };
        for call in &module.members.calls {
            enter(methods.meant(number, call), &call.name);
        }
        for (path, _) in &module.code.paths {
            if let [owner @ .., name] = path.as_slice()
                && !owner.is_empty()
            {
                enter(methods.of_type(number, owner, name), name);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: &str = "pub mod a;";
    const MODS: &str = "pub mod one; mod two; mod three; mod deep;";

    fn tree(files: &[(&str, &str)]) -> Tree {
        let read = |path: &str| {
            let file = files.iter().find(|(name, _)| *name == path);
            file.map(|(_, text)| (*text).to_owned())
        };
        Tree::read("src/lib.rs", &read)
    }

    /// The calls between files where file `two` has these lines.
    fn from_two(one: &str, two: &str) -> Vec<String> {
        let files = [
            ("src/lib.rs", LIB),
            ("src/a/mod.rs", MODS),
            ("src/a/one.rs", one),
            ("src/a/two.rs", two),
            (
                "src/a/three.rs",
                "use super::one::One; impl One { pub fn grow_by(&self, by: u8) {} \
                 fn hidden(&self) {} pub fn twice(&self) {} pub(super) fn near(&self) {} \
                 pub fn made() {} }",
            ),
            ("src/a/deep/mod.rs", "pub mod er;"),
            (
                "src/a/deep/er.rs",
                "struct Er; impl Er { pub(super) fn deeply(&self) {} }",
            ),
        ];
        let calls = calls(&tree(&files), &[]).into_iter();
        calls
            .map(|it| format!("{} -> {} {}", it.from, it.to, it.name))
            .collect()
    }

    const ONE: &str = "pub struct One; impl One { pub fn twice(&self, a: u8, b: u8) {} }";

    #[test]
    fn a_call_of_a_method_of_one_file_is_seen() {
        let to_three = |name: &str| vec![format!("src/a/two.rs -> src/a/three.rs .{name}()")];
        for two in [
            "fn f(x: T) { x.grow_by(1) }",
            "fn f(x: T) { x.y().z.grow_by::<u8>(1)?; }",
            "fn f(x: T) { g(|| x.grow_by(1)) }",
            "fn f(x: T) { println!(\"{}\", x.grow_by(1)) }",
            "fn f(x: T) { all.map(super::one::One::grow_by) }",
            "use super::one::One; fn f() { One::grow_by(x, 1) }",
            "use super::one::One; impl Two for One { fn f(&self) { self.grow_by(2) } }",
            "use super::one::One; impl One { fn f(&self) { Self::grow_by(self, 2) } }",
            "use super::one::One; impl One { fn f(&self) { assert!(Self::grow_by(self, 2)) } }",
        ] {
            assert_eq!(from_two(ONE, two), to_three("grow_by"), "{two}");
        }
        assert_eq!(from_two(ONE, "fn f(x: T) { x.near() }"), to_three("near"));
        let made = "use super::one::One; fn f() { One::made() }";
        assert_eq!(from_two(ONE, made), to_three("made"));
        // The number of arguments decides, and where it is called from.
        assert_eq!(from_two(ONE, "fn f(x: T) { x.twice() }"), to_three("twice"));
        let to_one = ["src/a/two.rs -> src/a/one.rs .twice()"];
        assert_eq!(from_two(ONE, "fn f(x: T) { x.twice(1, 2) }"), to_one);
        let own = "pub struct One; impl One { fn grow_by(&self, by: u8) {} }";
        assert_eq!(
            from_two(own, "fn f(x: T) { x.grow_by(1) }"),
            to_three("grow_by")
        );
    }

    #[test]
    fn a_call_that_may_mean_another_method_is_none() {
        for two in [
            "fn f(x: T) { x.grow_by(1, 2) }",
            "fn f(x: T) { x.hidden() }",
            "fn f(x: T) { x.deeply() }",
            "fn f(x: T) { x.made() }",
            "fn f(x: T) { x.grow_by }",
            "fn f(x: T) { println!(\"{}\", x.grow_by) }",
            "fn f(x: T) { println!(\"{:?}\", 1..grow_by(1)) }",
            "fn f(x: T) { println!(\"{}\", x.twice()) }",
            "fn f(x: T) { Other::grow_by(x, 1) }",
            "#[cfg(test)] fn f(x: T) { x.grow_by(1) }",
            "fn f(x: T) { #[cfg(test)] let y = x.grow_by(1); }",
            "struct Two; impl Two { fn grow_by(&self, by: u8) {} fn f(&self) { self.grow_by(1) } }",
            "impl std::ops::Grow for Two { fn grow_by(&self, by: u8) {} } fn f() { x.grow_by(1) }",
        ] {
            assert_eq!(from_two(ONE, two), [""; 0], "{two}");
        }
        let also = "pub struct One; impl One { pub fn grow_by(&self, by: u8) {} }";
        assert_eq!(from_two(also, "fn f(x: T) { x.grow_by(1) }"), [""; 0]);
        let std = "pub struct One; impl One { pub fn get(&self) -> u8 {} }";
        assert_eq!(from_two(std, "fn f(x: T) { x.get() }"), [""; 0]);
    }

    #[test]
    fn a_type_that_is_said_decides_between_files() {
        let also = "pub struct Own; impl Own { pub fn grow_by(&self, by: u8) {} }";
        let to_one = ["src/a/two.rs -> src/a/one.rs .grow_by()"];
        let two = "use super::one::Own; fn f() { Own::grow_by(x, 1) }";
        assert_eq!(from_two(also, two), to_one);
        let two = "impl super::one::Own { fn f(&self) { self.grow_by(1) } }";
        assert_eq!(from_two(also, two), to_one);
        let std = "pub struct Own; impl Own { pub fn get(&self) -> u8 {} }";
        let two = "impl super::one::Own { fn f(&self) { self.get() } }";
        assert_eq!(from_two(std, two), ["src/a/two.rs -> src/a/one.rs .get()"]);
    }

    #[test]
    fn a_method_of_a_trait_belongs_to_the_file_of_the_trait() {
        let one =
            "pub trait Grows { fn enlarge(&self); } impl Grows for One { fn enlarge(&self) {} }";
        let two = "impl super::one::Grows for Two { fn enlarge(&self) {} } fn f() { x.enlarge() }";
        let to_one = ["src/a/two.rs -> src/a/one.rs .enlarge()"];
        assert_eq!(from_two(one, two), to_one);
    }

    #[test]
    fn a_name_of_a_crate_below_means_nothing_alone() {
        let below = tree(&[(
            "src/lib.rs",
            "impl Other { pub fn grow_by(&self, by: u8) {} }",
        )]);
        let files = [
            ("src/lib.rs", "mod a; mod b;"),
            (
                "src/a.rs",
                "struct A; impl A { pub fn grow_by(&self, by: u8) {} }",
            ),
            ("src/b.rs", "fn f(x: T) { x.grow_by(1) }"),
        ];
        assert_eq!(calls(&tree(&files), &[]).len(), 1);
        assert_eq!(calls(&tree(&files), &[&below]).len(), 0);
    }
}
