//! How a process gets its service.

use super::refused::{forked_error, start_error};
use super::{Service, thread};
use crate::base::{Result, own_thread, starts};
use crate::transport::fork;
use std::io;
use std::os::unix::thread::JoinHandleExt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

/// The thread calls nothing that is deep.
const STACK_BYTES: usize = 256 << 10;

/// Made on the first call of [`get`].
pub(super) static SERVICE: OnceLock<Arc<Service>> = OnceLock::new();
static CREATION: Mutex<()> = Mutex::new(());

/// The service of this process, made on the first call.
///
/// # Errors
/// `InvalidUsage` in a process forked from one that had used kolo; `SystemError` when the system
/// has no descriptor or thread left.
pub fn get() -> Result<&'static Service> {
    if fork::in_child_of_user() {
        return Err(forked_error());
    }
    if let Some(service) = SERVICE.get() {
        // A raw `clone` runs no fork handlers, so the process number is compared, too.
        if service.pid != std::process::id() {
            return Err(forked_error());
        }
        return Ok(service);
    }
    let _creating = CREATION.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(service) = SERVICE.get() {
        return Ok(service);
    }
    let service = Service::create().map_err(|source| start_error(&source))?;
    let thread = start_thread(service.clone()).map_err(|source| start_error(&source))?;
    let _ = service.thread.set(thread.as_pthread_t());
    starts::note(starts::Start::Service);
    Ok(SERVICE.get_or_init(|| service))
}

pub(super) fn start_thread(service: Arc<Service>) -> io::Result<JoinHandle<()>> {
    let builder = std::thread::Builder::new()
        .name("kolo service".to_owned())
        .stack_size(STACK_BYTES);
    own_thread::start(builder, move || thread::run(&service))
}
