//! Settings: what kolo hands over, else the environment, else a default.
//!
//! The names are those of kolo's table of options, where they are documented and checked.

use kolo::base::interfaces::Family;
use kolo::base::{Error, Result};
use kolo_plugin::given::{Given, Key};
use std::time::Duration;

/// Keys in kolo's files; libfabric's own variables (`FI_*`) work beside them.
const KEYS: &[Key] = &[
    ("ofi_provider", ""),
    ("socket_ifname", "NCCL_SOCKET_IFNAME"),
    ("socket_family", "NCCL_SOCKET_FAMILY"),
    ("net_link_timeout", ""),
    // Whether it was asked for by name, in which case any provider will do.
    ("net", "NCCL_NET"),
];

/// Values that were handed over.
static GIVEN: Given = Given::new();

/// All settings of this library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The provider to use; `None`: the best one.
    pub provider: Option<String>,
    /// Whether it may be one that does nothing that kolo's other networks do not do as well.
    pub any_provider: bool,
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
    let provider = text("ofi_provider").filter(|name| !name.eq_ignore_ascii_case("auto"));
    Ok(Settings {
        any_provider: provider.is_some() || text("net").is_none_or(|net| net != "auto"),
        provider,
        ifname: text("socket_ifname"),
        family: text("socket_family").map_or(Ok(Family::Any), |text| text.parse())?,
        link_timeout: match look("net_link_timeout") {
            None => Some(Duration::from_secs(30)),
            Some((name, text)) => seconds(&name, &text)?,
        },
    })
}

fn seconds(name: &str, text: &str) -> Result<Option<Duration>> {
    let number = text.strip_suffix(['s', 'S']).unwrap_or(text).trim_end();
    match number.parse::<f64>() {
        _ if number.eq_ignore_ascii_case("none") => Ok(None),
        Ok(0.0) => Ok(None),
        Ok(time) if (0.001..=86_400.0).contains(&time) => Ok(Some(Duration::from_secs_f64(time))),
        _ => Err(Error::argument(
            format!("{name} is \"{text}\""),
            format!("set {name} to seconds from 0.001 to 86400, or none, or unset it"),
        )),
    }
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
    fn any_provider_will_do_where_somebody_asked() {
        let provider = |pairs: &[(&str, &str)]| {
            let settings = with(pairs).unwrap();
            (settings.any_provider, settings.provider)
        };
        assert_eq!(provider(&[]), (true, None));
        assert_eq!(provider(&[("net", "auto")]), (false, None));
        assert_eq!(provider(&[("net", "ofi")]), (true, None));
        let named = [("net", "auto"), ("ofi_provider", "tcp")];
        assert_eq!(provider(&named), (true, Some("tcp".into())));
        let auto = [("net", "auto"), ("ofi_provider", "AUTO")];
        assert_eq!(provider(&auto), (false, None));
    }

    #[test]
    fn times_are_read() {
        let limit = |text| with(&[("net_link_timeout", text)]).map(|all| all.link_timeout);
        assert_eq!(limit("none").unwrap(), None);
        assert_eq!(limit("0.5s").unwrap(), Some(Duration::from_millis(500)));
        assert!(limit("soon").unwrap_err().remedy.contains("none"));
    }
}
