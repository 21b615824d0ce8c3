//! Values of the `NCCL_*` aliases that are written otherwise than kolo's own.

/// Values of `NCCL_ALGO`: a list of names, or `^` and a list of what not to take.
///
/// A list that allows the ring means the ring, another one its first algorithm; one that excludes
/// others than the ring leaves kolo its choice.
pub(super) fn nccl_algo(text: &str) -> String {
    const THEIRS: [&str; 7] = [
        "ring",
        "tree",
        "collnetdirect",
        "collnetchain",
        "nvls",
        "nvlstree",
        "pat",
    ];
    let (exclude, names) = nccl_list(text);
    let known = names.iter().all(|name| THEIRS.contains(&name.as_str()));
    let ring = names.iter().any(|name| name == "ring");
    match (known, exclude, ring) {
        (true, false, true) => "ring".to_string(),
        (true, false, false) if names[0].starts_with("collnet") => "collnet".to_string(),
        (true, false, false) => names[0].clone(),
        (true, true, false) => "auto".to_string(),
        _ => text.to_string(),
    }
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
            ("Tree,Ring", "ring"),
            ("^Tree", "auto"),
            ("^Tree,NVLS", "auto"),
            ("Tree", "tree"),
            ("CollnetDirect,Tree", "collnet"),
            ("NVLSTree", "nvlstree"),
            ("^Ring", "^Ring"),
            ("Ring,Spiral", "Ring,Spiral"),
            ("oneshot", "oneshot"),
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
