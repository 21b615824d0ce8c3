//! Owned objects of libfabric, over the functions of `libfabric.c`.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr::{null, null_mut};

/// No completion yet, or no room for one more operation.
const AGAIN: isize = -(libc::EAGAIN as isize);

/// Room for the provider's words about an error.
const WORDS: usize = 160;

/// Longest name of an endpoint in bytes.
pub const NAME_BYTES: usize = 200;

#[repr(C)]
struct RawFacts {
    provider: *const c_char,
    fabric: *const c_char,
    domain: *const c_char,
    address: *const u8,
    address_bytes: usize,
    max_message: u64,
    tag_format: u64,
    speed: u64,
    is_internet: u32,
    on_pci: u32,
    pci_domain: u16,
    pci_bus: u8,
    pci_device: u8,
    pci_function: u8,
}

const _: () = assert!(size_of::<RawFacts>() == 80);

/// An operation that has ended.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Done {
    /// Context by which its owner knows it.
    pub context: *mut c_void,
    /// How much was received.
    pub bytes: u64,
    error: i32,
    words: [c_char; WORDS],
}

const _: () = assert!(size_of::<Done>() == 184);

enum FiInfo {}
enum RawEndpoint {}
enum FidMr {}

unsafe extern "C" {
    fn kolo_ofi_find(provider: *const c_char, list: *mut *mut FiInfo) -> c_int;
    fn kolo_ofi_next(info: *const FiInfo) -> *mut FiInfo;
    fn kolo_ofi_copy(info: *const FiInfo) -> *mut FiInfo;
    fn kolo_ofi_free(info: *mut FiInfo);
    fn kolo_ofi_tell(info: *const FiInfo, facts: *mut RawFacts);
    fn kolo_ofi_words(error: c_int) -> *const c_char;
    fn kolo_ofi_open(
        info: *mut FiInfo,
        out: *mut *mut RawEndpoint,
        step: *mut *const c_char,
    ) -> c_int;
    fn kolo_ofi_shut(endpoint: *mut RawEndpoint);
    fn kolo_ofi_close(endpoint: *mut RawEndpoint);
    fn kolo_ofi_name(endpoint: *mut RawEndpoint, name: *mut c_void, bytes: *mut usize) -> c_int;
    fn kolo_ofi_insert(endpoint: *mut RawEndpoint, name: *const c_void, address: *mut u64)
    -> c_int;
    fn kolo_ofi_register(
        endpoint: *mut RawEndpoint,
        data: *mut c_void,
        bytes: usize,
        region: *mut *mut FidMr,
        description: *mut *mut c_void,
    ) -> c_int;
    fn kolo_ofi_deregister(region: *mut FidMr);
    fn kolo_ofi_send(
        endpoint: *mut RawEndpoint,
        data: *const c_void,
        bytes: usize,
        description: *mut c_void,
        to: u64,
        tag: u64,
        context: *mut c_void,
    ) -> isize;
    fn kolo_ofi_receive(
        endpoint: *mut RawEndpoint,
        data: *mut c_void,
        bytes: usize,
        description: *mut c_void,
        tag: u64,
        context: *mut c_void,
    ) -> isize;
    fn kolo_ofi_cancel(endpoint: *mut RawEndpoint, context: *mut c_void);
    fn kolo_ofi_poll(endpoint: *mut RawEndpoint, done: *mut Done, room: usize) -> isize;
}

/// Words of libfabric about an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// libfabric's number.
    pub number: i32,
    /// Text that says what it means.
    pub text: String,
}

impl Failure {
    fn new(code: c_int) -> Failure {
        // SAFETY: it gives a constant string for every number.
        let text = unsafe { text(kolo_ofi_words(code)) };
        Failure {
            number: code.abs(),
            text,
        }
    }
}

/// # Safety
/// `text` is null or ends with a zero byte.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}

impl Done {
    const NOTHING: Done = Done {
        context: null_mut(),
        bytes: 0,
        error: 0,
        words: [0; WORDS],
    };

    /// Why it failed.
    pub fn failure(&self) -> Option<Failure> {
        if self.error == 0 {
            return None;
        }
        let mut failure = Failure::new(self.error);
        // SAFETY: `libfabric.c` ends the words with a zero byte.
        let words = unsafe { text(self.words.as_ptr()) };
        if !words.is_empty() && words != failure.text {
            failure.text = format!("{}: {words}", failure.text);
        }
        Some(failure)
    }
}

/// Facts about a way that libfabric offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Such as `tcp;ofi_rxm`.
    pub provider: String,
    /// Its network.
    pub fabric: String,
    /// Its device.
    pub domain: String,
    /// The address that it has there, where that is one of the internet.
    pub address: Option<IpAddr>,
    /// Whether its addresses are of the internet at all.
    pub is_internet: bool,
    /// Largest message.
    pub max_message: u64,
    /// Bits of a tag that it looks at.
    pub tag_format: u64,
    /// Bits a second; 0: not told.
    pub speed: u64,
    /// Place on the PCI bus, as `/sys/bus/pci/devices` writes it.
    pub pci: Option<String>,
}

