//! External network plugins: libraries with the table of functions that the field's plugins export.
//!
//! **Problem.** Fabrics come with network plugins for the common GPU library: a shared library
//! `libnccl-net.so` that exports a table `ncclNetPlugin_v8` to `_v11`. Sites have them, tuned for
//! their machine; kolo should use them as they are.
//!
//! **Idea.** The library is loaded by name, the newest table that it has is taken (`abi`, `calls`),
//! and stands behind the same trait as every other network. Where the trait promises more than
//! the interface does, this file keeps the promise: requests are counted, so that a plugin is never
//! given more than it must bear; arguments are checked before; the first error of a connection
//! stays; and what the plugin wrote to the log last (`log`) is part of the error.
//!
//! **What stays as the plugin does it.** Buffers are filled in the order of posting, and tags only
//! choose among the buffers of one request ([`Net::any_order`] is false; a plugin that takes one
//! buffer a request may not look at tags at all). A plugin may take a message before its buffer
//! was posted, as far as it bears. Nothing can be slept on. A connection that was begun and is
//! given up can be cancelled only where the library exports `kolo_net_abandon` (`extras`): the
//! interface has no call for it. Memory is the process's own; a plugin is loaded once and never
//! unloaded.

mod abi;
mod calls;
mod ends;
mod extras;
pub mod fold;
mod fold_abi;
mod log;
mod pins;
mod reading;
mod recv;
mod send;

use super::{
    Connecting, HANDLE_BYTES, Handle, Listener, MAX_RECEIVES, MemoryKinds, Net, Properties,
    RecvComm, SendComm,
};
use crate::base::{Error, Result};
use abi::HandleBytes;
use calls::{Calls, DeviceProperties, SYMBOLS};
pub(super) use ends::LAST_WORDS;
use ends::{Plugin, fits};
use extras::Extras;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use pins::{DevicePins, Pins};
use std::ffi::{OsStr, c_int, c_void};
use std::path::Path;
use std::sync::Arc;

const _: () = assert!(HANDLE_BYTES == abi::HANDLE_BYTES);

/// The library that is looked for when no setting names one.
const USUAL_LIBRARY: &str = "libnccl-net.so";
/// How the loader says that there is no such file.
const NO_FILE: &str = "No such file or directory";
/// A device that does not tell its speed, in Mbit/s.
const USUAL_SPEED: u32 = 10_000;

/// The file that the setting `net_plugin` means, for the loader to find; `None`: no plugin. A text
/// with a slash, or that is a file name of a library, is taken as it is; any other word X means
/// `libnccl-net-X.so`.
pub fn library_of(setting: Option<&Path>) -> Option<String> {
    let Some(setting) = setting else {
        return Some(USUAL_LIBRARY.into());
    };
    let text = setting.to_string_lossy();
    match text.as_ref() {
        "none" => None,
        text if text.contains('/') || text.contains(".so") => Some(text.into()),
        word => Some(format!("libnccl-net-{word}.so")),
    }
}

/// A network of a plugin.
pub struct PluginNet {
    plugin: Arc<Plugin>,
    /// Where its receiving ends read.
    pins: Option<Arc<Pins>>,
    devices: Vec<Properties>,
    most_bytes: Vec<usize>,
}

impl PluginNet {
    /// Loads a library, starts its newest table and asks for its devices. The error is the end of
    /// the sentence "it is not used because".
    pub fn load(file: &OsStr) -> std::result::Result<PluginNet, String> {
        PluginNet::load_with(file, &[])
    }

