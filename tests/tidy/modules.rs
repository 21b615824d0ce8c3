//! The modules of a crate as the compiler sees them: which file declares which names, and what the
//! code of each file names.
//!
//! A file imports the file that *declares* the name it uses: a name that another module only passes
//! on (`pub use`) is followed to its declaration, and the file that passes it on is not concerned.
//! Code that stands in tests only is left out.

use crate::code::{Code, attributes, is_for_tests};
use crate::members::Members;
use crate::shapes::Shapes;
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::Visit;

/// Meaning of a name of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// A module, by its number.
    Module(usize),
    /// A type or trait, which may stand before `::`, by the number of its file.
    Type(usize),
    /// Another item, by the number of its file.
    Value(usize),
}

/// A module, and what its own code says.
pub struct Module {
    file: usize,
    parent: Option<usize>,
    names: BTreeMap<String, Vec<Target>>,
    pub code: Code,
    pub members: Members,
    pub shapes: Shapes,
}

/// That code of file `from` names something that file `to` declares.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    pub from: String,
    pub to: String,
    pub name: String,
}

/// A crate: its files and modules.
pub struct Tree {
    files: Vec<String>,
    modules: Vec<Module>,
    /// Names of types and traits, and the files that declare them.
    pub types: Vec<(String, String)>,
    /// Files that declare the macros, which are named without a path.
    macros: BTreeMap<String, BTreeSet<usize>>,
}

/// Where modules of a file without a body are looked for.
#[derive(Clone)]
struct Place {
    module: usize,
    folder: String,
}

impl Tree {
    /// Reads the crate whose root is the file `root`; `read` gives the text of a file.
    pub fn read(root: &str, read: &dyn Fn(&str) -> Option<String>) -> Tree {
        let mut tree = Tree {
            files: Vec::new(),
            modules: Vec::new(),
            types: Vec::new(),
            macros: BTreeMap::new(),
        };
        let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
        tree.file(root, folder, None, read);
        tree
    }

    /// Reads a file and the modules below it; gives the number of its module.
    fn file(
        &mut self,
        path: &str,
        folder: &str,
        parent: Option<usize>,
        read: &dyn Fn(&str) -> Option<String>,
    ) -> usize {
        let text = read(path).unwrap_or_else(|| panic!("{path} is not there"));
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{path}: {e}"));
        self.files.push(path.to_owned());
        let module = self.module(self.files.len() - 1, parent);
        let folder = folder.to_owned();
        self.items(&parsed.items, &Place { module, folder }, read);
        module
    }

    fn module(&mut self, file: usize, parent: Option<usize>) -> usize {
        self.modules.push(Module {
            file,
            parent,
            names: BTreeMap::new(),
            code: Code::default(),
            members: Members::default(),
            shapes: Shapes::default(),
        });
        self.modules.len() - 1
    }

    fn items(&mut self, items: &[syn::Item], place: &Place, read: &dyn Fn(&str) -> Option<String>) {
        for item in items {
            if attributes(item).iter().any(is_for_tests) {
                continue;
            }
            self.declare(item, place.module);
            if let syn::Item::Mod(inner) = item {
                let module = self.inner(inner, place, read);
                self.name(place.module, &inner.ident, Target::Module(module));
            } else {
                let module = &mut self.modules[place.module];
                module.code.visit_item(item);
                module.members.visit_item(item);
                module.shapes.visit_item(item);
            }
        }
    }

    fn inner(
        &mut self,
        inner: &syn::ItemMod,
        place: &Place,
        read: &dyn Fn(&str) -> Option<String>,
    ) -> usize {
        let name = inner.ident.to_string();
        let folder = format!("{}/{name}", place.folder);
        if let Some((_, items)) = &inner.content {
            let file = self.modules[place.module].file;
            let module = self.module(file, Some(place.module));
            self.items(items, &Place { module, folder }, read);
            return module;
        }
        let parent = Some(place.module);
        if let Some(path) = elsewhere(&inner.attrs) {
            let path = straight(&format!("{}/{path}", place.folder));
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            return self.file(&path, folder, parent, read);
        }
        let alone = format!("{folder}.rs");
        match read(&alone) {
            Some(_) => self.file(&alone, &folder, parent, read),
            None => self.file(&format!("{folder}/mod.rs"), &folder, parent, read),
        }
    }

    fn name(&mut self, module: usize, name: &syn::Ident, target: Target) {
        let names = &mut self.modules[module].names;
        names.entry(name.to_string()).or_default().push(target);
    }

    /// Enters what an item declares.
    fn declare(&mut self, item: &syn::Item, module: usize) {
        let file = self.modules[module].file;
        let (is_type, name) = match item {
            syn::Item::Struct(it) => (true, &it.ident),
            syn::Item::Enum(it) => (true, &it.ident),
            syn::Item::Union(it) => (true, &it.ident),
            syn::Item::Trait(it) => (true, &it.ident),
            syn::Item::Type(it) => (true, &it.ident),
            syn::Item::Fn(it) => (false, &it.sig.ident),
            syn::Item::Const(it) => (false, &it.ident),
            syn::Item::Static(it) => (false, &it.ident),
            syn::Item::Macro(it) => {
                if let Some(name) = &it.ident {
                    let files = self.macros.entry(name.to_string()).or_default();
                    files.insert(file);
                }
                return;
            }
            syn::Item::ForeignMod(block) => {
                for inner in &block.items {
                    if let syn::ForeignItem::Fn(it) = inner {
                        self.name(module, &it.sig.ident, Target::Value(file));
                    }
                }
                return;
            }
            _ => return,
        };
        if is_type {
            let place = self.files[file].clone();
            self.types.push((name.to_string(), place));
        }
        let target = match is_type {
            true => Target::Type(file),
            false => Target::Value(file),
        };
        self.name(module, name, target);
    }

