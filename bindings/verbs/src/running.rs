//! The network while somebody uses it, and the connections that are being made over it.

use crate::connecting::Connecting;
use crate::network::Network;
use kolo::base::{Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The network, between its first user and its last.
pub struct Running {
    pub network: Arc<Network>,
    connecting: Mutex<HashMap<u64, Connecting>>,
}

impl Running {
    /// Connections that are being made, by their numbers.
    pub fn pending(&self) -> MutexGuard<'_, HashMap<u64, Connecting>> {
        self.connecting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The network while somebody uses it, and by how many.
static CURRENT: Mutex<(usize, Option<Arc<Running>>)> = Mutex::new((0, None));

fn current_state() -> MutexGuard<'static, (usize, Option<Arc<Running>>)> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One more user; the first one opens all devices.
///
/// Errors: `InvalidArgument` for a setting; `SystemError` when there is no device to use, with
/// the reason for each.
pub fn start() -> Result<()> {
    let mut state = current_state();
    if state.1.is_none() {
        state.1 = Some(Arc::new(Running {
            network: Arc::new(Network::open()?),
            connecting: Mutex::default(),
        }));
    }
    state.0 += 1;
    Ok(())
}

/// One user less; devices are closed when the last one and all connections are gone.
pub fn stop() {
    let mut state = current_state();
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
pub fn current() -> Result<Arc<Running>> {
    current_state().1.clone().ok_or_else(|| {
        Error::usage(
            "the RDMA network is not started",
            "call init of the table before its other functions",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn before_init_there_is_none() {
        assert!(current().err().unwrap().remedy.contains("init"));
        stop();
    }
}
