//! Cross-memory attach: reading the private memory of another process (`process_vm_readv`).
//!
//! **Problem.** Memory of `malloc` cannot be mapped by peers, but the system copies it from one
//! process to another in one go. It may refuse (yama, seccomp, other users, containers), and it
//! takes a process number, which names another process in another pid namespace, and after a
//! process has ended may name a new one.
//!
//! **Idea.** Every rank keeps a *mark*, 16 random bytes at an address that it tells the others. A
//! read takes the mark in the same system call as the data: where it is right, so was the process.
//! The system looks the process up once in a call, so no check can be overtaken. The *probe* at
//! init is such a read of nothing but the mark.
//!
//! Reference: `process_vm_readv(2)`; Linux, `Documentation/admin-guide/LSM/Yama.rst`.

pub mod wish;

use crate::base::{Code, Error, Rank, Result};
use serde::{Deserialize, Serialize};
use std::io;

/// Bytes of a mark.
const MARK_BYTES: usize = size_of::<u128>();

/// Most bytes asked for at once: the system moves less than 2 GiB in a call.
const MOST_BYTES: usize = 1 << 30;

/// A word in memory that proves to peers that they read the process of this rank. It must live as
/// long as they may.
#[derive(Debug)]
pub struct Mark {
    word: Box<u128>,
}

/// Facts about a [`Mark`] that peers must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkCard {
    /// Where it lies in its process.
    pub address: u64,
    /// The word that stands there.
    pub word: u128,
}

impl Mark {
    /// A mark of this number, which is random.
    pub fn new(word: u128) -> Mark {
        Mark {
            word: Box::new(word),
        }
    }

    /// Returns the facts that peers must know of it.
    pub fn card(&self) -> MarkCard {
        MarkCard {
            address: (&raw const *self.word).expose_provenance() as u64,
            word: *self.word,
        }
    }
}

/// Why memory could not be read.
#[derive(Debug)]
enum Fault {
    /// The system does not allow it.
    Refused(io::Error),
    /// There is no such process any more.
    Gone,
    /// The number belongs to another process.
    Stranger,
    /// Nothing is readable at this address.
    Unmapped(u64),
    /// This process cannot write to what was to take the data.
    Unwritable(usize),
    Other(io::Error),
}

/// The process of another rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    rank: Rank,
    /// Where it runs, for messages.
    node: String,
    pid: u32,
    mark_at: u64,
    mark: u128,
}

impl Peer {
    /// Rank `rank` in process `pid` of `node`, which showed `card`.
    pub fn new(rank: Rank, node: &str, pid: u32, card: MarkCard) -> Peer {
        Peer {
            rank,
            node: node.to_owned(),
            pid,
            mark_at: card.address,
            mark: card.word,
        }
    }

    /// Really reads the mark of the peer, and nothing else.
    ///
    /// # Errors
    /// Why its memory cannot be read.
    pub fn probe(&self) -> Result<()> {
        // SAFETY: nothing is written where nothing is asked for.
        let read = unsafe { self.read_at(0, std::ptr::null_mut(), 0) };
        read.map_err(|fault| self.error(&fault))
    }

    /// Reads `bytes` bytes at the address `from` of the peer.
    ///
    /// # Errors
    /// `RemoteError` if the peer has ended or has no such memory; `SystemError` if the system
    /// refuses. `to` may then hold a part.
    ///
    /// # Safety
    /// `to` takes `bytes` bytes that nobody else touches.
    pub unsafe fn read(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: our caller's promise.
        let read = unsafe { self.read_at(from.addr() as u64, to, bytes) };
        read.map_err(|fault| self.error(&fault))
    }

    /// The system may stop early, wherever a page is missing: what follows is asked for again, and
    /// the mark with it.
    unsafe fn read_at(
        &self,
        from: u64,
        to: *mut u8,
        bytes: usize,
    ) -> std::result::Result<(), Fault> {
        let mut done = 0;
        loop {
            let part = (bytes - done).min(MOST_BYTES);
            // SAFETY: the rest of our caller's memory.
            let read = unsafe { self.read_once(from + done as u64, to.wrapping_add(done), part)? };
            done += read;
            if done == bytes {
                return Ok(());
            }
            if read == 0 {
                let to = to.wrapping_add(done);
                // SAFETY: the rest of our caller's memory, which takes at least `part` bytes.
                let taken = unsafe { self.read_once(self.mark_at, to, part.min(MARK_BYTES)) };
                return Err(match taken {
                    Ok(0) => Fault::Unwritable(to.addr()),
                    _ => Fault::Unmapped(from + done as u64),
                });
            }
        }
    }

