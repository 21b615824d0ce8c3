//! The interfaces that the ranks have agreed on, for whoever opens a network over them.

use crate::base::interfaces::ways::{Barred, FaceCard, FaceTable};
use crate::transport::net::socket::{SocketNet, SocketOptions};

/// Agreement of the ranks.
pub struct AgreedFaces {
    /// All that it has.
    pub table: FaceTable,
    /// The interfaces that this rank uses.
    pub cards: Vec<FaceCard>,
    /// Ways that were tried in vain.
    pub barred: Barred,
}

impl AgreedFaces {
    /// A network of sockets over these interfaces.
    pub fn sockets(&self, options: SocketOptions) -> SocketNet {
        let net = SocketNet::over(self.table.clone(), self.cards.clone(), options);
        net.bar(&self.barred);
        net
    }
}
