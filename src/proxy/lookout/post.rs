//! A lookout before it knows its neighbours.

use crate::base::Result;
use crate::transport::net::socket::SocketNet;
use crate::transport::net::{Handle, Listener};

/// A lookout that listens, before it knows its neighbours.
pub struct Post {
    pub(super) net: SocketNet,
    pub(super) listener: Box<dyn Listener>,
    handle: Handle,
}

impl Post {
    /// Listens on all devices of a network of sockets.
    ///
    /// # Errors
    /// Of the network.
    pub fn new(net: SocketNet) -> Result<Post> {
        let (handle, listener) = net.listen_on_all()?;
        Ok(Post {
            net,
            listener,
            handle,
        })
    }

    /// Handle that neighbours need to reach it.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}
