//! Memory of the program that is pinned for a plugin's devices, once for all connections.
//!
//! A buffer that the program has registered with kolo, or has from `koloMemAlloc`, is pinned as a
//! whole when a message from there or into there is first to be read, and stays pinned until the
//! program gives it up ([`crate::transport::lasting`]). A message under way holds what it uses, so
//! that pages do not change hands before it has ended.

use super::ends::Plugin;
use super::reading::{ReadingCalls, Stretch};
use crate::transport::lasting::{self, LastingMemory, PinHolder};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Most buffers that are pinned at once. Adapters bear more, but each of them takes memory of the
/// adapter's, and of the system's.
const MOST: usize = 4096;

/// Messages for which reading them where they lie is worth the words about it.
const LEAST_BYTES: usize = 16 << 10;

/// Memory that is pinned.
pub struct DevicePin {
    raw: *mut c_void,
    reading: ReadingCalls,
    plugin: Arc<Plugin>,
}

// SAFETY: the library lets any thread use and give back pinned memory.
unsafe impl Send for DevicePin {}
// SAFETY: as above; it is not changed.
unsafe impl Sync for DevicePin {}

impl DevicePin {
    /// A part of it.
    pub fn stretch(&self, data: *const u8, bytes: usize) -> Stretch {
        Stretch {
            data: data.cast_mut().cast(),
            bytes,
            pinned: self.raw,
        }
    }
}

impl Drop for DevicePin {
    fn drop(&mut self) {
        // SAFETY: of this library; the last user is gone.
        let code = unsafe { self.reading.unpin(self.raw) };
        if let Err(code) = code {
            self.plugin.note("kolo_net_unpin", code);
        }
    }
}

/// Pins of a device.
#[derive(Clone)]
pub struct DevicePins {
    pub pins: Arc<Pins>,
    pub device: c_int,
}

impl DevicePins {
    /// Pins memory around these bytes, if they lie in memory that stays.
    pub fn around(
        &self,
        lasting: &dyn LastingMemory,
        data: *const u8,
        bytes: usize,
    ) -> Option<Arc<DevicePin>> {
        if bytes < LEAST_BYTES {
            return None;
        }
        let range = lasting.around(data, bytes)?;
        self.pins.of(self.device, &range)
    }

    /// The library's functions.
    pub fn reading(&self) -> &ReadingCalls {
        &self.pins.reading
    }
}

/// First address, last and device; of the buffers of a device the start says the order.
type PinKey = (usize, usize, c_int);

/// A buffer's pinned memory once it is there, and nothing where the device refuses. Who asks first
/// pins it, without the lock of all others: that takes long for much memory.
type PinCell = OnceLock<Option<Arc<DevicePin>>>;

/// See the file's first line.
pub struct Pins {
    plugin: Arc<Plugin>,
    reading: ReadingCalls,
    table: Mutex<BTreeMap<PinKey, Arc<PinCell>>>,
    has_warned: AtomicBool,
}

/// Limit of locked memory, for people.
fn limit_text() -> String {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: a place for the answer.
    match unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) } {
        0 if limit.rlim_cur == libc::RLIM_INFINITY => "unlimited".into(),
        0 => format!("{} KiB", limit.rlim_cur >> 10),
        _ => "unknown".into(),
    }
}

impl Pins {
    /// Of a plugin that runs, which hears from now on when memory changes.
    pub fn new(plugin: &Arc<Plugin>, reading: ReadingCalls) -> Arc<Pins> {
        let pins = Arc::new(Pins {
            plugin: Arc::clone(plugin),
            reading,
            table: Mutex::default(),
            has_warned: AtomicBool::new(false),
        });
        let holder: Arc<dyn PinHolder> = pins.clone();
        lasting::tell(Arc::downgrade(&holder));
        pins
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<PinKey, Arc<PinCell>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This memory, pinned for a device; nothing where it is refused.
    fn of(&self, device: c_int, range: &Range<usize>) -> Option<Arc<DevicePin>> {
        let key = (range.start, range.end, device);
        let Some(cell) = self.cell(key) else {
            self.warn(&format!("{MOST} buffers are pinned, which is the most"));
            return None;
        };
        let made = cell.get_or_init(|| {
            let made = self.pin(device, range);
            made.inspect_err(|why| self.warn(why)).ok()
        });
        made.clone()
    }

    /// The place for a buffer's pinned memory; nothing where there are too many.
    fn cell(&self, key: PinKey) -> Option<Arc<PinCell>> {
        let mut table = self.table();
        if table.len() >= MOST {
            return table.get(&key).cloned();
        }
        Some(Arc::clone(table.entry(key).or_default()))
    }

    fn warn(&self, why: &str) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!("registered memory passes slots between nodes, as {why}");
        }
    }

    fn pin(&self, device: c_int, range: &Range<usize>) -> Result<Arc<DevicePin>, String> {
        // SAFETY: memory that lasts is mapped; who changes it tells this holder before.
        let pinned = unsafe { self.reading.pin(device, range.start, range.len()) };
        let raw = pinned.map_err(|code| {
            let error = self.plugin.error("kolo_net_pin", code);
            let limit = limit_text();
            format!(
                "{}; the limit of locked memory is {limit}. Remedy: {}",
                error.what, error.remedy
            )
        })?;
        Ok(Arc::new(DevicePin {
            raw,
            reading: self.reading,
            plugin: Arc::clone(&self.plugin),
        }))
    }
}

impl PinHolder for Pins {
    fn let_go(&self, range: &Range<usize>) {
        let mut gone = Vec::new();
        self.table().retain(|&(start, end, _), cell| {
            // What was refused may have room now.
            let is_refused = cell.get().is_some_and(Option::is_none);
            let stays = !is_refused && (end <= range.start || range.end <= start);
            if !stays {
                gone.push(Arc::clone(cell));
            }
            stays
        });
        // Nobody is pinning it any more when this returns. What a message uses goes when it has
        // ended.
        for cell in &gone {
            cell.get_or_init(|| None);
        }
    }
}
