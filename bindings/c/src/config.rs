//! Reads a `koloConfig_t`: only as many bytes as the caller says it has.

use crate::types::{KOLO_CONFIG_MAGIC, KOLO_DEVICE_HOST, KOLO_MAJOR, KOLO_MINOR, koloConfig_t};
use kolo_core::base::{Error, Result};
use kolo_core::comm::{CommConfig, CommDevice};
use std::ffi::{CStr, c_char, c_int, c_uint};

/// Value that KOLO_CONFIG_INITIALIZER writes where nothing was chosen.
const UNDEFINED: c_int = c_int::MIN;
/// Size, magic and version: the part that every version has.
const HEAD_BYTES: usize = std::mem::offset_of!(koloConfig_t, blocking);
/// More settings than this are taken for an array without its NULL.
const SETTINGS_LIMIT: usize = 1000;

/// Wishes of the caller.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) config: CommConfig,
    /// The call waits until the communicator is there; an error where `blocking` is no answer.
    pub(crate) is_blocking: Result<bool>,
}

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted {
            config: CommConfig::default(),
            is_blocking: Ok(true),
        }
    }
}

impl Wanted {
    /// The part of a rank whose own arguments were wrong.
    pub(crate) fn refused(error: Error) -> Wanted {
        Wanted {
            config: CommConfig::refused(error),
            ..Wanted::default()
        }
    }
}

/// The settings of `config`; NULL means the defaults. Once it is known to be a koloConfig_t, what
/// is wrong is an error inside of it: a start that does not block then reports it later.
///
/// # Safety
/// `config` is NULL or points to `config->size` readable bytes (at least the first field), and its
/// strings end with a zero byte.
pub(crate) unsafe fn read(config: *const koloConfig_t) -> Result<Wanted> {
    if config.is_null() {
        return Ok(Wanted::default());
    }
    // SAFETY: the caller's promise; the field may be unaligned in a packed caller structure.
    let size = unsafe { (&raw const (*config).size).read_unaligned() };
    let initializer = "fill the structure with KOLO_CONFIG_INITIALIZER before changing it";
    if !(HEAD_BYTES..=4096).contains(&size) {
        return Err(Error::argument(
            format!("the size field of koloConfig_t is {size}"),
            initializer,
        ));
    }
    let mut own = koloConfig_t {
        size: 0,
        magic: 0,
        version: 0,
        blocking: UNDEFINED,
        minChannels: UNDEFINED,
        maxChannels: UNDEFINED,
        name: std::ptr::null(),
        settings: std::ptr::null(),
        device: UNDEFINED,
    };
    let known_bytes = size.min(size_of::<koloConfig_t>());
    // SAFETY: `size` bytes are readable by the caller's promise, and `own` has room for
    // `known_bytes`; every bit pattern is a value of its fields.
    unsafe {
        std::ptr::copy_nonoverlapping(
            config.cast::<u8>(),
            (&raw mut own).cast::<u8>(),
            known_bytes,
        )
    };
    if own.magic != KOLO_CONFIG_MAGIC {
        return Err(Error::argument(
            format!("the magic field of koloConfig_t is {:#x}", own.magic),
            initializer,
        ));
    }
    // Every version has it in this place, for it says how the errors below are told.
    let is_blocking = match own.blocking {
        UNDEFINED | 1 => Ok(true),
        0 => Ok(false),
        other => Err(Error::argument(
            format!("blocking = {other} in koloConfig_t"),
            "give 1 for a call that waits until the communicator is ready, 0 for one that does not",
        )),
    };
    // SAFETY: the caller's promise about strings; those of another version are not looked at.
    let config = check_version(own.version).and_then(|()| unsafe { properties(&own) });
    let config = config.unwrap_or_else(CommConfig::refused);
    Ok(Wanted {
        config,
        is_blocking,
    })
}