/// A way that libfabric offers: a `fi_info`.
pub struct Way(*mut FiInfo);

// SAFETY: it is memory that nobody changes.
unsafe impl Send for Way {}
// SAFETY: as above.
unsafe impl Sync for Way {}

impl Way {
    /// All ways of a provider, or of all, the best first.
    pub fn all(provider: Option<&str>) -> Result<Vec<Way>, Failure> {
        let name = provider.map(|name| CString::new(name).unwrap_or_default());
        let name = name.as_ref().map_or(null(), |name| name.as_ptr());
        let mut list = null_mut();
        // SAFETY: the name is null or a string, and there is a place for the list.
        let code = unsafe { kolo_ofi_find(name, &raw mut list) };
        if code != 0 {
            return Err(Failure::new(code));
        }
        let mut ways = Vec::new();
        let mut at = list;
        while !at.is_null() {
            // SAFETY: an entry of the list; a copy stands alone.
            unsafe {
                let copy = kolo_ofi_copy(at);
                if !copy.is_null() {
                    ways.push(Way(copy));
                }
                at = kolo_ofi_next(at);
            }
        }
        // SAFETY: the list is whole, and is used no more.
        unsafe { kolo_ofi_free(list) };
        Ok(ways)
    }

    /// Facts about it.
    pub fn facts(&self) -> Facts {
        // SAFETY: all members may be zero.
        let mut raw: RawFacts = unsafe { std::mem::zeroed() };
        // SAFETY: the entry is alive, and there is a place for the facts.
        unsafe { kolo_ofi_tell(self.0, &raw mut raw) };
        // SAFETY: strings and address live as long as the entry.
        unsafe {
            let address: &[u8] = if raw.address.is_null() {
                &[]
            } else {
                std::slice::from_raw_parts(raw.address, raw.address_bytes)
            };
            let is_internet = raw.is_internet != 0;
            Facts {
                provider: text(raw.provider),
                fabric: text(raw.fabric),
                domain: text(raw.domain),
                address: internet(address).filter(|_| is_internet),
                is_internet,
                max_message: raw.max_message,
                tag_format: raw.tag_format,
                speed: raw.speed,
                pci: (raw.on_pci != 0).then(|| {
                    format!(
                        "{:04x}:{:02x}:{:02x}.{:x}",
                        raw.pci_domain, raw.pci_bus, raw.pci_device, raw.pci_function
                    )
                }),
            }
        }
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        // SAFETY: made by a copy, and given back once.
        unsafe { kolo_ofi_free(self.0) };
    }
}

/// The address in a `sockaddr`.
fn internet(bytes: &[u8]) -> Option<IpAddr> {
    let family = u16::from_ne_bytes(*bytes.first_chunk::<2>()?);
    match i32::from(family) {
        libc::AF_INET => {
            let four: [u8; 4] = bytes.get(4..8)?.try_into().ok()?;
            Some(Ipv4Addr::from(four).into())
        }
        libc::AF_INET6 => {
            let sixteen: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
            Some(Ipv6Addr::from(sixteen).into())
        }
        _ => None,
    }
}

/// A place of memory for an operation, with what the provider asks for it.
#[derive(Clone, Copy)]
pub struct Span {
    /// Its address.
    pub data: usize,
    /// Its size.
    pub bytes: usize,
    /// Of its registration, or null.
    pub description: *mut c_void,
}

/// Memory that is registered with a provider.
pub struct Mapped {
    region: *mut FidMr,
    /// To be named in operations.
    pub description: *mut c_void,
}

// SAFETY: it is a name for the provider, and constant.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

/// An endpoint, with its fabric, domain, addresses and completions. One thread at a time.
pub struct Port(*mut RawEndpoint);

// SAFETY: one thread at a time is what the domain was opened for.
unsafe impl Send for Port {}

impl Port {
    /// Opens one. The error says at which step.
    pub fn open(way: &Way) -> Result<Port, (String, Failure)> {
        let (mut raw, mut step) = (null_mut(), null());
        // SAFETY: the entry is alive, and there are places for the results.
        let code = unsafe { kolo_ofi_open(way.0, &raw mut raw, &raw mut step) };
        match code {
            0 => Ok(Port(raw)),
            // SAFETY: a step is a constant string.
            code => Err((unsafe { text(step) }, Failure::new(code))),
        }
    }

    /// Its name, by which others reach it.
    pub fn name(&self) -> Result<Vec<u8>, Failure> {
        let mut room = vec![0; NAME_BYTES];
        let mut bytes = room.len();
        // SAFETY: the endpoint is open, and the place has the size that is given.
        let code = unsafe { kolo_ofi_name(self.0, room.as_mut_ptr().cast(), &raw mut bytes) };
        if code != 0 {
            return Err(Failure::new(code));
        }
        room.truncate(bytes);
        Ok(room)
    }

