//! The table of options as text: the TOML file, the page of documentation, the help, and the values
//! in force.

use super::kind::Kind;
use super::option::{FOR_TESTS, Opt, RESERVED, Tag};
use super::options::OPTIONS;
use super::render_site::{LOCKS, site_section};
use super::settings::{Entry, Settings};
use super::source::Layer;
use super::value::Value;
use std::fmt::Write;

/// Columns of generated text.
const WIDTH: usize = 96;

/// Every option with its value, its layer, and the file or variable, then the files looked at: what
/// `kolo config show --origin` prints.
pub fn render_table(settings: &Settings) -> String {
    let row = |entry: Entry<'_>| {
        let value = match entry.value {
            Value::Unset => "-".to_string(),
            value => value.to_string(),
        };
        [
            entry.option.key.to_string(),
            value,
            entry.option.tag.text().to_string(),
            entry.source.layer.text().to_string(),
            render_origin(entry),
        ]
    };
    let head = ["option", "value", "for", "layer", "from"].map(str::to_string);
    let rows: Vec<_> = std::iter::once(head)
        .chain(settings.entries().map(row))
        .collect();
    let mut text = render_columns(&rows);
    text.push_str("\nFiles, each hiding what those above it say:\n");
    for file in settings.files() {
        let state = if file.found { "read" } else { "not there" };
        let _ = writeln!(
            text,
            "  {} ({}): {state}",
            file.path.display(),
            file.layer.text()
        );
    }
    text
}

/// The file or variable that an option has its value from, with the line, and what locks it.
pub fn render_origin(entry: Entry<'_>) -> String {
    let mut text = entry.source.origin.to_string();
    if let Some(at) = entry.at {
        let _ = write!(text, ", line {}", at.line);
    }
    if let Some(lock) = entry.locked {
        let _ = write!(text, "; locked by {lock}");
    }
    text
}

/// The options that are not as built in, as a settings file would have them: what `kolo config
/// show` prints.
pub fn render_settings(settings: &Settings) -> String {
    let set = settings.entries().filter(|entry| {
        let built_in = entry.option.kind.parse(entry.option.default);
        built_in.as_ref() != Some(entry.value)
    });
    set.map(|entry| format!("{} = {}\n", entry.option.key, entry.value.toml()))
        .collect()
}

/// Rows whose columns are below each other.
pub fn render_columns<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// How the page begins: what most users come for.
const NEEDED: &str = "\
## What a user needs

Nothing has to be set. What is set most often, as a variable in the job script:

