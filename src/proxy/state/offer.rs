//! Offers of this process to others, each under a key: memory that is there, or that is made when
//! somebody asks.
//!
//! Making memory of a device may take long: the driver may be waiting in another thread. The thread
//! of the service, which hears of deaths, must not wait for that, and nobody may while its lock is
//! held. So what was promised is made and handed over on a thread of its own, which ends with it.

use crate::base::{caught, descriptors, own_thread};
use crate::proxy::frame::{Frame, ServiceKind};
use crate::proxy::socket;
use crate::transport::fork::Fd;
use crate::transport::segment::Key;
use std::collections::HashMap;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::thread::Builder;

/// Makes what was promised; `None` if it cannot.
pub type Maker = Arc<dyn Fn() -> Option<Arc<Fd>> + Send + Sync>;

/// Memory behind a key.
pub(in crate::proxy) enum Offer {
    There(Arc<Fd>),
    Promised(Maker),
}

/// Answers who asks over this link; false if there is no answer. On failure the link ends, and the
/// asker tries again.
pub(super) fn hand_over(offers: &HashMap<Key, Offer>, link: &Fd, asked: &Frame) -> bool {
    let reply = Frame::new(ServiceKind::TakeFd, asked.operation, 0);
    match offers.get(&Key(asked.secret)) {
        None => false,
        Some(Offer::There(fd)) => socket::send(link, &reply, Some(fd)).is_ok(),
        Some(Offer::Promised(make)) => answer_later(link, reply, Arc::clone(make)).is_ok(),
    }
}

fn answer_later(link: &Fd, reply: Frame, make: Maker) -> io::Result<()> {
    let link = Fd::new(descriptors::another(link.as_raw_fd())?)?;
    let builder = Builder::new().name("kolo memory".into());
    let answer = move || {
        let made = caught(|| make()).ok().flatten();
        let sent = made.is_some_and(|fd| socket::send(&link, &reply, Some(&fd)).is_ok());
        if !sent {
            // SAFETY: the descriptor is open. Both sides see the end of the link.
            unsafe { libc::shutdown(link.as_raw_fd(), libc::SHUT_RDWR) };
        }
    };
    own_thread::start(builder, answer).map(|_| ())
}
