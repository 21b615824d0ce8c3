//! Where connections arrive while no thread of the program is inside a call: the service thread
//! looks after that.

use super::Links;
use crate::proxy::attended::Attended;

impl Links {
    /// Accepts connections; for the thread that sleeps on what [`Links::doors`] names.
    fn greet(&self) {
        let mut state = self.lock();
        if !state.closed && !self.failed() {
            let looked = self.look(&mut state);
            self.keep(looked);
        }
    }

    /// Adds the descriptors on which a `poll` may sleep until [`Links::greet`] has something to do.
    /// False if it must be called now and then all the same.
    fn doors(&self, set: &mut Vec<libc::pollfd>) -> bool {
        let state = self.lock();
        if state.closed || self.failed() {
            return true;
        }
        state.arrivals.watch(set) && !state.arrivals.has_strangers()
    }
}

impl Attended for Links {
    fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        self.doors(set)
    }

    fn tend(&self) {
        self.greet();
    }
}
