//! The options that ranks must agree on.

use super::super::*;
use super::{Sandbox, with};
use crate::base::{Code, Rank, record};

type Ranks = Vec<(Rank, String, Vec<u8>)>;

/// Ranks 0, 1, ... with two ranks a node.
fn ranks(all: &[&Settings]) -> Ranks {
    let rank = |(index, settings): (usize, &&Settings)| {
        (
            Rank(index as u32),
            format!("node{}", index / 2),
            settings.shape_bytes(),
        )
    };
    all.iter().enumerate().map(rank).collect()
}

#[test]
fn the_shape_holds_what_the_ranks_must_agree_on() {
    let settings = with(&[("KOLO_BUFFSIZE", "2M"), ("KOLO_WAIT", "spin")]).unwrap();
    let keys: Vec<_> = settings
        .shape()
        .iter()
        .map(|entry| entry.key.to_string())
        .collect();
    for key in [
        "buffsize",
        "min_nchannels",
        "max_nchannels",
        "algo",
        "proto",
        "eager_limit",
        "ranks_per_node",
    ] {
        assert!(keys.iter().any(|other| other == key), "{key}");
    }
    assert!(
        keys.iter()
            .all(|key| !["wait", "debug", "topo_file"].contains(&key.as_str()))
    );
    let shape = settings.shape();
    let buffsize = shape.iter().find(|entry| entry.key == "buffsize").unwrap();
    assert_eq!(buffsize.value, "2097152");
    assert_eq!(buffsize.source, "variable KOLO_BUFFSIZE");
    let back: Vec<ShapeEntry> = record::decode(&settings.shape_bytes()).unwrap();
    assert_eq!(back, shape);
}

#[test]
fn the_digest_sees_values_and_not_sources() {
    let plain = Settings::defaults();
    let same = with(&[("KOLO_BUFFSIZE", "1024K"), ("KOLO_WAIT", "spin")]).unwrap();
    let other = with(&[("KOLO_BUFFSIZE", "2M")]).unwrap();
    assert_eq!(plain.shape_digest(), same.shape_digest());
    assert_eq!(plain.shape_digest(), digest(&same.shape()));
    assert_ne!(plain.shape_digest(), other.shape_digest());
    for option in OPTIONS.iter().filter(|option| option.shapes) {
        let mut shape = plain.shape();
        shape
            .iter_mut()
            .find(|entry| entry.key == option.key)
            .unwrap()
            .value += "x";
        assert_ne!(digest(&shape), plain.shape_digest(), "{}", option.key);
    }
}

#[test]
fn ranks_that_agree_pass_wherever_their_values_come_from() {
    let none: &[(Rank, &str, &[u8])] = &[];
    compare_shapes(none).unwrap();
    let plain = Settings::defaults();
    compare_shapes(&ranks(&[&plain, &plain, &plain])).unwrap();
    let same = with(&[("NCCL_BUFFSIZE", "1048576"), ("KOLO_DEBUG", "trace")]).unwrap();
    assert_ne!(plain.shape_bytes(), same.shape_bytes());
    compare_shapes(&ranks(&[&plain, &same])).unwrap();
}

#[test]
fn a_difference_names_key_values_ranks_nodes_and_sources() {
    let sandbox = Sandbox::new();
    let path = sandbox.write("etc/kolo/kolo.toml", "algo = \"oneshot\"\n");
    let filed = sandbox.load().unwrap();
    let set = with(&[("NCCL_ALGO", "Ring")]).unwrap();
    let error = compare_shapes(&ranks(&[&set, &set, &set, &filed])).unwrap_err();
    assert_eq!(error.code, Code::InvalidUsage);
    let place = format!("(node node1, file {})", path.display());
    let expected = format!(
        "`algo` is `ring` on ranks 0-1 (node node0, variable NCCL_ALGO), \
         rank 2 (node node1, variable NCCL_ALGO) but `oneshot` on rank 3 {place}"
    );
    assert!(error.what.ends_with(&expected), "{}", error.what);
    assert!(error.remedy.contains("same value on every rank"));
}

#[test]
fn every_differing_option_is_named() {
    let plain = Settings::defaults();
    let two = with(&[("KOLO_BUFFSIZE", "2M"), ("KOLO_CHECK", "1")]).unwrap();
    let what = compare_shapes(&ranks(&[&plain, &two]))
        .unwrap_err()
        .into_what();
    assert!(
        what.contains("`buffsize` is `1048576` on rank 0 (node node0, built in)"),
        "{what}"
    );
    assert!(
        what.contains("`2097152` on rank 1 (node node0, variable KOLO_BUFFSIZE)"),
        "{what}"
    );
    assert!(what.contains("`check` is `false` on rank 0"), "{what}");
    assert!(!what.contains("algo"), "{what}");
}

#[test]
fn many_ranks_give_a_short_message() {
    let plain = Settings::defaults();
    let other = with(&[("KOLO_PROTO", "simple")]).unwrap();
    let all: Ranks = (0..10_000)
        .map(|rank| {
            let settings = if rank % 2 == 0 { &plain } else { &other };
            (
                Rank(rank),
                format!("node{}", rank / 100),
                settings.shape_bytes(),
            )
        })
        .collect();
    let what = compare_shapes(&all).unwrap_err().into_what();
    assert!(what.contains("94 more"), "{what}");
    assert!(what.len() < 2000, "{}", what.len());
}

#[test]
fn another_version_and_garbage_are_told_apart_from_a_difference() {
    let plain = Settings::defaults();
    let mut shape = plain.shape();
    shape.retain(|entry| entry.key != "proto");
    let mut all = ranks(&[&plain, &plain]);
    all[1].2 = record::encode(&shape);
    let what = compare_shapes(&all).unwrap_err().into_what();
    assert!(what.contains("`proto` is `auto` on rank 0"), "{what}");
    assert!(
        what.contains("unknown on rank 1 (node node0, another version of kolo)"),
        "{what}"
    );
    all[1].2 = vec![0xff, 0];
    let error = compare_shapes(&all).unwrap_err();
    assert_eq!(error.peer, Some(Rank(1)));
    assert!(
        error.what.contains("node0") && error.remedy.contains("same version"),
        "{error}"
    );
}
