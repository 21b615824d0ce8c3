//! Reading and writing memory of any kind by its address: what copies do.

use super::ranges::Ranges;
use kolo_kernels_host::Machine;

/// An address at which a copy finds nothing.
#[derive(Debug)]
pub struct Nowhere {
    pub at: u64,
}

/// Where some bytes lie.
enum Place {
    /// In a range of the machine: its allocation's base, and the offset in it.
    Known { base: u64, offset: usize },
    /// Plain memory of the host.
    Plain,
}

/// The place of an address, and how many bytes are there, up to `most`.
fn place(ranges: &Ranges, at: u64, most: usize) -> Result<(Place, usize), Nowhere> {
    if let Some(found) = ranges.find(at) {
        let offset = at - found.base;
        let here = (found.bytes - offset).min(most as u64);
        let place = Place::Known {
            base: found.base,
            offset: offset as usize,
        };
        return Ok((place, here as usize));
    }
    if at == 0 || ranges.is_of_devices(at) {
        return Err(Nowhere { at });
    }
    // Registered memory may begin behind it.
    let next = ranges
        .within(at, most as u64)
        .next()
        .map(|next| (next.base - at) as usize);
    Ok((Place::Plain, next.unwrap_or(most)))
}

/// Whether a copy can use all of it now.
pub fn is_there(ranges: &Ranges, at: u64, bytes: u64) -> bool {
    let Some(end) = at.checked_add(bytes) else {
        return false;
    };
    let mut at = at;
    while at < end {
        match place(ranges, at, (end - at) as usize) {
            Ok((_, here)) => at += here as u64,
            Err(_) => return false,
        }
    }
    true
}

/// Whether all of it is plain memory of the host, which can be paged.
pub fn is_plain(ranges: &Ranges, at: u64, bytes: u64) -> bool {
    let place = place(ranges, at, bytes as usize);
    matches!(place, Ok((Place::Plain, here)) if here as u64 == bytes)
}

/// # Errors
/// Not all of it is there.
pub fn read(ranges: &Ranges, at: u64, to: &mut [u8]) -> Result<(), Nowhere> {
    let mut done = 0;
    while done < to.len() {
        let from = at + done as u64;
        let (place, here) = place(ranges, from, to.len() - done)?;
        let source: *const u8 = match place {
            Place::Plain => std::ptr::with_exposed_provenance(from as usize),
            Place::Known { base, offset } => {
                let home = ranges.at(base).ok_or(Nowhere { at: from })?.home.0;
                home.wrapping_add(offset)
            }
        };
        // SAFETY: a range has the bytes; for plain memory, who asked for the copy says so.
        unsafe { source.copy_to_nonoverlapping(to[done..].as_mut_ptr(), here) };
        done += here;
    }
    Ok(())
}

/// As a copy engine does: kernels see it from now on.
///
/// # Errors
/// Not all of it is there.
pub fn write(ranges: &Ranges, machine: &mut Machine, at: u64, from: &[u8]) -> Result<(), Nowhere> {
    let mut done = 0;
    while done < from.len() {
        let to = at + done as u64;
        let (place, here) = place(ranges, to, from.len() - done)?;
        let part = &from[done..done + here];
        match place {
            Place::Known { base, offset } => {
                let range = ranges.at(base).ok_or(Nowhere { at: to })?.range;
                if !machine.store(range, offset, part) {
                    return Err(Nowhere { at: to });
                }
            }
            Place::Plain => {
                let to: *mut u8 = std::ptr::with_exposed_provenance_mut(to as usize);
                // SAFETY: who asked for the copy says that the memory is there.
                unsafe { to.copy_from_nonoverlapping(part.as_ptr(), here) };
            }
        }
        done += here;
    }
    Ok(())
}
