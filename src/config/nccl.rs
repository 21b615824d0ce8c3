//! Values of the `NCCL_*` aliases that are written otherwise than kolo's own.

/// Values of `NCCL_ALGO`: lists as kolo has them, in which both kinds of CollNet are one.
pub(super) fn nccl_algo(text: &str) -> String {
    let plain = text.to_ascii_lowercase();
    let mut names: Vec<&str> = Vec::new();
    let mut translated = String::new();
    for part in plain.split_inclusive([',', ';', ':', '^']) {
        let end = part.trim_end_matches([',', ';', ':', '^']).len();
        let (name, mark) = part.split_at(end);
        let name = match name.trim() {
            "collnetdirect" | "collnetchain" => "collnet",
            name => name,
        };
        let begins = translated.is_empty() || translated.ends_with([';', ':', '^']);
        if begins {
            names.clear();
        }
        if names.contains(&name) && name == "collnet" {
            // The second of the two kinds.
            translated.truncate(translated.trim_end_matches(',').len());
            translated.push_str(mark);
            continue;
        }
        names.push(name);
        translated.push_str(name);
        translated.push_str(mark);
    }
    translated
}

/// Values of `NCCL_PROTO`: lists as kolo has them, of three of its protocols. A list of all three
/// says nothing, and leaves kolo its own fourth one too.
pub(super) fn nccl_proto(text: &str) -> String {
    let plain = text.to_ascii_lowercase().replace(char::is_whitespace, "");
    let mut names: Vec<&str> = plain.split(',').collect();
    names.sort_unstable();
    match names[..] {
        ["ll", "ll128", "simple"] => "auto".to_string(),
        _ => plain,
    }
}

/// Values of `NCCL_NET_GDR_LEVEL`: words in any case, or numbers from 0 on, of which those above 4
/// mean what 4 means.
pub(super) fn nccl_level(text: &str) -> String {
    let plain = text.trim().to_ascii_lowercase();
    match plain.parse::<u32>() {
        Ok(5..) => "sys".to_string(),
        _ => plain,
    }
}

/// Numbers of which -1 means that the library chooses.
pub(super) fn nccl_index(text: &str) -> String {
    match text.trim() {
        "-1" => "auto".to_string(),
        other => other.to_string(),
    }
}

/// Numbers of signals, of which -1 means none.
pub(super) fn nccl_signal(text: &str) -> String {
    match text.trim() {
        "-1" => "none".to_string(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithm_lists_of_the_alias() {
        for (text, means) in [
            ("Ring", "ring"),
            ("Tree,Ring", "tree,ring"),
            ("^Tree,NVLS", "^tree,nvls"),
            ("CollnetDirect,CollnetChain,Tree", "collnet,tree"),
            ("Tree,CollnetChain,CollnetDirect", "tree,collnet"),
            (
                "allreduce:Tree,CollnetDirect;broadcast:Ring",
                "allreduce:tree,collnet;broadcast:ring",
            ),
            ("Ring, Spiral", "ring,spiral"),
        ] {
            assert_eq!(nccl_algo(text), means, "{text}");
        }
    }

    #[test]
    fn protocol_lists_of_the_alias() {
        for (text, means) in [
            ("Simple", "simple"),
            ("LL", "ll"),
            ("LL128", "ll128"),
            ("LL,LL128", "ll,ll128"),
            (" LL128, Simple", "ll128,simple"),
            ("LL,LL128,Simple", "auto"),
            ("^LL128", "^ll128"),
            ("^LL,LL128", "^ll,ll128"),
            ("^Simple", "^simple"),
            (
                "allreduce:LL;broadcast:^LL128",
                "allreduce:ll;broadcast:^ll128",
            ),
            ("Fast", "fast"),
        ] {
            assert_eq!(nccl_proto(text), means, "{text}");
        }
    }

    #[test]
    fn levels_of_the_alias() {
        for (text, means) in [("PXB", "pxb"), (" sys ", "sys"), ("0", "0"), ("7", "sys")] {
            assert_eq!(nccl_level(text), means, "{text}");
        }
    }
}