/// The properties of the communicator itself.
///
/// # Safety
/// The strings of `own` end with a zero byte.
unsafe fn properties(own: &koloConfig_t) -> Result<CommConfig> {
    // Fields that C callers cannot set keep their defaults.
    #[allow(clippy::needless_update)]
    Ok(CommConfig {
        // SAFETY: the caller's promise about strings.
        name: unsafe { text(own.name) }?,
        min_channels: channels("minChannels", own.minChannels)?,
        max_channels: channels("maxChannels", own.maxChannels)?,
        // SAFETY: the caller's promise about strings.
        overrides: unsafe { settings(own.settings) }?,
        device: device("device", " in koloConfig_t", own.device)?,
        ..CommConfig::default()
    })
}

/// Before 1.0 a minor version may change a structure, afterwards only a major one.
fn check_version(version: c_uint) -> Result<()> {
    let (major, minor) = (version / 10_000, version / 100 % 100);
    let (own_major, own_minor) = (KOLO_MAJOR as c_uint, KOLO_MINOR as c_uint);
    if major == own_major && (own_major > 0 || minor == own_minor) {
        return Ok(());
    }
    Err(Error::argument(
        format!(
            "the program was compiled with kolo.h {major}.{minor}, the library is \
             {own_major}.{own_minor}"
        ),
        "compile the program with the header of the library that it runs with",
    ))
}

/// The device of this number, which a caller gave as `place`, `within` something.
pub(crate) fn device(place: &str, within: &str, value: c_int) -> Result<CommDevice> {
    match value {
        UNDEFINED | KOLO_DEVICE_HOST => Ok(CommDevice::Host),
        0.. => Ok(CommDevice::Cuda(value as u32)),
        _ => Err(Error::argument(
            format!("{place} = {value}{within}"),
            "give KOLO_DEVICE_HOST, or the number of a CUDA device, at least 0",
        )),
    }
}

fn channels(field: &str, value: c_int) -> Result<Option<u32>> {
    match value {
        UNDEFINED => Ok(None),
        1.. => Ok(Some(value as u32)),
        _ => Err(Error::argument(
            format!("{field} = {value} in koloConfig_t"),
            "give at least 1, or leave the field as KOLO_CONFIG_INITIALIZER filled it",
        )),
    }
}

/// # Safety
/// `text` is NULL or a string that ends with a zero byte.
unsafe fn text(text: *const c_char) -> Result<Option<String>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    match text.to_str() {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => Err(Error::argument(
            format!(
                "the text '{}' in koloConfig_t is not UTF-8",
                text.to_string_lossy()
            ),
            "give names and settings in UTF-8",
        )),
    }
}

