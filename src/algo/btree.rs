//! Two binary trees over the same numbers: whoever is inside of one is a leaf of the other.
//!
//! A binary tree over 0..n: the parent of v is found from its lowest set bit, so that
//! odd numbers are leaves, and every subtree is a run of numbers: rank order is kept in the first
//! tree. The second tree is the first one mirrored where n is even, and shifted by one where n is
//! odd. With a root, the root feeds both trees, which are built over the other nodes.
//!
//! Reference: P. Sanders, J. Speck, J. L. Träff, "Two-tree algorithms for full bandwidth broadcast,
//! reduction and scan", Parallel Computing 35 (2009), doi:10.1016/j.parco.2009.09.001.

/// Parent and children of `v` in the binary tree over 0..n, whose top is 0.
pub fn binary(n: u32, v: u32) -> (Option<u32>, Vec<u32>) {
    let bit = match v {
        0 => n.next_power_of_two(),
        _ => v & v.wrapping_neg(),
    };
    let parent = match (v ^ bit) | bit << 1 {
        _ if v == 0 => None,
        beyond if beyond >= n => Some(v ^ bit),
        parent => Some(parent),
    };
    let halves = || std::iter::successors(Some(bit >> 1), |&half| Some(half >> 1));
    let low = halves()
        .next()
        .filter(|&half| half > 0 && v > 0)
        .map(|half| v - half);
    let mut high = halves().take_while(|&half| half > 0);
    let high = high.find(|&half| v + half < n).map(|half| v + half);
    (parent, low.into_iter().chain(high).collect())
}

/// Parent and children of `v` in the first or the second tree over 0..n.
///
/// With `rooted`, 0 feeds both trees, which are built over 1..n.
pub fn double(n: u32, v: u32, is_second: bool, rooted: bool) -> (Option<u32>, Vec<u32>) {
    if !is_second || (rooted && n <= 2) {
        return binary(n, v);
    }
    // Numbers from `low` on change places: mirrored if they are even in number, else shifted.
    let low = u32::from(rooted);
    let count = n - low;
    let swap = |v: u32, shift: u32| match v {
        v if v < low => v,
        v if count.is_multiple_of(2) => n - 1 + low - v,
        v => (v - low + shift) % count + low,
    };
    let (parent, children) = binary(n, swap(v, count - 1));
    let back = |v| swap(v, 1);
    (parent.map(back), children.into_iter().map(back).collect())
}

#[cfg(test)]
#[path = "btree_tests.rs"]
mod tests;
