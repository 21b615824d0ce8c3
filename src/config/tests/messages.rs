//! Refusals: their message names the place, the key, the value and what was expected.

use super::super::*;
use super::{Sandbox, with};
use crate::base::{Code, Error};

fn has(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
    assert!(!error.remedy.is_empty(), "no remedy: {text}");
}

#[test]
fn an_unknown_key_in_a_file() {
    for (name, layer) in [
        ("etc/kolo/kolo.toml", Layer::System),
        ("opt/etc/kolo.toml", Layer::Prefix),
        ("home/.config/kolo/kolo.toml", Layer::User),
    ] {
        let sandbox = Sandbox::new();
        let path = sandbox.write(name, "algo = \"ring\"\nbufsize = 65536\n");
        let error = sandbox.error();
        assert_eq!(error.code, Code::InvalidUsage, "{layer:?}");
        has(
            &error,
            &[
                path.to_str().unwrap(),
                "`bufsize`",
                "nearest valid key is `buffsize`",
            ],
        );
    }
}

#[test]
fn a_section_is_an_unknown_key() {
    let sandbox = Sandbox::new();
    sandbox.write("etc/kolo/kolo.toml", "[sockets]\nifname = \"eth\"\n");
    has(
        &sandbox.error(),
        &["`sockets`", "`net_sockets`", "without a section"],
    );
}

#[test]
fn an_unknown_variable() {
    let error = with(&[("KOLO_BUFSIZE", "1M")]).unwrap_err();
    assert_eq!(error.code, Code::InvalidUsage);
    has(
        &error,
        &[
            "KOLO_BUFSIZE",
            "nearest valid one is KOLO_BUFFSIZE",
            "unset KOLO_BUFSIZE",
        ],
    );
    // Even an empty one: its name shows that somebody expected something of it.
    has(
        &with(&[("KOLO_TIMOUT", "")]).unwrap_err(),
        &["KOLO_TIMOUT", "KOLO_TIMEOUT"],
    );
}

#[test]
fn an_unknown_key_of_the_program() {
    let mut sandbox = Sandbox::new();
    sandbox.give("channels", "2");
    let error = sandbox.error();
    assert_eq!(error.code, Code::InvalidArgument);
    has(&error, &["the calling program", "`channels`", "nchannels"]);
}

#[test]
fn bad_values_of_every_kind_in_a_variable() {
    let cases: &[(&str, &str, &str)] = &[
        ("buffsize", "lots", "a number of bytes from 64K to 64M"),
        ("buffsize", "1G", "a number of bytes from 64K to 64M"),
        ("eager_limit", "2M", "from 1 to 1M"),
        ("max_nchannels", "33", "an integer from 1 to 32"),
        ("min_nchannels", "0", "an integer from 1 to 32"),
        ("check", "perhaps", "true or false"),
        (
            "algo",
            "spiral",
            "a list of `auto`, `ring`, `oneshot`, `rd`",
        ),
        (
            "debug",
            "loud",
            "one of `none`, `version`, `warn`, `info`, `trace`",
        ),
        ("timeout", "-1", "a number of seconds from 0.001"),
        ("timeout", "soon", "or `none`"),
        ("socket_ifname", "eth,,ib", "beginnings of interface names"),
        ("comm_id", "node1", "`host:port`"),
        ("fault_flip", "1:2", "`call:rank:slot`"),
        ("spin_count", "-3", "or `auto`"),
    ];
    for (key, value, expected) in cases {
        let variable = format!("KOLO_{}", key.to_ascii_uppercase());
        let error = with(&[(&variable, value)]).unwrap_err();
        assert_eq!(error.code, Code::InvalidUsage);
        let shown = (
            format!("variable {variable}"),
            format!("`{key}`"),
            format!("`{value}`"),
        );
        has(&error, &[&shown.0, &shown.1, &shown.2, expected]);
    }
    for (value, says) in [
        (
            "rnig",
            "`rnig` is not a valid name, the nearest one is `ring`",
        ),
        (
            "allreduce:ring;broadcast:^one-shot",
            "the nearest one is `oneshot`",
        ),
        (
            "all_reduse:ring",
            "`all_reduse` is not a collective, the nearest one is `allreduce`",
        ),
        (
            "ring;oneshot",
            "`oneshot` is not the only rule for its collective",
        ),
        ("^auto", "`auto` is not to be listed with others"),
    ] {
        has(&with(&[("KOLO_ALGO", value)]).unwrap_err(), &[says]);
    }
    has(
        &with(&[("KOLO_WAIT", "spni")]).unwrap_err(),
        &["did you mean `spin`?"],
    );
}

