//! The call to be priced, and what is counted of it everywhere.

use crate::plan::{Collective, Geometry};
use crate::price::cluster::Level;
use crate::price::costs::Carrier;
use crate::price::{Cached, Site};

/// One call to be priced.
pub(super) struct Call<'a> {
    pub collective: Collective,
    pub bytes: f64,
    pub channels: f64,
    pub geometry: Geometry,
    /// Parts of the whole call that stay in caches.
    pub cached: Cached,
    pub site: &'a Site,
    pub n: f64,
}

impl Call<'_> {
    /// Puts the call on another machine.
    pub fn on<'a>(&self, site: &'a Site) -> Call<'a> {
        Call {
            site,
            n: f64::from(site.machine.nranks()),
            ..*self
        }
    }

    pub fn level(&self, distance: u32) -> Level {
        self.site.machine.across(distance)
    }

    /// Slices that a connection holds.
    pub fn depth(&self) -> f64 {
        f64::from(self.geometry.slots / self.geometry.slice_steps)
    }

    /// Rounds of `per_round` bytes of the call, and the bytes of each.
    pub fn rounds(&self, per_round: f64) -> (f64, f64) {
        let rounds = (self.bytes / self.channels / per_round).ceil().max(1.0);
        (rounds, self.bytes / rounds)
    }

    /// Which part of the other ranks is how far away.
    pub fn everybody(&self) -> Vec<(f64, Level)> {
        let machine = &self.site.machine;
        // One rank alone has nobody to reach: all parts are 0.
        let others = f64::from(machine.nranks().max(2) - 1);
        let [cache, socket, node] = self.site.pairs.company.map(|ranks| ranks - 1.0);
        let mut parts = vec![
            ((others - node) / others, Level::Network),
            ((node - socket) / others, Level::Node),
            ((socket - cache) / others, Level::Socket),
            (cache / others, Level::Cache),
        ];
        parts.retain(|(part, _)| *part > 0.0);
        parts
    }

    /// [`Call::everybody`] by number of the level.
    pub fn parts(&self) -> [f64; 4] {
        let mut parts = [0.0; 4];
        for (part, level) in self.everybody() {
            parts[level as usize] = part;
        }
        parts
    }

    /// Until the last reader of a line that all others read sees it: readers are served one after
    /// the other, the near ones beside the far ones.
    pub fn served_ns(&self) -> f64 {
        let last = self.everybody().into_iter().map(|(part, level)| {
            let cost = self.site.costs.level(level);
            let before = (part * (self.n - 1.0) - 1.0).max(0.0);
            match cost.carrier {
                Carrier::Reader => cost.latency_ns + before * cost.gap_ns,
                Carrier::Wire => cost.latency_ns,
            }
        });
        last.fold(0.0, f64::max)
    }

    pub fn distances(&self) -> impl Iterator<Item = u32> + use<> {
        let n = self.site.machine.nranks();
        (0..31).map(|k| 1 << k).take_while(move |&d| d < n)
    }

    pub fn is_power(&self) -> bool {
        self.site.machine.nranks().is_power_of_two()
    }

    /// Rounds of a plan whose largest token holds `blocks` blocks, and a block's bytes in each.
    pub fn packed_rounds(&self, blocks: f64) -> (f64, f64) {
        self.rounds(self.geometry.chunk_bytes() as f64 / blocks.max(1.0))
    }

    /// A step that copies `bytes` of the own buffers.
    pub fn own(&self, bytes: f64) -> f64 {
        let costs = &self.site.costs;
        costs.step_ns + bytes * (costs.read_ns + costs.write_ns)
    }
}
