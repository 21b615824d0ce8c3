//! `cuMemAlloc`'s memory: of each device one file, so that other processes can map it.

use super::backing::{Backing, Used};
use super::gaps::Gaps;
use super::ranges::{Home, Part};
use crate::error::{Answer, Code};
use std::os::fd::BorrowedFd;

/// Where allocations begin.
pub const ALIGNMENT: u64 = 256;

/// The memory of one device.
struct Arena {
    backing: Backing,
    gaps: Gaps,
}

/// The memory of all devices, each made when it is first needed.
pub struct Arenas {
    arenas: Vec<Option<Arena>>,
    pub used: Vec<Used>,
    /// Bytes of each device.
    pub total: u64,
}

impl Arenas {
    pub fn new(devices: usize, total: u64) -> Arenas {
        Arenas {
            arenas: (0..devices).map(|_| None).collect(),
            // Each has a count of its own, which a copy would share.
            used: (0..devices).map(|_| Used::default()).collect(),
            total,
        }
    }

    /// A part of a device's memory, and where its bytes lie.
    ///
    /// # Errors
    /// The device has not so much.
    pub fn take(&mut self, device: u32, bytes: u64) -> Answer<(Home, Part)> {
        let taken = self.used[device as usize].take(bytes, self.total)?;
        let arena = &mut self.arenas[device as usize];
        let arena = match arena {
            Some(arena) => arena,
            None => {
                let backing = Backing::shared(self.total as usize)?;
                let gaps = Gaps::new(0, self.total);
                arena.insert(Arena { backing, gaps })
            }
        };
        let offset = arena
            .gaps
            .take(bytes, ALIGNMENT, 0)
            .ok_or(Code::OUT_OF_MEMORY)?;
        let home = Home(arena.backing.at().wrapping_add(offset as usize));
        Ok((
            home,
            Part {
                offset,
                _taken: taken,
            },
        ))
    }

    /// Gives a part of a device's memory back.
    pub fn give(&mut self, device: u32, part: &Part) {
        if let Some(arena) = &mut self.arenas[device as usize] {
            let bytes = arena.gaps.give(part.offset).unwrap_or(0);
            arena.backing.forget(part.offset as usize, bytes as usize);
        }
    }

    /// The file of a device's memory.
    pub fn file(&self, device: u32) -> Option<BorrowedFd<'_>> {
        let arena = self.arenas[device as usize].as_ref();
        arena.and_then(|arena| arena.backing.file())
    }
}
