//! Which jobs and nodes a `[[when]]` of a settings file means: those of a partition, on a host, or
//! with a number of nodes.

use glob::{MatchOptions, Pattern};

/// Where this process runs, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct JobHere {
    /// The partition of the job.
    pub(super) partition: Option<String>,
    /// The name of the host.
    pub(super) host: String,
    /// How many nodes the job has.
    pub(super) nodes: Option<u64>,
}

/// The conditions of one `[[when]]`: all that are there must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Selector {
    partition: Option<Vec<Pattern>>,
    host: Option<Vec<Pattern>>,
    nodes: Option<Vec<NodeBound>>,
}

/// Bound with which a number of nodes is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NodeBound {
    Least(u64),
    Most(u64),
    Just(u64),
}

/// The keys of a `[[when]]` that say when.
pub(super) const CONDITIONS: [&str; 3] = ["partition", "host", "nodes"];

impl Selector {
    /// Takes one condition.
    ///
    /// # Errors
    /// What was expected in place of `texts`.
    pub(super) fn add(&mut self, key: &str, texts: &[String]) -> Result<(), &'static str> {
        let patterns = || {
            let all = texts.iter().map(|text| pattern(text));
            let all = all
                .collect::<Option<Vec<_>>>()
                .filter(|all| !all.is_empty());
            all.ok_or(
                "a name, or a list of names, in which `*` stands for any characters, `?` for one \
                 and `[0-9]` for one of those; several numbers (`node[01-16]`) are written as \
                 several names",
            )
        };
        match key {
            "partition" => self.partition = Some(patterns()?),
            "host" => self.host = Some(patterns()?),
            _ => {
                let all = texts.iter().flat_map(|text| text.split(','));
                let all = all.map(bound).collect::<Option<Vec<_>>>();
                let all = all.filter(|all| !all.is_empty());
                let wanted = "a number of nodes, such as `4`, `>=4` or `>=4,<64`";
                self.nodes = Some(all.ok_or(wanted)?);
            }
        }
        Ok(())
    }

    /// Whether it says nothing.
    pub(super) fn is_empty(&self) -> bool {
        *self == Selector::default()
    }

    /// Whether ranks of one job may find it to hold and not to hold.
    pub(super) fn is_by_host(&self) -> bool {
        self.host.is_some()
    }

    /// Whether all conditions hold. What is not known holds none.
    pub(super) fn holds(&self, here: &JobHere) -> bool {
        let any = |patterns: &[Pattern], name: &str| {
            let options = MatchOptions {
                case_sensitive: false,
                ..MatchOptions::default()
            };
            let matches = |pattern: &Pattern| pattern.matches_with(name, options);
            !name.is_empty() && patterns.iter().any(matches)
        };
        let partition = self.partition.as_ref().is_none_or(|patterns| {
            let name = here.partition.as_deref();
            name.is_some_and(|name| any(patterns, name))
        });
        let host = self.host.as_ref().is_none_or(|patterns| {
            let short = here.host.split('.').next().unwrap_or_default();
            any(patterns, &here.host) || any(patterns, short)
        });
        let nodes = self.nodes.as_ref().is_none_or(|bounds| {
            let within = |count: u64| {
                bounds.iter().all(|bound| match *bound {
                    NodeBound::Least(least) => count >= least,
                    NodeBound::Most(most) => count <= most,
                    NodeBound::Just(just) => count == just,
                })
            };
            here.nodes.is_some_and(within)
        });
        partition && host && nodes
    }
}

fn pattern(text: &str) -> Option<Pattern> {
    // In Slurm's lists brackets hold numbers, in patterns characters: `[01-16]` would be taken for
    // one of 0, 1 and 6.
    let is_list = |inside: &str| {
        let parts = inside.split(['-', ',']);
        inside.contains(',')
            || parts
                .into_iter()
                .any(|part| part.len() > 1 && is_number(part))
    };
    let mut inside = text.split('[').skip(1);
    if text.is_empty() || inside.any(|rest| is_list(rest.split(']').next().unwrap_or(rest))) {
        return None;
    }
    Pattern::new(text).ok()
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

fn bound(text: &str) -> Option<NodeBound> {
    let text = text.trim();
    let number = |rest: &str| rest.trim().parse::<u64>().ok();
    for (sign, make) in [
        (">=", NodeBound::Least as fn(u64) -> NodeBound),
        ("<=", NodeBound::Most),
        (">", |number| NodeBound::Least(number.saturating_add(1))),
        // Fewer than none is nobody.
        ("<", |number| NodeBound::Most(number.saturating_sub(1))),
        ("=", NodeBound::Just),
        ("", NodeBound::Just),
    ] {
        if let Some(rest) = text.strip_prefix(sign) {
            return number(rest).filter(|&n| n > 0).map(make);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(key: &str, text: &str, here: &JobHere) -> bool {
        let mut selector = Selector::default();
        selector.add(key, &[text.to_owned()]).unwrap();
        assert_eq!(selector.is_by_host(), key == "host");
        selector.holds(here)
    }

    #[test]
    fn numbers_of_nodes() {
        for (text, held) in [
            ("4", [false, true, false]),
            ("=4", [false, true, false]),
            (">=4", [false, true, true]),
            ("<= 4", [true, true, false]),
            (">4", [false, false, true]),
            ("<4", [true, false, false]),
            (">=4,<5", [false, true, false]),
        ] {
            for (nodes, held) in [3, 4, 5].into_iter().zip(held) {
                let here = JobHere {
                    nodes: Some(nodes),
                    ..JobHere::default()
                };
                assert_eq!(holds("nodes", text, &here), held, "{nodes} {text}");
            }
            assert!(!holds("nodes", text, &JobHere::default()), "not known");
        }
        for wrong in ["", ">", "=>4", "four", "4-8", "-1", ">=4,", "0", "<0"] {
            let added = Selector::default().add("nodes", &[wrong.to_owned()]);
            assert!(added.is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_of_hosts_and_partitions() {
        let here = JobHere {
            partition: Some("gpu-long".into()),
            host: "node17.site.org".into(),
            nodes: None,
        };
        for (text, held) in [
            ("node17", true),
            ("NODE17", true),
            ("node*", true),
            ("node1?", true),
            ("node[0-9]7", true),
            ("*.site.org", true),
            ("node1", false),
            ("ode17", false),
            ("login*", false),
        ] {
            assert_eq!(holds("host", text, &here), held, "{text}");
            assert!(
                !holds("host", text, &JobHere::default()),
                "{text}: not known"
            );
        }
        for (text, held) in [("gpu*", true), ("gpu-long", true), ("gpu", false)] {
            assert_eq!(holds("partition", text, &here), held, "{text}");
        }
        assert!(!holds("partition", "*", &JobHere::default()), "no job");
        for wrong in [
            "node[01-16]",
            "node[1,3]",
            "node[1-16]",
            "",
            "node[",
            "a***b",
        ] {
            let added = Selector::default().add("host", &[wrong.to_owned()]);
            assert!(added.is_err(), "{wrong}");
        }
        assert!(Selector::default().add("host", &[]).is_err());
    }
}
