//! Section 5: the file of settings, from the table of options.

use super::page::{Leaf, Page};
use kolo::config::{Kind, OPTIONS, Opt, Tag, render_toml};

/// `kolo.toml(5)`.
pub fn page() -> Leaf {
    let mut page = Page::new("kolo.toml", 5, "settings of kolo, in files and variables");
    page.section("DESCRIPTION").text(&head());
    page.text(
        "Each key below is also a variable of the environment: `buffsize` is `KOLO_BUFFSIZE`. An \
         unknown key, an unknown `KOLO_*` variable and a bad value are errors that name the place \
         and the nearest name. A size takes K, M, G or T for powers of 1024, also as MB or MiB.",
    );
    page.text(
        "A file may begin with include = [\"other.toml\"]. Below [profile.NAME] stand settings \
         that hold where the job names that profile (KOLO_PROFILE, or srun --kolo=NAME where \
         Slurm's plugin is installed). A file of the site may fix settings by locked = \
         [\"key\"], and name a default_profile. The page settings.md has examples; kolo config \
         show --origin tells where each value is from.",
    );
    for (tag, title) in [
        (Tag::Site, "SETTINGS OF A SITE"),
        (Tag::User, "SETTINGS OF A JOB"),
        (Tag::Debug, "SETTINGS FOR DEBUGGING KOLO"),
    ] {
        page.section(title);
        for option in OPTIONS.iter().filter(|option| option.tag == tag) {
            page.entry(option.key, &text(option));
        }
    }
    page.section("EXAMPLE").lines(
        "# /etc/kolo/kolo.toml\n\
         socket_ifname = \"ib0\"\n\
         timeout = 600",
    );
    page.see_also(&["kolo(1)", "kolo-info(1)", "kolo(7)"]);
    ("man/man5/kolo.toml.5".to_string(), page.render())
}

/// How the file itself begins: where it may lie, and what goes before what.
fn head() -> String {
    let text = render_toml();
    let lines = text.lines().map_while(|line| line.strip_prefix("# "));
    lines.collect::<Vec<_>>().join("\n")
}

fn text(option: &Opt) -> String {
    let mut text = format!("{}\n\nValue: {}.", option.doc(), option.kind.expected());
    if let Kind::Words(words) | Kind::Lists(words) = option.kind {
        for word in words {
            text.push_str(&format!(" `{}`: {}.", word.text, word.doc.trim()));
        }
    }
    if !option.unit.is_empty() {
        text.push_str(&format!(" Unit: {}.", option.unit));
    }
    if !option.default.is_empty() {
        text.push_str(&format!(" Default: `{}`.", option.default));
    }
    if option.shapes {
        text.push_str(" The same on every rank.");
    }
    let aliases: Vec<_> = option.aliases.iter().map(|alias| alias.name).collect();
    if !aliases.is_empty() {
        text.push_str(&format!(" Also: `{}`.", aliases.join("`, `")));
    }
    if !option.note.is_empty() {
        text.push_str(&format!("\n\n{}", option.note));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_its_entry_and_the_head_says_where_files_lie() {
        let (_, text) = page();
        for option in OPTIONS {
            let entry = format!(".TP\n\\fB{}\\fR\n", option.key);
            assert!(text.contains(&entry), "{}", option.key);
        }
        assert!(head().contains("/etc/kolo/kolo.toml"), "{}", head());
    }
}
