//! Addresses on the PCI bus, which libraries write in several ways.

/// `0000:3b:00.0` of `00000000:3B:00.0`, of `3b:00.0` and of itself. A domain that does not fit
/// into four digits stays as it is.
pub fn canonical(address: &str) -> String {
    let address = address.trim().to_ascii_lowercase();
    let parts: Vec<&str> = address.split(':').collect();
    match parts.as_slice() {
        [_, _] => format!("0000:{address}"),
        [domain, bus, rest] => match domain.trim_start_matches('0') {
            short if short.len() <= 4 => format!("{short:0>4}:{bus}:{rest}"),
            long => format!("{long}:{bus}:{rest}"),
        },
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn all_ways_of_writing_are_one() {
        let ways = [
            "00000000:3B:00.0",
            "0000:3b:00.0",
            "3B:00.0",
            " 0:3b:00.0\n",
        ];
        for way in ways {
            assert_eq!(canonical(way), "0000:3b:00.0", "{way:?}");
        }
        assert_eq!(canonical("00010000:3b:00.0"), "10000:3b:00.0");
        assert_eq!(canonical("00000001:3b:00.0"), "0001:3b:00.0");
        assert_eq!(canonical("nothing"), "nothing");
    }
}