    /// One system call: the mark and some of the data; how much of the data.
    unsafe fn read_once(
        &self,
        from: u64,
        to: *mut u8,
        bytes: usize,
    ) -> std::result::Result<usize, Fault> {
        let mut seen = 0_u128;
        let part = |base: *mut u8, bytes| libc::iovec {
            iov_base: base.cast(),
            iov_len: bytes,
        };
        let remote = |address: u64| std::ptr::without_provenance_mut(address as usize);
        let here = [part((&raw mut seen).cast(), MARK_BYTES), part(to, bytes)];
        let there = [
            part(remote(self.mark_at), MARK_BYTES),
            part(remote(from), bytes),
        ];
        let parts = if bytes == 0 { 1 } else { 2 };
        // SAFETY: the local parts are `seen` and our caller's memory; the system checks the rest.
        let read = unsafe {
            libc::process_vm_readv(
                self.pid as libc::pid_t,
                here.as_ptr(),
                parts,
                there.as_ptr(),
                parts,
                0,
            )
        };
        if read < 0 {
            return Err(self.refusal(io::Error::last_os_error()));
        }
        let read = read as usize;
        if read < MARK_BYTES || seen != self.mark {
            return Err(Fault::Stranger);
        }
        Ok(read - MARK_BYTES)
    }

    fn refusal(&self, cause: io::Error) -> Fault {
        match cause.raw_os_error() {
            Some(libc::ESRCH) => Fault::Gone,
            // Not even the mark is there.
            Some(libc::EFAULT) => Fault::Stranger,
            Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => Fault::Refused(cause),
            _ => Fault::Other(cause),
        }
    }

    #[cold]
    fn error(&self, fault: &Fault) -> Error {
        let (rank, node, pid) = (self.rank, &self.node, self.pid);
        let who = format!("rank {rank} (process {pid} on {node})");
        let refused = |cause: &io::Error, remedy| {
            Error::system(format!("cannot read the memory of {who}"), cause, remedy)
        };
        let error = match fault {
            Fault::Unwritable(address) => {
                return Error::argument(
                    format!("the receive buffer cannot be written at {address:#x}"),
                    "check the pointer and the count of this rank's call",
                );
            }
            Fault::Refused(cause) => refused(cause, yama::remedy()),
            Fault::Other(cause) => refused(cause, OFF.into()),
            Fault::Gone => Error::remote(
                rank,
                format!("{who} ended while its memory was read"),
                "look for the reason in that rank's output; end the job, or make a new \
                 communicator without it",
            ),
            Fault::Stranger => Error::new(
                Code::RemoteError,
                format!("what has the process number of {who} here is another process"),
                "if the rank has not ended, let all ranks of a node share one pid namespace \
                 (--pid host), or set KOLO_CMA=off",
            ),
            Fault::Unmapped(address) => Error::remote(
                rank,
                format!("the buffer of {who} cannot be read at {address:#x}"),
                "check pointer and count of that rank's call; set KOLO_CMA=off if the buffer is \
                 memory of a device",
            ),
        };
        error.with_peer(rank)
    }
}

const OFF: &str = "set KOLO_CMA=off";

pub mod yama {
    //! The security module that lets a process be read by its ancestors only, unless it names
    //! another *tracer* itself. There is one tracer, whose descendants count as well: naming the
    //! process that started the ranks admits what that has started on the node, and nobody else.

    use std::borrow::Cow;

    const SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";

