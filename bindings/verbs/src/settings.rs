//! Settings: what kolo hands over, else the environment, else a default.
//!
//! The names are those of kolo's table of options, where they are documented and checked. kolo
//! hands over what its files and the program say ([`configure`]); other users of the table have
//! the environment, with `NCCL_*` as second names.

use kolo::base::Result;
use kolo::base::interfaces::Family;
use kolo_plugin::given::{Given, Key, seconds, wrong};
use std::time::Duration;

/// Most queue pairs of a connection.
pub const MAX_QUEUES: u32 = 16;

/// Key in kolo's files, second name in the environment.
const KEYS: &[Key] = &[
    ("ib_hca", "NCCL_IB_HCA"),
    ("ib_disable", "NCCL_IB_DISABLE"),
    ("ib_gid_index", "NCCL_IB_GID_INDEX"),
    ("ib_qps_per_connection", "NCCL_IB_QPS_PER_CONNECTION"),
    ("ib_split_data_on_qps", "NCCL_IB_SPLIT_DATA_ON_QPS"),
    ("ib_tc", "NCCL_IB_TC"),
    ("ib_sl", "NCCL_IB_SL"),
    ("ib_timeout", "NCCL_IB_TIMEOUT"),
    ("ib_retry_cnt", "NCCL_IB_RETRY_CNT"),
    ("socket_ifname", "NCCL_SOCKET_IFNAME"),
    ("socket_family", "NCCL_SOCKET_FAMILY"),
    ("net_link_timeout", ""),
];

/// Values that were handed over.
static GIVEN: Given = Given::new();

/// All settings of this library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Which devices and ports; see [`crate::filter`].
    pub hca: Option<String>,
    /// Not to be used at all.
    pub disable: bool,
    /// Index into the table of addresses of a port; `None`: the best one.
    pub gid_index: Option<u32>,
    /// Queue pairs of one connection, 1 to [`MAX_QUEUES`].
    pub queues: u32,
    /// Spread each message over all queue pairs, instead of one after the other.
    pub split: bool,
    /// Traffic class of RoCE and of global routes; `None`: as the caller says, else 0.
    pub traffic_class: Option<u8>,
    /// Service level.
    pub service_level: u8,
    /// Wait of the adapter before it sends again: 4.096 us times 2 to this power.
    pub timeout: u8,
    /// How often the adapter sends again.
    pub retry_count: u8,
    /// Interfaces on which the two ends of a connection meet.
    pub ifname: Option<String>,
    /// Family of the addresses on which they meet.
    pub family: Family,
    /// How long a link may be silent.
    pub link_timeout: Option<Duration>,
}

/// Takes a value of a kolo option; it goes before the environment. False for an unknown key.
/// Values are checked when the network is started.
pub fn configure(key: &str, value: &str) -> bool {
    GIVEN.take(KEYS, key, value)
}

/// The settings as they are now. `InvalidArgument` names the variable and what it takes.
pub fn read() -> Result<Settings> {
    parse(&|key, alias| GIVEN.look((key, alias)))
}

/// Finds the name and value of a key and its alias.
type Source<'a> = &'a dyn Fn(&'static str, &'static str) -> Option<(String, String)>;

