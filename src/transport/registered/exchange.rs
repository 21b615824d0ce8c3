//! Pages change places: from anonymous memory onto the file, and back.
//!
//! Both ways the content is copied first, and then one system call puts the copy where the old
//! pages were: other threads never find the addresses without memory. Large ranges go piece by
//! piece, so that no more than a piece is there twice. The pages hold nothing but a buffer, and
//! the program promises not to write into it meanwhile.
//!
//! **Settling** is another way back, for pages into which somebody may be writing: the file is
//! mapped privately in the place of itself, which loses no write, and then the system copies each
//! page as if it were written to. They remain a mapping of the file, of which they show nothing.
//!
//! System calls are bare, past what libraries put before `pread` and the like.

use super::areas::{self, FileIdentity};
use super::{copies, forked, hooks};
use crate::base::{Error, Result};
use crate::transport::fork::Fd;
use crate::transport::room;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Bytes that are there twice at most.
const PIECE_BYTES: usize = 16 << 20;

const READ_WRITE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
const BACK: &str = "move a buffer back to memory of its own";
const RIGHTS: &str = "protect pages of a buffer as they were (they can be written now)";

fn pieces(pages: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let end = pages.end;
    let starts = pages.clone().step_by(PIECE_BYTES);
    starts.map(move |start| start..end.min(start + PIECE_BYTES))
}

/// Moves anonymous pages onto the file, at the offsets that are their addresses.
///
/// # Errors
/// No room, or the system refuses; then the pages are what they were, but for what could not go
/// back.
pub(super) fn onto(file: &Fd, pages: &Range<usize>) -> Result<()> {
    for piece in pieces(pages) {
        let moved = onto_piece(file, &piece);
        if let Err(error) = moved {
            // It had room a moment ago; where it has none the pages stay on the file, and usable.
            let _ = back(file, &(pages.start..piece.start));
            return Err(error);
        }
    }
    hooks::tell(pages);
    Ok(())
}

fn onto_piece(file: &Fd, piece: &Range<usize>) -> Result<()> {
    let from = piece.start as u64;
    room::reserve(file, (from, piece.len()), "koloCommRegister")?;
    // SAFETY: the caller owns these pages and has said so; what was in them is in the file, at the
    // same offsets.
    let exchange = || unsafe { show_in_place(file, piece, READ_WRITE, libc::MAP_SHARED) };
    let copied = copy_out(file, piece, from);
    if let Err(cause) = copied.and_then(|()| exchange()) {
        // The system may have taken the old pages away before it failed: the file has the content.
        let is_lost = areas::plain(piece).is_ok_and(|areas| areas.is_empty());
        if !is_lost || exchange().is_err() {
            let kept = if is_lost { 0..0 } else { piece.clone() };
            release(file, (kept.start as u64, kept.len()));
            return Err(refused("move a buffer onto a file in memory", &cause));
        }
    }
    // What is not made now is made at the first touch.
    let _ = copies::populate(piece);
    Ok(())
}

/// Copies bytes of this process into the file.
pub(super) fn copy_out(file: &Fd, bytes: &Range<usize>, to: u64) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        // SAFETY: the system reads the bytes, and says so where they are not there.
        let count = unsafe {
            libc::syscall(
                libc::SYS_pwrite64,
                file.as_raw_fd(),
                bytes.start + done,
                bytes.len() - done,
                to + done as u64,
            )
        };
        done += copied(count)?;
    }
    Ok(())
}

/// The bytes that a system call has copied: 0 if a signal came first.
fn copied(count: libc::c_long) -> io::Result<usize> {
    match usize::try_from(count) {
        Ok(0) => Err(io::Error::from_raw_os_error(libc::EIO)),
        Ok(count) => Ok(count),
        Err(_) => match io::Error::last_os_error() {
            cause if cause.raw_os_error() == Some(libc::EINTR) => Ok(0),
            cause => Err(cause),
        },
    }
}

/// Shows the file at the addresses that are the offsets.
///
/// # Safety
/// Nobody needs what is there, or it is the same as what the file holds.
unsafe fn show_in_place(
    file: &Fd,
    pages: &Range<usize>,
    rights: libc::c_int,
    kind: libc::c_int,
) -> io::Result<()> {
    let how = (rights, kind | libc::MAP_NORESERVE);
    // SAFETY: our caller's promise.
    unsafe { hooks::show_file(pages, how, (file.as_raw_fd(), pages.start as u64)) }
}

/// Gives memory of the file back to the system: so many bytes from an offset.
pub(super) fn release(file: &Fd, (start, bytes): (u64, usize)) {
    let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let (start, bytes) = (start as libc::off_t, bytes as libc::off_t);
    // SAFETY: our file; no page of this process shows these bytes any more. A refusal only means
    // that memory is in use for longer.
    unsafe { libc::syscall(libc::SYS_fallocate, file.as_raw_fd(), hole, start, bytes) };
}

/// Moves those of `pages` that lie on the file in place back to anonymous memory, and gives the
/// file's memory for all of them back. What the program has unmapped, or put there itself, is left
/// alone.
///
/// # Errors
/// No room, or the system refuses: what was not moved yet stays on the file.
pub(super) fn back(file: &Fd, pages: &Range<usize>) -> Result<()> {
    let ours = areas::identity(file)?;
    for (gone, rights, _) in in_place(pages, ours)?.into_iter().filter(|part| part.2) {
        let outcome = pieces(&gone).try_for_each(|piece| -> Result<()> {
            back_piece(file, &piece, rights)?;
            release(file, (piece.start as u64, piece.len()));
            Ok(())
        });
        hooks::tell(&gone);
        outcome?;
    }
    release(file, (pages.start as u64, pages.len()));
    Ok(())
}

