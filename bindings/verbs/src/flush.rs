//! Makes what arrived in a device's memory visible to the device.
//!
//! A completion may overtake data on the bus on its way into a GPU's memory: writes to host memory
//! and to the device are not ordered with each other. A read by the adapter from the device's
//! memory pushes all earlier writes before it. So the receiver has a queue pair that is connected
//! to itself, and reads one byte by it. Host memory needs none of this.

use crate::ends::{Done, Ends};
use crate::queue::{Kind, Work};
use crate::verbs::{self, LOCAL_WRITE, Region, Registered};
use kolo::base::{Error, Result};

/// Flushes that may be open at once.
pub const FLUSHES: usize = 32;

/// A queue pair that is connected to itself.
pub struct Flush {
    ends: Ends,
    region: Region,
    byte: Box<[u8; 8]>,
    /// Open requests, and whether their read is done.
    requests: [Option<bool>; FLUSHES],
}

impl Flush {
    /// Makes the queue pair on the port of a connection.
    pub fn new(owner: &Ends) -> Result<Flush> {
        let port = owner.port_index();
        let mut ends = Ends::new(&owner.network, port, 1, FLUSHES as u32, 1)?;
        let gid = ends.gid()?;
        let own = ends.hello(&gid, (0, 0));
        ends.connect(&own, &gid, 0)?;
        let byte = Box::new([0; 8]);
        let domain = ends.port().device.domain.clone();
        let at = (&raw const *byte) as usize;
        // SAFETY: the box lives beside its region and is freed after it.
        let region = unsafe { Region::new(&domain, at, 8, LOCAL_WRITE) }?;
        Ok(Flush {
            ends,
            region,
            byte,
            requests: [None; FLUSHES],
        })
    }

    /// Requests that have not been tested to their end.
    pub fn open(&self) -> usize {
        self.requests.iter().flatten().count()
    }

    /// Starts a read from device memory; its number, or `None`: not yet.
    pub fn start(&mut self, data: usize, memory: &Registered) -> Result<Option<usize>> {
        if !memory.covers(data, 1) {
            return Err(Error::argument(
                format!("{data:#x} is not in the registered memory that is named"),
                "flush buffers that were received into",
            ));
        }
        let free = self.requests.iter().position(Option::is_none);
        let Some(number) = free.filter(|_| self.ends.queues[0].room > 0) else {
            self.poll()?;
            return Ok(None);
        };
        let work = Work {
            id: number as u64,
            kind: Kind::Read,
            local: (&raw const *self.byte) as u64,
            local_key: self.region.local_key(),
            bytes: 1,
            remote: data as u64,
            remote_key: verbs::remote_key(memory),
            told: true,
        };
        self.ends.in_flight += 1;
        self.requests[number] = Some(false);
        // SAFETY: the byte lives as long as the queue pair, and nobody looks at it.
        match unsafe { self.ends.queues[0].post(&[work]) } {
            Ok(()) => Ok(Some(number)),
            Err(error) => Err(self.ends.fail(error, false)),
        }
    }

    fn poll(&mut self) -> Result<()> {
        let requests = &mut self.requests;
        self.ends.poll(|queues, done| {
            if let Done::Work(number) = done {
                requests[number as usize % FLUSHES] = Some(true);
                queues[0].room += 1;
            }
        })?;
        self.ends.idle()
    }

    /// Whether a flush is done; true once.
    pub fn test(&mut self, number: usize) -> Result<bool> {
        self.poll()?;
        match self.requests.get(number).copied().flatten() {
            Some(true) => {
                self.requests[number] = None;
                Ok(true)
            }
            Some(false) => Ok(false),
            None => Err(Error::argument(
                "a flush was tested that is not open",
                "test a request until it is done, and then no more",
            )),
        }
    }
}
