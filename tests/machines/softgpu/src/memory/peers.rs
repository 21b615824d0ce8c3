//! Which devices may use each other's `cuMemAlloc` memory.

use super::{Kind, Memory};
use crate::error::{Answer, Code};
use kolo_kernels_host::{Access, Machine};

impl Memory {
    /// A device and those that may use its memory.
    pub fn access_with_peers(&self, device: u32) -> Access {
        let peers = self.peers.iter().filter(|(_, whose)| *whose == device);
        let bits = peers.fold(1 << device, |bits, (who, _)| bits | 1 << who);
        Access {
            loads: bits,
            stores: bits,
        }
    }

    /// # Errors
    /// It may already.
    pub fn enable_peer(&mut self, machine: &mut Machine, who: u32, whose: u32) -> Answer {
        if self.peers.contains(&(who, whose)) {
            return Err(Code::PEER_ACCESS_ALREADY_ENABLED);
        }
        self.peers.push((who, whose));
        self.renew(machine, whose);
        Ok(())
    }

    /// # Errors
    /// It may not.
    pub fn disable_peer(&mut self, machine: &mut Machine, who: u32, whose: u32) -> Answer {
        let before = self.peers.len();
        self.peers.retain(|pair| *pair != (who, whose));
        if self.peers.len() == before {
            return Err(Code::PEER_ACCESS_NOT_ENABLED);
        }
        self.renew(machine, whose);
        Ok(())
    }

    /// Forgets everything that a device may or others may with it.
    pub fn forget_peers(&mut self, machine: &mut Machine, device: u32) {
        let gone = |pair: &(u32, u32)| pair.0 == device || pair.1 == device;
        let pairs: Vec<_> = self.peers.iter().copied().filter(gone).collect();
        for (who, whose) in pairs {
            self.peers.retain(|pair| *pair != (who, whose));
            self.renew(machine, whose);
        }
    }

    fn renew(&mut self, machine: &mut Machine, whose: u32) {
        let access = self.access_with_peers(whose);
        let is_it = |kind: Kind| matches!(kind, Kind::Device);
        let bases: Vec<u64> = self
            .allocations
            .values()
            .filter(|allocation| allocation.device == whose && is_it(allocation.kind))
            .map(|allocation| allocation.base)
            .collect();
        for base in bases {
            self.allow(machine, base, access);
        }
    }
}
