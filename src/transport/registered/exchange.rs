//! Pages change places: from anonymous memory onto the file, and back.
//!
//! Both ways the content is copied first, and then one system call puts the copy where the old
//! pages were: other threads never find the addresses without memory. Large ranges go piece by
//! piece, so that no more than a piece is there twice. The first and the last page go by
//! themselves: who needs what else lies in them waits for the copy of one page, not of many.

use super::areas::{self, Identity};
use super::window::Stillness;
use super::{forked, hooks};
use crate::base::{Error, Result};
use crate::transport::fork::Fd;
use crate::transport::room;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Bytes that are there twice at most.
const PIECE_BYTES: usize = 16 << 20;

const READ_WRITE: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

fn pieces(pages: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let (Range { start, end }, page) = (pages.clone(), room::page_bytes());
    let first = start..end.min(start + page);
    let last = first.end.max(end.saturating_sub(page))..end;
    let inner = first.end..last.start;
    let starts = inner.clone().step_by(PIECE_BYTES);
    let inner = starts.map(move |start| start..inner.end.min(start + PIECE_BYTES));
    let all = std::iter::once(first).chain(inner).chain([last]);
    all.filter(|piece| !piece.is_empty())
}

/// Moves anonymous pages onto the file, at the offsets that are their addresses. Forks wait.
///
/// # Errors
/// No room, or the system refuses; then the pages are what they were.
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
    room::reserve(file, (piece.start as u64, piece.len()), "koloCommRegister")?;
    let outcome = {
        let _forks_wait = forked::hold();
        let _window = Stillness::over(piece);
        // No allocation until here ends: see `Stillness`.
        copy_out(file, piece).and_then(|()| map_in_place(file, piece))
    };
    if outcome.is_err() {
        release(file, piece);
    }
    outcome.map_err(|cause| refused("move a buffer onto a file in memory", &cause))?;
    populate(piece);
    Ok(())
}

/// Copies pages into the file.
fn copy_out(file: &Fd, piece: &Range<usize>) -> io::Result<()> {
    let mut at = piece.start;
    while at < piece.end {
        let source = at as *const libc::c_void;
        // SAFETY: the pages are mapped and readable; the system reads them.
        let count =
            unsafe { libc::pwrite(file.as_raw_fd(), source, piece.end - at, at as libc::off_t) };
        at += copied(count)?;
    }
    Ok(())
}

/// The bytes that a system call has copied: 0 if a signal came first.
fn copied(count: isize) -> io::Result<usize> {
    match usize::try_from(count) {
        Ok(0) => Err(io::Error::from_raw_os_error(libc::EIO)),
        Ok(count) => Ok(count),
        Err(_) => match io::Error::last_os_error() {
            cause if cause.raw_os_error() == Some(libc::EINTR) => Ok(0),
            cause => Err(cause),
        },
    }
}

fn map_in_place(file: &Fd, piece: &Range<usize>) -> io::Result<()> {
    let how = (READ_WRITE, libc::MAP_SHARED);
    // SAFETY: the caller owns these pages and has said so; what was in them is in the file, at the
    // same offsets.
    unsafe { hooks::show_file(piece, how, (file.as_raw_fd(), piece.start as u64)) }
}

/// Lets the system fill its tables now and not at the first touch; older systems do that then.
fn populate(piece: &Range<usize>) {
    // SAFETY: pages of this process; their content does not change.
    unsafe {
        libc::madvise(
            piece.start as *mut libc::c_void,
            piece.len(),
            libc::MADV_POPULATE_WRITE,
        );
    }
}

/// Gives the memory of the file behind these pages back to the system.
pub(super) fn release(file: &Fd, pages: &Range<usize>) {
    let hole = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let (start, bytes) = (pages.start as libc::off_t, pages.len() as libc::off_t);
    // SAFETY: our file; no page of this process shows these bytes any more. A refusal only means
    // that memory is in use for longer.
    unsafe { libc::fallocate(file.as_raw_fd(), hole, start, bytes) };
}

/// Moves those of `pages` that lie on the file in place back to anonymous memory, and gives the
/// file's memory for all of them back. What the program has unmapped, or put there itself, is left
/// alone.
///
/// # Errors
/// No room, or the system refuses: what was not moved yet stays on the file.
pub(super) fn back(file: &Fd, pages: &Range<usize>) -> Result<()> {
    let ours = areas::identity(file)?;
    for (part, rights) in in_place(pages, ours)? {
        let outcome = pieces(&part).try_for_each(|piece| -> Result<()> {
            back_piece(file, &piece, rights)?;
            release(file, &piece);
            Ok(())
        });
        hooks::tell(&part);
        outcome?;
    }
    release(file, pages);
    Ok(())
}

/// The parts of these pages that show the file in place, and their access rights.
pub(super) fn in_place(
    pages: &Range<usize>,
    ours: Identity,
) -> Result<Vec<(Range<usize>, libc::c_int)>> {
    let areas = areas::plain(pages)?;
    let shown = areas.into_iter().filter(|area| area.is_in_place(ours));
    let cut = |area: areas::Area| {
        let part = area.pages.start.max(pages.start)..area.pages.end.min(pages.end);
        (part, areas::protection(&area.rights))
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
    let what = "move a buffer back to memory of its own";
    if fresh == libc::MAP_FAILED {
        return Err(refused(what, &io::Error::last_os_error()));
    }
    let copy = fresh as usize..fresh as usize + part.len();
    populate(&copy);
    let outcome = {
        let _forks_wait = forked::hold();
        let _window = Stillness::over(part);
        // No allocation until here ends: see `Stillness`.
        // SAFETY: the copy is ours, and no longer needed where it is; the program's pages hold the
        // same bytes.
        copy_in(file, part, &copy).and_then(|()| unsafe { hooks::put(copy.start, part) })
    };
    if let Err(cause) = outcome {
        // SAFETY: the mapping made above, which has not moved.
        unsafe { libc::munmap(fresh, part.len()) };
        return Err(refused(what, &cause));
    }
    if rights != READ_WRITE {
        // SAFETY: pages of the program, which had these rights before.
        unsafe { libc::mprotect(part.start as *mut libc::c_void, part.len(), rights) };
    }
    Ok(())
}

/// Copies the file's bytes for `part` to the pages `copy`.
fn copy_in(file: &Fd, part: &Range<usize>, copy: &Range<usize>) -> io::Result<()> {
    let mut done = 0;
    while done < part.len() {
        // SAFETY: the copy is a mapping of this size, which nobody else knows.
        let count = unsafe {
            libc::pread(
                file.as_raw_fd(),
                (copy.start + done) as *mut libc::c_void,
                part.len() - done,
                (part.start + done) as libc::off_t,
            )
        };
        done += copied(count)?;
    }
    Ok(())
}

fn refused(what: &str, cause: &io::Error) -> Error {
    Error::system(format!("could not {what}"), cause, room::remedy(cause))
}
