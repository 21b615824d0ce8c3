//! The file `config/kolo.toml`.

use super::option::{Opt, Tag};
use super::options::OPTIONS;
use super::render::{default_of, heading, names, sentence, words, wrap};
use super::render_site::{ABOVE, BELOW};
use std::fmt::Write;

/// With what the file begins: the options that people change.
pub(super) const CHANGED: [&str; 10] = [
    "net",
    "socket_ifname",
    "ib_hca",
    "tuner_file",
    "algo",
    "wait",
    "timeout",
    "errors",
    "debug",
    "debug_file",
];

/// The file `config/kolo.toml`: every option, commented out, with its documentation and default;
/// first those that people change.
pub fn render_toml() -> String {
    let mut text = wrap(
        "Settings of kolo. Every option stands here with its default; remove the `#` before a key \
         to set it. This file may lie at /etc/kolo/kolo.toml, PREFIX/etc/kolo.toml or \
         ~/.config/kolo/kolo.toml, or be named by the variable KOLO_CONFIG; each of these hides \
         those before it, and variables hide files. `kolo config check FILE` looks for mistakes, \
         and `kolo config show --origin` shows what is in force.",
        "# ",
    );
    text.push_str("#\n# Generated from the table of options in src/config/options.rs.\n");
    text.push_str("\n# ---- What people change ----\n");
    let is_first = |option: &&Opt| CHANGED.contains(&option.key);
    for key in CHANGED {
        let mut all = OPTIONS.iter();
        text.extend(all.find(|option| option.key == key).map(entry));
    }
    text.push_str("\n# ---- What a site may write here too (docs/settings.md) ----\n\n");
    text.push_str(&commented(ABOVE));
    for tag in Tag::ALL {
        let _ = write!(text, "\n# ---- {} ----\n", heading(tag));
        let others = OPTIONS.iter().filter(|option| !is_first(option));
        text.extend(others.filter(|option| option.tag == tag).map(entry));
    }
    text.push_str("\n# ---- Profiles, below all others ----\n\n");
    text.push_str(&commented(BELOW));
    text
}

/// Examples have a blank behind `#`, settings with their defaults have none.
fn commented(example: &str) -> String {
    let lines = example.lines();
    let lines = lines.map(|line| format!("# {line}").trim_end().to_owned() + "\n");
    lines.collect()
}

fn entry(option: &Opt) -> String {
    let mut text = String::from("\n");
    text.push_str(&wrap(option.doc(), "# "));
    text.push_str(&wrap(&sentence("Value: ", &option.kind.expected()), "# "));
    for word in words(option) {
        let _ = writeln!(text, "#   {}: {}", word.0, word.1);
    }
    text.push_str(&wrap(&names(option), "# "));
    if option.shapes {
        text.push_str("# Must be the same on every rank.\n");
    }
    let _ = writeln!(text, "#{} = {}", option.key, default_of(option).toml());
    text
}
