//! Memory of slots is given back where the process has more than its bound
//! ([`crate::transport::slots`]).

use crate::comm::owned::Exec;
use crate::comm::state::Inner;
use crate::transport::slots::{self, Holder};
use crate::wire::ports::Ports;
use std::sync::{Arc, Weak};

impl Holder for Inner {
    fn while_idle(&self, see: &mut dyn FnMut(&mut Ports)) {
        // After a stop somebody who is late may still be reading.
        if self.is_stopped() {
            return;
        }
        // As a driver: a call of the user that comes now waits, and is no mistake.
        if let Some(mut exec) = self.exec.driver()
            && exec.queue.is_empty()
        {
            see(exec.engine.ports());
        }
    }
}

/// Other communicators may have its connections give memory back while nothing is in flight.
pub(in crate::comm) fn show(inner: &Arc<Inner>) {
    let holder: Weak<Inner> = Arc::downgrade(inner);
    slots::show(holder);
}

impl Inner {
    /// Before a call while nothing is in flight: gives memory back where there is too much.
    #[inline]
    pub(in crate::comm) fn relieve(&self, exec: &mut Exec) {
        if slots::is_short() {
            let of_rank = self.settings.slot_memory() as usize;
            slots::relieve(of_rank, Some(exec.engine.ports()));
        }
    }
}
