//! Plugins for networks that fold: one table more that a library may export.
//!
//! **Problem.** Switches that add up what passes them are reached through the same libraries as
//! networks are, by a table of its own: a group of ranks is made once, and each hands in its
//! contribution and takes the result.
//!
//! **Idea.** The newest table that the library has (`fold_abi`) stands behind three types that
//! follow each other: [`FoldNet`] was loaded, [`FoldDoor`] can be told to others, and a
//! [`FoldGroup`] has been joined with them. What the plugin promises it must keep on all ranks
//! alike: a group completes its operations in the order in which each of its ranks began them.

use super::abi::{HandleBytes, MAX_REQUESTS, POINTER_HOST, PropertiesV8, PropertiesV11, SUCCESS};
use super::ends::meaning;
use super::fold_abi::{AllReduceFn, FoldV8, FoldV9, JoinFn, SupportFn};
use super::{abi, log};
use crate::base::{Code, Error, Result};
use crate::transport::net::Handle;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// Name of the exported table of each version, best first.
const SYMBOLS: [(u32, &str); 3] = [
    (10, "ncclCollNetPlugin_v10"),
    (9, "ncclCollNetPlugin_v9"),
    (8, "ncclCollNetPlugin_v8"),
];
/// The device that is used.
const DEVICE: c_int = 0;

#[derive(Clone, Copy)]
enum AllReduce {
    V8(AllReduceFn<c_int>),
    V9(AllReduceFn<usize>),
}

#[derive(Clone, Copy)]
enum Tell {
    V8(abi::PropertiesFn<PropertiesV8>),
    V9(abi::PropertiesFn<PropertiesV11>),
}

/// The functions of a table of any version.
struct Calls {
    name: *const c_char,
    init: abi::InitV8,
    devices: abi::DevicesFn,
    properties: Tell,
    listen: abi::ListenV8,
    connect: JoinFn,
    support: SupportFn,
    register: abi::RegisterFn,
    deregister: abi::DeregisterFn,
    all_reduce: AllReduce,
    test: abi::TestFn,
    close: abi::ObjectFn,
    close_listen: abi::ObjectFn,
}

macro_rules! collect {
    ($table:expr, $version:ident) => {{
        let table = $table;
        let need = |name: &str| format!("its table has no {name}");
        Ok(Calls {
            name: table.name,
            init: table.init.ok_or_else(|| need("init"))?,
            devices: table.devices.ok_or_else(|| need("devices"))?,
            properties: Tell::$version(table.properties.ok_or_else(|| need("getProperties"))?),
            listen: table.listen.ok_or_else(|| need("listen"))?,
            connect: table.connect.ok_or_else(|| need("connect"))?,
            support: table.support.ok_or_else(|| need("reduceSupport"))?,
            register: table.register.ok_or_else(|| need("regMr"))?,
            deregister: table.deregister.ok_or_else(|| need("deregMr"))?,
            all_reduce: AllReduce::$version(table.all_reduce.ok_or_else(|| need("iallreduce"))?),
            test: table.test.ok_or_else(|| need("test"))?,
            close: table.close.ok_or_else(|| need("closeColl"))?,
            close_listen: table.close_listen.ok_or_else(|| need("closeListen"))?,
        })
    }};
}

/// A network that folds.
pub struct FoldNet {
    calls: Calls,
    name: String,
    file: String,
    version: u32,
    most_bytes: usize,
}

// SAFETY: the interface lets any thread make calls; the name is a constant string.
unsafe impl Send for FoldNet {}
// SAFETY: as above.
unsafe impl Sync for FoldNet {}

