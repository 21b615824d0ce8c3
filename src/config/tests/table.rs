//! The table of options itself.

use super::super::*;
use std::collections::BTreeSet;

#[test]
fn the_table_is_sound() {
    let mut names = BTreeSet::new();
    for option in OPTIONS {
        let key = option.key;
        assert!(names.insert(option.variable()), "{key} twice");
        assert!(
            key.chars().all(|c| c.is_ascii_lowercase() || c == '_'),
            "{key}"
        );
        assert!(
            option.kind.parse(option.default).is_some(),
            "default of {key}"
        );
        let doc = option.doc();
        assert!(
            doc.len() > 20 && doc.ends_with('.') && !doc.contains("  "),
            "{key}: {doc}"
        );
        assert!(doc.starts_with(|c: char| c.is_uppercase()), "{key}: {doc}");
        for alias in option.aliases {
            assert!(alias.name.starts_with("NCCL_"), "{}", alias.name);
            assert!(names.insert(alias.name.to_string()), "{} twice", alias.name);
        }
    }
    for (name, _) in RESERVED {
        assert!(
            !names.contains(*name),
            "{name} is both reserved and an option"
        );
    }
    for start in RESERVED_PREFIXES {
        let begins = |option: &Opt| option.variable().starts_with(start);
        assert!(!OPTIONS.iter().any(begins), "{start}");
    }
    assert_eq!(Settings::defaults().read_every_getter(), OPTIONS.len());
}

#[test]
fn what_the_rdma_library_is_handed() {
    let variables = [
        ("KOLO_IB_HCA", "mlx5_0:1"),
        ("NCCL_IB_GID_INDEX", "-1"),
        ("NCCL_IB_TC", "0"),
    ];
    let mut sandbox = super::Sandbox::new();
    variables
        .iter()
        .for_each(|(name, value)| sandbox.set(name, value));
    let settings = sandbox.load().unwrap();
    let handed: Vec<_> = settings.of_verbs().collect();
    for (key, text) in [
        ("ib_hca", "mlx5_0:1"),
        ("ib_gid_index", "auto"),
        ("ib_tc", "0"),
        ("ib_timeout", "19"),
        ("socket_ifname", ""),
        ("net_link_timeout", "30"),
    ] {
        assert!(
            handed.contains(&(key, text.to_string())),
            "{key}: {handed:?}"
        );
    }
    assert_eq!(handed.len(), 12);
    assert_eq!((settings.ib_gid_index(), settings.ib_tc()), (None, Some(0)));
}

#[test]
fn what_the_library_of_libfabric_is_handed() {
    let mut sandbox = super::Sandbox::new();
    sandbox.set("KOLO_OFI_PROVIDER", "cxi");
    sandbox.set("KOLO_NET", "libfabric");
    let settings = sandbox.load().unwrap();
    let handed: Vec<_> = settings.of_ofi().collect();
    assert!(
        handed.contains(&("ofi_provider", "cxi".to_owned())),
        "{handed:?}"
    );
    assert_eq!(handed.len(), 4);
}

#[test]
fn nothing_in_the_table_exceeds_its_getter() {
    // The getters of integers are 32 bits wide.
    for option in OPTIONS {
        if let Kind::Int { most, .. } = option.kind {
            assert!(most <= u64::from(u32::MAX), "{}", option.key);
        }
    }
}
