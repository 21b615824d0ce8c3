//! The habits of this project that a program can check, so that nobody has to remember them.
//!
//! Each rule is a function from a source file to its faults, with tests of its own that show a bad
//! sample being caught. Here the rules meet the tree.

#[path = "tidy/apart.rs"]
mod apart;
#[path = "tidy/circles.rs"]
mod circles;
#[path = "tidy/code.rs"]
mod code;
#[path = "tidy/commands.rs"]
mod commands;
#[path = "tidy/commits.rs"]
mod commits;
#[path = "tidy/confined.rs"]
mod confined;
#[path = "tidy/crates.rs"]
mod crates;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/foreign.rs"]
mod foreign;
#[path = "tidy/forms.rs"]
mod forms;
#[path = "tidy/glossary.rs"]
mod glossary;
#[path = "tidy/guide.rs"]
mod guide;
#[path = "tidy/house.rs"]
mod house;
#[path = "tidy/layers.rs"]
mod layers;
#[path = "tidy/links.rs"]
mod links;
#[path = "tidy/lists.rs"]
mod lists;
#[path = "tidy/members.rs"]
mod members;
#[path = "tidy/method_arrows.rs"]
mod method_arrows;
#[path = "tidy/method_circles.rs"]
mod method_circles;
#[path = "tidy/methods.rs"]
mod methods;
#[path = "tidy/modules.rs"]
mod modules;
#[path = "tidy/mutations.rs"]
mod mutations;
#[path = "tidy/names.rs"]
mod names;
#[path = "tidy/openings.rs"]
mod openings;
#[path = "tidy/outputs.rs"]
mod outputs;
#[path = "tidy/page.rs"]
mod page;
#[path = "tidy/pages.rs"]
mod pages;
#[path = "tidy/programs.rs"]
mod programs;
#[path = "tidy/records.rs"]
mod records;
#[path = "tidy/rests.rs"]
mod rests;
#[path = "tidy/results.rs"]
mod results;
#[path = "tidy/shapes.rs"]
mod shapes;
#[path = "tidy/shrinking.rs"]
mod shrinking;
#[path = "tidy/size.rs"]
mod size;
#[path = "skip/mod.rs"]
mod skip;
#[path = "tidy/skips.rs"]
mod skips;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/surface.rs"]
mod surface;
#[path = "tidy/twice.rs"]
mod twice;
#[path = "tidy/unsafety.rs"]
mod unsafety;
#[path = "tidy/workspace.rs"]
mod workspace;

use source::Source;
use std::path::Path;
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Apply a rule to every file and report all faults at once.
fn hold(rule: impl Fn(&Source) -> Vec<String>) {
    let sources = workspace::sources();
    assert!(
        sources.len() > 20,
        "only {} source files were found",
        sources.len()
    );
    report(sources.iter().flat_map(rule).collect());
}

