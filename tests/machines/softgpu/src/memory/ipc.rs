//! `cuMemAlloc`'s memory of another process: a handle names the file of its device's memory, as
//! that process has it open, and where the allocation lies in it.

use super::arenas::Arenas;
use super::backing::Backing;
use super::ranges::{Home, Keeper, Kind, NewRange, Owner, Ranges};
use crate::error::{Answer, Code};
use kolo_kernels_host::{Access, Machine};
use std::os::fd::{AsRawFd, OwnedFd};

/// `CUipcMemHandle`: 64 bytes that processes send each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Handle {
    magic: u64,
    process: u32,
    file: i32,
    offset: u64,
    bytes: u64,
    /// The device's number on the machine.
    device: u32,
    padding: u32,
    /// The allocation's number, so that no two handles are alike.
    id: u64,
    reserved: [u64; 2],
}

const MAGIC: u64 = u64::from_le_bytes(*b"koloipc1");
const _: () = assert!(size_of::<Handle>() == 64);

/// A handle that is open: in one context it is opened once, and counted.
struct OpenHandle {
    handle: Handle,
    context: u64,
    base: u64,
    count: u32,
}

/// The handle of the allocation that an address is of. `number_of` is a device's number on the
/// machine.
///
/// # Errors
/// It is none of `cuMemAlloc`.
pub fn handle(
    ranges: &Ranges,
    arenas: &Arenas,
    at: u64,
    number_of: impl Fn(u32) -> u32,
) -> Answer<Handle> {
    let found = ranges.find(at).ok_or(Code::INVALID_VALUE)?;
    let (Kind::Device, Keeper::Arena(part)) = (found.kind, &found.keeper) else {
        return Err(Code::INVALID_VALUE);
    };
    let file = arenas.file(found.device);
    Ok(Handle {
        magic: MAGIC,
        process: std::process::id(),
        file: file.ok_or(Code::INVALID_VALUE)?.as_raw_fd(),
        offset: part.offset,
        bytes: found.bytes,
        device: number_of(found.device),
        padding: 0,
        id: found.id,
        reserved: [0; 2],
    })
}

/// Handles that are open.
#[derive(Default)]
pub struct Opened(Vec<OpenHandle>);

impl Opened {
    /// Opens memory of another process: its address here. `owner` is its device in this process.
    ///
    /// # Errors
    /// The handle is none, of this process, or of one that is gone.
    pub fn open(
        &mut self,
        ranges: &mut Ranges,
        machine: &mut Machine,
        user: Owner,
        handle: &Handle,
        owner: u32,
    ) -> Answer<u64> {
        let Owner { device, context } = user;
        let is_it = |open: &&mut OpenHandle| open.handle == *handle && open.context == context;
        if let Some(open) = self.0.iter_mut().find(is_it) {
            open.count += 1;
            return Ok(open.base);
        }
        // A mapping begins with a page.
        let lead = handle.offset % 4096;
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .open(handle.path());
        let file = OwnedFd::from(file.map_err(|_| Code::MAP_FAILED)?);
        let end = handle
            .offset
            .checked_add(handle.bytes)
            .ok_or(Code::INVALID_HANDLE)?;
        let size = std::fs::metadata(handle.path()).map_or(0, |metadata| metadata.len());
        if end > size || handle.bytes == 0 {
            return Err(Code::INVALID_HANDLE);
        }
        let bytes = (lead + handle.bytes) as usize;
        let backing = Backing::of_file_at(file, handle.offset - lead, bytes)?;
        let home = Home(backing.at().wrapping_add(lead as usize));
        let whole = handle.bytes.next_multiple_of(256);
        let base = ranges
            .space
            .take(whole, 256, 0)
            .ok_or(Code::OUT_OF_MEMORY)?;
        let users = 1 << device | 1 << owner;
        let new = NewRange {
            name: "imported memory",
            base,
            bytes: handle.bytes,
            home,
            kind: Kind::Imported,
            device: owner,
            context,
            access: Access {
                loads: users,
                stores: users,
            },
            keeper: Keeper::Mapping(backing),
        };
        ranges.enter(machine, new)?;
        self.0.push(OpenHandle {
            handle: *handle,
            context,
            base,
            count: 1,
        });
        Ok(base)
    }

    /// Forgets what was opened in a context: it was freed with it.
    pub fn forget(&mut self, context: u64) {
        self.0.retain(|open| open.context != context);
    }

    /// Closes it, as often as it was opened: true the last time, when its memory goes.
    ///
    /// # Errors
    /// It is none.
    pub fn close(&mut self, base: u64) -> Answer<bool> {
        let known = self.0.iter_mut().find(|open| open.base == base);
        let open = known.ok_or(Code::INVALID_VALUE)?;
        if open.count > 1 {
            open.count -= 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// Forgets it: its memory has gone.
    pub fn remove(&mut self, base: u64) {
        self.0.retain(|open| open.base != base);
    }
}

impl Handle {
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", self.process, self.file)
    }

    /// The number of the device on the machine.
    ///
    /// # Errors
    /// These bytes are no handle, or one of this process, where the memory has an address already.
    pub fn device(&self) -> Answer<u32> {
        match self.magic == MAGIC {
            false => Err(Code::INVALID_HANDLE),
            true if self.process == std::process::id() => Err(Code::INVALID_CONTEXT),
            true => Ok(self.device),
        }
    }
}
