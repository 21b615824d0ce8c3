//! One thread for all roots of a process, and one port for all ids that wait at one interface.
//!
//! **Problem.** A program may make many unique ids long before it uses them, or never use them. A
//! port and a thread for each would exhaust both.
//!
//! **Idea.** Ids that do not name their place share a *desk*: a port behind which a door stands.
//! A rank names its communicator by the id's public part, and proves by the secret that it belongs
//! to it. When no rank is awaited any more at a desk it closes; the thread ends with the last root.
//!
//! Whoever comes may show a credential, and `munged` may take long to say that it is none. So
//! credentials are opened between two turns, without the office's lock, and only a few at a time.

use super::frame::{self, Frame, FrameKind, Hello, PROTOCOL, Purpose};
use super::link::{RankLink, Side};
use super::net;
use super::stream::{Listener, Stream};
use super::tcp_root::Root;
use crate::base::clock::now;
use crate::base::turns;
use crate::base::{Error, Result, descriptors, own_thread};
use crate::trust::door::{Door, Entry, Keeper, Limits, Verdict};
use crate::trust::proof::{self, ID_BYTES, Key};
use crate::trust::secrets::Secrets;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The most connections that may wait without having proven themselves.
const MAX_GUESTS: usize = 1024;
/// The most connections accepted before the others are looked at again.
const ACCEPT_BURST: usize = 256;
/// How long one turn may open credentials; the first one is opened in any case.
const OPENING_TIME: Duration = Duration::from_millis(20);
/// The most credentials of one turn.
const MAX_OPENED: usize = 64;
/// How long to rest when poll has no memory.
const REST: Duration = Duration::from_millis(20);

/// Bounds of a door of the bootstrap.
pub fn limits(patience: Duration) -> Limits {
    Limits {
        guests: MAX_GUESTS,
        patience,
        burst: ACCEPT_BURST,
    }
}

/// Accepts one connection and prepares it.
pub fn accept(listener: &Listener) -> io::Result<Stream> {
    let (stream, _) = listener.accept()?;
    net::prepare(&stream)?;
    Ok(stream)
}

/// Where ranks check in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// At the port of all ids that wait at this address.
    Shared(IpAddr),
    /// At a port of its own.
    Own,
}

/// A root that is to be served.
type Waiting = (u64, Arc<Secrets>);

/// A hello whose credential is to be opened, and by whom.
type Wanted = (Arc<Secrets>, proof::Hello);

/// A hello with the choice that was made for it.
type Opened = (proof::Hello, Result<(u8, Key)>);

/// A port and the roots behind it.
struct Desk {
    place: Place,
    hello_limit: Duration,
    listener: Listener,
    address: SocketAddr,
    door: Door<Stream>,
    /// Roots for which ranks are still to come.
    open: BTreeMap<[u8; ID_BYTES], Waiting>,
}

#[derive(Default)]
struct Office {
    desks: Vec<Desk>,
    roots: BTreeMap<u64, Root>,
    next_root: u64,
    /// Credentials to open after this turn.
    wanted: Vec<Wanted>,
    /// Those that were opened before it.
    opened: Vec<Opened>,
}

/// State that the thread shares with those who add roots.
struct Shared {
    /// A forked child has no thread of its parent's.
    pid: u32,
    bell: OwnedFd,
    office: Mutex<Office>,
}

static OFFICE: Mutex<Option<Arc<Shared>>> = Mutex::new(None);

/// Adds a root, and a desk by `open` where none suits; where ranks find it.
pub fn add(
    place: Place,
    id: [u8; ID_BYTES],
    secrets: Secrets,
    hello_limit: Duration,
    root: Root,
    open: impl FnOnce() -> Result<(Listener, SocketAddr)>,
) -> Result<SocketAddr> {
    // A port may have to be waited for; others need not wait with it.
    let own = match place {
        Place::Own => Some(open()),
        Place::Shared(_) => return add_opened(place, id, secrets, hello_limit, root, open),
    };
    add_opened(place, id, secrets, hello_limit, root, || {
        own.unwrap_or_else(|| Err(Error::internal("a port was not opened")))
    })
}

fn add_opened(
    place: Place,
    id: [u8; ID_BYTES],
    secrets: Secrets,
    hello_limit: Duration,
    root: Root,
    open: impl FnOnce() -> Result<(Listener, SocketAddr)>,
) -> Result<SocketAddr> {
    let mut slot = OFFICE.lock().unwrap_or_else(PoisonError::into_inner);
    let running = slot.take().filter(|it| it.pid == std::process::id());
    let is_new = running.is_none();
    let shared = match running {
        Some(shared) => shared,
        None => Arc::new(Shared::new()?),
    };
    let address = shared
        .lock()
        .add(place, (id, secrets), hello_limit, root, open);
    if address.is_err() {
        *slot = (!is_new).then_some(shared);
        return address;
    }
    if is_new {
        let builder = std::thread::Builder::new().name("kolo root".into());
        let its = shared.clone();
        own_thread::start(builder, move || its.run()).map_err(|error| {
            Error::system(
                "cannot start the root thread",
                &error,
                "raise the limit of processes (`ulimit -u`)",
            )
        })?;
    }
    shared.ring();
    *slot = Some(shared);
    address
}

