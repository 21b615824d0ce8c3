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
#[path = "tidy/page.rs"]
mod page;
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

#[test]
fn architecture_is_one_true_page() {
    let read = |name| documents::read_below(root(), name).unwrap_or_else(|| panic!("{name}"));
    let text = read("docs/ARCHITECTURE.md");
    let mut faults = page::length("ARCHITECTURE.md", &text, page::MOST_WORDS);
    faults.extend(page::table(&text));
    let drawing = "docs/architecture.svg";
    faults.extend(page::unnamed(drawing, &read(drawing), |room| {
        format!(">{room}<")
    }));
    let lib = "src/lib.rs";
    faults.extend(page::unnamed(lib, &read(lib), |room| format!("`{room}`: ")));
    report(faults);
}

#[test]
fn the_glossary_defines_each_word_once() {
    let text = read(glossary::PAGE).expect("the glossary");
    let rows = text.lines().filter(|line| line.starts_with("| ")).count();
    assert!(rows > 50, "only {rows} rows");
    report(glossary::faults(&text));
    report(glossary::lacking(
        &text,
        &read(glossary::FIRST).expect("the page"),
    ));
}

#[test]
fn every_command_that_writes_files_is_listed() {
    let page = documents::read_below(root(), "docs/HACKING.md").expect("docs/HACKING.md");
    hold(|source| page::unblessed(&page, source));
}

/// The pages of `docs/` and those of figures.
fn own_pages() -> Vec<links::Page> {
    let tops = ["docs/", results::FOLDER];
    let is_own = |page: &links::Page| tops.iter().any(|top| page.path.starts_with(top));
    let pages: Vec<_> = links::pages(root()).into_iter().filter(is_own).collect();
    assert!(pages.len() > 10, "only {} pages", pages.len());
    pages
}

#[test]
fn pages_name_files_that_are_there() {
    let exists = |name: &str| root().join(name).exists();
    let read = |name: &str| read(name).unwrap_or_else(|| panic!("{name}"));
    let (makefile, manifest) = (read("Makefile"), read("Cargo.toml"));
    let mut faults = Vec::new();
    for page in own_pages() {
        let (name, text) = (page.path.as_str(), page.text.as_str());
        faults.extend(page::missing(name, text, &exists));
        faults.extend(commands::faults(
            name,
            text,
            [&makefile, &manifest],
            &exists,
        ));
    }
    report(faults);
}

#[test]
fn programs_that_give_figures_say_how_they_are_called() {
    let pages = own_pages().into_iter();
    let figures = pages.filter(|page| page.path.starts_with(results::FOLDER));
    let texts: String = figures.map(|page| page.text).collect();
    let programs = commands::programs(&texts);
    assert!(programs.len() > 4, "only {programs:?}");
    for path in programs {
        let source = read(path).unwrap_or_else(|| panic!("{path}"));
        assert!(commands::answers_help(&source), "{path} has no --help");
        let help = Command::new(root().join(path)).arg("--help").output();
        let help = help.unwrap_or_else(|error| panic!("{path}: {error}"));
        let said = String::from_utf8_lossy(&help.stdout);
        assert!(
            help.status.success() && said.contains(path),
            "{path}: {said}"
        );
    }
}

#[test]
fn links_lead_to_headings_that_are_there() {
    let pages = links::pages(root());
    let read = |name: &str| match root().join(name) {
        path if path.is_dir() => Some(String::new()),
        // A picture is no text, and has no headings.
        path => Some(String::from_utf8_lossy(&std::fs::read(path).ok()?).into_owned()),
    };
    report(
        pages
            .iter()
            .flat_map(|page| links::faults(page, &read))
            .collect(),
    );
    report(links::contents(&pages));
}

#[test]
fn the_guide_says_what_kolo_says() {
    let read = |name: &str| read(name).unwrap_or_else(|| panic!("{name}"));
    let sources = workspace::sources();
    let sentences = guide::sentences(sources);
    assert!(sentences.len() > 1000, "only {} strings", sentences.len());
    let mut faults = guide::faq(guide::FAQ, &read(guide::FAQ), &sentences);
    let words = forms::words(&read(forms::WORDS));
    assert!(words.len() > 100, "only {} words of Fortran", words.len());
    faults.extend(forms::one_sided(guide::FAQ, &read(guide::FAQ), &words));
    let known = guide::KNOWN.map(read);
    let pages = links::pages(root());
    for page in pages
        .iter()
        .filter(|page| page.path.starts_with(guide::FOLDER))
    {
        faults.extend(guide::unknown_names(&page.path, &page.text, &known));
        if page.path != guide::FAQ {
            faults.extend(guide::length(&page.path, &page.text));
        }
    }
    faults.extend(guide::figures(
        guide::FIGURES,
        &read(guide::FIGURES),
        &results::measured(&pages),
    ));
    report(faults);
}

#[test]
fn figures_stand_with_their_reasons() {
    let read = |name: &str| read(name).unwrap_or_else(|| panic!("{name}"));
    let pages = links::pages(root());
    let short = read(results::SHORT);
    let mut faults = results::folder(&pages);
    faults.extend(page::length(results::SHORT, &short, results::MOST_WORDS));
    let measured = results::measured(&pages);
    faults.extend(guide::figures(results::SHORT, &short, &measured));
    faults.extend(results::shortfalls(&short, &read(results::REASONS)));
    report(faults);
}

#[test]
fn pages_show_the_examples_as_they_are() {
    let read = |name| documents::read_below(root(), name).unwrap_or_else(|| panic!("{name}"));
    let readme = read("README.md");
    for example in [
        "examples/c/hello.c",
        "examples/fortran/hello.f90",
        "examples/rust/hello.rs",
    ] {
        assert!(
            documents::shows(&readme, &read(example)),
            "README.md does not show {example}"
        );
    }
    for (page, example) in [
        ("docs/guide/c.md", "examples/c/hello.c"),
        ("docs/guide/fortran.md", "examples/fortran/hello.f90"),
        ("docs/guide/rust.md", "examples/rust/hello.rs"),
        ("docs/guide/rust.md", "examples/rust/unit_test.rs"),
    ] {
        let is_shown = documents::shows(&read(page), &read(example));
        assert!(is_shown, "{page} does not show {example}");
    }
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
