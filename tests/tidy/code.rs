//! Names in the code of a module: its `use`s and its paths, tests left out.

use std::collections::BTreeSet;
use syn::visit::{self, Visit};

/// A `use` of one name.
pub struct Use {
    pub path: Vec<String>,
    pub alias: String,
    /// `pub use`: passed on, which is no use of it here.
    pub passed_on: bool,
}

/// Names in the code of a module.
#[derive(Default)]
pub struct Code {
    pub uses: Vec<Use>,
    pub globs: Vec<Vec<String>>,
    /// Paths in the code, and whether each names a macro.
    pub paths: BTreeSet<(Vec<String>, bool)>,
    /// Names of arguments and variables: alone they name no item.
    pub bound: BTreeSet<String>,
}

impl Code {
    fn path(&mut self, path: &syn::Path, is_macro: bool) {
        if path.leading_colon.is_none() {
            let names = path.segments.iter().map(|it| it.ident.to_string());
            self.paths.insert((names.collect(), is_macro));
        }
    }

    /// A macro's arguments may be anything: every `a::b` and every word counts that follows no dot.
    fn tokens(&mut self, tokens: proc_macro2::TokenStream) {
        use proc_macro2::TokenTree as T;
        let mut path: Vec<String> = Vec::new();
        let mut before = String::new();
        let mut end = |path: &mut Vec<String>, is_macro: bool| {
            if !path.is_empty() {
                self.paths.insert((std::mem::take(path), is_macro));
            }
        };
        let mut groups = Vec::new();
        for token in tokens {
            match &token {
                T::Ident(word) => {
                    if !before.ends_with("::") {
                        end(&mut path, false);
                    }
                    let is_field = before.ends_with('.') && !before.ends_with("..");
                    // What begins with `::` names another crate.
                    let is_outside = before.ends_with("::") && path.is_empty();
                    if !is_field && !is_outside {
                        path.push(word.to_string());
                    }
                    before.clear();
                }
                T::Punct(mark) => {
                    before.push(mark.as_char());
                    if before == "!" {
                        end(&mut path, true);
                    }
                }
                T::Group(group) => {
                    end(&mut path, false);
                    before.clear();
                    groups.push(group.stream());
                }
                T::Literal(_) => before.clear(),
            }
        }
        end(&mut path, false);
        for group in groups {
            self.tokens(group);
        }
    }

    fn uses(&mut self, tree: &syn::UseTree, before: &[String], passed_on: bool) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(it) => self.uses(&it.tree, &with(&it.ident), passed_on),
            syn::UseTree::Group(it) => {
                for one in &it.items {
                    self.uses(one, before, passed_on);
                }
            }
            syn::UseTree::Glob(_) => self.globs.push(before.to_vec()),
            syn::UseTree::Name(it) => {
                let name = it.ident.to_string();
                let (path, alias) = match name.as_str() {
                    "self" => (before.to_vec(), before.last().cloned().unwrap_or_default()),
                    _ => (with(&it.ident), name),
                };
                self.uses.push(Use {
                    path,
                    alias,
                    passed_on,
                });
            }
            syn::UseTree::Rename(it) => {
                let (path, alias) = (with(&it.ident), it.rename.to_string());
                self.uses.push(Use {
                    path,
                    alias,
                    passed_on,
                });
            }
        }
    }
}

impl<'ast> Visit<'ast> for Code {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.path(path, false);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, it: &'ast syn::Macro) {
        self.path(&it.path, true);
        self.tokens(it.tokens.clone());
    }

    fn visit_attribute(&mut self, it: &'ast syn::Attribute) {
        match &it.meta {
            syn::Meta::List(list) => self.tokens(list.tokens.clone()),
            syn::Meta::NameValue(pair) => self.visit_expr(&pair.value),
            syn::Meta::Path(_) => {}
        }
    }

    fn visit_item_use(&mut self, it: &'ast syn::ItemUse) {
        if it.leading_colon.is_none() {
            let passed_on = !matches!(it.vis, syn::Visibility::Inherited);
            self.uses(&it.tree, &[], passed_on);
        }
    }

    fn visit_pat_ident(&mut self, it: &'ast syn::PatIdent) {
        let name = it.ident.to_string();
        if name.starts_with(char::is_uppercase) {
            // A constant.
            self.paths.insert((vec![name], false));
        } else {
            self.bound.insert(name);
        }
        visit::visit_pat_ident(self, it);
    }

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

    fn visit_field(&mut self, it: &'ast syn::Field) {
        if !it.attrs.iter().any(is_for_tests) {
            visit::visit_field(self, it);
        }
    }

    fn visit_local(&mut self, it: &'ast syn::Local) {
        if !it.attrs.iter().any(is_for_tests) {
            visit::visit_local(self, it);
        }
    }
}

/// The attributes of an item.
pub fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(it) => &it.attrs,
        syn::Item::Enum(it) => &it.attrs,
        syn::Item::Fn(it) => &it.attrs,
        syn::Item::ForeignMod(it) => &it.attrs,
        syn::Item::Impl(it) => &it.attrs,
        syn::Item::Macro(it) => &it.attrs,
        syn::Item::Mod(it) => &it.attrs,
        syn::Item::Static(it) => &it.attrs,
        syn::Item::Struct(it) => &it.attrs,
        syn::Item::Trait(it) => &it.attrs,
        syn::Item::Type(it) => &it.attrs,
        syn::Item::Union(it) => &it.attrs,
        syn::Item::Use(it) => &it.attrs,
        _ => &[],
    }
}

/// Whether `#[cfg(...)]` lets this stand in tests only.
pub fn is_for_tests(attribute: &syn::Attribute) -> bool {
    attribute.path().is_ident("cfg")
        && attribute
            .parse_args::<syn::Meta>()
            .is_ok_and(|it| needs_test(&it))
}

fn needs_test(condition: &syn::Meta) -> bool {
    let syn::Meta::List(list) = condition else {
        return condition.path().is_ident("test");
    };
    let comma = syn::punctuated::Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated;
    let Ok(parts) = list.parse_args_with(comma) else {
        return false;
    };
    (list.path.is_ident("all") && parts.iter().any(needs_test))
        || (list.path.is_ident("any") && parts.iter().all(needs_test))
}
