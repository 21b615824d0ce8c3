//! Which layer wins, and what is said about where a value comes from.

use super::super::*;
use super::{Sandbox, with};
use std::time::Duration;

/// Sets `buffsize` to `value` in one layer, and tells where the value must be seen to come from.
fn put(sandbox: &mut Sandbox, layer: Layer, value: &str) -> Source {
    let line = format!("buffsize = \"{value}\"\n");
    let origin = match layer {
        Layer::Default => Origin::BuiltIn,
        Layer::System => Origin::File(sandbox.write("etc/kolo/kolo.toml", &line)),
        Layer::Prefix => Origin::File(sandbox.write("opt/etc/kolo.toml", &line)),
        Layer::Profile => {
            // Below what the test may have put there already.
            let before = std::fs::read_to_string(sandbox.path("etc/kolo/kolo.toml"));
            let text = before.unwrap_or_default() + "[profile.big]\n" + &line;
            sandbox.set("KOLO_PROFILE", "big");
            Origin::Profile("big".into(), sandbox.write("etc/kolo/kolo.toml", &text))
        }
        Layer::User => Origin::File(sandbox.write("home/.config/kolo/kolo.toml", &line)),
        Layer::ConfigFile => {
            let path = sandbox.write("job/my.toml", &line);
            sandbox.set("KOLO_CONFIG", path.to_str().unwrap());
            Origin::File(path)
        }
        Layer::Alias => {
            sandbox.set("NCCL_BUFFSIZE", value);
            Origin::Variable("NCCL_BUFFSIZE".to_string())
        }
        Layer::Environment => {
            sandbox.set("KOLO_BUFFSIZE", value);
            Origin::Variable("KOLO_BUFFSIZE".to_string())
        }
        Layer::Caller => {
            sandbox.give("buffsize", value);
            Origin::Caller
        }
    };
    Source { layer, origin }
}

/// A size of its own for each layer; the default layer has the table's.
fn size(layer: Layer) -> u64 {
    match layer {
        Layer::Default => 1 << 20,
        other => (2 + other as u64) << 20,
    }
}

fn text(layer: Layer) -> String {
    format!("{}M", size(layer) >> 20)
}

#[test]
fn of_any_two_layers_the_higher_wins_and_is_named() {
    for (index, &low) in Layer::ALL.iter().enumerate() {
        for &high in &Layer::ALL[index + 1..] {
            let mut sandbox = Sandbox::new();
            put(&mut sandbox, low, &text(low));
            let source = put(&mut sandbox, high, &text(high));
            let settings = sandbox.load().unwrap();
            assert_eq!(settings.buffsize(), size(high), "{low:?} below {high:?}");
            assert_eq!(*settings.entry("buffsize").unwrap().source, source);
        }
    }
}

#[test]
fn each_layer_shows_once_those_above_are_gone() {
    for (index, &top) in Layer::ALL.iter().enumerate() {
        let mut sandbox = Sandbox::new();
        let sources: Vec<_> = Layer::ALL[..=index]
            .iter()
            .map(|&layer| put(&mut sandbox, layer, &text(layer)))
            .collect();
        let settings = sandbox.load().unwrap();
        assert_eq!(settings.buffsize(), size(top));
        assert_eq!(*settings.entry("buffsize").unwrap().source, sources[index]);
    }
}

#[test]
fn options_of_different_layers_stand_side_by_side() {
    let mut sandbox = Sandbox::new();
    let system = sandbox.write(
        "etc/kolo/kolo.toml",
        "wait = \"yield\"\nalgo = \"oneshot\"\n",
    );
    let user = sandbox.write(
        "home/.config/kolo/kolo.toml",
        "algo = \"ring\"\ncheck = true\n",
    );
    sandbox.set("NCCL_DEBUG", "INFO");
    sandbox.set("KOLO_TIMEOUT", "2.5");
    sandbox.give("progress", "thread");
    let settings = sandbox.load().unwrap();
    assert_eq!(settings.wait(), Wait::Yield);
    assert_eq!(settings.algo().to_string(), "ring");
    assert!(settings.check());
    assert_eq!(settings.debug(), DebugLevel::Info);
    assert_eq!(settings.timeout(), Some(Duration::from_millis(2500)));
    assert_eq!(settings.progress(), Progress::Thread);
    let origin = |key| settings.entry(key).unwrap().source.origin.clone();
    assert_eq!(origin("wait"), Origin::File(system.clone()));
    assert_eq!(origin("algo"), Origin::File(user.clone()));
    assert_eq!(origin("check"), Origin::File(user.clone()));
    assert_eq!(origin("debug"), Origin::Variable("NCCL_DEBUG".into()));
    assert_eq!(origin("timeout"), Origin::Variable("KOLO_TIMEOUT".into()));
    assert_eq!(origin("progress"), Origin::Caller);
    assert_eq!(origin("proto"), Origin::BuiltIn);
    let seen: Vec<_> = settings
        .files()
        .iter()
        .map(|file| (file.layer, file.found))
        .collect();
    assert_eq!(
        seen,
        [
            (Layer::System, true),
            (Layer::Prefix, false),
            (Layer::User, true)
        ]
    );
    assert_eq!(settings.files()[0].path, system);
}

