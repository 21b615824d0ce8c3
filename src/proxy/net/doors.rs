//! Where connections arrive while no thread of the program is inside a call: the service thread
//! looks after that.

use super::Links;
use crate::proxy::attended::Attended;

/// Accepts connections; for the thread that sleeps on what [`doors`] names.
fn greet(links: &Links) {
    let mut state = links.lock();
    if !state.closed && !links.failed() {
        let looked = links.look(&mut state);
        links.keep(looked);
    }
}

/// Adds the descriptors on which a `poll` may sleep until [`greet`] has something to do.
/// False if it must be called now and then all the same.
fn doors(links: &Links, set: &mut Vec<libc::pollfd>) -> bool {
    let state = links.lock();
    if state.closed || links.failed() {
        return true;
    }
    state.arrivals.watch(set) && !state.arrivals.has_strangers()
}

impl Attended for Links {
    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        doors(self, set)
    }

    fn tend(&self) {
        greet(self);
    }
}
