//! Making a unique id, and starting the root behind it: here where the id is made, or in rank 0
//! where the id names an address.

use super::settings::NetSettings;
use super::stream::Listener;
use super::tcp_root::Root;
use super::unique_id::{PUBLIC, UniqueId};
use super::{net, office};
use crate::base::clock::now;
use crate::base::{Error, Result};
use crate::trust::secret::Secret;
use crate::trust::secrets::Secrets;
use std::net::SocketAddr;
use std::time::Duration;

/// How long to try to open a forced port that an earlier root is still leaving.
const REBIND_LIMIT: Duration = Duration::from_secs(2);

const REBIND_PAUSE: Duration = Duration::from_millis(20);

impl UniqueId {
    /// Makes a new id; one rank calls it and hands the bytes to all.
    ///
    /// Without [`NetSettings::comm_id`] this opens a port that the kernel picks on the first
    /// usable interface (one for all ids that wait) and starts the root behind it, so the calling
    /// process must live until every rank has joined. With it, the id holds that address and no
    /// secret: every rank may call it and gets the same id, the ranks look for a secret that they
    /// share ([`crate::trust::secrets`]), and the root starts when rank 0 joins, on the machine of
    /// that address.
    #[doc(hidden)]
    pub fn create(settings: &NetSettings) -> Result<UniqueId> {
        if let Some(text) = &settings.comm_id {
            let address = net::resolve(text, settings.socket_family)?;
            let secret = Secret::from_text(text);
            let place = (text.trim(), address);
            return Ok(UniqueId::named(&secret, place, net::is_name(text), PUBLIC));
        }
        let secret = Secret::random()?;
        let address = start_any(&secret, settings)?;
        Ok(UniqueId::build(&secret, address, 0))
    }

    /// Makes an id for one rank that hands it to the others in any case: the secret is random even
    /// where the address is given.
    pub(crate) fn create_to_share(settings: &NetSettings) -> Result<UniqueId> {
        let Some(text) = &settings.comm_id else {
            return UniqueId::create(settings);
        };
        let mut address = net::resolve(text, settings.socket_family)?;
        let by_name = net::is_name(text);
        if by_name && address.ip().is_loopback() {
            // The others would look for it on their own machines.
            let interface = &settings.interfaces(None)?[0];
            address = interface.socket_address(address.port());
        }
        let place = (text.trim(), address);
        Ok(UniqueId::named(&Secret::random()?, place, by_name, 0))
    }

    /// The secrets of the ranks of this id: its own, or those that the machine has.
    ///
    /// # Errors
    /// `KOLO_SECRET_FILE` names a file that cannot be used.
    pub(super) fn secrets(&self, settings: &NetSettings) -> Result<Secrets> {
        if self.is_public() {
            return Ok(settings.secrets()?.or_text(self.secret()));
        }
        Ok(Secrets::given(&self.secret()))
    }
}

/// Starts the root of an id that is being made, at the first usable interface; returns where.
fn start_any(secret: &Secret, settings: &NetSettings) -> Result<SocketAddr> {
    net::raise_file_limit();
    let interface = &settings.interfaces(None)?[0];
    let root = Root::new(settings)?;
    let place = office::Place::Shared(interface.socket_address(0).ip());
    let opened = || open(interface.socket_address(0), &interface.name);
    office::add(
        place,
        secret.public(),
        Secrets::given(secret),
        settings.hello_limit,
        root,
        opened,
    )
}

/// Starts the root of an id that names where it must be.
pub(crate) fn start_named(id: &UniqueId, settings: &NetSettings) -> Result<()> {
    net::raise_file_limit();
    let secrets = id.secrets(settings)?;
    secrets.warn(&*settings.warn);
    let root = Root::new(settings)?;
    let opened = || open_named(id, settings);
    let place = office::Place::Own;
    office::add(
        place,
        id.public(),
        secrets,
        settings.hello_limit,
        root,
        opened,
    )
    .map(drop)
}

/// Opens a listener for a rank or a root, with words for the case that it cannot.
pub(crate) fn open(address: SocketAddr, name: &str) -> Result<(Listener, SocketAddr)> {
    net::listen(address).map_err(|error| {
        Error::system(
            format!("cannot listen on {name} at {}", address.ip()),
            &error,
            "choose another interface with KOLO_SOCKET_IFNAME",
        )
    })
}

