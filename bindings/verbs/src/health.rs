//! The health of a device: whether it is broken, and since when which of its ports are down.
//!
//! The thread that hears of events ([`crate::events`]) notes it, and connections look at it.

use kolo::base::clock::Moment;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Events that a device has told of, for all connections to see.
pub struct Health {
    /// When counting began.
    pub since: Moment,
    /// The device is gone or broken.
    pub fatal: AtomicBool,
    /// For ports 1 to 255: milliseconds since `since` at which it went down, or 0.
    down: Vec<AtomicU64>,
}

impl Health {
    pub fn new(ports: u8) -> Health {
        Health {
            since: kolo::base::clock::now(),
            fatal: AtomicBool::new(false),
            down: (0..=ports).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Notes that a port went down or came back.
    pub fn set_port(&self, port: usize, up: bool) {
        let now = self.since.elapsed().as_millis() as u64;
        let Some(down) = self.down.get(port) else {
            return;
        };
        if up {
            down.store(0, Ordering::Relaxed);
        } else if down.load(Ordering::Relaxed) == 0 {
            // The first event counts: the port has been down since then. One thread writes.
            down.store(now.max(1), Ordering::Relaxed);
        }
    }

    /// For how long a port has been down, in milliseconds.
    pub fn down_for(&self, port: u8) -> Option<u64> {
        let down = self.down.get(usize::from(port))?.load(Ordering::Relaxed);
        (down != 0).then(|| (self.since.elapsed().as_millis() as u64).saturating_sub(down))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_down_since_the_first_event() {
        let health = Health::new(2);
        assert_eq!(health.down_for(1), None);
        health.set_port(1, false);
        std::thread::sleep(std::time::Duration::from_millis(15));
        health.set_port(1, false);
        assert!(health.down_for(1).unwrap() >= 10);
        assert_eq!((health.down_for(2), health.down_for(9)), (None, None));
        health.set_port(1, true);
        assert_eq!(health.down_for(1), None);
        health.set_port(77, false);
    }
}