    /// The files, as they were found.
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// The modules; their places are their numbers.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    pub fn file_of(&self, module: &Module) -> &str {
        &self.files[module.file]
    }

    /// The file that declares the type or trait that a module's code names so; none where another
    /// crate does, or a macro.
    pub fn file_of_type(&self, module: usize, path: &[String]) -> Option<&str> {
        let targets = self.resolve(module, path, &mut Vec::new());
        targets.iter().find_map(|target| match target {
            Target::Type(file) => Some(self.files[*file].as_str()),
            _ => None,
        })
    }

    /// Whether a module is `above`, or stands below it.
    pub fn is_below(&self, module: usize, above: usize) -> bool {
        let mut at = Some(module);
        while at.is_some_and(|at| at != above) {
            at = at.and_then(|at| self.modules[at].parent);
        }
        at.is_some()
    }

    /// The module that a module stands in; itself for the root.
    pub fn above(&self, module: usize) -> usize {
        self.modules[module].parent.unwrap_or(module)
    }

    /// Finds the meaning of `name` in a module. `seen` are the questions that are being answered.
    fn lookup(&self, module: usize, name: &str, seen: &mut Vec<(usize, String)>) -> Vec<Target> {
        let question = (module, name.to_owned());
        if seen.contains(&question) {
            return self.modules[module]
                .names
                .get(name)
                .cloned()
                .unwrap_or_default();
        }
        seen.push(question);
        let at = &self.modules[module];
        let mut found = at.names.get(name).cloned().unwrap_or_default();
        for one in at.code.uses.iter().filter(|one| one.alias == name) {
            found.extend(self.resolve(module, &one.path, seen));
        }
        if found.is_empty() {
            for glob in &at.code.globs {
                for target in self.resolve(module, glob, seen) {
                    if let Target::Module(from) = target {
                        found.extend(self.lookup(from, name, seen));
                    }
                }
            }
        }
        seen.pop();
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Finds the meaning of a path of a module's code; nothing where it leads out of the crate.
    fn resolve(
        &self,
        module: usize,
        path: &[String],
        seen: &mut Vec<(usize, String)>,
    ) -> Vec<Target> {
        let mut targets = Vec::new();
        for (i, name) in path.iter().enumerate() {
            let next: Vec<Target> = match (name.as_str(), i) {
                ("crate", 0) => vec![Target::Module(0)],
                ("self", 0) => vec![Target::Module(module)],
                ("super", 0) => self.parent(module).into_iter().collect(),
                ("self", _) => targets.clone(),
                (_, 0) => self.lookup(module, name, seen),
                _ => targets
                    .iter()
                    .flat_map(|target| self.step(*target, name, seen))
                    .collect(),
            };
            targets = next;
        }
        targets
    }

    fn parent(&self, module: usize) -> Option<Target> {
        self.modules[module].parent.map(Target::Module)
    }

    /// Finds the meaning of `name` behind `target::`.
    fn step(&self, target: Target, name: &str, seen: &mut Vec<(usize, String)>) -> Vec<Target> {
        match target {
            Target::Module(module) if name == "super" => self.parent(module).into_iter().collect(),
            Target::Module(module) => {
                let found = self.lookup(module, name, seen);
                match found.is_empty() && module != 0 {
                    // What a macro declares has no name that is seen here.
                    true => vec![Target::Value(self.modules[module].file)],
                    false => found,
                }
            }
            Target::Type(_) => vec![target],
            Target::Value(_) => Vec::new(),
        }
    }

    /// Imports of each file: what its code names of other files.
    pub fn imports(&self) -> BTreeSet<Import> {
        let mut found = BTreeSet::new();
        for (number, module) in self.modules.iter().enumerate() {
            let mut enter = |path: &[String], targets: &[Target]| {
                for target in targets {
                    let (Target::Type(file) | Target::Value(file)) = *target else {
                        continue;
                    };
                    found.insert(Import {
                        from: self.files[module.file].clone(),
                        to: self.files[file].clone(),
                        name: path.last().cloned().unwrap_or_default(),
                    });
                }
            };
            for one in module.code.uses.iter().filter(|one| !one.passed_on) {
                let targets = self.resolve(number, &one.path, &mut Vec::new());
                // A module may have the name of a function: what is meant is seen where it is used.
                if !targets.iter().any(|it| matches!(it, Target::Module(_))) {
                    enter(&one.path, &targets);
                }
            }
            for glob in &module.code.globs {
                enter(glob, &self.resolve(number, glob, &mut Vec::new()));
            }
            for (path, is_macro) in &module.code.paths {
                if path.len() == 1 && module.code.bound.contains(&path[0]) {
                    continue;
                }
                let files = self
                    .macros
                    .get(&path[0])
                    .filter(|_| *is_macro && path.len() == 1);
                match files {
                    Some(files) if files.contains(&module.file) => {}
                    Some(files) => files
                        .iter()
                        .for_each(|it| enter(path, &[Target::Value(*it)])),
                    None => enter(path, &self.resolve(number, path, &mut Vec::new())),
                }
            }
        }
        found.retain(|import| import.from != import.to);
        found
    }
}

/// A path without `..`.
fn straight(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// Value of `#[path = "..."]`.
fn elsewhere(attributes: &[syn::Attribute]) -> Option<String> {
    attributes
        .iter()
        .find_map(|attribute| match &attribute.meta {
            syn::Meta::NameValue(syn::MetaNameValue {
                path,
                value:
                    syn::Expr::Lit(syn::ExprLit {
                        lit: syn::Lit::Str(text),
                        ..
                    }),
                ..
            }) if path.is_ident("path") => Some(text.value()),
            _ => None,
        })
}
