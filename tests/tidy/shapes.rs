//! Shapes of code that hide what a value means: a parameter that is a tuple, and a `match` on a
//! truth value.
//!
//! Who calls `f((a, b), c)` sees two things and no name; a struct has names. `match is_late { true
//! => .., false => .. }` is an `if` in more words. How many of them each room of `src/` and each
//! crate still has is in `shapes.txt`; the numbers only shrink. Arguments of macros are not read.

use crate::code::{attributes, is_for_tests};
use crate::modules::Tree;
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};

pub const TUPLES: &str = "tuple-parameters";
pub const TRUTHS: &str = "matches-on-bool";

/// Functions of a module that have these shapes, one entry for each time.
#[derive(Default)]
pub struct Shapes {
    found: Vec<(&'static str, String)>,
    /// The function that is being read.
    function: String,
}

fn is_tuple_type(ty: &syn::Type) -> bool {
    match ty {
        syn::Type::Tuple(it) => !it.elems.is_empty(),
        syn::Type::Reference(it) => is_tuple_type(&it.elem),
        syn::Type::Paren(it) => is_tuple_type(&it.elem),
        _ => false,
    }
}

fn is_tuple_pattern(pattern: &syn::Pat) -> bool {
    match pattern {
        syn::Pat::Tuple(_) => true,
        syn::Pat::Reference(it) => is_tuple_pattern(&it.pat),
        syn::Pat::Paren(it) => is_tuple_pattern(&it.pat),
        _ => false,
    }
}

fn is_truth(pattern: &syn::Pat) -> bool {
    match pattern {
        syn::Pat::Lit(it) => matches!(it.lit, syn::Lit::Bool(_)),
        syn::Pat::Or(it) => it.cases.iter().any(is_truth),
        syn::Pat::Paren(it) => is_truth(&it.pat),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Shapes {
    fn visit_item(&mut self, it: &'ast syn::Item) {
        if !attributes(it).iter().any(is_for_tests) {
            visit::visit_item(self, it);
        }
    }

    fn visit_impl_item_fn(&mut self, it: &'ast syn::ImplItemFn) {
        if !it.attrs.iter().any(is_for_tests) {
            visit::visit_impl_item_fn(self, it);
        }
    }

    fn visit_signature(&mut self, it: &'ast syn::Signature) {
        self.function = it.ident.to_string();
        for input in &it.inputs {
            if let syn::FnArg::Typed(one) = input
                && (is_tuple_type(&one.ty) || is_tuple_pattern(&one.pat))
            {
                self.found.push((TUPLES, self.function.clone()));
            }
        }
    }

    fn visit_expr_match(&mut self, it: &'ast syn::ExprMatch) {
        if it.arms.iter().any(|arm| is_truth(&arm.pat)) {
            self.found.push((TRUTHS, self.function.clone()));
        }
        visit::visit_expr_match(self, it);
    }
}

/// The room of a file of `src/`, the crate of another.
pub fn place(path: &str) -> &str {
    let end = match path.strip_prefix("src/") {
        Some(below) => below.find('/').map_or("src".len(), |at| "src/".len() + at),
        None => path.find("/src/").or(path.rfind('/')).unwrap_or(path.len()),
    };
    &path[..end]
}

/// Functions of these shapes, by shape and place: "file: function".
pub fn places(trees: &[Tree]) -> BTreeMap<(&'static str, &str), Vec<String>> {
    let mut found: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for tree in trees {
        for module in tree.modules() {
            let file = tree.file_of(module);
            for (shape, function) in &module.shapes.found {
                // A file of two crates counts once.
                if seen.contains(file) {
                    continue;
                }
                let entry = found.entry((*shape, place(file))).or_default();
                entry.push(format!("{file}: {function}"));
            }
        }
        seen.extend(tree.files().iter().map(String::as_str));
    }
    found
}

/// The numbers, as the list has them.
pub fn numbers(trees: &[Tree]) -> BTreeMap<String, usize> {
    let places = places(trees).into_iter();
    places
        .map(|((shape, place), all)| (format!("{shape} {place}"), all.len()))
        .collect()
}

/// The functions of those shapes and places that are named in `faults`.
pub fn told(trees: &[Tree], faults: &[String]) -> String {
    let mut text = String::new();
    for ((shape, place), all) in places(trees) {
        let name = format!("{shape} {place} has");
        if faults.iter().any(|fault| fault.starts_with(&name)) {
            text += &format!("{shape} {place}:\n  {}\n", all.join("\n  "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        let read = |path: &str| match path {
            "src/lib.rs" => Some("mod a;".to_owned()),
            "src/a/mod.rs" => Some(text.to_owned()),
            _ => None,
        };
        let numbers = numbers(&[Tree::read("src/lib.rs", &read)]);
        numbers
            .iter()
            .map(|(name, number)| format!("{name} {number}"))
            .collect()
    }

    #[test]
    fn a_parameter_that_is_a_tuple_is_seen() {
        for text in [
            "fn f(a: (u8, u8)) {}",
            "fn f(x: u8, (a, b): Pair) {}",
            "fn f(a: &mut (u8, u8)) {}",
            "impl A { fn f(&self, &(a, b): &Pair) {} }",
            "trait A { fn f(&self, a: (u8, u8)); }",
            "fn g() { fn f((a, b): (u8, u8)) {} }",
        ] {
            assert_eq!(of(text), ["tuple-parameters src/a 1"], "{text}");
        }
        let two = "fn f(a: (u8, u8), b: (u8, u8)) {}";
        assert_eq!(of(two), ["tuple-parameters src/a 2"]);
        for text in [
            "fn f(a: u8, b: [u8; 2], c: ()) -> (u8, u8) { all.map(|(a, b)| a) }",
            "fn f(a: &[(u8, u8)], b: impl Fn((u8, u8)), c: Option<(u8, u8)>) {}",
            "struct A(u8, u8); type B = fn((u8, u8));",
            "#[cfg(test)] fn f(a: (u8, u8)) {}",
            "impl A { #[cfg(test)] fn f(a: (u8, u8)) {} }",
        ] {
            assert_eq!(of(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_match_on_a_truth_value_is_seen() {
        for text in [
            "fn f() { match x { true => 1, false => 2 } }",
            "fn f() { match x { false => 1, _ => 2 } }",
            "fn f() { g(|| match x { true if y => 1, _ => 2 }) }",
        ] {
            assert_eq!(of(text), ["matches-on-bool src/a 1"], "{text}");
        }
        for text in [
            "fn f() { match (x, y) { (true, _) => 1, _ => 2 } }",
            "fn f() { match x { Some(true) => 1, _ => 2 } }",
            "fn f() { if x { true } else { false } }",
            "#[cfg(test)] mod tests { fn f() { match x { true => 1, false => 2 } } }",
        ] {
            assert_eq!(of(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn a_file_belongs_to_a_room_or_a_crate() {
        for (path, is) in [
            ("src/lib.rs", "src"),
            ("src/comm/flight/op.rs", "src/comm"),
            ("src/bin/kolo/main.rs", "src/bin"),
            ("bindings/c/src/comm.rs", "bindings/c"),
            (
                "tests/machines/kernels-host/lib.rs",
                "tests/machines/kernels-host",
            ),
        ] {
            assert_eq!(place(path), is);
        }
    }
}
