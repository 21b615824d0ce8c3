//! The rules of pages meet the tree.

use crate::{commands, documents, forms, glossary, guide, links, page, results, workspace};
use crate::{hold, read, report, root};
use std::process::Command;

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