| to | set |
|---|---|
| see what kolo does | [`KOLO_DEBUG=info`](#debug) |
| end the job at the first call that fails (C and Fortran) | [`KOLO_ERRORS=abort`](#errors) |
| find the rank that calls something else | [`KOLO_CHECK=1`](#check) |
| end a job that hangs, and hear which rank is late | [`KOLO_TIMEOUT=300`](#timeout) (seconds) |
| hear where a job was when its time limit ended it | [`KOLO_ON_SIGNAL=report`](#on_signal) |
| count calls, bytes and time | [`KOLO_REPORT=1`](#report) |
| choose the network | [`KOLO_NET=socket`](#net) |
| choose the interface | [`KOLO_SOCKET_IFNAME=ib0`](#socket_ifname) |
| try another algorithm | [`KOLO_ALGO=ring`](#algo) |
| leave the processor to others while ranks wait | [`KOLO_WAIT=yield`](#wait) |
| have ranks without MPI prove who they are | [`KOLO_SECRET_FILE=FILE`](#secret_file) |

Open MPI's `mpirun` hands variables to other nodes with `-x NAME`. A site writes its own into \
`/etc/kolo/kolo.toml`. `kolo config show --origin` shows every value and where it came from.

";

/// The page `docs/settings.md`.
pub fn render_markdown() -> String {
    let mut text = String::from(
        "# Settings\n\n\
         Generated from the table of options in `src/config/options.rs`; `KOLO_BLESS=1 cargo test \
         --lib config::` writes this page and `config/kolo.toml` anew.\n\n",
    );
    text.push_str(NEEDED);
    text.push_str(
        "## Layers\n\n\
         A setting comes from the highest of these layers that gives it:\n\n",
    );
    for (number, layer) in Layer::ALL.into_iter().enumerate() {
        let _ = writeln!(text, "{}. {}", number + 1, layer_line(layer));
    }
    text.push_str(&format!("{}. {LOCKS}\n", Layer::ALL.len() + 1));
    text.push_str(
        "\n\
         `kolo config show --origin` prints every value with its layer and the file or variable it \
         came from. Settings are read once per communicator, when it is made.\n\n\
         A program in Rust lies in no PREFIX, unless it is installed in `PREFIX/bin`: what it \
         shall read belongs into `/etc/kolo/kolo.toml`. A home that this user may not enter counts \
         as one without settings, and a warning says so. Another warns of a file that everybody \
         may write, or whose owner is neither root nor this user nor (layer 3) the owner of \
         PREFIX.\n\n\
         A program with raised rights (setuid, setgid, file capabilities) reads neither the \
         environment nor files of the user: layers 5 to 8 do not count for it, and no \
         profile but the default one.\n\n\
         An unknown key, an unknown `KOLO_*` variable and a bad value are errors that name the \
         place, what was expected and the nearest valid name. An empty variable counts as not \
         set. An `NCCL_*` variable is not looked at where the option's own `KOLO_*` variable or \
         the program sets the option; `NCCL_*` variables that are not named below are never \
         looked at. Words may be written in capitals or not. A size takes K, M, G or T for \
         powers of 1024.\n\n\
         Options marked *same on every rank* decide how messages are exchanged. Ranks compare \
         them when a communicator is made; a difference is an error that names the values, \
         nodes and sources.\n\n",
    );
    text.push_str(&site_section());
    text.push_str(
        "\n## Overview\n\n\
         | option | default | unit | for | same on every rank |\n\
         |---|---|---|---|---|\n",
    );
    for option in OPTIONS {
        let same = if option.shapes { "yes" } else { "" };
        let (key, unit, tag) = (option.key, option.unit, option.tag.text());
        let _ = writeln!(
            text,
            "| [`{key}`](#{key}) | {} | {unit} | {tag} | {same} |",
            code(option)
        );
    }
    for tag in Tag::ALL {
        let _ = write!(text, "\n## {}\n", heading(tag));
        for option in OPTIONS.iter().filter(|option| option.tag == tag) {
            text.push_str(&section(option));
        }
    }
    text.push_str("\n## Variables that are not options\n\n");
    for (name, doc) in RESERVED {
        // `docs/HACKING.md` lists the others.
        if !doc.starts_with(FOR_TESTS) {
            let _ = writeln!(text, "- `{name}`: {doc}.");
        }
    }
    text
}

fn section(option: &Opt) -> String {
    let mut text = format!("\n### `{}`\n\n{}\n\n", option.key, option.doc());
    let _ = writeln!(text, "- {}", names(option));
    let _ = writeln!(text, "- {}", sentence("Value: ", &option.kind.expected()));
    for (word, doc) in words(option) {
        let also = also(option, word);
        let also = match also.is_empty() {
            true => String::new(),
            false => format!(" (also `{}`)", also.join("`, `")),
        };
        let _ = writeln!(text, "  - `{word}`: {doc}{also}");
    }
    if !option.unit.is_empty() {
        let _ = writeln!(text, "- Unit: {}.", option.unit);
    }
    let _ = writeln!(text, "- Default: {}.", code(option));
    if option.shapes {
        text.push_str("- Same on every rank.\n");
    }
    if !option.note.is_empty() {
        let _ = writeln!(text, "- {}", option.note);
    }
    text
}

/// Text for a terminal about the options that people set: all but those for debugging.
pub fn render_help() -> String {
    let mut text = String::from(
        "Settings, as variables of the environment (in a TOML file: the name in small letters \
         without KOLO_):\n",
    );
    for option in OPTIONS.iter().filter(|option| option.tag != Tag::Debug) {
        text.push_str(&render_help_of(option));
    }
    text.push_str("\n`kolo config show --origin` shows what is in force, and why.\n");
    text
}

/// Text for a terminal about one option.
pub fn render_help_of(option: &Opt) -> String {
    let mut text = String::new();
    let aliases: Vec<_> = option.aliases.iter().map(|alias| alias.name).collect();
    let _ = write!(text, "\n  {}={}\n", option.variable(), placeholder(option));
    let mut doc = option.doc().to_string();
    if placeholder(option) == WORD || matches!(option.kind, Kind::Lists(_)) {
        let words: Vec<_> = words(option).into_iter().map(|(word, _)| word).collect();
        // Some take any word, such as a name.
        if !words.is_empty() {
            let _ = write!(doc, " One of {}.", words.join(", "));
        }
    }
    if !option.default.is_empty() {
        let _ = write!(doc, " [default: {}]", option.default);
    }
    if !aliases.is_empty() {
        let _ = write!(doc, " [also: {}]", aliases.join(", "));
    }
    text.push_str(&wrap(&doc, "          "));
    text
}

/// Longer lists of words stand in the text of the option.
const MOST_WORDS: usize = 8;
/// Word that stands for such a list.
const WORD: &str = "WORD";

fn placeholder(option: &Opt) -> String {
    match option.kind {
        Kind::Words(words) if words.len() > MOST_WORDS => WORD.to_string(),
        Kind::Words(words) => words
            .iter()
            .map(|word| word.text)
            .collect::<Vec<_>>()
            .join("|"),
        Kind::Lists(_) => "LIST".to_string(),
        Kind::Bool => "0|1".to_string(),
        Kind::Int { .. } => "NUMBER".to_string(),
        Kind::Bytes { .. } => "SIZE".to_string(),
        Kind::Seconds { .. } => "SECONDS".to_string(),
        Kind::Path => "FILE".to_string(),
        Kind::Text => "WORD".to_string(),
        Kind::Prefixes | Kind::Ports | Kind::MpiCalls => "LIST".to_string(),
        Kind::Address => "HOST:PORT".to_string(),
        Kind::Fault => "CALL:RANK:SLOT".to_string(),
    }
}

pub(super) fn heading(tag: Tag) -> &'static str {
    match tag {
        Tag::Site => "For the site",
        Tag::User => "For the user of a job",
        Tag::Debug => "For debugging kolo; these may change with any version",
    }
}

fn layer_line(layer: Layer) -> &'static str {
    match layer {
        Layer::Default => "the defaults below",
        Layer::System => "`/etc/kolo/kolo.toml`",
        Layer::Prefix => {
            "`PREFIX/etc/kolo.toml`, where PREFIX is the directory above the `lib` or `bin` that \
             holds the running code"
        }
        Layer::Profile => {
            "the profile of files 2 and 3 that `KOLO_PROFILE` names, or `default_profile` in a file"
        }
        Layer::User => "`~/.config/kolo/kolo.toml`, or `kolo/kolo.toml` in `XDG_CONFIG_HOME`",
        Layer::ConfigFile => "the file named by `KOLO_CONFIG`, which must exist",
        Layer::Alias => "the `NCCL_*` variables named below",
        Layer::Environment => "the `KOLO_*` variables",
        Layer::Caller => "what the program gives in its call",
    }
}

pub(super) fn default_of(option: &Opt) -> Value {
    option.kind.parse(option.default).unwrap_or(Value::Unset)
}

fn code(option: &Opt) -> String {
    match option.default {
        "" => "none".to_string(),
        default => format!("`{default}`"),
    }
}

/// The words of an option with their documentation, or nothing for other kinds.
pub(super) fn words(option: &Opt) -> Vec<(&'static str, &'static str)> {
    match option.kind {
        Kind::Words(words) | Kind::Lists(words) => words
            .iter()
            .map(|word| (word.text, word.doc.trim()))
            .collect(),
        _ => Vec::new(),
    }
}

/// Other spellings of a word of an option.
fn also(option: &Opt, text: &str) -> &'static [&'static str] {
    match option.kind {
        Kind::Words(words) | Kind::Lists(words) => {
            let word = words.iter().find(|word| word.text == text);
            word.map_or(&[], |word| word.also)
        }
        _ => &[],
    }
}

pub(super) fn names(option: &Opt) -> String {
    let aliases: Vec<_> = option
        .aliases
        .iter()
        .map(|alias| format!("`{}`", alias.name))
        .collect();
    let variable = option.variable();
    match aliases.len() {
        0 => format!("Variable: `{variable}`."),
        1 => format!("Variable: `{variable}`; alias: {}.", aliases[0]),
        _ => format!("Variable: `{variable}`; aliases: {}.", aliases.join(", ")),
    }
}

pub(super) fn sentence(start: &str, rest: &str) -> String {
    format!("{start}{rest}.")
}

/// `text` in lines of at most [`WIDTH`] columns, each after `start`.
pub(super) fn wrap(text: &str, start: &str) -> String {
    let mut lines = String::new();
    let mut line = String::from(start);
    for word in text.split_whitespace() {
        if line.len() > start.len() && line.chars().count() + 1 + word.chars().count() > WIDTH {
            lines.push_str(&line);
            lines.push('\n');
            line.truncate(start.len());
        }
        if line.len() > start.len() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push_str(&line);
    lines.push('\n');
    lines
}
