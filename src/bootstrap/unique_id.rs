//! The 128 bytes that one rank makes and hands to all: where the root listens, and a secret.
//!
//! Layout (numbers big-endian): 0..8 magic with version, 8 address family (4 or 6), 9 flags,
//! 10..12 port, 12..16 IPv6 scope, 16..32 address, 32..64 secret, 64..70 further ports (0: none),
//! 70..120 name of the place for people, padded with zeros, 120..128 FNV-1a of all before. The
//! checksum finds an id that was never filled in or was cut short on its way; it is no protection,
//! the secret is.

use crate::base::{Error, Result, hash};
use crate::trust::proof;
use crate::trust::secret::{SECRET_BYTES, Secret};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Length of an id in bytes.
pub const ID_BYTES: usize = 128;

const MAGIC: [u8; 8] = *b"KOLOID\0\x01";
/// The address was known beforehand, so rank 0 starts the root.
const NAMED: u8 = 1;
/// The address follows from Slurm variables and not from `KOLO_COMM_ID`.
const BY_SLURM: u8 = 2;
/// The root listens at every address of its machine: other ranks may know it by another one.
const EVERYWHERE: u8 = 4;
/// Flag of an id whose secret follows from a text that others may know; the ranks look for a better
/// one ([`crate::trust::secrets`]).
pub(super) const PUBLIC: u8 = 8;
const PORTS: std::ops::Range<usize> = 64..70;
const NAME: std::ops::Range<usize> = 70..120;
const CHECKED: usize = 120;
/// The most ports at which one root may be looked for.
pub const MOST_PORTS: usize = 4;

/// Where the ranks of one communicator meet. Copy the 128 bytes to every rank, unchanged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UniqueId([u8; ID_BYTES]);

impl UniqueId {
    /// The id of a communicator whose ranks compute it, each for itself, from the same `text`:
    /// rank 0 listens at the first of `ports` that is free (1 to [`MOST_PORTS`]), and this rank
    /// reaches its machine at `host`. `everywhere`: ranks of other machines must reach it too.
    /// `name` is for messages. The text is no secret.
    pub(crate) fn by_slurm(
        text: &str,
        host: IpAddr,
        ports: &[u16],
        everywhere: bool,
        name: &str,
    ) -> UniqueId {
        let flags = NAMED | PUBLIC | BY_SLURM | if everywhere { EVERYWHERE } else { 0 };
        let address = SocketAddr::new(host, ports[0]);
        let mut id = UniqueId::build(&Secret::from_text(text), address, flags);
        for (place, port) in id.0[PORTS].chunks_exact_mut(2).zip(&ports[1..]) {
            place.copy_from_slice(&port.to_be_bytes());
        }
        id.call(name);
        id
    }

    /// The id of a communicator whose rank 0 listens at an address that the user gave as the text
    /// `place`, on all addresses of its machine (`everywhere`) or on that one.
    pub(super) fn named(
        secret: &Secret,
        (place, address): (&str, SocketAddr),
        everywhere: bool,
        public: u8,
    ) -> UniqueId {
        let flags = NAMED | public | if everywhere { EVERYWHERE } else { 0 };
        let mut id = UniqueId::build(secret, address, flags);
        if everywhere {
            id.call(place);
        }
        id
    }

    /// Gives it a name for messages.
    fn call(&mut self, name: &str) {
        let length = name.len().min(NAME.len());
        self.0[NAME][..length].copy_from_slice(&name.as_bytes()[..length]);
        self.seal();
    }