/// # Safety
/// `list` is NULL or an array of zero-terminated strings that ends with NULL.
unsafe fn settings(list: *const *const c_char) -> Result<Vec<(String, String)>> {
    let mut settings = Vec::new();
    if list.is_null() {
        return Ok(settings);
    }
    for index in 0..SETTINGS_LIMIT {
        // SAFETY: no NULL was met before `index`, so the array has this entry.
        let Some(entry) = (unsafe { text(*list.add(index)) })? else {
            return Ok(settings);
        };
        let (key, value) = entry.split_once('=').ok_or_else(|| {
            Error::argument(
                format!("the setting '{entry}' in koloConfig_t has no '='"),
                "write settings as KEY=VALUE",
            )
        })?;
        settings.push((key.trim().to_owned(), value.trim().to_owned()));
    }
    Err(Error::argument(
        format!("koloConfig_t has more than {SETTINGS_LIMIT} settings"),
        "end the array of settings with NULL",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled() -> koloConfig_t {
        koloConfig_t {
            size: size_of::<koloConfig_t>(),
            magic: KOLO_CONFIG_MAGIC,
            version: (KOLO_MAJOR * 10_000 + KOLO_MINOR * 100) as c_uint,
            blocking: UNDEFINED,
            minChannels: UNDEFINED,
            maxChannels: UNDEFINED,
            name: std::ptr::null(),
            settings: std::ptr::null(),
            device: UNDEFINED,
        }
    }

    fn read_it(config: &koloConfig_t) -> Result<CommConfig> {
        // SAFETY: the tests fill their structures as asked.
        let wanted = unsafe { read(config) }?;
        wanted.is_blocking?;
        let read = wanted.config;
        read.refused.clone().map_or(Ok(read), Err)
    }

    #[test]
    fn a_start_blocks_unless_it_is_told_not_to() {
        let mut config = filled();
        for (given, blocks) in [(UNDEFINED, true), (1, true), (0, false)] {
            config.blocking = given;
            // SAFETY: filled as asked.
            let wanted = unsafe { read(&config) }.unwrap();
            assert_eq!(wanted.is_blocking, Ok(blocks));
        }
    }

    #[test]
    fn what_else_is_wrong_does_not_make_a_start_block() {
        let faults: [fn(&mut koloConfig_t); 3] = [
            |c| c.maxChannels = -1,
            |c| c.version = 990_000,
            |c| c.name = c"\xff".as_ptr(),
        ];
        for fault in faults {
            let mut config = filled();
            config.blocking = 0;
            fault(&mut config);
            // SAFETY: filled as asked.
            let wanted = unsafe { read(&config) }.unwrap();
            assert_eq!(wanted.is_blocking, Ok(false));
            assert!(wanted.config.refused.is_some());
        }
        // Another number asks for neither.
        let mut config = filled();
        config.blocking = 2;
        // SAFETY: filled as asked.
        assert!(unsafe { read(&config) }.unwrap().is_blocking.is_err());
    }

    #[test]
    fn only_size_bytes_are_read() {
        let mut config = filled();
        config.minChannels = 3;
        config.name = 8 as *const c_char;
        config.size = std::mem::offset_of!(koloConfig_t, name);
        let read = read_it(&config).unwrap();
        assert_eq!((read.min_channels, read.name), (Some(3), None));
        config.size = HEAD_BYTES;
        assert_eq!(read_it(&config).unwrap().min_channels, None);
    }

    #[test]
    fn a_communicator_is_on_the_host_unless_it_is_told_not_to() {
        let mut config = filled();
        for (given, device) in [
            (UNDEFINED, CommDevice::Host),
            (KOLO_DEVICE_HOST, CommDevice::Host),
            (3, CommDevice::Cuda(3)),
        ] {
            config.device = given;
            assert_eq!(read_it(&config).unwrap().device, device);
        }
        config.size = std::mem::offset_of!(koloConfig_t, device);
        assert_eq!(read_it(&config).unwrap().device, CommDevice::Host);
    }

    #[test]
    fn strings_arrive() {
        let mut config = filled();
        let list = [
            c"algo=ring".as_ptr(),
            c"proto = ll".as_ptr(),
            std::ptr::null(),
        ];
        config.name = c"ocean".as_ptr();
        config.settings = list.as_ptr();
        let read = read_it(&config).unwrap();
        assert_eq!(read.name.as_deref(), Some("ocean"));
        let expected = [("algo", "ring"), ("proto", "ll")].map(|(k, v)| (k.into(), v.into()));
        assert_eq!(read.overrides, expected);
    }

    #[test]
    fn wrong_fields_are_errors_that_name_them() {
        type Fault = fn(&mut koloConfig_t);
        let faults: [(Fault, &str); 7] = [
            (|c| c.size = 3, "size field"),
            (|c| c.magic = 0xcafebeef, "0xcafebeef"),
            (|c| c.version = 990_000, "99.0"),
            (|c| c.blocking = 2, "blocking = 2"),
            (|c| c.maxChannels = 0, "maxChannels = 0"),
            (|c| c.device = -2, "device = -2"),
            (|c| c.name = c"\xff".as_ptr(), "UTF-8"),
        ];
        for (fault, text) in faults {
            let mut config = filled();
            fault(&mut config);
            let error = read_it(&config).unwrap_err();
            assert!(error.what.contains(text), "{}", error.what);
        }
    }
}
