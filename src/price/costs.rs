//! Costs of hand-overs: LogGP by level, the work of cores, what links share, and what flagged lines
//! change.

use super::cluster::Level;
use crate::plan::Protocol;

/// Who moves the bytes of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The core of the reader: memory shared between ranks.
    Reader,
    /// Links between the ranks; the cores are free meanwhile.
    Wire,
}

/// Costs of a hand-over at one level. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelCost {
    /// L: from publishing (or the end of the last byte on the last link) to being seen; also for
    /// a credit on its way back.
    pub latency_ns: f64,
    /// o: time of a core for each token that it writes or reads.
    pub overhead_ns: f64,
    /// g: time that a token takes on a link beside its bytes. Where the reader carries the bytes,
    /// time that each further reader of a line takes: they are served one after the other.
    pub gap_ns: f64,
    /// G: time a byte takes, on each link or at the reader's core.
    pub byte_ns: f64,
    /// Time of a core for each byte that it hands to a link or takes from one: where the system
    /// copies what passes. 0 where links fetch it themselves.
    pub carry_ns: f64,
    /// Who spends G.
    pub carrier: Carrier,
}

impl LevelCost {
    /// Time of a core for a byte of a token that it reads; `read_ns` is that of its own memory.
    pub fn fetch_ns(&self, read_ns: f64) -> f64 {
        match self.carrier {
            Carrier::Reader => self.byte_ns,
            Carrier::Wire => read_ns + self.carry_ns,
        }
    }
}

/// Costs of all that ranks do. Times in nanoseconds, rates in nanoseconds a byte; 0 means free.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// By number of the [`Level`].
    pub levels: [LevelCost; 4],
    /// A core reads a byte of its own memory.
    pub read_ns: f64,
    /// A core writes a byte.
    pub write_ns: f64,
    /// A core folds a byte of a second or further source.
    pub fold_ns: f64,
    /// A core interprets one slice of a step.
    pub step_ns: f64,
    /// A call before its first step.
    pub call_ns: f64,
    /// A core turns to another rank, where ranks outnumber cores.
    pub switch_ns: f64,
    /// A byte on the memory of a socket that its cores share.
    pub memory_ns: f64,
    /// A byte on the way out of a last-level cache.
    pub cache_link_ns: f64,
    /// A byte on the link between sockets.
    pub cross_ns: f64,
    /// Bytes that a last-level cache holds.
    pub cache_bytes: f64,
    /// Changes of LL, and those of LL128.
    pub lines: [LinesCost; 2],
}

/// Costs of flagged lines beside slots: payload carries its own arrival, but passes through lines
/// on both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinesCost {
    /// Latency inside a node, as a part of that of slots: one line is fetched, not two in a row.
    pub latency: f64,
    /// More time of a core for each token that it writes or reads.
    pub overhead_ns: f64,
    /// Bytes that are carried for each byte of payload.
    pub bytes: f64,
    /// A byte of payload into lines and out of them again, on both cores together.
    pub copy_ns: f64,
}

impl LinesCost {
    /// Lines that cost what slots do.
    const LIKE_SLOTS: LinesCost = LinesCost {
        latency: 1.0,
        overhead_ns: 0.0,
        bytes: 1.0,
        copy_ns: 0.0,
    };
}

impl Costs {
    /// Bytes that a token takes on links between caches beside its own: the line that announces it.
    pub const LINE_BYTES: f64 = 64.0;

    /// Costs over a network of TCP sockets: the system takes a few microseconds of each core for a
    /// token, and copies it on both sides.
    pub fn over_sockets(mut self) -> Costs {
        self.levels[Level::Network as usize] = LevelCost {
            latency_ns: 8000.0,
            overhead_ns: 5000.0,
            gap_ns: 1000.0,
            byte_ns: 0.45,
            carry_ns: 0.2,
            carrier: Carrier::Wire,
        };
        self
    }

    /// The costs at a level.
    pub fn level(&self, level: Level) -> &LevelCost {
        &self.levels[level as usize]
    }

    /// The costs where pairs hand tokens over by this protocol. Both copies of a token are put on
    /// its reader, as the carrier of the bytes; wires carry the flags too.
    pub fn over(&self, protocol: Protocol) -> Costs {
        let lines = match protocol {
            Protocol::Simple => return *self,
            Protocol::Ll => self.lines[0],
            Protocol::Ll128 => self.lines[1],
        };
        let mut costs = *self;
        for level in &mut costs.levels {
            level.byte_ns *= lines.bytes;
            level.carry_ns *= lines.bytes;
            level.overhead_ns += lines.overhead_ns;
            if level.carrier == Carrier::Reader {
                level.latency_ns *= lines.latency;
                level.byte_ns += lines.copy_ns;
            }
        }
        costs.memory_ns *= lines.bytes;
        costs.cache_link_ns *= lines.bytes;
        costs.cross_ns *= lines.bytes;
        costs
    }