fn report(faults: Vec<String>) {
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn rooms_import_along_the_arrows() {
    hold(layers::faults);
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(root().join(path)).ok()
}

#[test]
fn files_of_a_room_import_along_a_tree() {
    let rooms = circles::rooms(workspace::of_src());
    assert!(rooms.len() > 10, "only {} rooms were found", rooms.len());
    println!("{}", circles::report(&rooms));
    let list = read("tests/tidy/circles.txt").expect("tests/tidy/circles.txt");
    report(circles::faults(&rooms, &list));
}

#[test]
fn a_name_stands_for_one_type() {
    let types = workspace::of_src().iter().flat_map(|tree| &tree.types);
    let types: Vec<(String, String)> = types.cloned().collect();
    assert!(types.len() > 300, "only {} types were found", types.len());
    let list = read("tests/tidy/names.txt").expect("tests/tidy/names.txt");
    report(names::faults(&types, &list));
}

#[test]
fn collectives_and_algorithms_are_listed_once() {
    let sources = workspace::sources();
    let list = read("tests/tidy/lists.txt").expect("tests/tidy/lists.txt");
    report(lists::faults(sources, &list));
}

#[test]
fn doc_comments_begin_with_their_item() {
    let sources = workspace::sources();
    let list = shrinking_list("openings.txt", |list| openings::shrunk(sources, list));
    report(openings::faults(sources, &list));
}

/// A list of `tests/tidy`; `KOLO_BLESS=1` writes it anew without what is gone.
fn shrinking_list(name: &str, shrunk: impl Fn(&str) -> String) -> String {
    let path = format!("tests/tidy/{name}");
    let mut list = read(&path).unwrap_or_else(|| panic!("{path}"));
    if std::env::var_os("KOLO_BLESS").is_some() {
        list = shrunk(&list);
        std::fs::write(root().join(&path), &list).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
    list
}

#[test]
fn the_house_is_measured() {
    let page = read("docs/HACKING.md").expect("docs/HACKING.md");
    let figures = house::figures(workspace::sources());
    report(house::faults(&figures, &page));
    println!("{}", house::text(&figures));
}

#[test]
fn subjects_of_commits_are_short_and_of_one_change() {
    let list = read("tests/tidy/commits.txt").expect("tests/tidy/commits.txt");
    match commits::since(root(), commits::base(&list)) {
        Ok(all) => {
            let faults = all.iter().map(|(commit, it)| commits::faults(commit, it));
            report(faults.flatten().collect());
        }
        Err(why) => skip::skip("history", &why),
    }
}

#[test]
fn records_of_every_kind_are_read_from_random_bytes() {
    report(records::faults(workspace::sources()));
}

#[test]
fn a_source_is_compiled_into_one_crate() {
    report(twice::faults(workspace::sources()));
}

#[test]
fn lines_fit() {
    hold(|source| {
        if is_data(source) {
            Vec::new()
        } else {
            size::columns(source)
        }
    });
}

#[test]
fn files_and_functions_fit_on_a_screen() {
    hold(|source| {
        if is_data(source) {
            Vec::new()
        } else {
            size::lengths(source, size::EXCEPTIONS)
        }
    });
}

#[test]
fn files_open_with_their_purpose() {
    hold(size::opening);
}

#[test]
fn listed_exceptions_exist() {
    let listed = size::EXCEPTIONS
        .iter()
        .map(|e| e.path)
        .chain(size::DATA.iter().copied());
    report(
        listed
            .filter(|path| !root().join(path).is_file())
            .map(str::to_owned)
            .collect(),
    );
}

#[test]
fn every_unsafe_says_why() {
    hold(unsafety::faults);
}

#[test]
fn loom_is_chosen_in_one_file() {
    hold(confined::loom);
}

#[test]
fn the_clock_is_read_in_one_file() {
    hold(|source| confined::faults(source, &confined::CLOCK));
}

#[test]
fn every_rest_of_the_library_gives_turns() {
    hold(rests::faults);
}

#[test]
fn the_environment_is_read_where_options_are() {
    hold(|source| confined::faults(source, &confined::ENVIRONMENT));
}

#[test]
fn sockets_stay_in_their_rooms() {
    hold(|source| confined::faults(source, &confined::SOCKETS));
}

#[test]
fn nothing_is_written_that_could_raise_a_signal() {
    hold(confined::writes);
    hold(confined::told);
}

#[test]
fn no_file_has_the_number_of_a_standard_stream() {
    hold(confined::descriptors);
}

#[test]
fn the_core_exports_no_symbol() {
    hold(|source| confined::faults(source, &confined::SYMBOLS));
}

#[test]
fn nothing_is_unfinished() {
    hold(confined::unfinished);
}

#[test]
fn ranks_write_their_lines_whole() {
    hold(outputs::faults);
}

#[test]
fn no_test_skips_itself_in_silence() {
    hold(skips::faults);
    let list = documents::read_below(root(), "tests/skipped.txt").expect("tests/skipped.txt");
    report(skips::listed(&list, workspace::sources()));
}

#[test]
fn the_top_level_is_fixed() {
    report(documents::strangers(&top_level()));
}

#[test]
fn the_checklist_is_complete_and_true() {
    let text = documents::read_below(root(), "docs/checklist.md").expect("docs/checklist.md");
    report(documents::checklist(&text, &|name| {
        documents::read_below(root(), name)
    }));
}

#[test]
fn mutations_fit_the_tree() {
    let read = |name: &str| std::fs::read_to_string(root().join(name)).ok();
    let list = read("tests/mutations.txt").expect("the list");
    report(mutations::faults(&list, &read));
    let rows = list.lines().filter(|line| !line.trim().is_empty()).count();
    let told = read("docs/HACKING.md").expect("the page");
    let words = format!("and see its test fail: {rows} of them");
    assert!(
        told.contains(&words),
        "docs/HACKING.md does not say: {words}"
    );
}

#[test]
fn the_rust_interface_is_what_its_page_lists() {
    let text = documents::read_below(root(), "src/lib.rs").expect("src/lib.rs");
    let lib = Source::new("src/lib.rs", &text);
    report(surface::shown_rooms(&lib));
    let fresh = surface::page(&lib, workspace::sources());
    let path = root().join("docs/rust-api.md");
    if std::env::var_os("KOLO_BLESS").is_some() {
        std::fs::write(&path, &fresh).expect("docs/rust-api.md is written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == fresh,
        "docs/rust-api.md is stale: run KOLO_BLESS=1 cargo test --test tidy"
    );
    assert!(fresh.lines().count() > 100, "the list is empty:\n{fresh}");
    report(surface::unexplained(&fresh));
}

fn is_data(source: &Source) -> bool {
    size::DATA.contains(&source.path.as_str())
}

/// The names that git tracks at the top; in a copy without git, all names but build products.
fn top_level() -> Vec<String> {
    let git = Command::new("git")
        .args(["ls-tree", "--name-only", "HEAD"])
        .current_dir(root())
        .output();
    let tracked = match git {
        Ok(output) if output.status.success() => String::from_utf8(output.stdout).expect("UTF-8"),
        _ => String::new(),
    };
    if !tracked.is_empty() {
        return tracked.lines().map(str::to_owned).collect();
    }
    let entries = std::fs::read_dir(root()).expect("the repository root");
    let names = entries.map(|e| {
        e.expect("an entry")
            .file_name()
            .to_string_lossy()
            .into_owned()
    });
    names
        .filter(|name| name != "build" && !name.starts_with("target"))
        .collect()
}