#[test]
fn the_defaults_are_those_of_the_table() {
    let settings = Settings::defaults();
    assert_eq!(settings.debug(), DebugLevel::Warn);
    assert_eq!(settings.debug_file(), None);
    assert_eq!(settings.comm_id(), None);
    assert_eq!(settings.socket_ifname(), None);
    assert_eq!(settings.socket_family(), SocketFamily::Any);
    assert_eq!(settings.topo_file(), None);
    assert_eq!(settings.affinity(), Affinity::Auto);
    assert!(!settings.shm_disable() && !settings.check());
    assert_eq!(settings.timeout(), None);
    assert_eq!(settings.warn_after(), Some(Duration::from_secs(60)));
    assert_eq!(
        (settings.wait(), settings.progress()),
        (Wait::Auto, Progress::Auto)
    );
    assert_eq!(settings.buffsize(), 1 << 20);
    assert_eq!((settings.min_nchannels(), settings.max_nchannels()), (1, 2));
    assert_eq!(
        (settings.algo().is_auto(), settings.proto().is_auto()),
        (true, true)
    );
    assert_eq!(settings.eager_limit(), None);
    assert_eq!(
        (settings.spin_count(), settings.yield_count()),
        (None, None)
    );
    assert_eq!(settings.fault_flip(), None);
    assert!(
        settings
            .entries()
            .all(|entry| entry.source.layer == Layer::Default)
    );
    assert_eq!(settings.entries().count(), OPTIONS.len());
}

#[test]
fn every_variable_and_every_alias_reaches_its_option() {
    for option in OPTIONS {
        let value = match option.kind {
            Kind::Int { least, .. } if least > 2 => "64",
            Kind::Int { .. } => "2",
            Kind::Bytes { .. } => "128K",
            Kind::Seconds { .. } => "7",
            Kind::Bool => "1",
            Kind::Words(words) | Kind::Lists(words) => words[words.len().min(3) - 1].text,
            Kind::Text => "node7",
            Kind::MpiCalls => "allreduce,^bcast:64K-",
            Kind::Path => "/some/file",
            Kind::Prefixes => "^lo",
            Kind::Ports => "^mlx5_0:1",
            Kind::Address => "node1:5000",
            Kind::Fault => "1:2:3",
        };
        let names = option
            .aliases
            .iter()
            .map(|alias| (alias.name.to_string(), Layer::Alias));
        for (name, layer) in names.chain([(option.variable(), Layer::Environment)]) {
            // NCCL's words for what kolo calls so.
            let value = match name.as_str() {
                "NCCL_ALGO" => "Ring",
                "NCCL_PROTO" => "LL",
                "NCCL_SOCKET_FAMILY" => "AF_INET6",
                "NCCL_DEBUG" => "WARN",
                _ => value,
            };
            let settings = with(&[(&name, value)]).unwrap();
            let entry = settings.entry(option.key).unwrap();
            assert_eq!(
                *entry.source,
                Source {
                    layer,
                    origin: Origin::Variable(name)
                }
            );
            assert_ne!(*entry.value, Value::Unset);
        }
    }
    assert_eq!(
        with(&[("NCCL_ALGO", "Ring")]).unwrap().algo().to_string(),
        "ring"
    );
    assert_eq!(
        with(&[("NCCL_PROTO", "LL")]).unwrap().proto().to_string(),
        "ll"
    );
    let family = with(&[("NCCL_SOCKET_FAMILY", "AF_INET6")])
        .unwrap()
        .socket_family();
    assert_eq!(family, SocketFamily::Ipv6);
    assert!(with(&[("NCCL_SHM_DISABLE", "1")]).unwrap().shm_disable());
}

