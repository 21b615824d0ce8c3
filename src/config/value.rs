//! Values of options after they have been checked, and the types that hold the structured ones.

use super::lists::ChoiceList;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// A checked value. Which variant an option has follows from its [`Kind`](super::Kind).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Not given; the option then has no value at all (an address, a file, a list).
    Unset,
    /// A number.
    Int(u64),
    /// A number of bytes.
    Bytes(u64),
    /// A span of time, in whole milliseconds.
    Seconds(Duration),
    /// The word that stands for zero, such as `auto` or `none`.
    Zero(&'static str),
    /// Yes or no.
    Bool(bool),
    /// One word of the option's list, in the spelling that kolo prints.
    Word(&'static str),
    /// Words that may be chosen.
    Lists(ChoiceList),
    /// The name of a file.
    Path(String),
    /// Any words.
    Text(String),
    /// A list of prefixes.
    Prefixes(PrefixList),
    /// A host and a port.
    Address(HostPort),
    /// A fault to inject.
    Fault(FaultFlip),
}

impl Value {
    /// The value as it is written in a TOML file.
    pub fn toml(&self) -> String {
        match self {
            Value::Int(number) => number.to_string(),
            Value::Seconds(time) => seconds_text(*time),
            Value::Bool(yes) => yes.to_string(),
            other => toml::Value::String(other.to_string()).to_string(),
        }
    }
}

/// The value as it is written in an environment variable; empty when it is not set.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Unset => Ok(()),
            Value::Int(number) => number.fmt(f),
            Value::Bytes(bytes) => f.write_str(&size_text(*bytes)),
            Value::Seconds(time) => f.write_str(&seconds_text(*time)),
            Value::Zero(word) | Value::Word(word) => f.write_str(word),
            Value::Bool(yes) => yes.fmt(f),
            Value::Lists(lists) => lists.fmt(f),
            Value::Path(text) | Value::Text(text) => f.write_str(text),
            Value::Prefixes(list) => list.fmt(f),
            Value::Address(address) => address.fmt(f),
            Value::Fault(fault) => fault.fmt(f),
        }
    }
}

/// A size with the largest suffix that keeps it exact: 1048576 is `1M`.
pub(super) fn size_text(bytes: u64) -> String {
    for (shift, suffix) in [(40, 'T'), (30, 'G'), (20, 'M'), (10, 'K')] {
        if bytes != 0 && bytes.trailing_zeros() >= shift {
            return format!("{}{suffix}", bytes >> shift);
        }
    }
    bytes.to_string()
}

fn seconds_text(time: Duration) -> String {
    if time.subsec_nanos() == 0 {
        time.as_secs().to_string()
    } else {
        time.as_secs_f64().to_string()
    }
}

/// A list of name prefixes: `eth,ib` takes names that begin so, `^docker,lo` takes all others, and
/// `=` after the optional `^` compares whole names instead of beginnings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixList {
    /// Whether the list names what is *not* taken (`^`).
    pub exclude: bool,
    /// Whether whole names are compared (`=`).
    pub exact: bool,
    /// The names or their beginnings; never empty.
    pub names: Vec<String>,
}

impl PrefixList {
    /// Whether the list takes `name`.
    pub fn allows(&self, name: &str) -> bool {
        let listed = self.names.iter().any(|entry| {
            if self.exact {
                name == entry
            } else {
                name.starts_with(entry.as_str())
            }
        });
        listed != self.exclude
    }

    /// The list that `text` writes, or `None` where it is not a list of interface names.
    pub fn parse(text: &str) -> Option<PrefixList> {
        /// Linux bounds the name of an interface to `IFNAMSIZ - 1` bytes.
        const LONGEST: usize = 15;
        PrefixList::of_names(text, LONGEST)
    }

    /// The list that `text` writes, or `None` where it is not a list of RDMA devices, each with or
    /// without `:` and a port from 1 to 255.
    pub fn parse_ports(text: &str) -> Option<PrefixList> {
        /// Linux bounds the name of a device to 63 bytes; `:255` may follow.
        const LONGEST: usize = 67;
        let port = |name: &String| match name.split_once(':') {
            Some((device, port)) => {
                !device.is_empty() && port.parse::<u8>().is_ok_and(|port| port > 0)
            }
            None => true,
        };
        PrefixList::of_names(text, LONGEST).filter(|list| list.names.iter().all(port))
    }

