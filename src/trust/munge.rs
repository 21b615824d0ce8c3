//! The cluster's own proof of who a user is: credentials of munge.
//!
//! `munged` runs on every node of a cluster that uses Slurm, with one key that only root can read.
//! A *credential* is a text that holds the user who made it and a few bytes of payload; here it is
//! encrypted and restricted to that same user, so only `munged` opens it, and only for that user.
//! The library is loaded when it is wanted; where it or the daemon is missing, [`Munge::open`] says
//! so.

use crate::base::{Code, Error, Result};
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const LIBRARY: &str = "libmunge.so.2";

/// Numbers of `munge.h`.
const SUCCESS: c_int = 0;
const OPT_CIPHER: c_int = 0;
const OPT_SOCKET: c_int = 8;
const OPT_UID_RESTRICTION: c_int = 9;
const CIPHER_AES128: c_int = 4;

type MungeContext = *mut c_void;
type Create = unsafe extern "C" fn() -> MungeContext;
type Destroy = unsafe extern "C" fn(MungeContext);
type Set = unsafe extern "C" fn(MungeContext, c_int, ...) -> c_int;
type Encode = unsafe extern "C" fn(*mut *mut c_char, MungeContext, *const c_void, c_int) -> c_int;
type Decode = unsafe extern "C" fn(
    *const c_char,
    MungeContext,
    *mut *mut c_void,
    *mut c_int,
    *mut libc::uid_t,
    *mut libc::gid_t,
) -> c_int;
type StrError = unsafe extern "C" fn(c_int) -> *const c_char;

/// The functions of libmunge, with a daemon that answers.
pub struct Munge {
    create: Create,
    destroy: Destroy,
    set: Set,
    encode: Encode,
    decode: Decode,
    strerror: StrError,
    socket: Option<CString>,
    /// Keeps the functions where they are.
    _library: Library,
}

/// A context of the library, destroyed on drop.
struct Session<'a>(&'a Munge, MungeContext);

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `create`, destroyed only here.
        unsafe { (self.0.destroy)(self.1) };
    }
}

impl Munge {
    /// Loads the library and asks the daemon for a credential, to see that it runs. `socket`: where
    /// another daemon listens than the system's.
    ///
    /// # Errors
    /// A sentence why munge cannot be used here.
    pub fn open(socket: Option<&Path>) -> Result<Munge> {
        let missing = |error: libloading::Error| {
            let what = format!("munge is not used: {LIBRARY} cannot be loaded: {error}");
            Error::usage(what, "install munge on all nodes of the job")
        };
        // SAFETY: the library's initialisation has no demands, and the types of its functions are
        // those of munge.h, which have not changed since version 0.5.
        let munge = unsafe {
            let library = Library::new(LIBRARY).map_err(missing)?;
            Munge {
                create: *library.get(b"munge_ctx_create\0").map_err(missing)?,
                destroy: *library.get(b"munge_ctx_destroy\0").map_err(missing)?,
                set: *library.get(b"munge_ctx_set\0").map_err(missing)?,
                encode: *library.get(b"munge_encode\0").map_err(missing)?,
                decode: *library.get(b"munge_decode\0").map_err(missing)?,
                strerror: *library.get(b"munge_strerror\0").map_err(missing)?,
                socket: socket.and_then(|path| CString::new(path.as_os_str().as_bytes()).ok()),
                _library: library,
            }
        };
        munge.encode(b"kolo")?;
        Ok(munge)
    }

    fn session(&self) -> Result<Session<'_>> {
        // SAFETY: no arguments; null says that there is no memory.
        let context = unsafe { (self.create)() };
        if context.is_null() {
            return Err(Error::new(
                Code::SystemError,
                "libmunge found no memory to begin a credential with",
                "give the job more memory on this node (its control group may have a limit), or \
                 let the ranks prove themselves by KOLO_SECRET_FILE",
            ));
        }
        let session = Session(self, context);
        if let Some(socket) = &self.socket {
            // SAFETY: the option takes a text, which the library copies.
            let code = unsafe { (self.set)(context, OPT_SOCKET, socket.as_ptr()) };
            self.check(code, "take the socket of KOLO_MUNGE_SOCKET")?;
        }
        Ok(session)
    }

    fn check(&self, code: c_int, doing: &str) -> Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: the library gives a text for every number, which lasts.
        let why = unsafe {
            let text = (self.strerror)(code);
            if text.is_null() {
                String::new()
            } else {
                CStr::from_ptr(text).to_string_lossy().into_owned()
            }
        };
        Err(Error::usage(
            format!("munge, which shows whose a rank is, could not {doing} on this node: {why}"),
            "check that munged runs on all nodes of the job with the same key and the same time \
             (`munge -n | ssh NODE unmunge`); KOLO_MUNGE_SOCKET names its socket where that is \
             another than usual, and KOLO_SECRET_FILE does without munge",
        ))
    }

    /// A credential with this payload, which only processes of this user can open.
    ///
    /// # Errors
    /// The daemon does not answer, or does not want to.
    pub fn encode(&self, payload: &[u8]) -> Result<Vec<u8>> {
        let session = self.session()?;
        let mut text = std::ptr::null_mut();
        // SAFETY: both options take a number of this size; the payload is readable for its length,
        // and the library puts a text of its own into `text`, which `free` takes back.
        unsafe {
            let user = libc::geteuid();
            let code = (self.set)(session.1, OPT_UID_RESTRICTION, user);
            self.check(code, "restrict a credential to this user")?;
            let code = (self.set)(session.1, OPT_CIPHER, CIPHER_AES128);
            self.check(code, "encrypt a credential")?;
            let length = payload.len() as c_int;
            let code = (self.encode)(&raw mut text, session.1, payload.as_ptr().cast(), length);
            let credential = if text.is_null() {
                Vec::new()
            } else {
                CStr::from_ptr(text).to_bytes().to_vec()
            };
            libc::free(text.cast());
            self.check(code, "make a credential")?;
            Ok(credential)
        }
    }

    /// The payload of a credential that this user has made.
    ///
    /// # Errors
    /// It is none, too old, was opened on this node before, or is another user's.
    pub fn decode(&self, credential: &[u8]) -> Result<Vec<u8>> {
        let session = self.session()?;
        let text = CString::new(credential).map_err(|_| garbled())?;
        let (mut data, mut length) = (std::ptr::null_mut(), 0);
        let (mut user, mut group) = (libc::uid_t::MAX, libc::gid_t::MAX);
        // SAFETY: `text` is a text; the library puts a buffer of its own with `length` bytes into
        // `data`, which `free` takes back.
        let (code, payload, own) = unsafe {
            let code = (self.decode)(
                text.as_ptr(),
                session.1,
                &raw mut data,
                &raw mut length,
                &raw mut user,
                &raw mut group,
            );
            let payload = if data.is_null() || length <= 0 {
                Vec::new()
            } else {
                std::slice::from_raw_parts(data.cast::<u8>(), length as usize).to_vec()
            };
            libc::free(data);
            (code, payload, libc::geteuid())
        };
        self.check(code, "open a credential")?;
        if user != own {
            return Err(Error::usage(
                format!("a process of user {user} wants to join a job of user {own}"),
                "start all ranks as the same user",
            ));
        }
        Ok(payload)
    }
}

/// A credential is a text; this is none.
fn garbled() -> Error {
    Error::usage(
        "who asked to join sent a credential of munge that is none: it has a zero byte inside",
        "start all ranks with the same version of kolo; if they are, another program has found \
         the port of this job",
    )
}

#[cfg(test)]
#[path = "munge_tests.rs"]
pub(crate) mod tests;
