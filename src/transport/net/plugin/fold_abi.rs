//! The C structures of plugins for networks that fold, versions 8 to 10, as their documentation
//! declares them.
//!
//! A library exports a table as `ncclCollNetPlugin_v8` ... `ncclCollNetPlugin_v10`, beside or
//! without the one of [`super::abi`]. Version 9 made counts `size_t` and added a function behind
//! all others; version 10 is laid out as version 9.

use super::abi::{
    DeregisterFn, DevicesFn, InitV8, ListenV8, MakeDeviceFn, ObjectFn, PropertiesFn, PropertiesV8,
    PropertiesV11, RegisterDmabufFn, RegisterFn, TestFn,
};
use std::ffi::{c_char, c_int, c_void};

type Out = *mut *mut c_void;

/// Makes a group of those whose handles these are.
pub type JoinFn = unsafe extern "C" fn(
    handles: *mut *mut c_void,
    count: c_int,
    rank: c_int,
    listen: *mut c_void,
    comm: Out,
) -> c_int;
/// Whether the network folds this type with this operation.
pub type SupportFn =
    unsafe extern "C" fn(dtype: c_int, operation: c_int, supported: *mut c_int) -> c_int;
/// `S` is the type of counts.
pub type AllReduceFn<S> = unsafe extern "C" fn(
    comm: *mut c_void,
    send: *mut c_void,
    recv: *mut c_void,
    count: S,
    dtype: c_int,
    operation: c_int,
    of_send: *mut c_void,
    of_recv: *mut c_void,
    request: Out,
) -> c_int;
pub type FlushOneFn = unsafe extern "C" fn(
    comm: *mut c_void,
    data: *mut c_void,
    bytes: c_int,
    registration: *mut c_void,
    request: Out,
) -> c_int;

/// Declares a table: all versions share its order, and some have functions behind it.
macro_rules! table {
    ($(#[$doc:meta])* $name:ident, $properties:ty, $count:ty, { $($last:ident: $type:ty),* }) => {
        $(#[$doc])*
        #[repr(C)]
        #[allow(dead_code, reason = "members that kolo does not use have their place all the same")]
        pub struct $name {
            pub name: *const c_char,
            pub init: Option<InitV8>,
            pub devices: Option<DevicesFn>,
            pub properties: Option<PropertiesFn<$properties>>,
            pub listen: Option<ListenV8>,
            pub connect: Option<JoinFn>,
            pub support: Option<SupportFn>,
            pub register: Option<RegisterFn>,
            pub register_dmabuf: Option<RegisterDmabufFn>,
            pub deregister: Option<DeregisterFn>,
            pub all_reduce: Option<AllReduceFn<$count>>,
            /// Not called: what it takes differs from version to version.
            pub all_gather: *const c_void,
            /// As above.
            pub reduce_scatter: *const c_void,
            pub iflush: Option<FlushOneFn>,
            pub test: Option<TestFn>,
            pub close: Option<ObjectFn>,
            pub close_listen: Option<ObjectFn>,
            $(pub $last: Option<$type>,)*
        }
    };
}

table!(
    /// Version 8.
    FoldV8, PropertiesV8, c_int, {}
);
table!(
    /// Versions 9 and 10.
    FoldV9, PropertiesV11, usize, { make_device: MakeDeviceFn }
);

const WORD: usize = size_of::<usize>();
const _: () = assert!(size_of::<FoldV8>() == 17 * WORD && size_of::<FoldV9>() == 18 * WORD);
const _: () = assert!(std::mem::offset_of!(FoldV9, all_reduce) == 10 * WORD);
const _: () = assert!(std::mem::offset_of!(FoldV9, close_listen) == 16 * WORD);