impl FoldNet {
    /// Loads a library, and starts the newest table for folding that it has. The error is the end
    /// of the sentence "it is not used because".
    pub fn load(file: &OsStr) -> std::result::Result<FoldNet, String> {
        let shown = file.to_string_lossy().into_owned();
        // SAFETY: a plugin's initialisers run; whoever installed it, or named it, trusts it.
        let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) };
        let library = library.map_err(|error| format!("{shown} cannot be loaded ({error})"))?;
        let found = SYMBOLS.iter().find_map(|(version, symbol)| {
            let name = [symbol.as_bytes(), b"\0"].concat();
            // SAFETY: only the address is taken here.
            let table = unsafe { library.get::<*const c_void>(&name) }.ok()?;
            Some((*version, table.as_raw_ptr().cast_const()))
        });
        // Plugins start threads and register handlers: none is ever unloaded.
        std::mem::forget(library);
        let Some((version, table)) = found else {
            let names: Vec<&str> = SYMBOLS.iter().map(|(_, symbol)| *symbol).collect();
            return Err(format!("{shown} exports none of {}", names.join(", ")));
        };
        // SAFETY: a symbol of this name is a table of this version, and the library stays.
        let calls: std::result::Result<Calls, String> = unsafe {
            match version {
                8 => collect!(&*table.cast::<FoldV8>(), V8),
                _ => collect!(&*table.cast::<FoldV9>(), V9),
            }
        };
        let calls = calls
            .map_err(|why| format!("{shown} is no whole plugin of version {version}: {why}"))?;
        FoldNet::start(calls, shown, version)
    }

    fn start(calls: Calls, file: String, version: u32) -> std::result::Result<FoldNet, String> {
        let name = match calls.name.is_null() {
            true => "without name".to_string(),
            // SAFETY: not null, so a string of the plugin.
            false => unsafe { CStr::from_ptr(calls.name) }
                .to_string_lossy()
                .into_owned(),
        };
        let mut net = FoldNet {
            calls,
            name,
            file,
            version,
            most_bytes: 0,
        };
        // SAFETY: the function that plugins write to their log with.
        let code = unsafe { (net.calls.init)(log::function()) };
        net.refusal("init", code)?;
        let mut count = 0;
        // SAFETY: a number to write.
        let code = unsafe { (net.calls.devices)(&mut count) };
        net.refusal("devices", code)?;
        if count < 1 {
            return Err(format!(
                "{} of {} finds no device that folds",
                net.name, net.file
            ));
        }
        net.most_bytes = net.most_bytes()?;
        Ok(net)
    }

    /// The largest contribution that the device takes at once.
    fn most_bytes(&self) -> std::result::Result<usize, String> {
        let most = super::calls::MOST_BYTES;
        // SAFETY: all members may be zero; the plugin fills what its version has.
        let (code, bytes) = unsafe {
            match self.calls.properties {
                Tell::V8(tell) => {
                    let mut told: PropertiesV8 = std::mem::zeroed();
                    (tell(DEVICE, &mut told), most)
                }
                Tell::V9(tell) => {
                    let mut told: PropertiesV11 = std::mem::zeroed();
                    (tell(DEVICE, &mut told), told.max_collective_bytes)
                }
            }
        };
        self.refusal("getProperties", code)?;
        Ok(if bytes == 0 { most } else { bytes.min(most) })
    }

    fn refusal(&self, call: &str, code: c_int) -> std::result::Result<(), String> {
        match code {
            SUCCESS => Ok(()),
            code => Err(self.words(call, code)),
        }
    }

    fn words(&self, call: &str, code: c_int) -> String {
        let last = log::last_words().map_or(String::new(), |it| format!("; its last words: {it}"));
        let (name, file) = (&self.name, &self.file);
        format!(
            "{call} of the plugin {name} ({file}) failed: {}{last}",
            meaning(code)
        )
    }

    fn error(&self, call: &'static str, code: c_int) -> Error {
        let kind = Code::from_number(code).filter(|&kind| kind != Code::Success);
        Error::new(
            kind.unwrap_or(Code::SystemError),
            self.words(call, code),
            "see the plugin's documentation and log (KOLO_DEBUG=trace); KOLO_COLLNET_ENABLE=0 does \
             without it",
        )
        .during(format!("{call} over the folding network {}", self.name))
    }

    /// The plugin's name of itself.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Version of the table: 8 to 10.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The largest contribution that it takes at once, in bytes.
    pub fn largest(&self) -> usize {
        self.most_bytes
    }

    /// Whether it folds the type with this number with the operation with this number.
    pub fn supports(&self, dtype: i32, operation: i32) -> bool {
        let mut supported = 0;
        // SAFETY: a number to write.
        let code = unsafe { (self.calls.support)(dtype, operation, &mut supported) };
        code == SUCCESS && supported == 1
    }

    /// Opens what others need to join a group with this rank.
    ///
    /// # Errors
    /// Of the plugin.
    pub fn listen(self: &Arc<Self>) -> Result<(Handle, FoldDoor)> {
        let mut bytes = HandleBytes([0; abi::HANDLE_BYTES]);
        let mut comm = null_mut();
        // SAFETY: the handle has the length of all handles.
        let code = unsafe { (self.calls.listen)(DEVICE, bytes.0.as_mut_ptr().cast(), &mut comm) };
        if code != SUCCESS {
            return Err(self.error("listen", code));
        }
        let door = FoldDoor {
            net: Arc::clone(self),
            comm,
        };
        Ok((Handle::new(&bytes.0)?, door))
    }
}