impl Office {
    fn add(
        &mut self,
        place: Place,
        (id, secrets): ([u8; ID_BYTES], Secrets),
        hello_limit: Duration,
        root: Root,
        open: impl FnOnce() -> Result<(Listener, SocketAddr)>,
    ) -> Result<SocketAddr> {
        let suits = |desk: &Desk| {
            place != Place::Own && (desk.place, desk.hello_limit) == (place, hello_limit)
        };
        let at = match self.desks.iter().position(suits) {
            Some(at) => at,
            None => {
                let (listener, address) = open()?;
                self.desks.push(Desk {
                    place,
                    hello_limit,
                    listener,
                    address,
                    door: Door::new(PROTOCOL, limits(hello_limit)),
                    open: BTreeMap::new(),
                });
                self.desks.len() - 1
            }
        };
        let desk = &mut self.desks[at];
        desk.open.insert(id, (self.next_root, Arc::new(secrets)));
        self.roots.insert(self.next_root, root);
        self.next_root += 1;
        Ok(desk.address)
    }

    /// Adds what to sleep on: desks first, then the members of all roots.
    fn watch(&self, set: &mut Vec<libc::pollfd>) -> Option<Duration> {
        let mut limit = None;
        for desk in &self.desks {
            limit = net::sooner(limit, desk.door.watch(&desk.listener, set));
        }
        limit
    }

    fn serve_desks(&mut self) {
        let mut entered = Vec::new();
        for desk in &mut self.desks {
            let mut clerk = Clerk {
                open: &desk.open,
                wanted: &mut self.wanted,
                opened: &mut self.opened,
            };
            let listener = &desk.listener;
            let entries = desk.door.serve(&mut clerk, || accept(listener));
            entered.extend(entries.into_iter().filter_map(|entry| {
                // Its root may be complete since the hello, but is there as long as members are.
                let (root, _) = desk.open.get(&entry.hello.id)?;
                Some((*root, entry))
            }));
        }
        // Who was to have these has gone.
        self.opened.clear();
        for (number, entry) in entered {
            self.enter(number, entry);
        }
    }

    fn enter(&mut self, number: u64, entry: Entry<Stream>) {
        let Some(hello) = Hello::decode(&entry.hello, Purpose::CheckIn) else {
            return;
        };
        let Ok(from) = entry.stream.peer_addr() else {
            return;
        };
        let link = RankLink::sealed(entry.stream, &entry.session, Side::Host);
        let is_last = match self.roots.get_mut(&number) {
            Some(root) => root.enter(&hello, link, from),
            None => return,
        };
        if is_last {
            // The port closes first, so that a later root can use it at once.
            self.tidy();
            if let Some(root) = self.roots.get_mut(&number) {
                root.send_off();
            }
        }
    }

    /// Drops roots that are done, and desks at which nobody is awaited.
    fn tidy(&mut self) {
        self.roots.retain(|_, root| !root.is_done());
        for desk in &mut self.desks {
            let roots = &self.roots;
            let is_open = |number: u64| roots.get(&number).is_some_and(Root::is_open);
            desk.open.retain(|_, (number, _)| is_open(*number));
        }
        self.desks.retain(|desk| !desk.open.is_empty());
    }
}

/// Judges hellos at a desk.
struct Clerk<'a> {
    open: &'a BTreeMap<[u8; ID_BYTES], Waiting>,
    wanted: &'a mut Vec<Wanted>,
    opened: &'a mut Vec<Opened>,
}

/// Chooses the kind of secret for a hello, and the key.
fn choose(secrets: &Secrets, hello: &proof::Hello) -> Result<(u8, Key)> {
    let said = Hello::decode(hello, Purpose::CheckIn).ok_or_else(frame::wrong_purpose)?;
    secrets.choose(hello, said.rank, &said.credential)
}

/// Opens the first credential, and others while that is quick. The rest is asked for again.
fn open_some(wanted: Vec<Wanted>, time: Duration) -> Vec<Opened> {
    let start = now();
    let mut opened = Vec::new();
    for (secrets, hello) in wanted {
        let chosen = choose(&secrets, &hello);
        opened.push((hello, chosen));
        if start.past(time) {
            break;
        }
    }
    opened
}

fn refusal(error: &Error) -> Verdict {
    Verdict::Refuse(Frame::error(FrameKind::Refused, error).encode())
}

impl Keeper for Clerk<'_> {
    fn judge(&mut self, hello: &proof::Hello) -> Verdict {
        let Some((_, secrets)) = self.open.get(&hello.id) else {
            return refusal(&frame::unknown_id());
        };
        let known = self.opened.iter().position(|(opened, _)| opened == hello);
        let chosen = match known {
            Some(at) => self.opened.swap_remove(at).1,
            None if secrets.must_open(hello) => {
                if self.wanted.len() < MAX_OPENED {
                    self.wanted.push((secrets.clone(), hello.clone()));
                }
                return Verdict::Later;
            }
            None => choose(secrets, hello),
        };
        match chosen {
            Ok((choice, key)) => Verdict::Answer(choice, key),
            Err(error) => refusal(&error),
        }
    }

    fn other_version(&mut self, version: u16) -> Vec<u8> {
        Frame::error(FrameKind::Refused, &frame::other_version(version)).encode()
    }
}

