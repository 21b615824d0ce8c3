//! Which devices may use each other's `cuMemAlloc` memory.

use super::ranges::{Kind, Ranges};
use crate::error::{Answer, Code};
use kolo_kernels_host::{Access, Machine};

/// Pairs of devices (who, whose) that may use each other's memory.
#[derive(Default)]
pub struct Peers(Vec<(u32, u32)>);

impl Peers {
    /// A device and those that may use its memory.
    pub fn access(&self, device: u32) -> Access {
        let peers = self.0.iter().filter(|(_, whose)| *whose == device);
        let bits = peers.fold(1 << device, |bits, (who, _)| bits | 1 << who);
        Access {
            loads: bits,
            stores: bits,
        }
    }

    /// # Errors
    /// It may already.
    pub fn enable(
        &mut self,
        ranges: &mut Ranges,
        machine: &mut Machine,
        who: u32,
        whose: u32,
    ) -> Answer {
        if self.0.contains(&(who, whose)) {
            return Err(Code::PEER_ACCESS_ALREADY_ENABLED);
        }
        self.0.push((who, whose));
        self.renew(ranges, machine, whose);
        Ok(())
    }

    /// # Errors
    /// It may not.
    pub fn disable(
        &mut self,
        ranges: &mut Ranges,
        machine: &mut Machine,
        who: u32,
        whose: u32,
    ) -> Answer {
        let before = self.0.len();
        self.0.retain(|pair| *pair != (who, whose));
        if self.0.len() == before {
            return Err(Code::PEER_ACCESS_NOT_ENABLED);
        }
        self.renew(ranges, machine, whose);
        Ok(())
    }

    /// Forgets everything that a device may or others may with it.
    pub fn forget(&mut self, ranges: &mut Ranges, machine: &mut Machine, device: u32) {
        let gone = |pair: &(u32, u32)| pair.0 == device || pair.1 == device;
        let pairs: Vec<_> = self.0.iter().copied().filter(gone).collect();
        for (who, whose) in pairs {
            self.0.retain(|pair| *pair != (who, whose));
            self.renew(ranges, machine, whose);
        }
    }

    fn renew(&self, ranges: &mut Ranges, machine: &mut Machine, whose: u32) {
        let access = self.access(whose);
        for base in ranges.bases(|it| it.device == whose && it.kind == Kind::Device) {
            ranges.allow(machine, base, access);
        }
    }
}
