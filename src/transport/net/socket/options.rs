//! Options of sockets, and their bounds.

use crate::base::interfaces::Family;
use crate::config::{Settings, SocketFamily};
use std::time::Duration;

/// The most sockets of one connection.
pub const MAX_SOCKETS: u16 = 64;

/// The most buffers that are posted on one connection.
pub const MAX_POSTED: usize = 64;

/// Options of sockets, as plain values.
#[derive(Clone, Debug)]
pub struct SocketOptions {
    /// Interfaces to use, in the syntax of [`interfaces::matches`]; `None` chooses.
    pub ifname: Option<String>,
    /// Address families to use.
    pub family: Family,
    /// Sockets of one connection, 1 to 64; the sender's value counts.
    pub sockets: u16,
    /// Whether the payload of every message that is sent has a checksum.
    pub checksum: bool,
    /// How long a link may be silent before it is lost, counted as at least 3 s; `None`: as long
    /// as the system bears it.
    pub link_timeout: Option<Duration>,
}

impl Default for SocketOptions {
    fn default() -> SocketOptions {
        SocketOptions {
            ifname: None,
            family: Family::Any,
            sockets: 1,
            checksum: false,
            link_timeout: Some(Duration::from_secs(30)),
        }
    }
}

impl From<&Settings> for SocketOptions {
    fn from(settings: &Settings) -> SocketOptions {
        let most = u32::from(MAX_SOCKETS);
        SocketOptions {
            ifname: settings.socket_ifname().map(|list| list.to_string()),
            family: match settings.socket_family() {
                SocketFamily::Any => Family::Any,
                SocketFamily::Ipv4 => Family::V4,
                SocketFamily::Ipv6 => Family::V6,
            },
            // The option allows no more than that.
            sockets: settings.net_sockets().clamp(1, most) as u16,
            checksum: settings.net_checksum(),
            link_timeout: settings.net_link_timeout(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_from_the_settings() {
        let options = SocketOptions::from(&Settings::defaults());
        let default = SocketOptions::default();
        assert_eq!(options.sockets, default.sockets);
        assert_eq!(options.link_timeout, default.link_timeout);
        assert_eq!(options.checksum, default.checksum);
    }
}
