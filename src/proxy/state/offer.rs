//! What this process hands to others under a key: memory that is there, or that is made when
//! somebody asks.

use crate::proxy::frame::{Frame, ServiceKind};
use crate::proxy::socket;
use crate::transport::fork::Fd;
use crate::transport::segment::Key;
use std::collections::HashMap;
use std::sync::Arc;

/// Makes what was promised; `None` if it cannot. It calls nothing of the service, whose lock is
/// held.
pub type Maker = Box<dyn Fn() -> Option<Arc<Fd>> + Send + Sync>;

/// What stands behind a key.
pub(in crate::proxy) enum Offer {
    There(Arc<Fd>),
    Promised(Maker),
}

impl Offer {
    /// The descriptor that is handed over.
    pub fn fd(&self) -> Option<Arc<Fd>> {
        match self {
            Offer::There(fd) => Some(Arc::clone(fd)),
            Offer::Promised(make) => make(),
        }
    }
}

/// Answers who asks over this link. On failure the link ends, and the asker tries again.
pub(super) fn hand_over(offers: &HashMap<Key, Offer>, link: &Fd, asked: &Frame) -> bool {
    let offer = offers.get(&Key(asked.secret));
    let Some(fd) = offer.and_then(Offer::fd) else {
        return false;
    };
    let reply = Frame::new(ServiceKind::TakeFd, asked.operation, 0);
    socket::send(link, &reply, Some(&fd)).is_ok()
}
