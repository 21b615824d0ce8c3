//! Physical memory of virtual memory: made, shared as a file, imported.

use super::backing::{Backing, GRANULARITY, Taken, Used};
use crate::error::{Answer, Code};
use crate::table::Table;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

/// Memory of a device that has no address by itself.
pub struct Physical {
    pub backing: Backing,
    /// Without the page that says what it is.
    pub bytes: u64,
    pub device: u32,
    pub handle_types: i32,
    pub id: u64,
    _taken: Option<Taken>,
}

/// A handle of it: released as often as it was given out.
pub struct Reference {
    pub physical: Arc<Physical>,
    count: u32,
}

/// The last page of a shared file: what it is.
const LABEL_BYTES: usize = 4096;
const MAGIC: u64 = u64::from_le_bytes(*b"kolovmm1");

/// Physical memory that callers have handles of.
pub struct Physicals(Table<Reference>);

/// The device of physical memory: by its number in this process, and on the machine.
#[derive(Clone, Copy)]
pub struct OfDevice {
    pub device: u32,
    pub number: u32,
}

impl Physicals {
    pub fn new() -> Physicals {
        Physicals(Table::new(Code::INVALID_VALUE))
    }

    /// The memory of a handle.
    ///
    /// # Errors
    /// There is no such handle.
    pub fn get(&self, handle: u64) -> Answer<&Arc<Physical>> {
        self.0.get(handle).map(|reference| &reference.physical)
    }

    /// New memory of a device that has so many bytes in all, and uses some.
    ///
    /// # Errors
    /// The size is no multiple of the granularity, or the device has not so much.
    pub fn create(
        &mut self,
        of: OfDevice,
        id: u64,
        used: &Used,
        total: u64,
        bytes: u64,
        handle_types: i32,
    ) -> Answer<u64> {
        if bytes == 0 || !bytes.is_multiple_of(GRANULARITY) {
            return Err(Code::INVALID_VALUE);
        }
        let taken = used.take(bytes, total)?;
        let backing = match handle_types {
            0 => Backing::private(bytes as usize)?,
            _ => {
                let backing = Backing::shared(bytes as usize + LABEL_BYTES)?;
                write_label(&backing, bytes, of.number);
                backing
            }
        };
        let physical = Physical {
            backing,
            bytes,
            device: of.device,
            handle_types,
            id,
            _taken: Some(taken),
        };
        Ok(self.0.add(Reference {
            physical: Arc::new(physical),
            count: 1,
        }))
    }

    /// # Errors
    /// There is no such handle.
    pub fn release(&mut self, handle: u64) -> Answer {
        let reference = self.0.get_mut(handle)?;
        reference.count -= 1;
        if reference.count == 0 {
            self.0.remove(handle)?;
        }
        Ok(())
    }

    /// A handle of physical memory, once more where it has one.
    ///
    /// # Errors
    /// None that a caller can bring about.
    pub fn retain(&mut self, physical: Arc<Physical>) -> Answer<u64> {
        let is_it = |reference: &Reference| Arc::ptr_eq(&reference.physical, &physical);
        let known = self.0.iter().find(|(_, reference)| is_it(reference));
        match known.map(|(handle, _)| handle) {
            Some(handle) => {
                self.0.get_mut(handle)?.count += 1;
                Ok(handle)
            }
            None => Ok(self.0.add(Reference { physical, count: 1 })),
        }
    }

    /// A descriptor of its file, which the caller owns.
    ///
    /// # Errors
    /// It was not made to be shared.
    pub fn export(&self, handle: u64) -> Answer<i32> {
        let physical = self.get(handle)?;
        let file = physical.backing.file().ok_or(Code::INVALID_VALUE)?;
        let copy = file
            .try_clone_to_owned()
            .map_err(|_| Code::OPERATING_SYSTEM)?;
        Ok(copy.into_raw_fd())
    }

    /// Physical memory of a descriptor, which stays the caller's. `device_of` knows the devices of
    /// this process by their numbers on the machine.
    ///
    /// # Errors
    /// The file is no such memory, or of a device that this process does not see.
    pub fn import(
        &mut self,
        id: u64,
        file: BorrowedFd,
        device_of: impl Fn(u32) -> Option<u32>,
    ) -> Answer<u64> {
        let file = file.try_clone_to_owned().map_err(|_| Code::INVALID_VALUE)?;
        let (backing, bytes, number) = read_label(file)?;
        let physical = Physical {
            backing,
            bytes,
            device: device_of(number).ok_or(Code::INVALID_DEVICE)?,
            handle_types: crate::abi::POSIX_FD,
            id,
            _taken: None,
        };
        Ok(self.0.add(Reference {
            physical: Arc::new(physical),
            count: 1,
        }))
    }
}

fn write_label(backing: &Backing, bytes: u64, number: u32) {
    let words = [MAGIC, bytes, u64::from(number)];
    // SAFETY: the mapping has a page behind `bytes`, and nobody else knows it yet.
    unsafe {
        let to = backing.at().add(bytes as usize).cast::<[u64; 3]>();
        to.write(words);
    }
}

/// The mapping of a shared file, its bytes and the number of its device on the machine.
fn read_label(file: OwnedFd) -> Answer<(Backing, u64, u32)> {
    let size = std::fs::File::from(
        file.as_fd()
            .try_clone_to_owned()
            .map_err(|_| Code::INVALID_VALUE)?,
    )
    .metadata()
    .map_err(|_| Code::INVALID_VALUE)?
    .len();
    let bytes = size
        .checked_sub(LABEL_BYTES as u64)
        .ok_or(Code::INVALID_VALUE)?;
    if bytes == 0 || !bytes.is_multiple_of(GRANULARITY) {
        return Err(Code::INVALID_VALUE);
    }
    let backing = Backing::of_file(file, size as usize)?;
    // SAFETY: the mapping has a page behind `bytes`.
    let words = unsafe { backing.at().add(bytes as usize).cast::<[u64; 3]>().read() };
    match words {
        [MAGIC, said, number] if said == bytes => Ok((backing, bytes, number as u32)),
        _ => Err(Code::INVALID_VALUE),
    }
}
