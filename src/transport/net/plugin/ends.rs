//! State that both ends of a connection share: the plugin, its errors, registrations and requests.

use super::abi::{MAX_REQUESTS, SUCCESS};
use super::calls::{Calls, MOST_BYTES, Outcome};
use super::extras::{Extras, Words};
use super::log;
use crate::base::{Code, Error, Result};
use crate::transport::net::{Region, Request};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// Words of an error's reason that stand before those of the plugin.
pub const LAST_WORDS: &str = "; its last words: ";

/// A plugin that runs.
pub struct Plugin {
    pub calls: Calls,
    /// Context that `init` gave; null before version 11.
    pub context: *mut c_void,
    pub extras: Extras,
    file: String,
    started: bool,
}

// SAFETY: the interface lets any thread make calls; the context is only handed back.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

impl Plugin {
    pub fn new(calls: Calls, file: String, extras: Extras) -> Plugin {
        Plugin {
            calls,
            context: null_mut(),
            extras,
            file,
            started: false,
        }
    }

    /// Calls `init`; the error is why the plugin cannot be used.
    pub fn start(&mut self) -> std::result::Result<(), String> {
        match self.calls.init() {
            Ok(context) => {
                self.context = context;
                self.started = true;
                Ok(())
            }
            Err(code) => Err(self.refusal("init", code)),
        }
    }

    /// More about what carries the data, in the library's words.
    pub fn about(&self) -> Option<String> {
        self.extras.about()
    }

    /// Says what happened, as the end of a sentence.
    pub fn refusal(&self, call: &str, code: c_int) -> String {
        self.told(call, code).what
    }

    fn told(&self, call: &str, code: c_int) -> Words {
        let mut what = format!(
            "{call} of the plugin {} ({}) failed: {}",
            self.calls.name,
            self.file,
            meaning(code)
        );
        let own = self.extras.last_error();
        let of_log = || Some(log::last_words()?).map(|what| Words { what, remedy: None });
        let mut remedy = None;
        if let Some(words) = own.or_else(of_log) {
            what += LAST_WORDS;
            what += &words.what;
            remedy = words.remedy;
        }
        Words { what, remedy }
    }

    /// The error for a call that failed.
    pub fn error(&self, call: &'static str, code: c_int) -> Error {
        let kind = Code::from_number(code).filter(|&kind| kind != Code::Success);
        let remedy = match kind {
            Some(Code::RemoteError) => "look for the first error of the rank at the other end",
            Some(Code::InvalidUsage) => {
                "make the counts of both ranks agree; see the plugin's documentation"
            }
            _ => {
                "see the plugin's documentation and log (KOLO_DEBUG=trace); KOLO_NET=socket \
                 does without it"
            }
        };
        // Who exports whole sentences needs no introduction.
        let own = self.extras.last_error();
        let words = own.unwrap_or_else(|| self.told(call, code));
        let remedy = words.remedy.unwrap_or_else(|| remedy.into());
        let operation = format!("{call} over the network {}", self.calls.name);
        Error::new(kind.unwrap_or(Code::SystemError), words.what, remedy).during(operation)
    }

    /// Logs what a closing call gave when nobody can be told.
    pub fn note(&self, call: &str, code: c_int) {
        if code != SUCCESS {
            tracing::warn!("{}", self.refusal(call, code));
        }
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        if self.started {
            // SAFETY: every connection holds the plugin, so none is left.
            unsafe { self.calls.finalize(self.context) };
        }
    }
}

/// The text of a result code.
pub fn meaning(code: c_int) -> String {
    match Code::from_number(code) {
        Some(code) => code.text().to_string(),
        None => format!("result code {code}"),
    }
}

/// The largest message, from what the device says; sizes are reported as `int`.
pub fn fits(told: Option<usize>) -> usize {
    let told = told.filter(|&bytes| bytes > 0);
    told.unwrap_or(MOST_BYTES).min(MOST_BYTES)
}

/// A request of the plugin, and what kolo knows of it.
pub struct Flying<T> {
    number: u64,
    pub request: *mut c_void,
    pub about: T,
}

/// One connection as far as both ends are alike.
pub struct End<T> {
    pub plugin: std::sync::Arc<Plugin>,
    pub comm: *mut c_void,
    registrations: Vec<(u64, *mut c_void)>,
    flying: Vec<Flying<T>>,
    next: u64,
    failed: Option<Error>,
    closed: bool,
}

impl<T> End<T> {
    pub fn new(plugin: std::sync::Arc<Plugin>, comm: *mut c_void) -> End<T> {
        End {
            plugin,
            comm,
            registrations: Vec::new(),
            flying: Vec::with_capacity(MAX_REQUESTS),
            next: 0,
            failed: None,
            closed: false,
        }
    }