    /// Takes bytes that came from another rank; an error says what is wrong with them.
    pub fn from_bytes(bytes: [u8; ID_BYTES]) -> Result<UniqueId> {
        let remedy = "call koloGetUniqueId on one rank and broadcast all 128 bytes to the others \
                      before koloCommInitRank";
        if bytes.iter().all(|&byte| byte == 0) {
            return Err(Error::argument(
                "the unique id was never filled in: all 128 bytes are zero",
                remedy,
            ));
        }
        if bytes[..6] != MAGIC[..6] {
            return Err(Error::argument(
                "the unique id was not made by kolo: it may be uninitialised memory",
                remedy,
            ));
        }
        if bytes[..8] != MAGIC {
            return Err(Error::argument(
                format!(
                    "the unique id has format {}, this kolo reads format {}",
                    u16::from_be_bytes([bytes[6], bytes[7]]),
                    u16::from_be_bytes([MAGIC[6], MAGIC[7]])
                ),
                "use the same version of kolo on every rank",
            ));
        }
        let known_family = matches!(bytes[8], 4 | 6);
        let has_secret = bytes[32..64].iter().any(|&byte| byte != 0);
        if bytes[CHECKED..] != hash::fnv1a(&bytes[..CHECKED]).to_be_bytes()
            || !known_family
            || !has_secret
        {
            return Err(Error::argument(
                "the unique id is garbled: its checksum does not fit (were all 128 bytes copied?)",
                remedy,
            ));
        }
        Ok(UniqueId(bytes))
    }

    /// The bytes to hand to the other ranks. They hold the secret: do not print them, nor put them
    /// into an environment or an argument, which others can read.
    pub fn as_bytes(&self) -> &[u8; ID_BYTES] {
        &self.0
    }

    /// Where the root listens.
    #[doc(hidden)]
    pub fn address(&self) -> SocketAddr {
        let port = u16::from_be_bytes([self.0[10], self.0[11]]);
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.0[16..32]);
        if self.0[8] == 4 {
            let v4 = Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]);
            SocketAddr::new(IpAddr::V4(v4), port)
        } else {
            let scope = u32::from_be_bytes([self.0[12], self.0[13], self.0[14], self.0[15]]);
            SocketAddrV6::new(Ipv6Addr::from(octets), port, 0, scope).into()
        }
    }

    /// Every address at which the root may be, best first.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let first = self.address();
        let further = self.0[PORTS].chunks_exact(2);
        let further = further.map(|port| u16::from_be_bytes([port[0], port[1]]));
        let further = further.filter(|&port| port != 0);
        let at = |port| {
            let mut address = first;
            address.set_port(port);
            address
        };
        std::iter::once(first).chain(further.map(at)).collect()
    }

    /// Whether the address was known beforehand (`KOLO_COMM_ID`, Slurm variables): then rank 0
    /// starts the root.
    #[doc(hidden)]
    pub fn is_named(&self) -> bool {
        self.0[9] & NAMED != 0
    }

    /// Whether the address follows from Slurm variables.
    pub(crate) fn is_by_slurm(&self) -> bool {
        self.0[9] & BY_SLURM != 0
    }

    /// Whether what stands for the secret is none.
    pub(crate) fn is_public(&self) -> bool {
        self.0[9] & PUBLIC != 0
    }

    /// Names the id to a root without giving the secret away.
    pub(crate) fn public(&self) -> [u8; proof::ID_BYTES] {
        self.secret().public()
    }

    /// Whether the root must listen at every address of its machine.
    pub(crate) fn is_everywhere(&self) -> bool {
        self.0[9] & EVERYWHERE != 0
    }

    /// Where the root is, for people.
    pub(crate) fn place(&self) -> String {
        let end = self.0[NAME].iter().position(|&byte| byte == 0);
        let name = &self.0[NAME][..end.unwrap_or(NAME.len())];
        match name {
            [] => self.address().to_string(),
            _ => format!("{} ({})", super::report::printable(name), self.address()),
        }
    }

    pub(crate) fn secret(&self) -> Secret {
        let mut bytes = [0; SECRET_BYTES];
        bytes.copy_from_slice(&self.0[32..64]);
        Secret::from_bytes(bytes)
    }

    pub(super) fn build(secret: &Secret, address: SocketAddr, flags: u8) -> UniqueId {
        let mut bytes = [0; ID_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[9] = flags;
        bytes[10..12].copy_from_slice(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(v4) => {
                bytes[8] = 4;
                bytes[16..20].copy_from_slice(&v4.ip().octets());
            }
            SocketAddr::V6(v6) => {
                bytes[8] = 6;
                bytes[12..16].copy_from_slice(&v6.scope_id().to_be_bytes());
                bytes[16..32].copy_from_slice(&v6.ip().octets());
            }
        }
        bytes[32..64].copy_from_slice(secret.bytes());
        let mut id = UniqueId(bytes);
        id.seal();
        id
    }

    fn seal(&mut self) {
        let checksum = hash::fnv1a(&self.0[..CHECKED]).to_be_bytes();
        self.0[CHECKED..].copy_from_slice(&checksum);
    }
}