    /// Whom this process lets read its memory.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Tracer {
        /// Whom the system lets anyway.
        Nobody,
        /// The process that started this one, with all that it has started.
        Launcher,
        /// Every process of the user.
        Any,
    }

    /// `kernel.yama.ptrace_scope`; 0 where there is no yama.
    pub fn scope() -> u32 {
        let text = std::fs::read_to_string(SCOPE).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    }

    /// Names the tracer, where yama asks for one; whether it did. It stays for the life of the
    /// process. Any thread.
    pub fn admit(tracer: Tracer) -> bool {
        if tracer == Tracer::Nobody || scope() != 1 {
            return false;
        }
        name(tracer)
    }

    pub(super) fn name(tracer: Tracer) -> bool {
        let who = match tracer {
            Tracer::Nobody => return false,
            Tracer::Any => libc::PR_SET_PTRACER_ANY,
            // SAFETY: a plain system call.
            Tracer::Launcher => match unsafe { libc::getppid() } {
                // Init, or somebody outside of the namespace: nobody in particular started us.
                ..=1 => return false,
                parent => parent as libc::c_ulong,
            },
        };
        // SAFETY: a plain system call.
        unsafe { libc::prctl(libc::PR_SET_PTRACER, who, 0, 0, 0) == 0 }
    }

    /// Remedy where memory may not be read.
    pub(super) fn remedy() -> Cow<'static, str> {
        advice(scope()).into()
    }

    pub(super) fn advice(scope: u32) -> &'static str {
        match scope {
            0 => {
                "run the ranks of a node as one user, without set-user-id, in one container that \
                 allows process_vm_readv (--cap-add SYS_PTRACE); or set KOLO_CMA=off"
            }
            1 => {
                "kernel.yama.ptrace_scope is 1: set KOLO_CMA_PTRACER=launcher, or let the \
                 administrator set it to 0; or set KOLO_CMA=off"
            }
            _ => {
                "kernel.yama.ptrace_scope is above 1: let the administrator set it to 1 or 0, or \
                 set KOLO_CMA=off"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This process as seen by another rank: the system lets everyone read itself.
    fn here(mark: &Mark) -> Peer {
        Peer::new(Rank(3), "node1", std::process::id(), mark.card())
    }

    #[test]
    fn what_is_read_is_what_is_there() {
        let mark = Mark::new(0x1234_5678_9abc_def0_0fed_cba9_8765_4321);
        let peer = here(&mark);
        peer.probe().unwrap();
        let data: Vec<u8> = (0..100_000_u32).map(|i| (i % 251) as u8).collect();
        for (start, bytes) in [(0, 0), (0, 1), (7, 4096), (1, 99_999), (4095, 8194)] {
            let mut got = vec![0x5a; bytes + 1];
            // SAFETY: the vector holds one byte more.
            unsafe { peer.read(data[start..].as_ptr(), got.as_mut_ptr(), bytes) }.unwrap();
            assert_eq!(got[..bytes], data[start..start + bytes]);
            assert_eq!(got[bytes], 0x5a, "nothing behind it is written");
        }
    }

    #[test]
    fn a_process_without_the_mark_is_refused() {
        let mark = Mark::new(77);
        let mut stranger = here(&mark);
        stranger.mark = 78;
        let mut lost = here(&mark);
        lost.mark_at = 8;
        for peer in [stranger, lost] {
            let error = peer.probe().unwrap_err();
            assert!(error.what.contains("another process"), "{error}");
            assert_eq!(error.peer, Some(Rank(3)));
            let mut byte = 0_u8;
            // SAFETY: one byte fits.
            let read = unsafe { peer.read(&raw const byte, &raw mut byte, 1) };
            assert!(read.unwrap_err().what.contains("another process"));
        }
    }

    #[test]
    fn a_hole_ends_the_read_with_its_address() {
        let mark = Mark::new(1);
        let peer = here(&mark);
        let page = 4096;
        // SAFETY: a new mapping, of which the second half is taken away again.
        let start = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(
                std::ptr::null_mut(),
                4 * page,
                libc::PROT_READ,
                flags,
                -1,
                0,
            );
            assert_ne!(start, libc::MAP_FAILED);
            libc::munmap(start.byte_add(2 * page), 2 * page);
            start.cast::<u8>()
        };
        let mut got = vec![1_u8; 4 * page];
        // SAFETY: the vector is large enough.
        let error = unsafe { peer.read(start, got.as_mut_ptr(), 4 * page) }.unwrap_err();
        let hole = format!("{:#x}", start.addr() + 2 * page);
        assert!(error.what.contains(&hole), "{error}");
        assert_eq!((error.code, error.peer), (Code::RemoteError, Some(Rank(3))));
        // SAFETY: the system refuses to write to the mapping, which is readable only.
        let error = unsafe { peer.read(got.as_ptr(), start, page) }.unwrap_err();
        assert_eq!((error.code, error.peer), (Code::InvalidArgument, None));
        // SAFETY: the vector is large enough; the rest of the mapping is ours.
        unsafe {
            peer.read(start, got.as_mut_ptr(), 2 * page).unwrap();
            libc::munmap(start.cast(), 2 * page);
        }
    }

    #[test]
    fn the_remedy_follows_from_the_system() {
        assert!(yama::advice(0).contains("SYS_PTRACE"));
        assert!(yama::advice(1).contains("KOLO_CMA_PTRACER"));
        assert!(yama::advice(2).contains("above 1"));
        assert!(!yama::name(yama::Tracer::Nobody));
        assert!(!yama::admit(yama::Tracer::Nobody));
    }
}
