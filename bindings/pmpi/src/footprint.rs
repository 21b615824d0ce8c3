//! Memory that one communicator takes for each of its ranks: the formula of docs/memory.md, for
//! calls up to 64 KiB. Kolo's own layout is held to the rows of that page, and so is this file,
//! which knows no MPI, by tests/dropin.rs.

const KIB: u64 = 1 << 10;
/// The largest head that a rank's part of a node's memory has.
pub const HEAD: u64 = 288 * KIB;

fn pairs(nranks: u32) -> u64 {
    u64::from(nranks.saturating_sub(1))
}

/// Bytes of its pairs that stay as long as it lives.
pub fn lines(nranks: u32) -> u64 {
    pairs(nranks) * 4 * KIB
}

/// Bytes of its pairs that go back where there is too much of them.
pub fn slots(nranks: u32) -> u64 {
    let block = 64 * KIB / u64::from(nranks.max(1));
    pairs(nranks) * (16 * KIB + 8 * block.next_multiple_of(4 * KIB))
}
