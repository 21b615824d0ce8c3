//! The methods that the code of a module declares and calls, tests left out.

use crate::code::{attributes, is_for_tests};
use std::collections::BTreeSet;
use syn::visit::{self, Visit};

/// Who may call a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The module that declares it, and those below.
    Own,
    /// The module above that one, and those below.
    Above,
    Everyone,
}

/// A method of a type or of a trait.
pub struct Method {
    /// The type or trait as the code names it.
    pub owner: Vec<String>,
    pub name: String,
    /// How many arguments it takes beside `self`; none where it takes no `self`.
    pub arguments: Option<usize>,
    pub reach: Reach,
}

/// A call of a method.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// The type, where the code says it: behind `Self::`, or before the dot as `self`.
    pub owner: Option<Vec<String>>,
    pub name: String,
    /// How many arguments it is given; none where that cannot be counted.
    pub arguments: Option<usize>,
    /// `value.name(..)`, and not `Self::name`.
    pub is_dotted: bool,
}

/// Methods that a module declares and calls.
#[derive(Default)]
pub struct Members {
    /// Types that have an inherent `impl` here.
    pub owners: BTreeSet<Vec<String>>,
    pub methods: Vec<Method>,
    /// Traits that are implemented here, and the names of their methods.
    pub implemented: BTreeSet<(Vec<String>, String)>,
    pub calls: BTreeSet<Call>,
    /// The types of the `impl`s around the code that is being read.
    around: Vec<Option<Vec<String>>>,
}

fn names(path: &syn::Path) -> Vec<String> {
    path.segments
        .iter()
        .map(|it| it.ident.to_string())
        .collect()
}

/// The path of a type; none for a reference, a tuple and the like.
fn named(ty: &syn::Type) -> Option<Vec<String>> {
    match ty {
        syn::Type::Path(it) if it.qself.is_none() => Some(names(&it.path)),
        syn::Type::Paren(it) => named(&it.elem),
        syn::Type::TraitObject(it) => it.bounds.iter().find_map(|bound| match bound {
            syn::TypeParamBound::Trait(it) => Some(names(&it.path)),
            _ => None,
        }),
        _ => None,
    }
}

fn reach(visibility: &syn::Visibility) -> Reach {
    match visibility {
        syn::Visibility::Inherited => Reach::Own,
        syn::Visibility::Restricted(it) if it.path.is_ident("self") => Reach::Own,
        syn::Visibility::Restricted(it) if it.path.is_ident("super") => Reach::Above,
        _ => Reach::Everyone,
    }
}

impl Members {
    fn declare(&mut self, owner: &[String], signature: &syn::Signature, reach: Reach) {
        let takes = signature.receiver().map(|_| signature.inputs.len() - 1);
        self.methods.push(Method {
            owner: owner.to_vec(),
            name: signature.ident.to_string(),
            arguments: takes,
            reach,
        });
    }

    fn own(&self) -> Option<Vec<String>> {
        self.around.last().cloned().flatten()
    }

    fn within(&mut self, owner: Option<Vec<String>>, visit: impl FnOnce(&mut Members)) {
        self.around.push(owner);
        visit(self);
        self.around.pop();
    }