#[test]
fn bad_values_in_a_file() {
    let cases: &[(&str, &str, &str)] = &[
        ("algo = 3", "algo", "`3`"),
        ("debug_file = 5", "debug_file", "`5`"),
        ("buffsize = -1", "buffsize", "`-1`"),
        ("buffsize = [65536]", "buffsize", "`[65536]`"),
        ("buffsize = true", "buffsize", "`true`"),
        ("max_nchannels = 1.5", "max_nchannels", "`1.5`"),
        ("timeout = inf", "timeout", "`inf`"),
        ("check = 2", "check", "`2`"),
        (
            "socket_ifname = [\"eth\", 3]",
            "socket_ifname",
            "`[eth, 3]`",
        ),
        ("wait.long = 1", "wait", "`{a table}`"),
        (
            "min_nchannels = 99999999999999999999",
            "min_nchannels",
            "`99999999999999999999`",
        ),
    ];
    for (line, key, value) in cases {
        let sandbox = Sandbox::new();
        let path = sandbox.write("etc/kolo/kolo.toml", line);
        has(&sandbox.error(), &[path.to_str().unwrap(), key, value]);
    }
}

#[test]
fn a_bad_value_is_found_even_where_a_higher_layer_hides_it() {
    let mut sandbox = Sandbox::new();
    let path = sandbox.write("etc/kolo/kolo.toml", "algo = \"shrub\"\n");
    sandbox.set("KOLO_ALGO", "ring");
    has(&sandbox.error(), &[path.to_str().unwrap(), "`shrub`"]);
}

#[test]
fn a_bad_alias_says_how_to_hide_it() {
    let error = with(&[("NCCL_ALGO", "Shrub")]).unwrap_err();
    has(
        &error,
        &[
            "variable NCCL_ALGO",
            "`shrub`",
            "`algo`",
            "set KOLO_ALGO",
            "unset NCCL_ALGO",
        ],
    );
}

#[test]
fn toml_that_cannot_be_parsed() {
    let sandbox = Sandbox::new();
    let path = sandbox.write("opt/etc/kolo.toml", "algo = \"ring\"\nbuffsize = 1M\n");
    has(
        &sandbox.error(),
        &[path.to_str().unwrap(), "not valid TOML", "line 2"],
    );
    sandbox.write("opt/etc/kolo.toml", "algo = \"ring\"\nalgo = \"auto\"\n");
    has(&sandbox.error(), &["not valid TOML", "duplicate key"]);
}

#[test]
fn the_file_named_by_kolo_config_must_exist() {
    let mut sandbox = Sandbox::new();
    let missing = sandbox.path("gone.toml");
    sandbox.set("KOLO_CONFIG", missing.to_str().unwrap());
    let error = sandbox.error();
    assert_eq!(error.code, Code::InvalidUsage);
    has(
        &error,
        &["KOLO_CONFIG", missing.to_str().unwrap(), "No such file"],
    );
    let directory = sandbox.path("etc");
    std::fs::create_dir_all(&directory).unwrap();
    sandbox.set("KOLO_CONFIG", directory.to_str().unwrap());
    has(&sandbox.error(), &["KOLO_CONFIG", "directory"]);
}

#[test]
fn other_files_may_be_missing_but_not_unreadable() {
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.load().unwrap().algo().to_string(), "auto");
    std::fs::create_dir_all(sandbox.path("etc/kolo/kolo.toml")).unwrap();
    let error = sandbox.error();
    assert_eq!(error.code, Code::SystemError);
    has(&error, &["etc/kolo/kolo.toml", "directory"]);

    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("etc/kolo")).unwrap();
    std::fs::write(sandbox.path("etc/kolo/kolo.toml"), b"# \xff\n").unwrap();
    has(&sandbox.error(), &["etc/kolo/kolo.toml", "UTF-8"]);

    // HOME may be a file, as /dev/null is for some services.
    let mut sandbox = Sandbox::new();
    sandbox.set("HOME", "/dev/null");
    assert!(sandbox.load().is_ok());
}

#[test]
fn an_endless_file_is_refused() {
    let mut sandbox = Sandbox::new();
    sandbox.set("KOLO_CONFIG", "/dev/zero");
    has(
        &sandbox.error(),
        &["/dev/zero", "it is a device, and a regular file is wanted"],
    );
    let long = sandbox.write("long.toml", &"# long\n".repeat(200_000));
    sandbox.set("KOLO_CONFIG", long.to_str().unwrap());
    has(&sandbox.error(), &["long.toml", "more than 1 MiB"]);
    // What people write who want none.
    sandbox.set("KOLO_CONFIG", "/dev/null");
    assert!(sandbox.load().is_ok());
}

#[test]
fn channel_numbers_that_do_not_fit_name_both_places() {
    let error = with(&[("KOLO_MIN_NCHANNELS", "4"), ("NCCL_MAX_NCHANNELS", "3")]).unwrap_err();
    has(
        &error,
        &["min_nchannels is 4 (variable KOLO_MIN_NCHANNELS)"],
    );
    has(&error, &["max_nchannels, 3 (variable NCCL_MAX_NCHANNELS)"]);
}