/// Parts of memory, their access rights, and whether they are shared.
type PlacedPart = (Range<usize>, libc::c_int, bool);

/// The parts of these pages that are mappings of the file in place, shared or private.
pub(super) fn in_place(pages: &Range<usize>, ours: FileIdentity) -> Result<Vec<PlacedPart>> {
    let areas = areas::plain(pages)?;
    let shown = areas.into_iter().filter(|area| area.is_in_place(ours));
    let cut = |area: areas::Area| {
        let part = area.pages.start.max(pages.start)..area.pages.end.min(pages.end);
        (part, areas::protection(&area.rights), area.is_shared())
    };
    Ok(shown.map(cut).collect())
}

fn back_piece(file: &Fd, part: &Range<usize>, rights: libc::c_int) -> Result<()> {
    room::check_memory("koloCommDeregister", part.len())?;
    // SAFETY: a new mapping at an address of the system's choice touches no existing memory.
    let fresh = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            part.len(),
            READ_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if fresh == libc::MAP_FAILED {
        return Err(refused(BACK, &io::Error::last_os_error()));
    }
    let copy = fresh as usize..fresh as usize + part.len();
    let _ = copies::populate(&copy);
    // Rights move along. Given afterwards they might be refused, and then the program could write
    // where it has said that nobody may.
    let protect = || match rights {
        READ_WRITE => Ok(()),
        rights => hooks::protect(&copy, rights),
    };
    // SAFETY: the copy is ours, and no longer needed where it is; the program's pages hold the
    // same bytes.
    let put = || unsafe { hooks::put(copy.start, part) };
    let copied = copy_in(file, part, &copy);
    if let Err(cause) = copied.and_then(|()| protect()).and_then(|()| put()) {
        // The system may have taken the pages away before it failed; the file has their content.
        // SAFETY: the pages showed this file, or nothing is there.
        let kept = unsafe { show_in_place(file, part, rights, libc::MAP_SHARED) };
        // SAFETY: the mapping made above, which has not moved.
        unsafe { libc::munmap(fresh, part.len()) };
        return Err(refused(BACK, &kept.err().unwrap_or(cause)));
    }
    Ok(())
}

/// Copies the file's bytes for `part` to the pages `copy`.
fn copy_in(file: &Fd, part: &Range<usize>, copy: &Range<usize>) -> io::Result<()> {
    let mut done = 0;
    while done < part.len() {
        // SAFETY: the copy is a mapping of this size, which nobody else knows.
        let count = unsafe {
            libc::syscall(
                libc::SYS_pread64,
                file.as_raw_fd(),
                copy.start + done,
                part.len() - done,
                part.start + done,
            )
        };
        done += copied(count)?;
    }
    Ok(())
}

/// Makes those of `pages` that are mappings of the file in place this process's alone, while others
/// may be writing into them, and gives the file's memory for all of them back.
///
/// # Errors
/// No room, or the system refuses: what was not settled needs the file still.
pub(super) fn settle(file: &Fd, pages: &Range<usize>) -> Result<()> {
    let ours = areas::identity(file)?;
    for (part, rights, shared) in in_place(pages, ours)? {
        let outcome =
            pieces(&part).try_for_each(|piece| settle_piece(file, &piece, (rights, shared)));
        hooks::tell(&part);
        outcome?;
    }
    release(file, (pages.start as u64, pages.len()));
    Ok(())
}

fn settle_piece(
    file: &Fd,
    piece: &Range<usize>,
    (rights, is_shared): (libc::c_int, bool),
) -> Result<()> {
    let room = room::check_memory("koloCommAbort", piece.len());
    // Whoever forks sees the file's content, or has copies of it.
    let _forks_wait = forked::hold();
    if is_shared {
        // SAFETY: both kinds show the same bytes of the file.
        let private = unsafe { show_in_place(file, piece, READ_WRITE, libc::MAP_PRIVATE) };
        if let Err(cause) = private {
            // SAFETY: as above.
            let kept = unsafe { show_in_place(file, piece, rights, libc::MAP_SHARED) };
            return Err(refused(BACK, &kept.err().unwrap_or(cause)));
        }
    } else if rights != READ_WRITE {
        // Pages that cannot be written have no copies, and a write would end the program.
        hooks::protect(piece, READ_WRITE).map_err(|cause| refused(BACK, &cause))?;
    }
    let settled = room.and_then(|()| {
        // SAFETY: the pages were made, or made writable, above.
        let copied = unsafe { copies::make(piece, room::page_bytes()) };
        copied.map_err(|cause| refused(BACK, &cause))
    });
    if rights != READ_WRITE
        && let Err(cause) = hooks::protect(piece, rights)
    {
        if is_shared {
            // SAFETY: nobody may write here, so that the file still holds the same.
            let kept = unsafe { show_in_place(file, piece, rights, libc::MAP_SHARED) };
            return Err(refused(BACK, &kept.err().unwrap_or(cause)));
        }
        return Err(refused(RIGHTS, &cause));
    }
    settled?;
    release(file, (piece.start as u64, piece.len()));
    Ok(())
}

pub(super) fn refused(what: &str, cause: &io::Error) -> Error {
    Error::system(format!("could not {what}"), cause, room::remedy(cause))
}
