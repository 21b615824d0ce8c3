//! How ranks lie on nodes, and which networks these have.

use super::decide::Span;
use super::places;
use std::os::unix::fs::symlink;
use std::path::Path;

#[test]
fn how_ranks_lie_on_nodes() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    assert_eq!(places::numbered(&[9, 9, 4, 9, 7, 4]), [0, 0, 1, 0, 2, 1]);
    for _ in 0..1000 {
        let names: Vec<u64> = (0..random.usize(1..12)).map(|_| random.u64(..4)).collect();
        let nodes = places::numbered(&names);
        // Ranks have the same number where they have the same name, and a new one is the next.
        for (rank, &node) in nodes.iter().enumerate() {
            let first = names.iter().position(|name| *name == names[rank]).unwrap();
            assert_eq!(node, nodes[first]);
            let before = nodes[..first].iter().max().map_or(0, |most| most + 1);
            assert!(first < rank || node == before, "seed {seed}: {names:?}");
        }
        let ranks = places::ranks_of(&nodes);
        let Span { most, in_order } = places::span(&nodes);
        assert_eq!(ranks.iter().sum::<u32>() as usize, names.len());
        let of = |name: &u64| names.iter().filter(|other| *other == name).count() as u32;
        assert_eq!(Some(most), names.iter().map(of).max());
        let mut runs = names.clone();
        runs.dedup();
        assert_eq!(
            in_order,
            runs.len() == ranks.len(),
            "seed {seed}: {names:?}"
        );
    }
}

#[test]
fn networks_that_kolo_does_not_use() {
    for (folders, with_verbs, without) in [
        (&[][..], false, false),
        (&["infiniband/mlx5_0"][..], false, true),
        (&["infiniband"][..], false, false),
        (&["infiniband/hfi1_0", "hfi1/hfi1_0"][..], true, true),
        (&["cxi/cxi0"][..], true, true),
        (&["infiniband/mlx5_0", "infiniband/efa_0"][..], true, true),
        (&["net/eth0"][..], false, false),
    ] {
        let name = format!("kolo-networks-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&root);
        for folder in folders {
            let folder = root.join("sys/class").join(folder);
            std::fs::create_dir_all(&folder).unwrap();
            let name = folder.file_name().unwrap().to_str().unwrap();
            if let Some((driver, _)) = name.split_once('_') {
                std::fs::create_dir(folder.join("device")).unwrap();
                symlink(
                    Path::new("../../drivers").join(driver),
                    folder.join("device/driver"),
                )
                .unwrap();
            }
        }
        let found = |verbs| places::has_foreign_network(&root, || verbs);
        let found = (found(true), found(false));
        let _ = std::fs::remove_dir_all(&root);
        assert_eq!(found, (with_verbs, without), "{folders:?}");
    }
}
