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

/// Values of `NCCL_PROTO`, lists like those of `NCCL_ALGO`: its low-latency protocols `LL` and
/// `LL128` are eager lines here.
pub(super) fn nccl_proto(text: &str) -> String {
    let (exclude, names) = nccl_list(text);
    let known = names
        .iter()
        .all(|name| ["simple", "ll", "ll128"].contains(&name.as_str()));
    let has = |wanted: &[&str]| names.iter().any(|name| wanted.contains(&name.as_str()));
    let (simple, low) = if exclude {
        // Excluding one of the two low-latency protocols leaves the other.
        (!has(&["simple"]), !(has(&["ll"]) && has(&["ll128"])))
    } else {
        (has(&["simple"]), has(&["ll", "ll128"]))
    };
    match (known, simple, low) {
        (true, true, true) => "auto".to_string(),
        (true, true, false) => "simple".to_string(),
        (true, false, true) => "eager".to_string(),
        _ => text.to_string(),
    }
}

/// Numbers of which -1 means that the library chooses.
pub(super) fn nccl_index(text: &str) -> String {
    match text.trim() {
        "-1" => "auto".to_string(),
        other => other.to_string(),
    }
}

fn nccl_list(text: &str) -> (bool, Vec<String>) {
    let text = text.trim().to_ascii_lowercase();
    let (exclude, rest) = match text.strip_prefix('^') {
        Some(rest) => (true, rest),
        None => (false, text.as_str()),
    };
    (
        exclude,
        rest.split(',')
            .map(|name| name.trim().to_string())
            .collect(),
    )
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
            ("LL", "eager"),
            ("LL128", "eager"),
            ("LL,LL128,Simple", "auto"),
            ("^LL128", "auto"),
            ("^LL,LL128", "simple"),
            ("^Simple", "eager"),
            ("^LL,LL128,Simple", "^LL,LL128,Simple"),
            ("Fast", "Fast"),
        ] {
            assert_eq!(nccl_proto(text), means, "{text}");
        }
    }
}
