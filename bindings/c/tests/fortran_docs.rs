//! `docs/fortran-procedures.md` lists the procedures of module kolo as its source has them today.
//!
//! `KOLO_BLESS=1 cargo test -p kolo-c --test fortran_docs` writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// One generic name of the module.
#[derive(Default)]
struct Procedure {
    what: String,
    /// Argument lists as the source has them.
    forms: Vec<Vec<String>>,
    is_function: bool,
}

/// The module as far as a reader calls it.
#[derive(Default)]
struct Module {
    public: BTreeSet<String>,
    /// In the order of the source.
    names: Vec<String>,
    procedures: BTreeMap<String, Procedure>,
    /// The types that each argument has somewhere.
    types: BTreeMap<String, BTreeSet<String>>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The statements of a source file: continued lines joined, includes put in their places.
fn statements(path: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut found: Vec<String> = Vec::new();
    let mut open = false;
    for line in text.lines().map(str::trim) {
        let (part, continues) = match line.strip_suffix('&') {
            Some(part) if !line.starts_with('!') => (part.trim_end(), true),
            _ => (line, false),
        };
        if let Some(file) = line.strip_prefix("include '") {
            let file = file.trim_end_matches('\'');
            found.extend(statements(&path.with_file_name(file)));
        } else if open {
            let last = found.last_mut().unwrap();
            last.push(' ');
            last.push_str(part);
        } else {
            found.push(part.to_owned());
        }
        open = continues;
    }
    found
}

/// `name(arguments)` behind `subroutine` or `function`.
fn head(statement: &str) -> Option<(bool, String, Vec<String>)> {
    if statement.starts_with("end ") || statement.starts_with('!') {
        return None;
    }
    let (before, rest) = statement.split_once("subroutine ").map_or_else(
        || statement.split_once("function "),
        |(before, rest)| Some((before, rest)),
    )?;
    if before.contains(['(', ':', '=']) {
        return None;
    }
    let (name, rest) = rest.split_once('(')?;
    let list = rest.split_once(')')?.0;
    let list = list.split(',').map(|name| name.trim().to_owned());
    let is_function = statement[before.len()..].starts_with("function");
    Some((is_function, name.trim().to_owned(), list.collect()))
}

/// The type of a declaration as a reader knows it, and the variables.
fn declaration(statement: &str) -> Option<(String, Vec<String>)> {
    let (left, right) = statement.split_once("::")?;
    if !left.contains("intent(") && !left.starts_with("external") {
        return None;
    }
    let of_type = left.split(", ").next()?.trim().to_owned();
    let mut of_type = [
        ("c_int32_t", "4"),
        ("c_int64_t", "8"),
        ("c_float_complex", "4"),
        ("c_double_complex", "8"),
        ("c_float", "4"),
        ("c_double", "8"),
        ("type(*)", "any type"),
        ("character(len=*)", "character"),
    ]
    .iter()
    .fold(of_type, |text, (from, to)| text.replace(from, to));
    if left.contains("dimension(..)") {
        of_type.push_str(", any rank");
    }
    let names = right.split(',').map(|name| name.trim().to_owned());
    let names: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    Some((of_type, names))
}

/// Reads declarations of array arguments, `name(*)` and `name(:)`, as arrays.
fn note_types(module: &mut Module, statement: &str) {
    let Some((of_type, names)) = declaration(statement) else {
        return;
    };
    for name in names {
        let (name, array) = match name.split_once('(') {
            Some((name, _)) => (name.to_owned(), ", an array"),
            None => (name, ""),
        };
        let types = module.types.entry(name).or_default();
        types.insert(format!("{of_type}{array}"));
    }
}

fn read(path: &Path) -> Module {
    let mut module = Module::default();
    let (mut comment, mut generic, mut inside) = (String::new(), None::<String>, false);
    let mut specific: Vec<(String, Procedure)> = Vec::new();
    let mut resolved: Vec<(String, String)> = Vec::new();
    for statement in statements(path) {
        let text = statement.as_str();
        if let Some(line) = text.strip_prefix("!> ").or(text.strip_prefix("!! ")) {
            if text.starts_with("!>") {
                comment.clear();
            }
            let gap = if comment.is_empty() { "" } else { " " };
            write!(comment, "{gap}{}", line.trim()).unwrap();
            continue;
        }
        if let Some(list) = text.strip_prefix("public ::") {
            let names = list.split(',').map(|name| name.trim().to_owned());
            module.public.extend(names);
            continue;
        }
        if text == "interface" || text.starts_with("interface ") {
            inside = true;
            generic = text.strip_prefix("interface ").map(str::to_owned);
            if let Some(name) = &generic {
                module.names.push(name.clone());
                let entry = module.procedures.entry(name.clone()).or_default();
                // Why the source has more bodies than a reader needs to know is not for the list.
                let what = std::mem::take(&mut comment);
                let what = what.split(" (Bodies ").next();
                entry.what = what.unwrap_or_default().to_owned();
            }
        } else if text.starts_with("end interface") {
            (inside, generic) = (false, None);
        } else if let (Some(name), Some(list)) = (&generic, text.strip_prefix("procedure ")) {
            let list = list.split(',').map(|s| (name.clone(), s.trim().to_owned()));
            resolved.extend(list);
        } else if let Some((is_function, name, arguments)) = head(text) {
            let into = match &generic {
                Some(generic) => module.procedures.get_mut(generic).unwrap(),
                None if inside => continue,
                None => {
                    let what = std::mem::take(&mut comment);
                    specific.push((
                        name,
                        Procedure {
                            what,
                            ..Procedure::default()
                        },
                    ));
                    &mut specific.last_mut().unwrap().1
                }
            };
            into.is_function |= is_function;
            into.forms.push(arguments);
        } else if generic.is_some() || !inside {
            note_types(&mut module, text);
        }
    }
    for (name, procedure) in specific {
        let generic = resolved.iter().find(|(_, specific)| *specific == name);
        if let Some((generic, _)) = generic {
            let forms = &mut module.procedures.get_mut(generic).unwrap().forms;
            forms.extend(procedure.forms);
        } else if module.public.contains(&name) {
            module.names.push(name.clone());
            module.procedures.insert(name, procedure);
        }
    }
    module
}

/// The ways to call a procedure: without the forms that differ in an optional argument or in the
/// kind of an integer only.
fn ways(name: &str, procedure: &Procedure) -> Vec<String> {
    let mut plain: Vec<(Vec<String>, bool, bool)> = Vec::new();
    for form in &procedure.forms {
        let mut form = form.clone();
        let ierror = form.pop_if(|last| last == "ierror").is_some();
        let stream = form.len() > 1 && form.pop_if(|last| last == "stream").is_some();
        match plain.iter_mut().find(|(known, ..)| *known == form) {
            Some(known) => (known.1, known.2) = (known.1 || stream, known.2 || ierror),
            None => plain.push((form, stream, ierror)),
        }
    }
    let one = |(form, stream, ierror): (Vec<String>, bool, bool)| {
        let mut list = form.join(", ");
        for (has, word) in [(stream, "stream"), (ierror, "ierror")] {
            if has && list.is_empty() {
                write!(list, "[{word}]").unwrap();
            } else if has {
                write!(list, " [, {word}]").unwrap();
            }
        }
        match procedure.is_function {
            true => format!("answer = {name}({list})"),
            false => format!("call {name}({list})"),
        }
    };
    plain.into_iter().map(one).collect()
}

/// Text in lines of at most 100 columns.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().unwrap();
        if last.is_empty() {
            last.push_str(word);
        } else if last.len() + 1 + word.len() <= 100 {
            write!(last, " {word}").unwrap();
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

/// The constants of the module as tables, one for each type: name, meaning.
fn constants(path: &Path) -> String {
    let kinds = [
        (
            "type(kolo_op)",
            "Operations",
            "`type(kolo_op)`, the argument `op`",
        ),
        (
            "type(kolo_datatype)",
            "Data types",
            "`type(kolo_datatype)`, of the explicit forms",
        ),
        (
            "integer",
            "Numbers",
            "integers: values of `ierror`, and ranks and colors that are none",
        ),
    ];
    let text = std::fs::read_to_string(path).unwrap();
    let mut page = String::from("\n## Constants\n");
    for (of_type, title, what) in kinds {
        write!(
            page,
            "\n### {title}\n\n{what}:\n\n| name | meaning |\n|---|---|\n"
        )
        .unwrap();
        let head = format!("  {of_type}, parameter, public :: ");
        for line in text.lines().filter_map(|line| line.strip_prefix(&head)) {
            let name = line.split(" = ").next().unwrap();
            let meaning = line
                .split_once("!< ")
                .unwrap_or_else(|| panic!("{name}: no words"))
                .1;
            writeln!(page, "| `{name}` | {meaning} |").unwrap();
        }
    }
    page.push_str(
        "\n`KOLO_IN_PLACE` stands in the explicit forms in the place of a buffer: the data is \
         where the result\ngoes.\n",
    );
    page
}

fn generate() -> String {
    let module = read(&root().join("bindings/fortran/kolo.f90"));
    let mut text = String::from(
        "# Procedures of module kolo\n\nMade of the module's source by `KOLO_BLESS=1 cargo test -p \
         kolo-c --test fortran_docs`: do not edit.\n`docs/fortran.md` explains them. Arguments in \
         brackets may be left out: without `stream` a call returns\nwhen the work is done, without \
         `ierror` a call that fails ends the job.\n",
    );
    for name in module.names.iter().filter(|n| module.public.contains(*n)) {
        let procedure = &module.procedures[name];
        let ways = ways(name, procedure).join("\n");
        let what = wrapped(&procedure.what);
        write!(text, "\n## `{name}`\n\n```fortran\n{ways}\n```\n\n{what}\n").unwrap();
    }
    text.push_str("\n## Arguments\n\n| argument | type |\n|---|---|\n");
    let used: BTreeSet<&String> = module
        .procedures
        .values()
        .flat_map(|p| p.forms.iter().flatten())
        .collect();
    for (name, types) in module.types.iter().filter(|(name, _)| used.contains(name)) {
        let types: Vec<String> = types.iter().map(|one| format!("`{one}`")).collect();
        writeln!(text, "| `{name}` | {} |", types.join(" or ")).unwrap();
    }
    text.push_str(&constants(
        &root().join("bindings/fortran/kolo_constants.inc"),
    ));
    text
}

#[test]
fn the_list_of_procedures_is_not_stale() {
    let path = root().join("docs/fortran-procedures.md");
    let fresh = generate();
    if std::env::var_os("KOLO_BLESS").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == fresh,
        "docs/fortran-procedures.md is stale: run KOLO_BLESS=1 cargo test -p kolo-c --test \
         fortran_docs"
    );
}

#[test]
fn every_public_procedure_is_listed_with_its_arguments() {
    let module = read(&root().join("bindings/fortran/kolo.f90"));
    let text = generate();
    assert!(module.public.len() > 25, "{:?}", module.public);
    for name in &module.public {
        assert!(text.contains(&format!("\n## `{name}`\n")), "no {name}");
        let procedure = &module.procedures[name];
        assert!(!procedure.what.is_empty(), "{name} has no comment");
        for argument in procedure.forms.iter().flatten() {
            let row = format!("\n| `{argument}` | `");
            assert!(
                argument.is_empty() || text.contains(&row),
                "no type of {argument}"
            );
        }
    }
}

#[test]
fn every_constant_is_listed() {
    let path = root().join("bindings/fortran/kolo_constants.inc");
    let source = std::fs::read_to_string(&path).unwrap();
    let text = generate();
    let mut found = 0;
    for line in source
        .lines()
        .filter(|line| line.contains("parameter, public ::"))
    {
        let name = line.split(":: ").nth(1).unwrap().split(' ').next().unwrap();
        assert!(text.contains(&format!("\n| `{name}` | ")), "no {name}");
        found += 1;
    }
    assert!(found > 50, "{found}");
}

/// The lines of the section of `text` that has this title.
fn section<'a>(text: &'a str, title: &str) -> Vec<&'a str> {
    let lines = text.lines().skip_while(|line| *line != title).skip(1);
    lines.take_while(|line| !line.starts_with("## ")).collect()
}