fn parse(source: Source) -> Result<Settings> {
    let look = |key: &str| {
        let (key, alias) = KEYS.iter().find(|(known, _)| *known == key).copied()?;
        source(key, alias)
    };
    let number = |key: &str, least: u32, most: u32, usual: u32| match look(key) {
        None => Ok(usual),
        Some((name, text)) => match text.parse() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(wrong(&name, &text, &format!("from {least} to {most}"))),
        },
    };
    let auto = |key: &str, most: u32| match look(key) {
        None => Ok(None),
        Some((_, text)) if text.eq_ignore_ascii_case("auto") || text == "-1" => Ok(None),
        Some(_) => number(key, 0, most, 0).map(Some),
    };
    let flag = |key: &str| match look(key) {
        None => Ok(false),
        Some((name, text)) => match text.to_ascii_lowercase().as_str() {
            "1" | "true" | "yes" | "on" => Ok(true),
            "0" | "false" | "no" | "off" => Ok(false),
            _ => Err(wrong(&name, &text, "true or false")),
        },
    };
    let small = |value: u32| value as u8;
    Ok(Settings {
        hca: look("ib_hca").map(|(_, text)| text),
        disable: flag("ib_disable")?,
        gid_index: auto("ib_gid_index", 255)?,
        queues: number("ib_qps_per_connection", 1, MAX_QUEUES, 1)?,
        split: flag("ib_split_data_on_qps")?,
        traffic_class: auto("ib_tc", 255)?.map(small),
        service_level: small(number("ib_sl", 0, 15, 0)?),
        timeout: small(number("ib_timeout", 1, 31, 19)?),
        retry_count: small(number("ib_retry_cnt", 0, 7, 6)?),
        ifname: look("socket_ifname").map(|(_, text)| text),
        family: match look("socket_family") {
            None => Family::Any,
            Some((_, text)) => text.parse()?,
        },
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
        parse(&|key, alias| {
            let own = format!("KOLO_{}", key.to_ascii_uppercase());
            let named = |name: &str| pairs.iter().find(|(known, _)| *known == name);
            let found = named(&own).or_else(|| named(alias))?;
            Some((found.0.to_string(), found.1.to_string()))
        })
    }

    #[test]
    fn defaults_give_up_in_bounded_time() {
        let usual = with(&[]).unwrap();
        assert_eq!(
            (usual.queues, usual.split, usual.disable),
            (1, false, false)
        );
        assert_eq!((usual.gid_index, usual.traffic_class), (None, None));
        let wait = 4.096e-6 * f64::from(1 << usual.timeout);
        let all = wait * f64::from(usual.retry_count + 1);
        assert!(all > 3.0 && all < 30.0, "{all} s");
        // Some adapters take 7 for "never give up".
        assert!(usual.retry_count < 7);
        assert_eq!(usual.link_timeout, Some(Duration::from_secs(30)));
    }

    #[test]
    fn own_names_go_before_second_names() {
        let both = [("NCCL_IB_TIMEOUT", "20"), ("KOLO_IB_TIMEOUT", "14")];
        assert_eq!(with(&both).unwrap().timeout, 14);
        assert_eq!(with(&both[..1]).unwrap().timeout, 20);
        assert_eq!(
            with(&[("NCCL_IB_GID_INDEX", "-1")]).unwrap().gid_index,
            None
        );
        assert_eq!(
            with(&[("KOLO_IB_GID_INDEX", "0")]).unwrap().gid_index,
            Some(0)
        );
        assert_eq!(
            with(&[("KOLO_NET_LINK_TIMEOUT", "none")])
                .unwrap()
                .link_timeout,
            None
        );
        assert_eq!(
            with(&[("KOLO_NET_LINK_TIMEOUT", "0.5")])
                .unwrap()
                .link_timeout,
            Some(Duration::from_millis(500))
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (name, value, part) in [
            ("NCCL_IB_RETRY_CNT", "8", "from 0 to 7"),
            ("KOLO_IB_TIMEOUT", "0", "from 1 to 31"),
            ("KOLO_IB_DISABLE", "maybe", "true or false"),
            ("KOLO_IB_QPS_PER_CONNECTION", "17", "from 1 to 16"),
            ("KOLO_IB_GID_INDEX", "first", "from 0 to 255"),
            ("KOLO_NET_LINK_TIMEOUT", "soon", "none"),
        ] {
            let error = with(&[(name, value)]).unwrap_err();
            assert!(
                error.what.contains(name) && error.what.contains(value),
                "{error}"
            );
            assert!(error.remedy.contains(part), "{error}");
        }
    }

    #[test]
    fn what_is_handed_over_goes_before_the_environment() {
        assert!(configure("ib_hca", " =rxe0 ") && !configure("ib_colour", "red"));
        assert_eq!(read().unwrap().hca.as_deref(), Some("=rxe0"));
        assert!(configure("ib_hca", ""));
        assert_eq!(read().unwrap().hca, None);
    }
}
