//! Two small hashes with fixed definitions, so that every rank and every version agrees.

/// Bernstein's DJB2a, 64 bits: start 5381, then `h * 33 ^ byte`. Used for host names.
pub fn djb2a(text: &[u8]) -> u64 {
    text.iter().fold(5381, |hash: u64, &byte| {
        hash.wrapping_mul(33) ^ u64::from(byte)
    })
}

/// FNV-1a, 64 bits (Fowler, Noll, Vo). Used for digests of settings.
pub fn fnv1a(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Hash of a host name up to its first dot: ranks with equal hashes *may* share a machine.
pub fn host(name: &str) -> u64 {
    djb2a(name.split('.').next().unwrap_or("").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(djb2a(b""), 5381);
        assert_eq!(djb2a(b"a"), (5381 * 33) ^ 97);
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(host("node1.site.org"), host("node1"));
        assert_ne!(host("node1"), host("node2"));
    }
}