/// A given port may be in use for a moment by an earlier root; with several, the first that is free
/// is taken, because the other ranks look for the root at all of them.
fn open_named(id: &UniqueId, settings: &NetSettings) -> Result<(Listener, SocketAddr)> {
    let begin = now();
    loop {
        let mut failure = None;
        for address in id.addresses() {
            let opened = match id.is_everywhere() {
                true => net::listen_everywhere(address.port(), settings.socket_family),
                false => net::listen(address),
            };
            match opened {
                Ok(open) => return Ok(open),
                Err(error) => failure.get_or_insert(error),
            };
        }
        let error = failure.unwrap_or_else(|| std::io::ErrorKind::AddrNotAvailable.into());
        if error.kind() != std::io::ErrorKind::AddrInUse || begin.past(REBIND_LIMIT) {
            return Err(cannot_open(id, &error));
        }
        settings.rest(REBIND_PAUSE)?;
    }
}

fn cannot_open(id: &UniqueId, error: &std::io::Error) -> Error {
    let ports: Vec<String> = id
        .addresses()
        .iter()
        .map(|a| a.port().to_string())
        .collect();
    match id.is_by_slurm() {
        true => Error::system(
            format!(
                "rank 0 cannot listen on any of the ports {} that follow from the Slurm variables",
                ports.join(", ")
            ),
            error,
            "choose a range of ports that no daemon uses with KOLO_SLURM_PORT and \
             KOLO_SLURM_PORT_COUNT, the same on every rank",
        ),
        false if id.is_everywhere() => Error::system(
            format!(
                "rank 0 cannot listen at port {} of this machine, which KOLO_COMM_ID names by {}",
                id.address().port(),
                id.place()
            ),
            error,
            "KOLO_COMM_ID must name a port that no other program or job uses on the machine where \
             rank 0 runs",
        ),
        false => Error::system(
            format!(
                "rank 0 cannot listen at {}, which KOLO_COMM_ID names",
                id.address()
            ),
            error,
            "KOLO_COMM_ID must name an address of the machine where rank 0 runs and a port that \
             no other program or job uses",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `127.0.1.1 node1` in /etc/hosts of node1: the others know it by another address.
    #[test]
    fn a_root_that_is_named_listens_at_every_address() {
        let port = crate::bootstrap::net::listen("127.0.0.1:0".parse().unwrap());
        let port = port.unwrap().1.port();
        let here = SocketAddr::from(([127, 0, 1, 1], port));
        let reaches = |id: &UniqueId, ip: [u8; 4]| {
            let root = open_named(id, &NetSettings::default()).unwrap();
            let made = std::net::TcpStream::connect(SocketAddr::from((ip, port)));
            drop(root);
            made.is_ok()
        };
        let secret = Secret::random().unwrap();
        let by_name = UniqueId::named(&secret, ("node1:4777", here), true, PUBLIC);
        assert!(by_name.is_everywhere() && by_name.place().starts_with("node1:4777 (127.0.1.1"));
        assert!(reaches(&by_name, [127, 0, 0, 1]) && reaches(&by_name, [127, 0, 1, 1]));
        let by_address = UniqueId::named(&secret, ("127.0.1.1:4777", here), false, PUBLIC);
        assert!(!reaches(&by_address, [127, 0, 0, 1]) && reaches(&by_address, [127, 0, 1, 1]));
        for (text, is_name) in [
            ("node1:4777", true),
            ("node1.cluster.example:4777", true),
            ("10.0.0.1:4777", false),
            ("[fe80::1%eth0]:4777", false),
            ("localhost:4777", false),
        ] {
            assert_eq!(net::is_name(text), is_name, "{text}");
        }
    }

    #[test]
    fn text_gives_the_same_id_everywhere() {
        let settings = NetSettings {
            comm_id: Some("127.0.0.1:4711".into()),
            ..NetSettings::default()
        };
        let (a, b) = (
            UniqueId::create(&settings).unwrap(),
            UniqueId::create(&settings).unwrap(),
        );
        assert!(a == b && a.is_named() && a.is_public());
        let shared = UniqueId::create_to_share(&settings).unwrap();
        assert!(shared.is_named() && !shared.is_public() && shared.secret() != a.secret());
        assert_eq!(a.address(), "127.0.0.1:4711".parse().unwrap());
        assert!(a.secret() != Secret::from_text("127.0.0.1:4712"));
        let alone = NetSettings {
            munge_socket: Some("/nonexistent/munge".into()),
            ..settings
        };
        assert!(a.secrets(&alone).unwrap().is_weak(), "a text is none");
        assert!(!shared.secrets(&alone).unwrap().is_weak());
    }
}