    /// Loads a plugin, and first hands settings, as keys and values, to the library's
    /// `kolo_net_configure`. Libraries of kolo's own have it.
    pub fn load_with(
        file: &OsStr,
        settings: &[(&str, String)],
    ) -> std::result::Result<PluginNet, String> {
        let shown = file.to_string_lossy().into_owned();
        // SAFETY: a plugin's initialisers run; whoever installed it, or named it, trusts it.
        let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| {
            let words = error.to_string();
            // The loader names the file that it misses: this one, or one that this one needs.
            match words.starts_with(&format!("{shown}: cannot open")) && words.ends_with(NO_FILE) {
                true => format!("there is no {shown}"),
                false => format!("{shown} cannot be loaded ({words})"),
            }
        })?;
        let result = PluginNet::start(&library, &shown, settings);
        // Plugins start threads and register handlers: none is ever unloaded.
        std::mem::forget(library);
        result
    }

    fn start(
        library: &Library,
        shown: &str,
        settings: &[(&str, String)],
    ) -> std::result::Result<PluginNet, String> {
        let found = SYMBOLS.iter().find_map(|(version, symbol)| {
            let name = [symbol.as_bytes(), b"\0"].concat();
            // SAFETY: only the address is taken here.
            let table = unsafe { library.get::<*const c_void>(&name) }.ok()?;
            Some((*version, table.as_raw_ptr().cast_const()))
        });
        let Some((version, table)) = found else {
            let names: Vec<&str> = SYMBOLS.iter().map(|(_, symbol)| *symbol).collect();
            return Err(format!("{shown} exports none of {}", names.join(", ")));
        };
        // SAFETY: a symbol of this name is a table of this version, and the library stays.
        let calls = unsafe { Calls::read(version, table) }
            .map_err(|why| format!("{shown} is no whole plugin of version {version}: {why}"))?;
        // SAFETY: the names are kolo's own, and the library stays.
        let extras = unsafe { Extras::find(library) };
        let configured = extras.configure(settings);
        configured.map_err(|why| format!("{shown} cannot be configured: {why}"))?;
        let mut plugin = Plugin::new(calls, shown.into(), extras);
        plugin.start()?;
        let count = plugin.calls.devices();
        let count = count.map_err(|code| plugin.refusal("devices", code))?;
        if count == 0 {
            return Err(format!("{} of {shown} finds no device", plugin.calls.name));
        }
        let mut devices = Vec::with_capacity(count);
        let mut most_bytes = Vec::with_capacity(count);
        for number in 0..count {
            let device = plugin.calls.properties(number as c_int);
            let device = device.map_err(|code| plugin.refusal("getProperties", code))?;
            most_bytes.push(fits(device.max_message_bytes));
            devices.push(properties(device, number));
        }
        let plugin = Arc::new(plugin);
        let pins = plugin.extras.reading.map(|it| Pins::new(&plugin, it));
        if pins.is_none() {
            tracing::info!(
                "network {}: registered memory passes slots, as {shown} exports no kolo_net_pin",
                plugin.calls.name
            );
        }
        Ok(PluginNet {
            plugin,
            pins,
            devices,
            most_bytes,
        })
    }

    /// Version of the table: 8 to 11.
    pub fn version(&self) -> u32 {
        self.plugin.calls.version
    }

    fn pins_of(&self, device: c_int) -> Option<DevicePins> {
        let pins = self.pins.clone()?;
        Some(DevicePins { pins, device })
    }

    fn device(&self, device: usize) -> Result<c_int> {
        match device < self.devices.len() {
            true => Ok(device as c_int),
            false => Err(Error::argument(
                format!(
                    "network device {device} was asked for, but there are {}",
                    self.devices.len()
                ),
                "use a position in the list of devices, from 0",
            )),
        }
    }
}

impl Net for PluginNet {
    fn name(&self) -> &str {
        &self.plugin.calls.name
    }

    fn about(&self) -> Option<String> {
        self.plugin.about()
    }

    fn devices(&self) -> &[Properties] {
        &self.devices
    }

    fn listen(&self, device: usize) -> Result<(Handle, Box<dyn Listener>)> {
        let number = self.device(device)?;
        let mut bytes = HandleBytes([0; HANDLE_BYTES]);
        let plugin = &self.plugin;
        // SAFETY: the context is that of `init`.
        let comm = unsafe { plugin.calls.listen(plugin.context, number, &mut bytes) };
        let comm = comm.map_err(|code| plugin.error("listen", code))?;
        let door = PluginDoor {
            plugin: plugin.clone(),
            pins: self.pins_of(number),
            comm,
            most_buffers: self.devices[device].max_receives as usize,
        };
        Ok((Handle::new(&bytes.0)?, Box::new(door)))
    }

    fn connect(&self, device: usize, handle: &Handle) -> Result<Box<dyn Connecting>> {
        let number = self.device(device)?;
        let mut bytes = HandleBytes([0; HANDLE_BYTES]);
        if handle.bytes().len() != HANDLE_BYTES {
            return Err(Error::argument(
                format!(
                    "a handle of {} bytes was given to the network plugin {}",
                    handle.bytes().len(),
                    self.name()
                ),
                "let all ranks use the same network (setting KOLO_NET)",
            ));
        }
        bytes.0.copy_from_slice(handle.bytes());
        Ok(Box::new(PluginKnock {
            plugin: self.plugin.clone(),
            pins: self.pins_of(number),
            device: number,
            handle: Box::new(bytes),
            most_bytes: self.most_bytes[device],
            ended: None,
        }))
    }

    fn any_order(&self) -> bool {
        false
    }

    fn takes_parts(&self) -> bool {
        self.pins.is_some()
    }
}

fn properties(device: DeviceProperties, number: usize) -> Properties {
    let positive = |value: c_int| u32::try_from(value).ok().filter(|&value| value > 0);
    Properties {
        name: match device.name.is_empty() {
            true => format!("device{number}"),
            false => device.name,
        },
        address: None,
        pci_path: device.pci_path.filter(|path| !path.is_empty()),
        speed_mbits: positive(device.speed_mbits).unwrap_or(USUAL_SPEED),
        port: positive(device.port).unwrap_or(1),
        max_connections: positive(device.max_connections).unwrap_or(u32::MAX),
        max_receives: positive(device.max_receives)
            .unwrap_or(1)
            .min(MAX_RECEIVES as u32),
        // Negative, infinite and no number become 0, the largest, and 0.
        latency_ns: (device.latency_us * 1000.0) as u32,
        memory: MemoryKinds {
            // No kind at all is an old plugin that tells nothing: ordinary memory.
            host: device.pointers & abi::POINTER_HOST != 0 || device.pointers == 0,
            cuda: device.pointers & abi::POINTER_CUDA != 0,
            dmabuf: device.pointers & abi::POINTER_DMABUF != 0,
        },
    }
}