impl fmt::Display for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kolo id at {}", self.address())
    }
}

impl fmt::Debug for UniqueId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UniqueId")
            .field("address", &self.address())
            .field("named", &self.is_named())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> UniqueId {
        let secret = Secret::random().unwrap();
        UniqueId::build(&secret, "10.1.2.3:4567".parse().unwrap(), 0)
    }

    #[test]
    fn bytes_round_trip_for_both_families() {
        for address in ["10.1.2.3:4567", "[2001:db8::7]:65535", "[fe80::1%3]:9"] {
            let address: SocketAddr = address.parse().unwrap();
            let secret = Secret::random().unwrap();
            let id = UniqueId::build(&secret, address, NAMED);
            let back = UniqueId::from_bytes(*id.as_bytes()).unwrap();
            assert_eq!(back.address(), address);
            assert!(back.secret() == secret && back.is_named());
        }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let id = sample();
        for bit in 0..ID_BYTES * 8 {
            let mut bytes = *id.as_bytes();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error = UniqueId::from_bytes(bytes).expect_err("a flipped bit went unnoticed");
            assert!(!error.remedy.is_empty());
        }
    }

    #[test]
    fn unfilled_and_foreign_ids_have_sentences() {
        let what = |bytes| UniqueId::from_bytes(bytes).unwrap_err().into_what();
        assert!(what([0; ID_BYTES]).contains("never filled in"));
        assert!(what([0xcc; ID_BYTES]).contains("not made by kolo"));
        let mut cut = *sample().as_bytes();
        cut[64..].fill(0);
        assert!(what(cut).contains("garbled"));
        let mut newer = *sample().as_bytes();
        newer[7] = 9;
        assert!(what(newer).contains("format 9"));
    }

    #[test]
    fn printing_shows_the_address_and_never_the_secret() {
        let id = sample();
        let printed = format!("{id} {id:?} {id:#?}");
        assert!(printed.contains("10.1.2.3:4567"));
        let secret = id.secret();
        let hex: String = secret.bytes().iter().map(|b| format!("{b:02x}")).collect();
        let list = format!("{:?}", secret.bytes());
        let inner = list.trim_matches(['[', ']']);
        assert!(!printed.contains(&hex) && !printed.contains(&inner[..12]));
    }

    #[test]
    fn secrets_differ_and_so_do_their_names() {
        let (a, b) = (Secret::random().unwrap(), Secret::random().unwrap());
        assert!(a != b && a.public() != b.public());
        let shown = a.public();
        assert!(
            !a.bytes()
                .windows(4)
                .any(|w| shown.windows(4).any(|s| s == w))
        );
    }

    #[test]
    fn an_id_by_slurm_holds_its_ports_and_name() {
        let host = "10.1.2.3".parse().unwrap();
        let id = UniqueId::by_slurm("job", host, &[5, 6, 7, 8], true, &"n".repeat(99));
        let back = UniqueId::from_bytes(*id.as_bytes()).unwrap();
        let ports: Vec<u16> = back.addresses().iter().map(SocketAddr::port).collect();
        assert_eq!(ports, [5, 6, 7, 8]);
        assert!(back.is_named() && back.is_by_slurm() && back.is_everywhere());
        let name = "n".repeat(50);
        assert_eq!(back.place(), format!("{name} (10.1.2.3:5)"));
        let plain = sample();
        assert_eq!(plain.addresses(), [plain.address()]);
        assert!(!plain.is_named() && !plain.is_by_slurm() && !plain.is_everywhere());
        assert_eq!(plain.place(), "10.1.2.3:4567");
    }
}