    fn of_names(text: &str, longest: usize) -> Option<PrefixList> {
        let (exclude, rest) = strip(text.trim(), '^');
        let (exact, rest) = strip(rest, '=');
        let names: Vec<String> = rest
            .split(',')
            .map(|name| name.trim().to_string())
            .collect();
        let good = |name: &String| {
            (1..=longest).contains(&name.len())
                && !name
                    .contains(|c: char| c.is_whitespace() || c.is_control() || "/^=".contains(c))
        };
        names.iter().all(good).then_some(PrefixList {
            exclude,
            exact,
            names,
        })
    }
}

fn strip(text: &str, mark: char) -> (bool, &str) {
    match text.strip_prefix(mark) {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

impl fmt::Display for PrefixList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let exclude = if self.exclude { "^" } else { "" };
        let exact = if self.exact { "=" } else { "" };
        write!(f, "{exclude}{exact}{}", self.names.join(","))
    }
}

/// A host name or address with a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// A name, an IPv4 address, or an IPv6 address without its brackets.
    pub host: String,
    /// 1..=65535.
    pub port: u16,
}

impl HostPort {
    /// The address that `text` writes as `host:port` or `[IPv6]:port`.
    pub fn parse(text: &str) -> Option<HostPort> {
        let (host, port) = text.trim().rsplit_once(':')?;
        let port: u16 = port.parse().ok().filter(|&port| port != 0)?;
        let host = match host.strip_prefix('[') {
            Some(rest) => {
                let host = rest.strip_suffix(']')?;
                // A link-local address may name its interface after a percent sign.
                let address = host.split('%').next()?;
                address.parse::<std::net::Ipv6Addr>().ok()?;
                host
            }
            None => host,
        };
        let bracketed = text.trim().starts_with('[');
        let named = !host.is_empty()
            && host
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-._".contains(c));
        (bracketed || named).then(|| HostPort {
            host: host.to_string(),
            port,
        })
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// One bit to flip, so that tests can show that a wrong result is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultFlip {
    /// The collective call of the communicator, counted from 0.
    pub call: u64,
    /// The rank that flips a bit.
    pub rank: u32,
    /// Which of the slots or lines that the rank publishes in that call, counted from 0.
    pub slot: u64,
}

impl FaultFlip {
    /// The fault that `text` writes as `call:rank:slot`.
    pub fn parse(text: &str) -> Option<FaultFlip> {
        let mut parts = text.trim().split(':');
        let fault = FaultFlip {
            call: parts.next()?.parse().ok()?,
            rank: parts.next()?.parse().ok()?,
            slot: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(fault)
    }
}

impl fmt::Display for FaultFlip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.call, self.rank, self.slot)
    }
}

/// Types that a typed getter returns, each taken from the checked value.
///
/// A getter whose type does not fit the kind of its option would be a fault of the table; a test
/// reads every getter, so [`wrong_kind`] is never reached in a build that passed its tests.
pub(super) trait FromValue<'a>: Sized {
    fn from_value(value: &'a Value) -> Self;
}

/// Ends a getter whose type does not fit the kind of its option.
pub(super) fn wrong_kind(value: &Value) -> ! {
    unreachable!("the table of options gives a getter the wrong type for {value:?}")
}

macro_rules! from_value {
    ($($type:ty { $($pattern:pat => $result:expr),+ $(,)? })+) => { $(
        impl<'a> FromValue<'a> for $type {
            fn from_value(value: &'a Value) -> Self {
                match value { $($pattern => $result,)+ other => wrong_kind(other) }
            }
        }
    )+ };
}