/// The receiving end before connections exist.
struct PluginDoor {
    plugin: Arc<Plugin>,
    pins: Option<DevicePins>,
    comm: *mut c_void,
    most_buffers: usize,
}

// SAFETY: the interface lets any thread use an object, one at a time.
unsafe impl Send for PluginDoor {}

impl Listener for PluginDoor {
    fn accept(&mut self) -> Result<Option<Box<dyn RecvComm>>> {
        // SAFETY: the listener is open until it is dropped.
        let comm = unsafe { self.plugin.calls.accept(self.comm) };
        let comm = comm.map_err(|code| self.plugin.error("accept", code))?;
        Ok((!comm.is_null()).then(|| -> Box<dyn RecvComm> {
            Box::new(recv::PluginReceiver::new(
                self.plugin.clone(),
                comm,
                self.most_buffers,
                self.pins.clone(),
            ))
        }))
    }

    /// The interface names nothing to sleep on.
    fn watch(&self, _: &mut Vec<libc::pollfd>) -> bool {
        true
    }
}

impl Drop for PluginDoor {
    fn drop(&mut self) {
        // SAFETY: open, and closed only here.
        let code = unsafe { (self.plugin.calls.close_listen)(self.comm) };
        self.plugin.note("closeListen", code);
    }
}

/// A connection that is being made.
struct PluginKnock {
    plugin: Arc<Plugin>,
    pins: Option<DevicePins>,
    device: c_int,
    /// The plugin keeps pointers in it: its place does not change.
    handle: Box<HandleBytes>,
    most_bytes: usize,
    /// The error that ended it; a connection that was handed out is an error too.
    ended: Option<Error>,
}

impl Connecting for PluginKnock {
    fn poll(&mut self) -> Result<Option<Box<dyn SendComm>>> {
        if let Some(error) = &self.ended {
            return Err(error.clone());
        }
        let plugin = &self.plugin;
        // SAFETY: the context is that of `init`; the handle is the listener's, then the plugin's.
        let comm = unsafe {
            plugin
                .calls
                .connect(plugin.context, self.device, &mut self.handle)
        };
        match comm {
            Err(code) => {
                let error = plugin.error("connect", code);
                self.ended = Some(error.clone());
                Err(error)
            }
            Ok(comm) if comm.is_null() => Ok(None),
            Ok(comm) => {
                self.ended = Some(Error::internal("a connection was asked for twice"));
                let sender = send::PluginSender::new(
                    plugin.clone(),
                    comm,
                    self.most_bytes,
                    self.pins.clone(),
                );
                Ok(Some(Box::new(sender)))
            }
        }
    }

    /// The interface names nothing to sleep on.
    fn watch(&self, _: &mut Vec<libc::pollfd>) -> bool {
        false
    }
}

impl Drop for PluginKnock {
    fn drop(&mut self) {
        if self.ended.is_none() {
            // SAFETY: the copy that `connect` was called with, if at all, and without a connection.
            unsafe {
                let handle = std::ptr::from_mut(&mut *self.handle);
                self.plugin.extras.abandon(handle.cast());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_paths_and_none() {
        let library = |text: &str| library_of(Some(Path::new(text)));
        assert_eq!(library_of(None).unwrap(), "libnccl-net.so");
        assert_eq!(library("ofi").unwrap(), "libnccl-net-ofi.so");
        assert_eq!(library("/opt/x/libmine.so").unwrap(), "/opt/x/libmine.so");
        assert_eq!(library("libmine.so.2").unwrap(), "libmine.so.2");
        assert_eq!(library("none"), None);
    }

    #[test]
    fn what_is_missing_or_no_plugin_says_why() {
        let missing = PluginNet::load(OsStr::new("libnccl-net-nowhere.so"));
        let why = missing.err().unwrap();
        assert_eq!(why, "there is no libnccl-net-nowhere.so");
        let text = PluginNet::load(OsStr::new("/proc/self/status"));
        let why = text.err().unwrap();
        assert!(
            why.starts_with("/proc/self/status cannot be loaded ("),
            "{why}"
        );
        let other = PluginNet::load(OsStr::new("libm.so.6")).err().unwrap();
        assert!(
            other.contains("libm.so.6 exports none of ncclNetPlugin_v11"),
            "{other}"
        );
    }

    #[test]
    fn odd_properties_become_usable_ones() {
        let device = DeviceProperties {
            name: String::new(),
            pci_path: Some(String::new()),
            pointers: 0,
            speed_mbits: 0,
            port: 0,
            latency_us: 2.5,
            max_connections: -1,
            max_receives: 32,
            max_message_bytes: None,
        };
        let device = properties(device, 3);
        assert_eq!((device.name.as_str(), device.pci_path), ("device3", None));
        assert!(device.speed_mbits > 0 && device.max_connections > 0 && device.port == 1);
        assert_eq!((device.max_receives, device.latency_ns), (8, 2500));
        assert!(device.memory.host && !device.memory.cuda && !device.memory.dmabuf);
    }
}
