//! The sleep of the progress thread.

use crate::transport::futex::SystemFutex;
use crate::transport::net::sleep_on;
use crate::wire::doorbell::{OwnBell, Ticket};
use std::time::Duration;

/// How long it sleeps where nothing can wake it.
pub const NAP: Duration = Duration::from_micros(200);
/// The longest sleep on descriptors: the ranks of this node are not heard meanwhile.
const LONGEST_NETWORK_NAP: Duration = Duration::from_millis(2);
/// The longest sleep on one of several bells.
const LONGEST_OF_SEVERAL: Duration = Duration::from_millis(1);

/// An armed bell, disarmed on drop.
pub(super) struct Armed<'a>(OwnBell<'a>, Ticket);

impl<'a> Armed<'a> {
    pub(super) fn new(bell: OwnBell<'a>) -> Armed<'a> {
        Armed(bell, bell.arm(&SystemFutex))
    }

    pub(super) fn sleep(&self, limit: Duration) {
        self.0.sleep(self.1, limit, &SystemFutex);
    }
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        self.0.disarm();
    }
}

/// Things that end a sleep: bells, descriptors, or time. Bells are armed when they are added.
pub struct Rest<'a> {
    bells: Vec<Armed<'a>>,
    descriptors: Vec<libc::pollfd>,
    longest: Duration,
}

impl Default for Rest<'_> {
    fn default() -> Self {
        Rest {
            bells: Vec::new(),
            descriptors: Vec::new(),
            longest: Duration::MAX,
        }
    }
}

impl<'a> Rest<'a> {
    /// Whoever publishes something rings this bell. Look for it after this.
    pub fn bell(&mut self, bell: OwnBell<'a>) {
        self.bells.push(Armed::new(bell));
    }

    /// Something comes over the network: `add` adds what shows it, and says whether that is all.
    pub fn network(&mut self, add: impl FnOnce(&mut Vec<libc::pollfd>) -> bool) {
        let longest = match add(&mut self.descriptors) {
            true => LONGEST_NETWORK_NAP,
            false => NAP,
        };
        self.at_most(longest);
    }

    /// Nothing may show it: look again after this time.
    pub fn at_most(&mut self, longest: Duration) {
        self.longest = self.longest.min(longest);
    }

    /// Sleeps; `new` is the bell of new work.
    pub(super) fn sleep(&mut self, nap: Duration, new: &Armed) {
        let nap = nap.min(self.longest);
        if !self.descriptors.is_empty() {
            return sleep_on(&mut self.descriptors, nap);
        }
        match &self.bells[..] {
            // New work rings this bell too, but perhaps it did so before it was armed.
            [bell] => {
                let new = (new.0.bell, new.1);
                bell.0.sleep_beside(bell.1, new, nap, &SystemFutex);
            }
            [] => new.sleep(nap),
            _ => new.sleep(nap.min(LONGEST_OF_SEVERAL)),
        }
    }
}