from_value! {
    u64 { Value::Bytes(bytes) => *bytes }
    u32 { Value::Int(number) => u32::try_from(*number).unwrap_or(u32::MAX) }
    bool { Value::Bool(yes) => *yes }
    Duration { Value::Seconds(time) => *time, Value::Zero(_) => Duration::ZERO }
    Option<u64> { Value::Bytes(bytes) => Some(*bytes), Value::Zero(_) => None }
    Option<u32> {
        Value::Int(number) => Some(u32::try_from(*number).unwrap_or(u32::MAX)),
        Value::Zero(_) => None,
    }
    Option<Duration> { Value::Seconds(time) => Some(*time), Value::Zero(_) => None }
    &'a ChoiceList { Value::Lists(lists) => lists }
    Option<&'a Path> { Value::Path(path) => Some(Path::new(path)), Value::Unset => None }
    Option<&'a str> { Value::Text(text) => Some(text), Value::Unset => None }
    Option<&'a PrefixList> { Value::Prefixes(list) => Some(list), Value::Unset => None }
    Option<&'a HostPort> { Value::Address(address) => Some(address), Value::Unset => None }
    Option<FaultFlip> { Value::Fault(fault) => Some(*fault), Value::Unset => None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_lists() {
        let list = |text| PrefixList::parse(text).unwrap();
        assert!(list("eth,ib").allows("eth0") && list("eth,ib").allows("ib1"));
        assert!(!list("eth").allows("lo"));
        assert!(list("^docker,lo").allows("eth0") && !list("^docker,lo").allows("docker0"));
        assert!(list("=eth1").allows("eth1") && !list("=eth1").allows("eth10"));
        assert!(list("^=eth1").allows("eth10") && !list("^=eth1").allows("eth1"));
        for text in ["eth", "eth,ib", "^docker,lo", "=eth1", "^=eth1,eth2"] {
            assert_eq!(list(text).to_string(), text);
        }
        assert_eq!(list(" ^ib , eth ").to_string(), "^ib,eth");
        for bad in [
            "",
            "^",
            "=",
            "^=",
            "eth,,ib",
            "a b",
            "=^eth",
            "a/b",
            "abcdefghijklmnop",
        ] {
            assert_eq!(PrefixList::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn lists_of_devices_and_ports() {
        for text in ["mlx5_0:1,mlx5_2", "^=rocep193s0f0np0:2", "bnxt_re_bond0"] {
            assert_eq!(PrefixList::parse_ports(text).unwrap().to_string(), text);
        }
        for bad in [
            "mlx5_0:",
            "mlx5_0:0",
            "mlx5_0:256",
            ":1",
            "mlx5_0:1:2",
            "a b",
            "",
        ] {
            assert_eq!(PrefixList::parse_ports(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn addresses() {
        for text in [
            "node1:5000",
            "10.0.0.1:1",
            "[fe80::1%eth0]:65535",
            "[::1]:80",
        ] {
            assert_eq!(HostPort::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(HostPort::parse("[::1]:80").unwrap().host, "::1");
        for bad in [
            "",
            "node1",
            "node1:",
            ":80",
            "node1:0",
            "node1:65536",
            "::1:80",
            "[::1]",
            "[x]:1",
            "[]:1",
            "a b:1",
            "[10.0.0.1]:1",
        ] {
            assert_eq!(HostPort::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn faults() {
        let fault = FaultFlip {
            call: 3,
            rank: 1,
            slot: 0,
        };
        assert_eq!(FaultFlip::parse("3:1:0"), Some(fault));
        assert_eq!(fault.to_string(), "3:1:0");
        for bad in ["", "3", "3:1", "3:1:0:0", "3:-1:0", "a:b:c"] {
            assert_eq!(FaultFlip::parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn sizes_and_times_are_written_short_and_exact() {
        for (bytes, text) in [
            (0, "0"),
            (1, "1"),
            (1024, "1K"),
            (1 << 20, "1M"),
            (3 << 20, "3M"),
            (1536, "1536"),
            (65536, "64K"),
            (1 << 30, "1G"),
            (1 << 41, "2T"),
        ] {
            assert_eq!(size_text(bytes), text);
        }
        assert_eq!(seconds_text(Duration::from_secs(60)), "60");
        assert_eq!(seconds_text(Duration::from_millis(1500)), "1.5");
        assert_eq!(Value::Path("a\"b".into()).toml(), r#"'a"b'"#);
        assert_eq!(Value::Bytes(1 << 20).toml(), "\"1M\"");
    }
}
