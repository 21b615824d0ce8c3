//! A process's book of the pieces of a communicator: those that it has made, and whom to ask for
//! the others.

use super::piece::DevicePiece;
use super::places::{DevicePlaces, PieceName};
use crate::base::{Error, Result};
use crate::cuda::Context;
use crate::transport::fork::Fd;
use crate::transport::segment::{Key, Nonce};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// The device of a rank.
#[derive(Clone)]
pub struct BookDevice {
    /// Where the rank is a thread of this process.
    pub context: Option<Arc<Context>>,
    /// The number of the rank's node.
    pub node: u32,
}

/// Gets what a rank's process has promised under a key.
pub type PieceFetch = Box<dyn Fn(u32, Key) -> Result<Fd> + Send + Sync>;

/// The pieces of one communicator in this process, shared by its ranks here.
pub struct Book {
    nonce: Nonce,
    /// Whose ranks are meant.
    node: u32,
    places: DevicePlaces,
    devices: Vec<BookDevice>,
    fetch: PieceFetch,
    /// Whether each two ranks' devices reach each other.
    near: OnceLock<Vec<bool>>,
    made: Mutex<HashMap<PieceName, Arc<DevicePiece>>>,
}

/// The books of this process.
static BOOKS: Mutex<Vec<Weak<Book>>> = Mutex::new(Vec::new());

impl Book {
    /// The book of the communicator of this nonce on a node: the first of its ranks here makes it.
    pub fn of(
        (nonce, node): (Nonce, u32),
        places: DevicePlaces,
        devices: Vec<BookDevice>,
        fetch: PieceFetch,
    ) -> Arc<Book> {
        let mut books = BOOKS.lock().unwrap_or_else(PoisonError::into_inner);
        books.retain(|book| book.strong_count() > 0);
        let mut known = books.iter().filter_map(Weak::upgrade);
        if let Some(book) = known.find(|book| (book.nonce, book.node) == (nonce, node)) {
            return book;
        }
        let book = Arc::new(Book {
            nonce,
            node,
            places,
            devices,
            fetch,
            near: OnceLock::new(),
            made: Mutex::default(),
        });
        books.push(Arc::downgrade(&book));
        book
    }

    /// Where everything lies.
    pub fn places(&self) -> &DevicePlaces {
        &self.places
    }

    /// The keys under which other processes get what a rank of this process owns, each with what
    /// makes it.
    pub fn promises(self: &Arc<Book>, rank: u32) -> Vec<(Key, PieceMaker)> {
        let names = self.places.names(rank);
        let promise = |name: PieceName| {
            let maker = PieceMaker {
                book: Arc::downgrade(self),
                name,
            };
            (name.key(self.nonce), maker)
        };
        names.into_iter().map(promise).collect()
    }

    /// Which two ranks' devices reach each other, row by row; all ranks say the same.
    pub fn set_near(&self, near: Vec<bool>) {
        let _ = self.near.set(near);
    }

    pub(super) fn is_here(&self, rank: u32) -> bool {
        self.devices[rank as usize].context.is_some()
    }

    pub(super) fn are_near(&self, one: u32, other: u32) -> bool {
        let at = one as usize * self.devices.len() + other as usize;
        self.near.get().is_some_and(|near| near[at])
    }

    pub(super) fn are_all_near(&self) -> bool {
        let near = self.near.get();
        let nranks = self.devices.len();
        let is_far = |(at, near): (usize, &bool)| {
            !near && !self.is_remote((at / nranks) as u32, (at % nranks) as u32)
        };
        near.is_some_and(|near| !near.iter().enumerate().any(is_far))
    }

    /// Ranks of this process on a device.
    pub fn sharers(&self, context: &Arc<Context>) -> usize {
        let contexts = self.devices.iter().filter_map(|it| it.context.as_ref());
        contexts.filter(|it| Arc::ptr_eq(it, context)).count()
    }

    /// Whether two ranks are on different nodes.
    pub fn is_remote(&self, one: u32, other: u32) -> bool {
        self.devices[one as usize].node != self.devices[other as usize].node
    }

    /// A piece of this process.
    pub(super) fn piece(&self, name: PieceName) -> Result<Arc<DevicePiece>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(piece) = made.get(&name) {
            return Ok(Arc::clone(piece));
        }
        let bytes = self.places.bytes(name);
        let piece = Arc::new(match name.is_on_host() {
            true => DevicePiece::on_host(bytes)?,
            false => self.on_device(name, bytes)?,
        });
        made.insert(name, Arc::clone(&piece));
        Ok(piece)
    }

    fn on_device(&self, name: PieceName, bytes: usize) -> Result<DevicePiece> {
        let owner = self.devices[name.owner() as usize].context.as_ref();
        let owner = owner.ok_or_else(|| Error::internal("a piece of another process"))?;
        let mut peers: Vec<Arc<Context>> = Vec::new();
        for peer in self
            .devices
            .iter()
            .filter_map(|device| device.context.as_ref())
        {
            let is_new = !Arc::ptr_eq(peer, owner) && !peers.iter().any(|it| Arc::ptr_eq(it, peer));
            // Whoever cannot be asked is not near, and uses memory of the host.
            if is_new && peer.reaches(owner).unwrap_or(false) {
                peers.push(Arc::clone(peer));
            }
        }
        let is_marked = matches!(name, PieceName::Counts { .. });
        DevicePiece::on(owner, bytes, &peers, is_marked.then(|| self.mark(name)))
    }

    fn mark(&self, name: PieceName) -> u64 {
        let key = name.key(self.nonce).0;
        (key >> 64) as u64 ^ key as u64
    }

    /// A piece of another process, for the device of rank `me`.
    pub(super) fn fetch(&self, me: u32, name: PieceName) -> Result<DevicePiece> {
        let context = self.devices[me as usize].context.as_ref();
        let context = context.ok_or_else(|| Error::internal("a rank of another process"))?;
        let fd = (self.fetch)(name.owner(), name.key(self.nonce))?;
        DevicePiece::of_peer(context, &fd, self.places.bytes(name), name.is_on_host())
    }

    /// Whether the device of rank `me` reaches that of another rank: within a node it is tried.
    ///
    /// # Errors
    /// The other process is gone.
    pub fn reaches(&self, me: u32, other: u32) -> Result<bool> {
        let of = |rank: u32| self.devices[rank as usize].context.as_ref();
        let mine = of(me).ok_or_else(|| Error::internal("a rank of another process"))?;
        if self.is_remote(me, other) {
            return Ok(false);
        }
        if let Some(theirs) = of(other) {
            return mine.reaches(theirs);
        }
        let name = PieceName::Counts { rank: other };
        let fd = (self.fetch)(other, name.key(self.nonce))?;
        let bytes = self.places.bytes(name);
        let sees = || {
            let piece = DevicePiece::of_peer(mine, &fd, bytes, false)?;
            piece.has_mark(mine, bytes, self.mark(name))
        };
        // What the driver refuses is an answer.
        Ok(sees().unwrap_or(false))
    }
}

/// Makes a piece when another process asks for it.
pub struct PieceMaker {
    book: Weak<Book>,
    name: PieceName,
}

impl PieceMaker {
    /// The piece, as a descriptor.
    ///
    /// # Errors
    /// The communicator is gone; no memory.
    pub fn make(&self) -> Result<Arc<Fd>> {
        let book = self.book.upgrade();
        let book = book.ok_or_else(|| Error::internal("the communicator has ended"))?;
        book.piece(self.name)?.export()
    }
}