/// A rank that can be joined.
pub struct FoldDoor {
    net: Arc<FoldNet>,
    comm: *mut c_void,
}

// SAFETY: the interface lets any thread use an object, one at a time.
unsafe impl Send for FoldDoor {}

impl FoldDoor {
    /// Joins the group of those with these handles, as number `me` among them. They all do, and the
    /// plugin may wait for them.
    ///
    /// # Errors
    /// Of the plugin.
    pub fn join(self, handles: &[Handle], me: usize) -> Result<FoldGroup> {
        let mut all = vec![HandleBytes([0; abi::HANDLE_BYTES]); handles.len()];
        for (place, handle) in all.iter_mut().zip(handles) {
            let bytes = handle.bytes();
            let length = bytes.len().min(abi::HANDLE_BYTES);
            place.0[..length].copy_from_slice(&bytes[..length]);
        }
        let mut places: Vec<*mut c_void> = all
            .iter_mut()
            .map(|handle| handle.0.as_mut_ptr().cast())
            .collect();
        let (count, me) = (handles.len() as c_int, me as c_int);
        let mut comm = null_mut();
        let net = &self.net;
        // SAFETY: so many handles of the length of all handles; the listener is open.
        let code =
            unsafe { (net.calls.connect)(places.as_mut_ptr(), count, me, self.comm, &mut comm) };
        match code {
            SUCCESS if !comm.is_null() => Ok(FoldGroup {
                net: Arc::clone(net),
                comm,
                registrations: Vec::new(),
                flying: 0,
                failed: None,
            }),
            SUCCESS => Err(Error::internal("a folding network gave no group")),
            code => Err(net.error("connect", code)),
        }
    }
}

impl Drop for FoldDoor {
    fn drop(&mut self) {
        // SAFETY: open, and closed only here.
        let code = unsafe { (self.net.calls.close_listen)(self.comm) };
        if code != SUCCESS {
            tracing::warn!("{}", self.net.words("closeListen", code));
        }
    }
}

/// Memory that a fold reads and writes: addresses, and the registrations of both.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// The contribution.
    pub send: (*mut u8, Registered),
    /// The result.
    pub recv: (*mut u8, Registered),
}

/// Memory that a group knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registered(*mut c_void);

// SAFETY: the plugin's name of something, which is only handed back to it.
unsafe impl Send for Registered {}

/// An operation that was begun.
#[derive(Debug, PartialEq, Eq)]
pub struct Begun(*mut c_void);

// SAFETY: as for `Registered`.
unsafe impl Send for Begun {}

/// Elements that are folded: how many, the number of their type, that of the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct What {
    /// Elements.
    pub count: usize,
    /// Number of their type.
    pub dtype: i32,
    /// Number of the operation.
    pub operation: i32,
}

/// A group of ranks whose contributions are folded.
pub struct FoldGroup {
    net: Arc<FoldNet>,
    comm: *mut c_void,
    registrations: Vec<*mut c_void>,
    flying: usize,
    failed: Option<Error>,
}

