//! The text that comes from the table, and the two files of the tree that are made of it.

use super::super::*;
use super::{Sandbox, in_tree, with};

/// Compares a file of the tree with what the table makes; `KOLO_BLESS=1` writes it anew.
fn up_to_date(name: &str, made: &str) {
    let path = in_tree(name);
    if std::env::var_os("KOLO_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, made).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == made,
        "{name} is stale: run `KOLO_BLESS=1 cargo test --lib config::`"
    );
}

#[test]
fn the_toml_file_is_up_to_date() {
    up_to_date("config/kolo.toml", &render_toml());
}

#[test]
fn the_page_is_up_to_date() {
    up_to_date("docs/settings.md", &render_markdown());
}

#[test]
fn the_toml_file_sets_nothing_as_it_is() {
    let sandbox = Sandbox::new();
    sandbox.write("etc/kolo/kolo.toml", &render_toml());
    let settings = sandbox.load().unwrap();
    assert!(
        settings
            .entries()
            .all(|entry| entry.source.layer == Layer::Default)
    );
    assert!(settings.files()[0].found);
}

#[test]
fn the_toml_file_uncommented_sets_every_default() {
    let text: String = render_toml()
        .lines()
        .filter_map(|line| line.strip_prefix('#'))
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(text.lines().count(), OPTIONS.len());
    let sandbox = Sandbox::new();
    let path = sandbox.write("etc/kolo/kolo.toml", &text);
    let settings = sandbox.load().unwrap();
    let defaults = Settings::defaults();
    for (entry, default) in settings.entries().zip(defaults.entries()) {
        assert_eq!(entry.value, default.value, "{}", entry.option.key);
        assert_eq!(
            entry.source.origin,
            Origin::File(path.clone()),
            "{}",
            entry.option.key
        );
    }
}

#[test]
fn every_value_survives_being_written_to_toml() {
    let set = with(&[
        ("KOLO_BUFFSIZE", "3M"),
        ("KOLO_TIMEOUT", "1.25"),
        ("KOLO_MAX_NCHANNELS", "7"),
        ("KOLO_CHECK", "on"),
        ("KOLO_DEBUG_FILE", "/a \"b\"\\c/%h.log"),
        ("KOLO_SOCKET_IFNAME", "^=eth0,lo"),
        ("KOLO_COMM_ID", "[fe80::1%eth0]:9"),
        ("KOLO_FAULT_FLIP", "1:2:3"),
        ("KOLO_SOCKET_FAMILY", "AF_INET"),
        ("KOLO_WARN_AFTER", "none"),
    ])
    .unwrap();
    let text: String = set
        .entries()
        .map(|entry| format!("{} = {}\n", entry.option.key, entry.value.toml()))
        .collect();
    let sandbox = Sandbox::new();
    sandbox.write("etc/kolo/kolo.toml", &text);
    let back = sandbox.load().unwrap();
    for (entry, set) in back.entries().zip(set.entries()) {
        assert_eq!(entry.value, set.value, "{}", entry.option.key);
        // And the text of a variable is read back as well.
        assert_eq!(
            set.option.kind.parse(&set.value.to_string()).as_ref(),
            Some(set.value)
        );
    }
}

#[test]
fn the_page_and_the_file_name_everything() {
    let (page, file) = (render_markdown(), render_toml());
    for option in OPTIONS {
        for text in [&page, &file] {
            assert!(text.contains(&option.variable()), "{}", option.key);
            for alias in option.aliases {
                assert!(text.contains(alias.name), "{}", alias.name);
            }
        }
        assert!(page.contains(option.doc()), "{}", option.key);
    }
    let of_tests = include_str!("../../../docs/HACKING.md");
    for (name, doc) in RESERVED {
        let is_of_tests = doc.starts_with(super::super::option::FOR_TESTS);
        let place = if is_of_tests { of_tests } else { &page };
        assert!(place.contains(name), "{name}");
    }
}

#[test]
fn the_help_names_what_people_set() {
    let help = render_help();
    for option in OPTIONS {
        let shown = help.contains(&format!("  {}=", option.variable()));
        assert_eq!(shown, option.tag != Tag::Debug, "{}", option.key);
    }
    assert!(help.contains("KOLO_ALGO=LIST\n"));
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("One of auto, ring, oneshot, rd, "));
    assert!(
        words.contains("[default: 1M] [also: NCCL_BUFFSIZE]"),
        "{words}"
    );
    assert!(help.lines().all(|line| line.chars().count() <= 100));
}

#[test]
fn the_table_of_values_names_layer_and_place() {
    let mut sandbox = Sandbox::new();
    let path = sandbox.write("home/.config/kolo/kolo.toml", "algo = \"ring\"\n");
    sandbox.set("NCCL_BUFFSIZE", "2097152");
    sandbox.give("check", "true");
    let table = render_table(&sandbox.load().unwrap());
    let row = |key: &str| {
        let line = table
            .lines()
            .find(|line| line.starts_with(&format!("{key} ")))
            .unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        row("algo"),
        format!("algo ring user user file file {}, line 1", path.display())
    );
    assert_eq!(
        row("buffsize"),
        "buffsize 2M user NCCL alias variable NCCL_BUFFSIZE"
    );
    assert_eq!(row("check"), "check true user caller the calling program");
    assert_eq!(row("wait"), "wait auto user default built in");
    assert_eq!(row("comm_id"), "comm_id - user default built in");
    assert!(table.contains(&format!("{} (user file): read", path.display())));
    assert!(table.contains("(prefix file): not there"));
}