/// Those that sites set, by their documented names.
#[test]
fn the_documented_variables_of_the_other_library_are_honoured() {
    for (name, key, value, shown) in [
        ("NCCL_DEBUG", "debug", "INFO", "info"),
        ("NCCL_IB_GID_INDEX", "ib_gid_index", "3", "3"),
        ("NCCL_IB_DISABLE", "ib_disable", "1", "true"),
        ("NCCL_SOCKET_IFNAME", "socket_ifname", "^lo", "^lo"),
        ("NCCL_NET_GDR_LEVEL", "net_gdr_level", "PHB", "phb"),
        (
            "NCCL_IB_QPS_PER_CONNECTION",
            "ib_qps_per_connection",
            "4",
            "4",
        ),
        ("NCCL_IB_TC", "ib_tc", "106", "106"),
    ] {
        let settings = with(&[(name, value)]).unwrap();
        let entry = settings.entry(key).expect(key);
        assert_eq!(entry.source.layer, Layer::Alias, "{name}");
        assert_eq!(entry.value.to_string(), shown, "{name}");
    }
}

#[test]
fn of_two_aliases_the_first_of_the_table_counts() {
    let both = with(&[("NCCL_MAX_CTAS", "4"), ("NCCL_MAX_NCHANNELS", "8")]).unwrap();
    assert_eq!(both.max_nchannels(), 8);
    let origin = &both.entry("max_nchannels").unwrap().source.origin;
    assert_eq!(*origin, Origin::Variable("NCCL_MAX_NCHANNELS".into()));
    assert_eq!(with(&[("NCCL_MAX_CTAS", "4")]).unwrap().max_nchannels(), 4);
}

#[test]
fn variables_of_others_and_empty_ones_are_as_if_unset() {
    let settings = with(&[
        ("NCCL_NONSENSE", "1"),
        ("NCCL_NVLS_ENABLE", "106"),
        ("NCCL_ALGO", ""),
        ("KOLO_WAIT", " "),
        ("KOLO_CONFIG", ""),
        ("KOLO_BLESS", "1"),
        ("KOLO_PREFIX", "/opt"),
        ("KOLO_TEST_ANYTHING", "x"),
        ("PATH", "/bin"),
    ]);
    assert_eq!(settings.unwrap(), Settings::defaults());
}

#[test]
fn a_hidden_alias_may_hold_words_of_the_other_library() {
    assert!(with(&[("NCCL_ALGO", "Shrub")]).is_err());
    let hidden = with(&[("NCCL_ALGO", "Shrub"), ("KOLO_ALGO", "ring")]).unwrap();
    assert_eq!(hidden.algo().to_string(), "ring");
    let mut sandbox = Sandbox::new();
    sandbox.set("NCCL_ALGO", "Shrub");
    sandbox.give("algo", "oneshot");
    assert_eq!(sandbox.load().unwrap().algo().to_string(), "oneshot");
}

#[test]
fn toml_takes_numbers_booleans_texts_and_lists() {
    let sandbox = Sandbox::new();
    sandbox.write(
        "etc/kolo/kolo.toml",
        "buffsize = 131072\ncheck = true\nshm_disable = 1\ntimeout = 0.25\nwarn_after = 0\n\
         min_nchannels = 2\nmax_nchannels = \"3\"\neager_limit = \"4K\"\n\
         socket_ifname = [\"^docker\", \"lo\"]\ncomm_id = \"[::1]:77\"\ntopo_file = \"/t.xml\"\n\
         spin_count = 1000\n",
    );
    let settings = sandbox.load().unwrap();
    assert_eq!(settings.buffsize(), 131_072);
    assert!(settings.check() && settings.shm_disable());
    assert_eq!(settings.timeout(), Some(Duration::from_millis(250)));
    assert_eq!(settings.warn_after(), None);
    assert_eq!((settings.min_nchannels(), settings.max_nchannels()), (2, 3));
    assert_eq!(settings.eager_limit(), Some(4096));
    let list = settings.socket_ifname().unwrap();
    assert!(list.exclude && list.names == ["docker", "lo"] && list.allows("eth0"));
    let address = settings.comm_id().unwrap();
    assert_eq!((address.host.as_str(), address.port), ("::1", 77));
    assert_eq!(settings.topo_file(), Some(std::path::Path::new("/t.xml")));
    assert_eq!(settings.spin_count(), Some(1000));
}

#[test]
fn an_empty_text_in_a_higher_file_takes_a_value_away() {
    let sandbox = Sandbox::new();
    sandbox.write("etc/kolo/kolo.toml", "socket_ifname = \"eth\"\n");
    let user = sandbox.write("home/.config/kolo/kolo.toml", "socket_ifname = \"\"\n");
    let settings = sandbox.load().unwrap();
    assert_eq!(settings.socket_ifname(), None);
    assert_eq!(
        settings.entry("socket_ifname").unwrap().source.origin,
        Origin::File(user)
    );
}

