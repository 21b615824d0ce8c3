//! Memory of connections between the CUDA devices of a communicator.
//!
//! **Problem.** The slots of a connection must lie where its reader polls cheaply and its writer
//! can store: on the reader's device, if the writer's device reaches that, and in memory of the
//! host if not. Nobody may wait for a device when a connection is made, because kernels may be
//! running that wait for this very call; nor for the thread of another rank, which may be waiting
//! for this one.
//!
//! **Idea.** Memory comes in *pieces* with names ([`PieceName`]): the counts of a rank, and the
//! slots of a few channels from one rank to another. A name and a formula say where each connection
//! lies, so nobody has to ask. The process that owns a piece makes it when it is first needed
//! ([`Book`]): by its own ranks, or by a thread of the service for another process, to which it
//! hands a file descriptor. It is freed when the last rank of the process has left: a slower peer
//! may still read what a faster one wrote.
//!
//! Reference: NVIDIA, "CUDA Driver API", sections "Virtual Memory Management" and "Peer Context
//! Memory Access".

mod book;
pub mod own;
mod piece;
mod places;
mod stages;

pub use book::{Book, BookDevice, PieceFetch, PieceMaker};
pub use places::{DevicePlaces, PieceName};
pub use stages::Stages;

use crate::base::{Error, Rank, Result};
use crate::wire::gpu::{DeviceHalves, DeviceWire, DeviceWiring};
use piece::DevicePiece;
use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The connections of one rank of this process.
pub struct RankWiring {
    /// Lets other processes ask for this rank's pieces. It is dropped before the book: the thread
    /// of the service must never be the last who has that.
    _promised: Box<dyn Any + Send>,
    book: Arc<Book>,
    me: u32,
    /// Pieces that other processes have handed over.
    fetched: Arc<Mutex<HashMap<PieceName, Arc<DevicePiece>>>>,
    /// Memory between the device and the network, if the ranks are on several nodes.
    stages: Option<Arc<Stages>>,
}

impl RankWiring {
    /// Of rank `me` of the communicator that has this book.
    /// Other processes can ask for its pieces as long as `promised` lives.
    pub fn new(
        book: Arc<Book>,
        me: u32,
        stages: Option<Arc<Stages>>,
        promised: Box<dyn Any + Send>,
    ) -> RankWiring {
        RankWiring {
            _promised: promised,
            book,
            me,
            fetched: Arc::default(),
            stages,
        }
    }

    /// Whether all devices of each node reach each other; all ranks say the same.
    pub fn are_all_near(&self) -> bool {
        self.book.are_all_near()
    }

    /// Where a piece begins for the device of this rank.
    fn piece(&mut self, name: PieceName) -> Result<u64> {
        let owner = name.owner();
        if self.book.is_here(owner) {
            return Ok(self.book.piece(name)?.address());
        }
        let lock = || self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(piece) = lock().get(&name) {
            return Ok(piece.address());
        }
        let fetched = self.book.fetch(self.me, name);
        let piece = Arc::new(fetched.map_err(|error| error.with_peer(Rank(owner)))?);
        let address = piece.address();
        lock().insert(name, piece);
        Ok(address)
    }
}

impl DeviceWiring for RankWiring {
    fn halves(&mut self, wire: DeviceWire) -> Result<DeviceHalves> {
        let (reader, writer) = (wire.reader, wire.writer);
        if reader != self.me && writer != self.me {
            let what = format!("rank {} is no end of {wire:?}", self.me);
            return Err(Error::internal(what));
        }
        let other = if reader == self.me { writer } else { reader };
        if self.book.is_remote(self.me, other) {
            let stages = self.stages.as_ref();
            let stages = stages.ok_or_else(|| Error::internal("a network without stages"))?;
            return stages.halves(writer, reader, wire.channel);
        }
        let places = self.book.places();
        let at = places.of(&wire)?;
        let halves = |[tail, head, area]: [u64; 3]| DeviceHalves {
            tail,
            sizes: 0,
            head,
            area,
            slot_bytes: wire.slot_bytes,
            is_counted: false,
        };
        match self.book.are_near(reader, writer) {
            true => Ok(halves([
                self.piece(PieceName::Counts { rank: reader })? + at.tail,
                self.piece(PieceName::Counts { rank: writer })? + at.head,
                self.piece(at.slots(&wire, false))? + at.area,
            ])),
            false => {
                let counts = PieceName::PairCounts { writer, reader };
                let counts = self.piece(counts)?;
                Ok(halves([
                    counts + at.pair,
                    counts + at.pair + places::HEAD_AT,
                    self.piece(at.slots(&wire, true))? + at.area,
                ]))
            }
        }
    }

    fn memory(&self) -> Arc<dyn Any + Send + Sync> {
        let stages = self.stages.clone();
        Arc::new((Arc::clone(&self.book), Arc::clone(&self.fetched), stages))
    }
}
