//! The thread of a device that hears of asynchronous events: ports that go down, adapters that
//! break, queue pairs that fail.
//!
//! It sleeps in `poll`. What it hears of ports and devices goes into the device's [`Health`], what
//! it hears of a queue pair into the [`Alarm`] of the connection, and connections look there.

use crate::health::Health;
use crate::verbs::{self, Context};
use ibverbs_sys as ib;
use kolo::base::{descriptors, own_thread};
use kolo_plugin::report;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// The event that struck a connection: its number plus one, or 0.
#[derive(Default)]
pub struct Alarm(AtomicU32);

impl Alarm {
    /// Name of the event that happened, in libibverbs' words.
    pub fn text(&self) -> Option<&'static str> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            // SAFETY: the number is an event's, and its text is constant.
            event => Some(unsafe { verbs::constant(ib::ibv_event_type_str(event - 1)) }),
        }
    }
}

type Alarms = Arc<Mutex<HashMap<u32, Arc<Alarm>>>>;

/// The thread, and the connections that it warns.
pub struct Watcher {
    alarms: Alarms,
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    /// Starts the thread of a device.
    pub fn start(name: &str, context: &Arc<Context>, health: &Arc<Health>) -> io::Result<Watcher> {
        let fd = context.event_fd();
        // SAFETY: plain system calls on the descriptor of an open device.
        let stop = unsafe {
            let flags = libc::fcntl(fd, libc::F_GETFL);
            if flags < 0 || libc::fcntl(fd, libc::F_SETFL, flags | libc::O_NONBLOCK) < 0 {
                return Err(io::Error::last_os_error());
            }
            let flags = libc::EFD_CLOEXEC | libc::EFD_NONBLOCK;
            Arc::new(descriptors::made(libc::eventfd(0, flags))?)
        };
        let alarms = Alarms::default();
        let ears = Ears {
            name: name.to_string(),
            context: context.clone(),
            health: health.clone(),
            alarms: alarms.clone(),
            stop: stop.clone(),
        };
        let short: String = name.chars().take(10).collect();
        let builder = Builder::new().name(format!("kolo-{short}"));
        let thread = own_thread::start(builder, move || ears.run())?;
        Ok(Watcher {
            alarms,
            stop,
            thread: Some(thread),
        })
    }

    /// Names the alarm of a queue pair.
    pub fn enter(&self, queue: u32, alarm: &Arc<Alarm>) {
        let mut alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
        alarms.insert(queue, alarm.clone());
    }

    /// Forgets a queue pair.
    pub fn leave(&self, queue: u32) {
        let mut alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
        alarms.remove(&queue);
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the descriptor is an eventfd and takes eight bytes.
        unsafe { libc::write(self.stop.as_raw_fd(), one.as_ptr().cast(), one.len()) };
        if let Some(thread) = self.thread.take() {
            // A panic of that thread was its end; there is nothing more to do about it here.
            drop(thread.join());
        }
    }
}

struct Ears {
    name: String,
    context: Arc<Context>,
    health: Arc<Health>,
    alarms: Alarms,
    stop: Arc<OwnedFd>,
}

impl Ears {
    fn run(self) {
        let wait = |fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut both = [wait(self.context.event_fd()), wait(self.stop.as_raw_fd())];
        loop {
            // SAFETY: the array has two entries with open descriptors.
            let ready = unsafe { libc::poll(both.as_mut_ptr(), 2, -1) };
            if ready < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return;
            }
            if ready <= 0 {
                continue;
            }
            if both[1].revents != 0 {
                return;
            }
            let broken = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
            if both[0].revents & broken != 0 {
                self.health.fatal.store(true, Ordering::Relaxed);
                return;
            }
            self.hear();
        }
    }

    fn hear(&self) {
        let mut event = ib::ibv_async_event::default();
        // SAFETY: the device is open, and its descriptor does not block.
        while unsafe { ib::ibv_get_async_event(self.context.0, &raw mut event) } == 0 {
            self.note(&event);
            // SAFETY: the event is the one just taken; a queue pair waits for this to be destroyed.
            unsafe { ib::ibv_ack_async_event(&raw mut event) };
        }
    }

    fn note(&self, event: &ib::ibv_async_event) {
        // SAFETY: the number is an event's, and its text is constant.
        let text = unsafe { verbs::constant(ib::ibv_event_type_str(event.event_type)) };
        match event.event_type {
            ib::IBV_EVENT_PORT_ERR | ib::IBV_EVENT_PORT_ACTIVE => {
                // SAFETY: the union holds a port for events of ports.
                let port = usize::try_from(unsafe { event.element.port_num }).unwrap_or(0);
                let up = event.event_type == ib::IBV_EVENT_PORT_ACTIVE;
                self.health.set_port(port, up);
                report::warn(&format!("NET/verbs: {} port {port}: {text}", self.name));
            }
            ib::IBV_EVENT_DEVICE_FATAL => {
                self.health.fatal.store(true, Ordering::Relaxed);
                report::warn(&format!("NET/verbs: {}: {text}", self.name));
            }
            ib::IBV_EVENT_QP_FATAL | ib::IBV_EVENT_QP_REQ_ERR | ib::IBV_EVENT_QP_ACCESS_ERR => {
                // SAFETY: the union holds a queue pair for events of queue pairs, and it is not
                // destroyed before this event is acknowledged.
                let queue = unsafe { (*event.element.qp).qp_num };
                let alarms = self.alarms.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(alarm) = alarms.get(&queue) {
                    alarm.0.store(event.event_type + 1, Ordering::Relaxed);
                }
            }
            _ => report::info(&format!("NET/verbs: {}: {text}", self.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alarm_has_words() {
        let alarm = Alarm::default();
        assert_eq!(alarm.text(), None);
        alarm.0.store(ib::IBV_EVENT_QP_FATAL + 1, Ordering::Relaxed);
        assert!(!alarm.text().unwrap().is_empty());
    }
}