    /// The model of the published closed forms: at every level a token takes `start_ns` and
    /// `byte_ns` a byte, during which its sender sends and its receiver receives nothing else
    /// (single ports, full duplex); nothing else costs anything.
    pub fn plain(start_ns: f64, byte_ns: f64) -> Costs {
        let level = LevelCost {
            latency_ns: 0.0,
            overhead_ns: 0.0,
            gap_ns: start_ns,
            byte_ns,
            carry_ns: 0.0,
            carrier: Carrier::Wire,
        };
        Costs {
            levels: [level; 4],
            read_ns: 0.0,
            write_ns: 0.0,
            fold_ns: 0.0,
            step_ns: 0.0,
            call_ns: 0.0,
            switch_ns: 0.0,
            memory_ns: 0.0,
            cache_link_ns: 0.0,
            cross_ns: 0.0,
            cache_bytes: 0.0,
            lines: [LinesCost::LIKE_SLOTS; 2],
        }
    }
}

/// LL and LL128 as they were measured (`docs/tuning.md`).
const LINES_LL: LinesCost = LinesCost {
    latency: 1.0,
    overhead_ns: 15.0,
    bytes: 2.0,
    copy_ns: 0.45,
};
const LINES_LL128: LinesCost = LinesCost {
    latency: 1.0,
    overhead_ns: 15.0,
    bytes: 128.0 / 120.0,
    copy_ns: 0.25,
};

/// Costs that kolo assumes where nobody has measured: server cores over shared memory, and a
/// network of 100 Gbit/s.
///
/// **Hand-overs inside a node.** A hand-over passes two lines one after the other, the count and
/// then the payload, and the reader polls meanwhile: twice the time that a line takes from core to
/// core, and 40 ns. Of that time `core-to-core-latency` (N. Viennot, 2022,
/// <https://github.com/nviennot/core-to-core-latency>, and the matrices of others that it names)
/// gives medians, one way by compare and swap, in ns:
///
/// | processor | one cache | one socket | two sockets |
/// |---|---|---|---|
/// | AMD EPYC 7702 (Rome) | 25 | 131 | 270 |
/// | AMD EPYC 7R13 (Milan) | 25 | 111 to 132 | 305 |
/// | AMD EPYC (Genoa) | 27 | 89 to 96 | 189 |
/// | Intel Xeon (Cascade Lake) | 48 | - | 141 |
/// | Intel Xeon (Ice Lake) | 50 | - | 110 |
///
/// A core that collects lines of others takes 23 to 26 ns for each inside a socket, and 36 to 58
/// for those of the other one, because it has several on their way.
///
/// **Further readers of one line.** Figures of XHC (G. Katevenis, M. Ploumidis, M. Marazakis, "A
/// framework for hierarchical single-copy MPI collectives on multicore nodes", IEEE CLUSTER 2022
/// doi:10.1109/CLUSTER51413.2022.00026): about 2 ns each on a Xeon; a flat broadcast of a byte
/// takes 0.46 us and one socket by socket 0.30 on 2 x 28 cores (Ice Lake), 0.75 and 0.50 on 2 x 24
/// (Cascade Lake), so 10 to 20 ns for each further reader on the other socket.
///
/// **Links.** A cache complex of an EPYC reads about 60 GB/s over its link and has 16 or 32 MiB;
/// sockets pass about 40 GB/s to each other, and the memory of one about 170.
impl Default for Costs {
    fn default() -> Costs {
        let near = |latency_ns, overhead_ns, gap_ns, byte_ns| LevelCost {
            latency_ns,
            overhead_ns,
            gap_ns,
            byte_ns,
            carry_ns: 0.0,
            carrier: Carrier::Reader,
        };
        let network = LevelCost {
            latency_ns: 1500.0,
            overhead_ns: 300.0,
            gap_ns: 100.0,
            byte_ns: 0.08,
            carry_ns: 0.0,
            carrier: Carrier::Wire,
        };
        Costs {
            levels: [
                near(95.0, 25.0, 2.0, 0.035),
                near(280.0, 35.0, 3.0, 0.05),
                near(420.0, 45.0, 12.0, 0.07),
                network,
            ],
            read_ns: 0.03,
            write_ns: 0.04,
            fold_ns: 0.02,
            step_ns: 25.0,
            call_ns: 40.0,
            switch_ns: 600.0,
            memory_ns: 0.006,
            cache_link_ns: 0.016,
            cross_ns: 0.025,
            cache_bytes: 32.0 * 1024.0 * 1024.0,
            lines: [LINES_LL, LINES_LL128],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines cost on the cores and in memory inside a node, and bytes on wires; slots nothing.
    #[test]
    fn lines_change_what_they_touch() {
        let costs = Costs::default();
        assert_eq!(costs.over(Protocol::Simple), costs);
        for (protocol, lines) in [Protocol::Ll, Protocol::Ll128].into_iter().zip(costs.lines) {
            let over = costs.over(protocol);
            for level in Level::ALL {
                let (before, after) = (costs.level(level), over.level(level));
                let carried = before.byte_ns * lines.bytes;
                let (latency, copied) = match before.carrier {
                    Carrier::Reader => (lines.latency, lines.copy_ns),
                    Carrier::Wire => (1.0, 0.0),
                };
                assert_eq!(after.latency_ns, before.latency_ns * latency);
                assert_eq!(after.byte_ns, carried + copied);
                assert_eq!(after.overhead_ns, before.overhead_ns + lines.overhead_ns);
            }
            assert_eq!(over.memory_ns, costs.memory_ns * lines.bytes);
        }
        let plain = Costs::plain(1.0, 2.0);
        assert_eq!(plain.over(Protocol::Ll), plain);
    }
}