    /// In a macro's arguments, `.name(..)` and `Self::name` are calls.
    fn tokens(&mut self, tokens: proc_macro2::TokenStream) {
        use proc_macro2::{Delimiter, TokenTree as T};
        let tokens: Vec<T> = tokens.into_iter().collect();
        let word = |at: Option<usize>| match at.and_then(|at| tokens.get(at)) {
            Some(T::Ident(it)) => it.to_string(),
            _ => String::new(),
        };
        let mark = |at: Option<usize>| match at.and_then(|at| tokens.get(at)) {
            Some(T::Punct(it)) => it.as_char(),
            _ => ' ',
        };
        // Behind `::`.
        let is_path = |at: usize| [1, 2].iter().all(|by| mark(at.checked_sub(*by)) == ':');
        for (at, token) in tokens.iter().enumerate() {
            let back = |by: usize| at.checked_sub(by);
            match token {
                T::Group(group) => {
                    self.tokens(group.stream());
                    let is_call = group.delimiter() == Delimiter::Parenthesis;
                    let name = word(back(1));
                    let is_range = mark(back(3)) == '.';
                    if !is_call || name.is_empty() || mark(back(2)) != '.' || is_range {
                        continue;
                    }
                    let is_self = word(back(3)) == "self" && mark(back(4)) != '.';
                    self.calls.insert(Call {
                        owner: self.own().filter(|_| is_self),
                        name,
                        arguments: None,
                        is_dotted: true,
                    });
                }
                T::Ident(name) if word(back(3)) == "Self" && is_path(at) => {
                    self.of_own_type(name.to_string());
                }
                _ => {}
            }
        }
    }

    fn of_own_type(&mut self, name: String) {
        let owner = self.own();
        self.calls.insert(Call {
            owner,
            name,
            arguments: None,
            is_dotted: false,
        });
    }
}

impl<'ast> Visit<'ast> for Members {
    fn visit_item(&mut self, it: &'ast syn::Item) {
        if !attributes(it).iter().any(is_for_tests) {
            visit::visit_item(self, it);
        }
    }

    fn visit_item_impl(&mut self, it: &'ast syn::ItemImpl) {
        let owner = named(&it.self_ty);
        let of = it.trait_.as_ref().map(|(_, path, _)| names(path));
        if let (None, Some(owner)) = (&of, &owner) {
            self.owners.insert(owner.clone());
        }
        for item in &it.items {
            let syn::ImplItem::Fn(one) = item else {
                continue;
            };
            match (&of, &owner) {
                _ if one.attrs.iter().any(is_for_tests) => {}
                (Some(of), _) => {
                    self.implemented
                        .insert((of.clone(), one.sig.ident.to_string()));
                }
                (None, Some(owner)) => self.declare(owner, &one.sig, reach(&one.vis)),
                (None, None) => {}
            }
        }
        self.within(owner, |own| visit::visit_item_impl(own, it));
    }

    fn visit_item_trait(&mut self, it: &'ast syn::ItemTrait) {
        let owner = vec![it.ident.to_string()];
        for item in &it.items {
            match item {
                syn::TraitItem::Fn(one) if !one.attrs.iter().any(is_for_tests) => {
                    self.declare(&owner, &one.sig, Reach::Everyone);
                }
                _ => {}
            }
        }
        self.within(Some(owner), |own| visit::visit_item_trait(own, it));
    }

    fn visit_impl_item_fn(&mut self, it: &'ast syn::ImplItemFn) {
        if !it.attrs.iter().any(is_for_tests) {
            visit::visit_impl_item_fn(self, it);
        }
    }

    fn visit_local(&mut self, it: &'ast syn::Local) {
        if !it.attrs.iter().any(is_for_tests) {
            visit::visit_local(self, it);
        }
    }

    fn visit_expr_method_call(&mut self, it: &'ast syn::ExprMethodCall) {
        let is_self = matches!(&*it.receiver, syn::Expr::Path(one) if one.path.is_ident("self"));
        self.calls.insert(Call {
            owner: self.own().filter(|_| is_self),
            name: it.method.to_string(),
            arguments: Some(it.args.len()),
            is_dotted: true,
        });
        visit::visit_expr_method_call(self, it);
    }

    fn visit_expr_path(&mut self, it: &'ast syn::ExprPath) {
        let path = names(&it.path);
        match path.as_slice() {
            [own, name] if own == "Self" => self.of_own_type(name.clone()),
            _ => visit::visit_expr_path(self, it),
        }
    }

    fn visit_macro(&mut self, it: &'ast syn::Macro) {
        self.tokens(it.tokens.clone());
    }
}
