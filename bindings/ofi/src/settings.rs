//! Settings: what kolo hands over, else the environment, else a default.
//!
//! The names are those of kolo's table of options, where they are documented and checked.

use kolo::base::Result;
use kolo::base::interfaces::Family;
use kolo_plugin::given::{Given, Key, seconds};
use std::time::Duration;

/// Keys in kolo's files; libfabric's own variables (`FI_*`) work beside them.
const KEYS: &[Key] = &[
    ("ofi_provider", ""),
    ("socket_ifname", "NCCL_SOCKET_IFNAME"),
    ("socket_family", "NCCL_SOCKET_FAMILY"),
    ("net_link_timeout", ""),
];

/// Values that were handed over.
static GIVEN: Given = Given::new();

/// All settings of this library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The provider to use; `None`: the best one.
    pub provider: Option<String>,
    /// Interfaces on which the two ends of a connection meet.
    pub ifname: Option<String>,
    /// Family of the addresses on which they meet.
    pub family: Family,
    /// How long a link may be silent.
    pub link_timeout: Option<Duration>,
}

/// Takes a value of a kolo option; it goes before the environment. False for an unknown key.
pub fn configure(key: &str, value: &str) -> bool {
    GIVEN.take(KEYS, key, value)
}

/// The settings as they are now. `InvalidArgument` names the variable and what it takes.
pub fn read() -> Result<Settings> {
    parse(&|key| {
        let known = KEYS.iter().find(|(known, _)| *known == key)?;
        GIVEN.look(*known)
    })
}

/// Finds the name and value of a key.
type Source<'a> = &'a dyn Fn(&str) -> Option<(String, String)>;

fn parse(look: Source) -> Result<Settings> {
    let text = |key: &str| look(key).map(|(_, text)| text);
    Ok(Settings {
        provider: text("ofi_provider").filter(|name| !name.eq_ignore_ascii_case("auto")),
        ifname: text("socket_ifname"),
        family: text("socket_family").map_or(Ok(Family::Any), |text| text.parse())?,
        link_timeout: match look("net_link_timeout") {
            None => Some(Duration::from_secs(30)),
            Some((name, text)) => seconds(&name, &text)?,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Result<Settings> {
        parse(&|key| {
            let found = pairs.iter().find(|(known, _)| *known == key)?;
            Some((format!("KOLO_{key}"), found.1.to_string()))
        })
    }

    #[test]
    fn the_best_provider_has_no_name() {
        let provider = |name| with(&[("ofi_provider", name)]).unwrap().provider;
        assert_eq!(provider("tcp"), Some("tcp".into()));
        assert_eq!(provider("AUTO"), None);
        assert_eq!(with(&[]).unwrap().provider, None);
    }

    #[test]
    fn times_are_read() {
        let limit = |text| with(&[("net_link_timeout", text)]).map(|all| all.link_timeout);
        assert_eq!(limit("none").unwrap(), None);
        assert_eq!(limit("0.5s").unwrap(), Some(Duration::from_millis(500)));
        assert!(limit("soon").unwrap_err().remedy.contains("none"));
    }
}