/// All words of `lines` that begin with `prefix`.
fn names<'a>(lines: &[&'a str], prefix: &str) -> BTreeSet<&'a str> {
    let words = lines
        .iter()
        .flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.filter(|word| word.starts_with(prefix)).collect()
}

#[test]
fn the_way_from_mpi_names_what_there_is() {
    let module = read(&root().join("bindings/fortran/kolo.f90"));
    let text = std::fs::read_to_string(root().join("docs/fortran.md")).unwrap();
    let named = names(&section(&text, "## From MPI to kolo"), "kolo_");
    assert!(named.len() > 15, "{named:?}");
    for name in named {
        assert!(module.public.contains(name), "module kolo has no {name}");
    }
    let missing = names(&section(&text, "## Not there yet"), "mpi_");
    assert!(!missing.is_empty());
    for name in missing {
        let now = name.replacen("mpi_", "kolo_", 1);
        assert!(!module.public.contains(&now), "{now} is there: say so");
    }
}

#[test]
fn the_recipes_are_those_that_the_tests_run() {
    let text = std::fs::read_to_string(root().join("docs/fortran.md")).unwrap();
    let programs = ["recipes", "halo"].map(|name| {
        std::fs::read_to_string(root().join(format!("tests/fortran/{name}.f90"))).unwrap()
    });
    let program = programs.join("\n");
    let program: Vec<&str> = program.lines().map(str::trim).collect();
    let program = program.join("\n");
    let recipes = section(&text, "## Recipes").join("\n");
    let recipes: Vec<&str> = recipes.split("```fortran\n").skip(1).collect();
    assert!(recipes.len() >= 2);
    for recipe in recipes {
        let recipe: Vec<&str> = recipe.split("\n```").next().unwrap().lines().collect();
        let recipe: Vec<&str> = recipe.into_iter().map(str::trim).collect();
        let recipe = recipe.join("\n");
        assert!(program.contains(&recipe), "no test runs:\n{recipe}");
    }
}