#[test]
fn the_least_number_of_channels_raises_the_built_in_largest() {
    let raised = with(&[("NCCL_MIN_NCHANNELS", "16")]).unwrap();
    assert_eq!((raised.min_nchannels(), raised.max_nchannels()), (16, 16));
    let source = raised.entry("max_nchannels").unwrap().source;
    assert_eq!(source.origin, Origin::Follows("min_nchannels"));
    let fine = with(&[("KOLO_MIN_NCHANNELS", "4"), ("KOLO_MAX_NCHANNELS", "4")]).unwrap();
    assert_eq!((fine.min_nchannels(), fine.max_nchannels()), (4, 4));
}

#[test]
fn names_of_debug_files_are_filled_in() {
    let name = |pattern| {
        let settings = with(&[("KOLO_DEBUG_FILE", pattern)]).unwrap();
        settings
            .debug_file_of("node7", 42)
            .unwrap()
            .to_str()
            .unwrap()
            .to_string()
    };
    assert_eq!(name("/tmp/kolo.%h.%p.log"), "/tmp/kolo.node7.42.log");
    assert_eq!(name("/tmp/100%%h"), "/tmp/100%h");
    assert_eq!(name("/tmp/50%x%"), "/tmp/50%x%");
    assert_eq!(Settings::defaults().debug_file_of("node7", 42), None);
}

/// Runs `body` without root's right to read everything, if this thread has it.
fn as_nobody<T>(body: impl FnOnce() -> T) -> T {
    // SAFETY: these change what this thread may do with files, and back.
    let before = unsafe { libc::geteuid() };
    if before == 0 {
        // SAFETY: as above.
        unsafe { libc::setfsuid(65_534) };
    }
    let result = body();
    // SAFETY: as above.
    unsafe { libc::setfsuid(before) };
    result
}

#[test]
fn a_closed_home_has_no_settings_and_an_unreadable_file_is_an_error() {
    use std::os::unix::fs::PermissionsExt;
    let mut sandbox = Sandbox::new();
    put(&mut sandbox, Layer::User, &text(Layer::User));
    let allow = |name: &str, mode| {
        let mode = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(sandbox.path(name), mode).unwrap();
    };
    allow("", 0o755);
    allow("home", 0o000);
    let settings = as_nobody(|| sandbox.load()).unwrap();
    assert_eq!(settings.buffsize(), size(Layer::Default));
    let [warning] = settings.warnings() else {
        panic!("{:?}", settings.warnings());
    };
    let said = warning.contains("home/.config/kolo/kolo.toml") && warning.contains("HOME");
    assert!(said, "{warning}");
    allow("home", 0o755);
    allow("home/.config/kolo/kolo.toml", 0o000);
    let error = as_nobody(|| sandbox.load()).expect_err("a file that is there must be read");
    assert!(error.what.contains("kolo.toml cannot be read"), "{error}");
    allow("home/.config/kolo/kolo.toml", 0o644);
    assert_eq!(sandbox.load().unwrap().buffsize(), size(Layer::User));
}

#[test]
fn files_that_others_may_write_are_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    for layer in [Layer::System, Layer::Prefix, Layer::User, Layer::ConfigFile] {
        let mut sandbox = Sandbox::new();
        let Origin::File(path) = put(&mut sandbox, layer, &text(layer)).origin else {
            panic!("{layer:?} is no file");
        };
        assert!(sandbox.load().unwrap().warnings().is_empty(), "{layer:?}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        let settings = sandbox.load().unwrap();
        assert_eq!(
            settings.buffsize(),
            size(layer),
            "it is a warning, and counts"
        );
        let [warning] = settings.warnings() else {
            panic!("{layer:?}: {:?}", settings.warnings());
        };
        let said = [path.to_str().unwrap(), "written by everybody", "chmod o-w"];
        assert!(said.iter().all(|word| warning.contains(word)), "{warning}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        // Only root can give files away.
        if std::os::unix::fs::chown(&path, Some(12_345), None).is_err() {
            crate::base::skip::skip("root", "a file cannot be given away");
            continue;
        }
        let warnings = |sandbox: &Sandbox| sandbox.load().unwrap().warnings().join(";");
        assert!(
            warnings(&sandbox).contains("belongs to user 12345"),
            "{layer:?}"
        );
        if layer == Layer::Prefix {
            std::os::unix::fs::chown(sandbox.path("opt"), Some(12_345), None).unwrap();
            assert_eq!(warnings(&sandbox), "", "the library is that user's too");
        }
    }
}
