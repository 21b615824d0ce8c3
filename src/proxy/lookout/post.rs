//! A lookout before it knows its neighbours.

use crate::base::Result;
use crate::transport::net::{Handle, Listener, Net};
use std::sync::Arc;

/// A lookout that listens, before it knows its neighbours.
pub struct Post {
    pub(super) net: Arc<dyn Net>,
    pub(super) listener: Box<dyn Listener>,
    handle: Handle,
}

impl Post {
    /// Listens on the first device of a network of sockets.
    ///
    /// # Errors
    /// Of the network.
    pub fn new(net: Arc<dyn Net>) -> Result<Post> {
        let (handle, listener) = net.listen(0)?;
        Ok(Post {
            net,
            listener,
            handle,
        })
    }

    /// What neighbours need to reach it.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}