    /// The first error again.
    pub fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Turns the plugin's result code into the last word of this connection.
    pub fn fail(&mut self, call: &'static str, code: c_int) -> Error {
        let error = self.plugin.error(call, code);
        self.failed.insert(error).clone()
    }

    /// Whether the plugin must be spared another request.
    pub fn is_full(&self) -> bool {
        self.flying.len() >= MAX_REQUESTS
    }

    /// # Safety
    /// The memory stays mapped until it is deregistered or the connection is closed.
    pub unsafe fn register(&mut self, data: *mut c_void, bytes: usize) -> Result<Region> {
        self.check()?;
        // SAFETY: the connection is open; the caller's promise.
        let registration = unsafe { self.plugin.calls.register(self.comm, data, bytes) };
        let registration = registration.map_err(|code| self.fail("regMr", code))?;
        let number = self.next;
        self.next += 1;
        self.registrations.push((number, registration));
        Ok(Region(number))
    }

    pub fn deregister(&mut self, region: Region) -> Result<()> {
        let at = self
            .registrations
            .iter()
            .position(|(n, _)| *n == region.0)
            .ok_or_else(|| unknown(region))?;
        self.check()?;
        let (_, registration) = self.registrations.swap_remove(at);
        // SAFETY: of this connection, which is open; the caller says that no request uses it.
        unsafe { self.plugin.calls.deregister(self.comm, registration) }
            .map_err(|code| self.fail("deregMr", code))
    }

    /// The plugin's name of a region.
    pub fn registration(&self, region: Region) -> Result<*mut c_void> {
        let found = self.registrations.iter().find(|(n, _)| *n == region.0);
        found.map(|(_, r)| *r).ok_or_else(|| unknown(region))
    }

    /// Keeps a request that the plugin gave; null is "not yet".
    pub fn keep(&mut self, request: *mut c_void, about: T) -> Option<Request> {
        if request.is_null() {
            return None;
        }
        let number = self.next;
        self.next += 1;
        self.flying.push(Flying {
            number,
            request,
            about,
        });
        Some(Request::new(number))
    }

    /// Looks a request in flight up: the plugin's name of it, and what is known of it.
    pub fn flying(&mut self, request: &Request) -> Option<&mut Flying<T>> {
        let number = request.number();
        self.flying.iter_mut().find(|f| f.number == number)
    }

    /// Tests a request; when it is done, what was known of it and the sizes.
    pub fn test(
        &mut self,
        request: &Request,
    ) -> Result<Option<(T, [c_int; super::super::MAX_RECEIVES])>> {
        // SAFETY: asked below only before it was said to be done.
        self.test_by(request, |plugin, request| unsafe {
            plugin.calls.test(request)
        })
    }

    /// Tests a request by a function of the plugin; when it is done, what was known of it and what
    /// the function gives.
    pub fn test_by<R>(
        &mut self,
        request: &Request,
        test: impl FnOnce(&Plugin, *mut c_void) -> Outcome<Option<R>>,
    ) -> Result<Option<(T, R)>> {
        self.check()?;
        let mut all = self.flying.iter();
        let Some(at) = all.position(|f| f.number == request.number()) else {
            return Err(Error::argument(
                "a request was tested that is not in flight on this connection",
                "test a request until it is done, and on its own connection",
            ));
        };
        let done = test(&self.plugin, self.flying[at].request);
        let done = done.map_err(|code| self.fail("test", code))?;
        Ok(done.map(|done| (self.flying.remove(at).about, done)))
    }

    /// Closes with the plugin's function; once.
    pub fn close(&mut self, call: &'static str) -> Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let calls = &self.plugin.calls;
        let function = match call {
            "closeSend" => calls.close_send,
            _ => calls.close_recv,
        };
        for (_, registration) in std::mem::take(&mut self.registrations) {
            // SAFETY: of this connection, which is open; its requests are given up by closing.
            let code = unsafe { calls.deregister(self.comm, registration) };
            if let Err(code) = code {
                self.plugin.note("deregMr", code);
            }
        }
        // SAFETY: open until now, and never used afterwards.
        let code = unsafe { function(self.comm) };
        if !self.flying.is_empty() {
            // Buffers are posted ahead of what is sent, so this is ordinary, and is said below.
            if code != SUCCESS {
                tracing::debug!("{}", self.plugin.refusal(call, code));
            }
            return Err(Error::usage(
                format!(
                    "a connection over the network plugin {} was closed with {} requests in \
                     flight",
                    self.plugin.calls.name,
                    self.flying.len()
                ),
                "test every request until it is done, then close",
            )
            .during("close"));
        }
        match (code, &self.failed) {
            (_, Some(error)) => Err(error.clone()),
            (SUCCESS, None) => Ok(()),
            (code, None) => Err(self.plugin.error(call, code)),
        }
    }
}

fn unknown(region: Region) -> Error {
    Error::argument(
        format!("region {} is not registered on this connection", region.0),
        "use what register gave, on its own connection, until it is deregistered",
    )
}
