//! Tables of headers and of the command line as pages of `docs/`: `c-calls.md` and `commands.md`.
//! They are committed, and the tests here find them stale.

use super::commands::told;
use super::header::{CHeader, CType};
use super::page::{opening, paragraphs};
use crate::cli::Cli;
use clap::{Arg, Command, CommandFactory};
use std::fmt::Write;
use std::path::Path;

const COMMAND: &str = "KOLO_BLESS=1 cargo test --bin kolo pages::";

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../.."))
}

/// Plain words, in which Markdown finds nothing of its own; what stands in backquotes stays.
fn words(text: &str) -> String {
    let mut out = String::new();
    for (number, piece) in text.split('`').enumerate() {
        if number > 0 {
            out.push('`');
        }
        for c in piece.chars() {
            if number % 2 == 0 && "*<>[]|".contains(c) {
                out.push('\\');
            }
            out.push(c);
        }
    }
    out
}

/// A comment as paragraphs; the errors of a call begin one of their own.
fn about(out: &mut String, doc: &str) {
    for paragraph in paragraphs(doc) {
        let text = words(&paragraph).replace(". Errors: ", ".\n\nErrors: ");
        let _ = writeln!(out, "{text}\n");
    }
}

fn constants(out: &mut String, items: &[CType]) {
    let _ = writeln!(out, "| constant | meaning |\n|---|---|");
    for item in items {
        let doc = paragraphs(&item.doc).collect::<Vec<_>>().join(" ");
        let (name, value) = item.name.split_once(' ').unwrap_or((&item.name, ""));
        let _ = writeln!(
            out,
            "| `{name}` | {} ({value}) |",
            words(doc.trim_end_matches('.'))
        );
    }
    out.push('\n');
}

fn types(out: &mut String, items: &[CType]) {
    for item in items {
        let _ = writeln!(out, "### `{}`\n", item.name);
        about(out, &item.doc);
        if !item.members.is_empty() {
            let _ = writeln!(out, "| member | meaning |\n|---|---|");
        }
        for (name, doc) in &item.members {
            let doc = paragraphs(doc).collect::<Vec<_>>().join(" ");
            let _ = writeln!(out, "| `{name}` | {} |", words(&doc));
        }
        if !item.members.is_empty() {
            out.push('\n');
        }
    }
}

/// `docs/c-calls.md`.
fn calls(headers: &[CHeader]) -> String {
    let mut out = format!(
        "# The calls of C\n\nMade of `kolo.h` and `kolo_mpi.h` by `{COMMAND}`: do not edit. \
         [c.md](c.md) is the way in; `man koloAllReduce` shows the same of one call.\n\n"
    );
    let _ = writeln!(out, "| call | in short |\n|---|---|");
    for call in headers.iter().flat_map(|header| &header.calls) {
        let (name, short) = (&call.name, words(&opening(&call.doc)));
        let _ = writeln!(out, "| [`{name}`](#{}) | {short} |", name.to_lowercase());
    }
    for header in headers {
        let _ = writeln!(out, "\n## Calls of {}\n", header.file);
        for call in &header.calls {
            let _ = writeln!(out, "### `{}`\n\n```c\n{}\n```\n", call.name, call.lines);
            about(&mut out, &call.doc);
        }
        if !header.types.is_empty() {
            let _ = writeln!(out, "## Types of {}\n", header.file);
            types(&mut out, &header.types);
        }
        if !header.constants.is_empty() {
            let _ = writeln!(out, "## Constants of {}\n", header.file);
            constants(&mut out, &header.constants);
        }
    }
    format!("{}\n", out.trim_end())
}

/// `docs/commands.md`.
fn commands(mut whole: Command) -> String {
    whole.build();
    let mut out = format!(
        "# The command kolo\n\nMade of the parser of the command line by `{COMMAND}`: do not \
         edit. `kolo perf --help` prints the same, and so does `man kolo-perf`.\n\n\
         | command | does |\n|---|---|\n"
    );
    for one in told(&whole) {
        let name = one.get_name();
        let _ = writeln!(out, "| [`kolo {name}`](#kolo-{name}) | {} |", purpose(one));
    }
    for one in told(&whole) {
        command(&mut out, "##", one);
        let parts = told(one).filter(|part| part.get_name() != "help");
        parts.for_each(|part| command(&mut out, "###", part));
    }
    out
}

fn purpose(command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string);
    words(&about.unwrap_or_default())
}

/// One command: its usage, its options as a table, and the notes that its help ends with.
fn command(out: &mut String, level: &str, one: &Command) {
    let usage = one.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    let name = one.get_bin_name().unwrap_or_default();
    let about = purpose(one);
    let _ = writeln!(
        out,
        "\n{level} `{name}`\n\n{about}.\n\n```text\n{usage}\n```"
    );
    let shown = |arg: &&Arg| !arg.is_hide_set() && arg.get_id() != "help";
    let mut rows = one.get_arguments().filter(shown).peekable();
    if rows.peek().is_some() {
        let _ = writeln!(out, "\n| option | meaning |\n|---|---|");
    }
    for arg in rows {
        let _ = writeln!(out, "| `{}` | {} |", option(arg), meaning(arg));
    }
    if let Some(notes) = one.get_after_help() {
        let _ = writeln!(out, "\n```text\n{}\n```", notes.to_string().trim_end());
    }
}

/// An option as it is typed, with its short form first.
fn option(arg: &Arg) -> String {
    let long = arg.to_string();
    let whole = match arg.get_short().filter(|_| arg.get_long().is_some()) {
        Some(short) => format!("-{short}, {long}"),
        None => long,
    };
    // In a table the mark between cells has a backslash before it, in backquotes too.
    whole.replace('|', "\\|")
}

fn meaning(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let mut text = words(&help.replace('\n', " "));
    let usual = arg.get_default_values();
    let usual: Vec<_> = usual.iter().map(|value| value.to_string_lossy()).collect();
    if !usual.is_empty() && arg.get_action().takes_values() && !arg.is_hide_default_value_set() {
        let _ = write!(text, " (without it: `{}`)", usual.join(" "));
    }
    text
}

fn compare(page: &str, fresh: &str) {
    let path = repository().join("docs").join(page);
    if std::env::var_os("KOLO_BLESS").is_some() {
        std::fs::write(&path, fresh).expect("the page is written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == fresh, "docs/{page} is stale: run {COMMAND}");
}

#[test]
fn the_calls_of_c_are_what_their_page_lists() {
    let headers = ["bindings/c/include/kolo.h", "bindings/mpi/kolo_mpi.h"].map(|path| {
        let text = std::fs::read_to_string(repository().join(path)).expect("a header");
        CHeader::parse(path.rsplit('/').next().expect("a name"), &text)
    });
    let page = calls(&headers);
    assert!(page.contains("### `koloCommInitMPI`\n\n```c\nkoloResult_t koloCommInitMPI("));
    compare("c-calls.md", &page);
}

#[test]
fn the_commands_are_what_their_page_lists() {
    let page = commands(Cli::command());
    assert!(page.contains("## `kolo perf`\n\n") && page.contains("| `--compare"));
    compare("commands.md", &page);
}

#[test]
fn words_that_markdown_would_take_for_its_own_are_kept() {
    assert_eq!(
        words("a * b < c, `d * e`, f[0]"),
        "a \\* b \\< c, `d * e`, f\\[0\\]"
    );
}
