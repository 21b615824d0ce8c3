//! The shape of the trees: that they are trees, shallow, and complement each other.

use super::{binary, double};

/// Depth of every number; panics on a cycle.
fn depths(n: u32, is_second: bool, rooted: bool) -> Vec<u32> {
    let of = |v| double(n, v, is_second, rooted);
    (0..n)
        .map(|v| {
            let mut up = v;
            let mut depth = 0;
            while let (Some(parent), _) = of(up) {
                assert!(
                    of(parent).1.contains(&up),
                    "{parent} knows its child {up} of {n}"
                );
                (up, depth) = (parent, depth + 1);
                assert!(depth <= n, "a cycle at {v} of {n}");
            }
            depth
        })
        .collect()
}

#[test]
fn the_first_tree_of_eight() {
    let links: Vec<_> = (0..8).map(|v| binary(8, v)).collect();
    let children: Vec<&[u32]> = links.iter().map(|(_, children)| &children[..]).collect();
    let wanted: [&[u32]; 8] = [&[4], &[], &[1, 3], &[], &[2, 6], &[], &[5, 7], &[]];
    assert_eq!(children, wanted);
    assert_eq!(binary(5, 4), (Some(0), vec![2]));
    assert_eq!(binary(1, 0), (None, vec![]));
}

#[test]
fn trees_are_trees_and_shallow() {
    for n in 1..=130u32 {
        for (is_second, rooted) in [(false, false), (true, false), (false, true), (true, true)] {
            let depths = depths(n, is_second, rooted);
            let tops = depths.iter().filter(|&&depth| depth == 0).count();
            assert_eq!(tops, 1, "{n} {is_second} {rooted}");
            assert!(!rooted || depths[0] == 0, "the root is on top");
            let most = n.next_power_of_two().ilog2();
            assert!(depths.iter().all(|&depth| depth <= most), "{n}: {depths:?}");
            let edges: usize = (0..n)
                .map(|v| double(n, v, is_second, rooted).1.len())
                .sum();
            assert_eq!(edges as u32, n - 1);
        }
    }
}

#[test]
fn the_second_tree_is_mirrored_or_shifted() {
    for v in 0..8 {
        let (parent, _) = double(8, v, true, false);
        assert_eq!(parent, binary(8, 7 - v).0.map(|parent| 7 - parent));
    }
    for v in 0..7 {
        let (parent, _) = double(7, v, true, false);
        assert_eq!(
            parent,
            binary(7, (v + 6) % 7).0.map(|parent| (parent + 1) % 7)
        );
    }
}

/// Whoever is inside of one tree is a leaf of the other, but for a few at the edges.
#[test]
fn inside_of_one_tree_is_outside_of_the_other() {
    for n in 2..=130 {
        for rooted in [false, true] {
            let inside = |v, is_second| !double(n, v, is_second, rooted).1.is_empty();
            let both = (1..n)
                .filter(|&v| inside(v, false) && inside(v, true))
                .count();
            assert!(both <= 1, "{both} of {n}, rooted {rooted}");
        }
    }
}