    /// The number of another endpoint, by its name.
    pub fn insert(&self, name: &[u8]) -> Result<u64, Failure> {
        let mut room = [0; NAME_BYTES];
        let bytes = name.len().min(NAME_BYTES);
        room[..bytes].copy_from_slice(&name[..bytes]);
        let mut address = 0;
        // SAFETY: the endpoint is open; the name stands in more room than any name takes.
        let code = unsafe { kolo_ofi_insert(self.0, room.as_ptr().cast(), &raw mut address) };
        match code {
            0 => Ok(address),
            code => Err(Failure::new(code)),
        }
    }

    /// Registers memory, where the provider asks for that.
    ///
    /// # Safety
    /// The memory stays mapped until [`Port::unmap`].
    pub unsafe fn map(&self, data: usize, bytes: usize) -> Result<Mapped, Failure> {
        let (mut region, mut description) = (null_mut(), null_mut());
        // SAFETY: the endpoint is open; the caller's promise.
        let code = unsafe {
            kolo_ofi_register(
                self.0,
                data as *mut c_void,
                bytes,
                &raw mut region,
                &raw mut description,
            )
        };
        match code {
            0 => Ok(Mapped {
                region,
                description,
            }),
            code => Err(Failure::new(code)),
        }
    }

    /// Gives a registration of this port back; no operation uses it.
    pub fn unmap(&self, mapped: &Mapped) {
        if !mapped.region.is_null() {
            // SAFETY: of this port, which is open, and given back once.
            unsafe { kolo_ofi_deregister(mapped.region) };
        }
    }

    /// Starts to send; false: not yet.
    ///
    /// # Safety
    /// Memory and context stay until the operation has ended.
    pub unsafe fn send(
        &self,
        span: Span,
        to: u64,
        tag: u64,
        context: *mut c_void,
    ) -> Result<bool, Failure> {
        let data = span.data as *const c_void;
        // SAFETY: the endpoint is open; the caller's promise.
        begun(unsafe {
            kolo_ofi_send(self.0, data, span.bytes, span.description, to, tag, context)
        })
    }

    /// Starts to receive; false: not yet.
    ///
    /// # Safety
    /// Memory and context stay until the operation has ended.
    pub unsafe fn receive(
        &self,
        span: Span,
        tag: u64,
        context: *mut c_void,
    ) -> Result<bool, Failure> {
        let data = span.data as *mut c_void;
        // SAFETY: the endpoint is open; the caller's promise.
        begun(unsafe { kolo_ofi_receive(self.0, data, span.bytes, span.description, tag, context) })
    }

    /// Asks for an operation to end; it ends as any other does.
    pub fn cancel(&self, context: *mut c_void) {
        // SAFETY: the endpoint is open; a context of no operation is none of its business.
        unsafe { kolo_ofi_cancel(self.0, context) };
    }

    /// Drives the provider, and hands out what has ended; whether there was something.
    pub fn poll(&self, mut each: impl FnMut(&Done)) -> Result<bool, Failure> {
        let mut room = [Done::NOTHING; 16];
        // SAFETY: the endpoint is open, and the place has the size that is given.
        let count = unsafe { kolo_ofi_poll(self.0, room.as_mut_ptr(), room.len()) };
        let Ok(count) = usize::try_from(count) else {
            return Err(Failure::new(count as c_int));
        };
        room[..count].iter().for_each(&mut each);
        Ok(count > 0)
    }

    /// Ends the endpoint: nothing of it touches memory afterwards, and it cannot be used.
    pub fn shut(&self) {
        // SAFETY: open, and used no more.
        unsafe { kolo_ofi_shut(self.0) };
    }
}

fn begun(code: isize) -> Result<bool, Failure> {
    match code {
        0 => Ok(true),
        AGAIN => Ok(false),
        code => Err(Failure::new(code as c_int)),
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        // SAFETY: opened, and closed once.
        unsafe { kolo_ofi_close(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read() {
        let mut four = vec![0; 16];
        four[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        four[4..8].copy_from_slice(&[10, 1, 2, 3]);
        assert_eq!(internet(&four), "10.1.2.3".parse().ok());
        let mut six = vec![0; 28];
        six[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
        six[23] = 1;
        assert_eq!(internet(&six), "::1".parse().ok());
        assert_eq!(internet(&[0; 16]), None);
        assert_eq!(internet(&[]), None);
    }

    #[test]
    fn a_provider_that_is_not_there_offers_no_way() {
        let failure = Way::all(Some("nonesuch")).err().unwrap();
        assert!(!failure.text.is_empty() && failure.number > 0);
    }
}
