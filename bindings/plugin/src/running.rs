//! The network while somebody uses it, and the connections that are being made over it.

use crate::connecting::Connecting;
use crate::fabric::Fabric;
use kolo::base::{Error, Result};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The network, between its first user and its last.
pub struct Running<F: Fabric> {
    /// The network itself.
    pub fabric: Arc<F>,
    connecting: Mutex<HashMap<u64, Connecting<F>>>,
    next: AtomicU64,
}

impl<F: Fabric> Running<F> {
    /// Connections that are being made, by their numbers.
    pub fn pending(&self) -> MutexGuard<'_, HashMap<u64, Connecting<F>>> {
        self.connecting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no connection had before.
    pub fn new_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

/// Users of a network, and the network while there are some.
pub struct Current<F: Fabric>(Mutex<(usize, Option<Arc<Running<F>>>)>);

/// A network that stands behind a table of its own.
pub trait Stands: Fabric {
    /// The place of its state in this process.
    fn running() -> &'static Current<Self>;
}

impl<F: Fabric> Current<F> {
    /// Nobody uses it.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Current<F> {
        Current(Mutex::new((0, None)))
    }

    fn state(&self) -> MutexGuard<'_, (usize, Option<Arc<Running<F>>>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more user; the first one opens all devices.
    ///
    /// # Errors
    /// `InvalidArgument` for a setting; `SystemError` when there is no device to use, with the
    /// reason for each.
    pub fn start(&self) -> Result<()> {
        let mut state = self.state();
        if state.1.is_none() {
            state.1 = Some(Arc::new(Running {
                fabric: Arc::new(F::open()?),
                connecting: Mutex::default(),
                next: AtomicU64::new(1),
            }));
        }
        state.0 += 1;
        Ok(())
    }

    /// One user less; devices are closed when the last one and all connections are gone.
    pub fn stop(&self) {
        let mut state = self.state();
        state.0 = state.0.saturating_sub(1);
        if state.0 == 0 {
            let running = state.1.take();
            drop(state);
            if let Some(running) = running {
                running.pending().clear();
            }
        }
    }

    /// The network. `InvalidUsage` before `init`.
    pub fn get(&self) -> Result<Arc<Running<F>>> {
        self.state().1.clone().ok_or_else(|| {
            Error::usage(
                format!("the {} network is not started", F::SIGNS.what),
                "call init of the table before its other functions",
            )
        })
    }
}