// SAFETY: the interface lets any thread use an object, one at a time; registrations and requests
// are only handed back.
unsafe impl Send for FoldGroup {}

impl FoldGroup {
    fn fail(&mut self, call: &'static str, code: c_int) -> Error {
        let error = self.net.error(call, code);
        self.failed.get_or_insert(error).clone()
    }

    /// Makes memory known.
    ///
    /// # Errors
    /// Of the plugin.
    ///
    /// # Safety
    /// The memory stays mapped as long as the group.
    pub unsafe fn register(&mut self, data: *mut u8, bytes: usize) -> Result<Registered> {
        let mut registration = null_mut();
        // SAFETY: the group is open; the caller's promise.
        let code = unsafe {
            let register = self.net.calls.register;
            register(
                self.comm,
                data.cast(),
                bytes,
                POINTER_HOST,
                &mut registration,
            )
        };
        if code != SUCCESS {
            return Err(self.fail("regMr", code));
        }
        self.registrations.push(registration);
        Ok(Registered(registration))
    }

    /// Begins to fold; `None`: not now.
    ///
    /// # Errors
    /// Of the plugin; the first one is the last word of the group.
    ///
    /// # Safety
    /// Both places hold so many elements, are registered here, and are left alone until the
    /// operation has ended or the group is dropped.
    pub unsafe fn all_reduce(&mut self, places: Places, what: What) -> Result<Option<Begun>> {
        self.failed.clone().map_or(Ok(()), Err)?;
        if self.flying >= MAX_REQUESTS {
            return Ok(None);
        }
        let ((send, of_send), (recv, of_recv)) = (places.send, places.recv);
        let (send, recv) = (send.cast(), recv.cast());
        let (dtype, operation) = (what.dtype, what.operation);
        let mut request = null_mut();
        // SAFETY: the caller's promise; counts are of slots, which fit `int`.
        let code = unsafe {
            match self.net.calls.all_reduce {
                AllReduce::V8(begin) => {
                    let count = what.count as c_int;
                    let of = (of_send.0, of_recv.0, &mut request);
                    begin(
                        self.comm, send, recv, count, dtype, operation, of.0, of.1, of.2,
                    )
                }
                AllReduce::V9(begin) => {
                    let of = (of_send.0, of_recv.0, &mut request);
                    begin(
                        self.comm, send, recv, what.count, dtype, operation, of.0, of.1, of.2,
                    )
                }
            }
        };
        if code != SUCCESS {
            return Err(self.fail("iallreduce", code));
        }
        self.flying += usize::from(!request.is_null());
        Ok((!request.is_null()).then_some(Begun(request)))
    }

    /// Whether an operation has ended; then it is forgotten.
    ///
    /// # Errors
    /// Of the plugin.
    pub fn test(&mut self, begun: &Begun) -> Result<bool> {
        self.failed.clone().map_or(Ok(()), Err)?;
        let (mut done, mut bytes) = (0, [0; super::MAX_RECEIVES]);
        // SAFETY: not said to have ended before, by this type's own rule; room for sizes.
        let code = unsafe { (self.net.calls.test)(begun.0, &mut done, bytes.as_mut_ptr()) };
        if code != SUCCESS {
            return Err(self.fail("test", code));
        }
        self.flying -= usize::from(done != 0);
        Ok(done != 0)
    }
}

impl Drop for FoldGroup {
    /// Keeps memory registered that an operation under way may still touch. The group's end ends
    /// the operation, and its registration.
    fn drop(&mut self) {
        if self.flying > 0 {
            self.registrations.clear();
        }
        for registration in self.registrations.drain(..) {
            // SAFETY: of this group, which is open.
            let code = unsafe { (self.net.calls.deregister)(self.comm, registration) };
            if code != SUCCESS {
                tracing::warn!("{}", self.net.words("deregMr", code));
            }
        }
        // SAFETY: open until now, and never used afterwards.
        let code = unsafe { (self.net.calls.close)(self.comm) };
        if code != SUCCESS {
            tracing::warn!("{}", self.net.words("closeColl", code));
        }
    }
}