impl Shared {
    fn new() -> Result<Shared> {
        let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
        // SAFETY: plain system call; a new descriptor has no other owner.
        let bell = unsafe { descriptors::made(libc::eventfd(0, flags)) }.map_err(|error| {
            let remedy = "raise the limit of open files (`ulimit -n`)";
            Error::system("cannot start the root", &error, remedy)
        })?;
        Ok(Shared {
            pid: std::process::id(),
            bell,
            office: Mutex::default(),
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Office> {
        self.office.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the thread look again.
    fn ring(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: eight readable bytes. It fails only when the thread is about to wake anyway.
        unsafe { libc::write(self.bell.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    fn hush(&self) {
        let mut count = [0; 8];
        // SAFETY: eight writable bytes; the descriptor does not block.
        unsafe {
            libc::read(
                self.bell.as_raw_fd(),
                count.as_mut_ptr().cast(),
                count.len(),
            )
        };
    }

    /// The thread.
    fn run(self: Arc<Shared>) {
        let mut set = Vec::new();
        while !self.is_over() {
            set.clear();
            set.push(net::watch(&self.bell, false));
            let (mut limit, mut ranges) = (None, Vec::new());
            {
                let office = self.lock();
                limit = net::sooner(limit, office.watch(&mut set));
                for (&number, root) in &office.roots {
                    let begin = set.len();
                    limit = net::sooner(limit, root.watch(&mut set));
                    ranges.push((number, begin..set.len()));
                }
            }
            if net::poll(&mut set, limit).is_err() {
                // Only a lack of memory makes poll fail here; it may pass.
                turns::sleep(REST);
                continue;
            }
            if set[0].revents != 0 {
                self.hush();
            }
            let mut office = self.lock();
            for (number, range) in ranges {
                if let Some(root) = office.roots.get_mut(&number) {
                    root.look(&set[range]);
                }
            }
            office.serve_desks();
            office.tidy();
            let wanted = std::mem::take(&mut office.wanted);
            drop(office);
            if !wanted.is_empty() {
                let opened = open_some(wanted, OPENING_TIME);
                self.lock().opened = opened;
            }
        }
    }

    /// Whether there is nothing left to serve: then the thread ends, and nobody adds any more.
    fn is_over(self: &Arc<Shared>) -> bool {
        let mut slot = OFFICE.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.lock().roots.is_empty() {
            return false;
        }
        slot.take_if(|it| Arc::ptr_eq(it, self));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::settings::NetSettings;
    use crate::trust::munge::tests::Daemon;

    /// Junk is opened too, and only as much of it as the time of a turn allows.
    #[test]
    fn a_turn_opens_one_credential_at_least_and_no_more_than_it_has_time_for() {
        let Some(daemon) = Daemon::start("office") else {
            return;
        };
        let settings = NetSettings {
            munge_socket: Some(daemon.socket()),
            ..NetSettings::default()
        };
        let secrets = Arc::new(settings.secrets().unwrap());
        let hello = |rank: u32| {
            let said = Hello {
                rank,
                nranks: 200,
                target: 0,
                address: SocketAddr::from(([127, 0, 0, 1], 9)),
                credential: b"MUNGE:junk:".to_vec(),
                process: [0; frame::PROCESS_BYTES],
            };
            let nonce = [rank as u8; ID_BYTES];
            said.encode(Purpose::CheckIn, [7; ID_BYTES], secrets.offers(), nonce)
        };
        let open = BTreeMap::from([([7; ID_BYTES], (0, secrets.clone()))]);
        let (mut wanted, mut opened) = (Vec::new(), Vec::new());
        let judge = |wanted: &mut Vec<Wanted>, opened: &mut Vec<Opened>, rank| {
            let open = &open;
            let mut clerk = Clerk {
                open,
                wanted,
                opened,
            };
            clerk.judge(&hello(rank))
        };
        for rank in 0..200 {
            let verdict = judge(&mut wanted, &mut opened, rank);
            assert!(matches!(verdict, Verdict::Later), "rank {rank}");
        }
        assert_eq!(wanted.len(), MAX_OPENED);
        let mut opened = open_some(wanted, Duration::ZERO);
        assert_eq!(opened.len(), 1);
        let mut wanted = Vec::new();
        let verdict = judge(&mut wanted, &mut opened, 0);
        assert!(matches!(verdict, Verdict::Refuse(_)) && opened.is_empty());
        assert!(wanted.is_empty());
        // It is asked once for each guest.
        let verdict = judge(&mut wanted, &mut opened, 0);
        assert!(matches!(verdict, Verdict::Later));
    }
}
