//! Settings of the bootstrap, as plain values.

use super::net;
use crate::base::birth::Birth;
pub use crate::base::interfaces::Family;
use crate::base::interfaces::{self, Interface};
use crate::base::turns;
use crate::base::{Error, Result};
use crate::config::{Settings, SocketFamily};
use crate::trust::secrets::Secrets;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Receives a warning sentence while start-up waits; may be called from any thread.
pub type Warn = Arc<dyn Fn(&str) + Send + Sync>;

/// Settings of the bootstrap network.
#[derive(Clone)]
pub struct NetSettings {
    /// Interfaces to use, in the syntax of [`crate::base::interfaces::matches`]; `None` chooses.
    pub socket_ifname: Option<String>,
    /// Address families to use.
    pub socket_family: Family,
    /// `host:port` where rank 0 listens instead of a port that the kernel picks.
    pub comm_id: Option<String>,
    /// A file that holds a secret of all ranks, where nobody hands one over.
    pub secret_file: Option<PathBuf>,
    /// The socket of another `munged` than the system's.
    pub munge_socket: Option<PathBuf>,
    /// How long an operation may wait for ranks that are alive but late; `None`: for ever.
    pub timeout: Option<Duration>,
    /// How long the ranks may take to meet, and to exchange what start-up needs; `None`: for ever.
    pub meet_limit: Option<Duration>,
    /// When to warn, once, which ranks are late.
    pub warn_after: Duration,
    /// How long to go on trying to connect to a listener that should be there.
    pub connect_limit: Duration,
    /// How long to go on looking for a rank 0 whose address was known before it was started.
    pub start_limit: Duration,
    /// Number of ranks above which they reach the root one after the other.
    pub stagger_threshold: u32,
    /// How many ranks then reach it in a second; at least 1.
    pub stagger_rate: u32,
    /// The ports at which rank 0 may listen where Slurm variables say where: first and count.
    pub slurm_ports: (u32, u32),
    /// How long a new connection may take to prove itself.
    pub hello_limit: Duration,
    /// The process that a rank counts to, instead of the one that it is in: for tests.
    pub process_of: Option<fn(u32) -> u32>,
    /// Where warnings go; by default to `tracing`.
    pub warn: Warn,
    /// The start that this is for: it may be called off while it waits.
    pub birth: Option<Arc<Birth>>,
}

impl From<&Settings> for NetSettings {
    fn from(settings: &Settings) -> NetSettings {
        // A connection takes a moment even where everything is there.
        let meet_limit = settings.start_timeout();
        let meet_limit = meet_limit.map(|limit| limit.max(Duration::from_secs(1)));
        let usual = NetSettings::default();
        NetSettings {
            socket_ifname: settings.socket_ifname().map(|list| list.to_string()),
            socket_family: match settings.socket_family() {
                SocketFamily::Any => Family::Any,
                SocketFamily::Ipv4 => Family::V4,
                SocketFamily::Ipv6 => Family::V6,
            },
            comm_id: settings.comm_id().map(|id| id.to_string()),
            secret_file: settings.secret_file().map(Path::to_path_buf),
            munge_socket: settings.munge_socket().map(Path::to_path_buf),
            timeout: settings.timeout(),
            warn_after: settings.warn_after().unwrap_or(Duration::MAX),
            meet_limit,
            start_limit: meet_limit.unwrap_or(usual.start_limit),
            connect_limit: usual.connect_limit.min(meet_limit.unwrap_or(Duration::MAX)),
            stagger_threshold: settings.uid_stagger_threshold(),
            stagger_rate: settings.uid_stagger_rate(),
            slurm_ports: (settings.slurm_port(), settings.slurm_port_count()),
            ..usual
        }
    }
}

impl NetSettings {
    /// Finds the secrets of this machine.
    ///
    /// # Errors
    /// `KOLO_SECRET_FILE` names a file that cannot be used.
    pub(super) fn secrets(&self) -> Result<Secrets> {
        Secrets::found(self.secret_file.as_deref(), self.munge_socket.as_deref())
    }

