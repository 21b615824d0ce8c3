//! Providers of libfabric: which one each node would use, and where one is missing or another.

use super::facts::{Gathered, LibfabricFacts};
use super::finding::{Finding, differing, list, of_difference};
use super::ways;
use kolo::config::Settings;
use kolo::transport::net::candidates;

/// Provider that libfabric would carry data by on this node; `None` where it would not be asked.
pub fn look(settings: &Settings) -> Option<LibfabricFacts> {
    let wanted = candidates::wants_libfabric(settings);
    match wanted.then(|| candidates::libfabric(settings))? {
        Ok(net) => {
            let devices: Vec<String> = net.devices().iter().map(|d| d.name.clone()).collect();
            let by = net.about().unwrap_or_else(|| net.name().to_owned());
            Some(LibfabricFacts {
                provider: by,
                devices: list(&devices),
                why_none: String::new(),
            })
        }
        Err(why) => Some(LibfabricFacts {
            why_none: why,
            ..LibfabricFacts::default()
        }),
    }
}

/// Nodes that have none, though it is wanted; providers that are not the same on all nodes.
pub fn libfabric(job: &Gathered) -> Vec<Finding> {
    let fix = "name one that all nodes have by KOLO_OFI_PROVIDER (`fi_info` lists them), or use \
               another network (KOLO_NET); docs/net-ofi.md says what each needs";
    let lacks = |node: &super::facts::NodeSeen| {
        let facts = node.facts.libfabric.as_ref()?;
        (!facts.why_none.is_empty()).then(|| Finding {
            check: "libfabric",
            nodes: vec![node.name.clone()],
            what: facts.why_none.clone(),
            fix: fix.into(),
        })
    };
    // Nodes that use different networks are told of with the reason.
    if !ways::networks(job).is_empty() {
        return Vec::new();
    }
    let found: Vec<Finding> = job.nodes.iter().filter_map(lacks).collect();
    if !found.is_empty() {
        return found;
    }
    let provider = |node: &super::facts::NodeSeen| {
        let facts = node.facts.libfabric.as_ref();
        Some(facts.map_or("none".to_owned(), |facts| facts.provider.clone()))
    };
    let groups = differing(job, provider);
    groups
        .map(|groups| of_difference("libfabric", &groups, "providers differ", fix.into()))
        .into_iter()
        .collect()
}

/// Provider and devices of each node.
pub fn notes(job: &Gathered) -> Vec<String> {
    let line = |node: &super::facts::NodeSeen| {
        let facts = node.facts.libfabric.as_ref()?;
        (!facts.provider.is_empty()).then(|| {
            format!(
                "libfabric: {}: {}: {}",
                node.name, facts.provider, facts.devices
            )
        })
    };
    job.nodes.iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::facts::{NodeFacts, NodeSeen, Trials};
    use super::*;

    fn job(all: &[(&str, &str)]) -> Gathered {
        let node = |(index, (provider, why)): (usize, &(&str, &str))| NodeSeen {
            name: format!("node{}", index + 1),
            ranks: vec![index],
            facts: NodeFacts {
                libfabric: Some(LibfabricFacts {
                    provider: (*provider).into(),
                    devices: "cxi0".into(),
                    why_none: (*why).into(),
                }),
                ..NodeFacts::default()
            },
            trials: Trials::default(),
        };
        Gathered {
            ranks: Vec::new(),
            ways: Default::default(),
            nodes: all.iter().enumerate().map(node).collect(),
        }
    }

    #[test]
    fn providers_are_named_and_must_be_one() {
        let same = job(&[("the libfabric provider cxi", ""); 2]);
        assert!(libfabric(&same).is_empty());
        let said = notes(&same);
        assert_eq!(
            said[1],
            "libfabric: node2: the libfabric provider cxi: cxi0"
        );
        let others = job(&[("cxi", ""), ("tcp", "")]);
        assert_eq!(libfabric(&others).len(), 1);
        let lacks = job(&[("cxi", ""), ("", "no libfabric here: it is gone")]);
        let found = libfabric(&lacks);
        assert_eq!((found.len(), &found[0].nodes[0][..]), (1, "node2"));
        assert!(found[0].what.contains("it is gone"));
    }

    #[test]
    fn it_is_asked_only_where_it_could_be_used() {
        use kolo::config::Sources;
        let with = |net: &str, provider: &str| {
            let pairs = [("net", net), ("ofi_provider", provider)];
            let given = pairs.into_iter().filter(|(_, value)| !value.is_empty());
            let sources = Sources {
                caller: given
                    .map(|(key, value)| (key.into(), value.into()))
                    .collect(),
                ..Sources::default()
            };
            look(&Settings::load_from(&sources).unwrap())
        };
        for (net, provider) in [("socket", "cxi"), ("auto", ""), ("auto", "auto")] {
            assert_eq!(with(net, provider), None, "{net} {provider}");
        }
        // A library that has started stays as it is, so what is wrong comes first.
        let lacks = with("auto", "nonesuch").expect("it was asked for");
        assert!(!lacks.why_none.is_empty(), "{lacks:?}");
        assert!(
            with("ofi", "").is_some(),
            "a provider, or why there is none"
        );
    }
}