    /// Whether the start goes on.
    ///
    /// # Errors
    /// It was called off.
    pub fn go_on(&self) -> Result<()> {
        self.birth.as_ref().map_or(Ok(()), |birth| birth.go_on())
    }

    /// Rests, unless the start is called off.
    ///
    /// # Errors
    /// It was called off.
    pub fn rest(&self, time: Duration) -> Result<()> {
        match &self.birth {
            Some(birth) => birth.rest(time),
            None => {
                turns::sleep(time);
                Ok(())
            }
        }
    }

    /// Sleeps until something happens in `set` or `limit` has passed (`None`: for ever).
    ///
    /// # Errors
    /// The start was called off; `SystemError` where the system has no memory for it.
    pub fn wait(&self, set: &mut Vec<libc::pollfd>, limit: Option<Duration>) -> Result<()> {
        let bell = self.birth.as_ref().and_then(|birth| birth.bell());
        set.extend(bell.map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        }));
        self.go_on()?;
        net::poll(set, limit).map_err(|error| {
            let remedy = "check the memory of this node";
            Error::system("cannot wait for the network", &error, remedy)
        })?;
        self.go_on()
    }

    /// How long all ranks together may take to meet, and the variable that says so.
    pub fn meeting_limit(&self) -> Option<(Duration, &'static str)> {
        let meeting = self.meet_limit.map(|limit| (limit, "KOLO_START_TIMEOUT"));
        let waiting = self.timeout.map(|limit| (limit, "KOLO_TIMEOUT"));
        meeting.into_iter().chain(waiting).min()
    }

    /// The usable interfaces, best first; `meeting_point` is the address of an explicit
    /// `KOLO_COMM_ID`.
    pub fn interfaces(&self, meeting_point: Option<IpAddr>) -> Result<Vec<Interface>> {
        let list = self.socket_ifname.as_deref();
        interfaces::find(self.socket_family, list, meeting_point)
    }

    /// Whether one of the usable interfaces has this address.
    pub fn uses(&self, ip: IpAddr) -> bool {
        let list = self.socket_ifname.as_deref();
        let cards = interfaces::table(self.socket_family, list).map(|table| table.cards);
        let cards = cards.unwrap_or_default();
        let best = cards.first().map(|card| card.class);
        let mut used = cards.iter().filter(|card| Some(card.class) == best);
        used.any(|card| card.places.iter().any(|place| place.ip == ip))
    }
}

impl Default for NetSettings {
    fn default() -> NetSettings {
        NetSettings {
            socket_ifname: None,
            socket_family: Family::Any,
            comm_id: None,
            secret_file: None,
            munge_socket: None,
            timeout: None,
            meet_limit: None,
            warn_after: Duration::from_secs(60),
            connect_limit: Duration::from_secs(60),
            start_limit: Duration::from_secs(120),
            stagger_threshold: 256,
            stagger_rate: 7000,
            slurm_ports: (23_000, 5000),
            hello_limit: Duration::from_secs(5),
            process_of: None,
            warn: Arc::new(|sentence| tracing::warn!("{sentence}")),
            birth: None,
        }
    }
}

impl fmt::Debug for NetSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetSettings")
            .field("socket_ifname", &self.socket_ifname)
            .field("socket_family", &self.socket_family)
            .field("comm_id", &self.comm_id)
            .field("secret_file", &self.secret_file)
            .field("timeout", &self.timeout)
            .field("meet_limit", &self.meet_limit)
            .field("warn_after", &self.warn_after)
            .field("connect_limit", &self.connect_limit)
            .field("start_limit", &self.start_limit)
            .field("stagger_threshold", &self.stagger_threshold)
            .field("stagger_rate", &self.stagger_rate)
            .field("slurm_ports", &self.slurm_ports)
            .field("hello_limit", &self.hello_limit)
            .finish_non_exhaustive()
    }
}
