//! Machines as `lstopo --of xml` describes them, ranks that are dealt to their cores, and what
//! those share.

use super::bound::bound;
use kolo::bootstrap::ThreadsBootstrap;
use kolo::comm::{CommConfig, Communicator, RawCalls};
use kolo::plan::Nodes;
use std::fmt::Write;
use std::fs;

/// A machine: the cores of each cache, by socket and NUMA node.
pub struct Described {
    pub name: &'static str,
    /// Whether a NUMA node lies in a cache, and not the other way round.
    pub nodes_in_caches: bool,
    pub sockets: Vec<Vec<Vec<u32>>>,
}

/// Where a rank sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    pub core: u32,
    pub cache: u32,
    pub socket: u32,
}

/// How ranks are dealt to the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dealing {
    /// In the order of the cores.
    InOrder,
    /// To the sockets in turn.
    ToSockets,
    /// To the caches in turn.
    ToCaches,
    /// As far apart as can be, in the order of the cores.
    Spread,
    /// Anyhow.
    Drawn(u64),
}

/// Machines of 192 cores, and one where ranks share cores.
pub fn all() -> Vec<Described> {
    let alike = |sockets: usize, nodes: usize, caches: usize, cores: u32| {
        vec![vec![vec![cores; caches]; nodes]; sockets]
    };
    let usual = |name, sockets| Described {
        name,
        nodes_in_caches: false,
        sockets,
    };
    vec![
        usual("2 x 12 caches of 8", alike(2, 1, 12, 8)),
        usual("2 x 4 NUMA nodes of 3 caches of 8", alike(2, 4, 3, 8)),
        Described {
            name: "2 caches of 4 clusters of 24",
            nodes_in_caches: true,
            sockets: alike(2, 4, 1, 24),
        },
        usual(
            "sockets of 112 and 80, caches of 6 to 16",
            vec![
                vec![vec![16, 8, 8, 6, 10, 8], vec![16, 16, 16, 8]],
                vec![vec![8, 8, 8, 8, 16], vec![16, 16]],
            ],
        ),
        usual(
            "2 x 2 caches of 8, with several ranks a core",
            alike(2, 1, 2, 8),
        ),
    ]
}

impl Described {
    /// The spots of the cores, in their order.
    pub fn spots(&self) -> Vec<Spot> {
        let (mut spots, mut caches) = (Vec::new(), 0);
        for (socket, nodes) in (0..).zip(&self.sockets) {
            for cores in nodes.iter().flatten() {
                // One cache of the socket has all clusters.
                let cache = if self.nodes_in_caches { socket } else { caches };
                caches += 1;
                let first = spots.len() as u32;
                spots.extend((0..*cores).map(|core| Spot {
                    core: first + core,
                    cache,
                    socket,
                }));
            }
        }
        spots
    }

    /// The spots of so many ranks.
    pub fn dealt(&self, dealing: Dealing, nranks: u32) -> Vec<Spot> {
        let mut spots = self.spots();
        let cores = spots.len();
        // The number of a spot among those of its part comes before that of the part.
        let in_turn = |spots: &mut Vec<Spot>, part: fn(&Spot) -> u32| {
            let number = |at: usize| {
                let before = spots[..at].iter();
                before
                    .filter(|other| part(other) == part(&spots[at]))
                    .count()
            };
            let mut numbered: Vec<_> = (0..cores).map(|at| (number(at), spots[at])).collect();
            numbered.sort_by_key(|&(number, _)| number);
            *spots = numbered.into_iter().map(|(_, spot)| spot).collect();
        };
        match dealing {
            Dealing::InOrder | Dealing::Spread => {}
            Dealing::ToSockets => in_turn(&mut spots, |spot| spot.socket),
            Dealing::ToCaches => in_turn(&mut spots, |spot| spot.cache),
            Dealing::Drawn(seed) => fastrand::Rng::with_seed(seed).shuffle(&mut spots),
        }
        let n = nranks as usize;
        let at = |rank: usize| match dealing {
            Dealing::Spread => rank * cores / n,
            // Ranks that share a core follow each other.
            _ if n > cores => rank * cores / n,
            _ => rank,
        };
        (0..n).map(|rank| spots[at(rank)]).collect()
    }

    /// The file of `lstopo`, without what nobody reads.
    fn xml(&self) -> String {
        let mut text = String::from(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<topology version=\"2.0\">\n\
             <object type=\"Machine\" os_index=\"0\">\n",
        );
        let (mut first, mut node) = (0, 0);
        for (socket, nodes) in self.sockets.iter().enumerate() {
            let _ = writeln!(text, "<object type=\"Package\" os_index=\"{socket}\">");
            let cache = "<object type=\"L3Cache\" depth=\"3\" cache_type=\"0\">\n";
            let (around, inside) = if self.nodes_in_caches {
                (cache, "<object type=\"Group\">\n")
            } else {
                ("<object type=\"Group\">\n", cache)
            };
            if self.nodes_in_caches {
                text.push_str(around);
            }
            for caches in nodes {
                if !self.nodes_in_caches {
                    text.push_str(around);
                }
                let set = list_of(first, caches.iter().sum());
                let _ = writeln!(
                    text,
                    "<object type=\"NUMANode\" os_index=\"{node}\" cpuset=\"{set}\"/>"
                );
                node += 1;
                for &cores in caches {
                    text.push_str(inside);
                    for pu in first..first + cores {
                        let _ = writeln!(
                            text,
                            "<object type=\"Core\"><object type=\"PU\" os_index=\"{pu}\"/></object>"
                        );
                    }
                    text.push_str("</object>\n");
                    first += cores;
                }
                if !self.nodes_in_caches {
                    text.push_str("</object>\n");
                }
            }
            if self.nodes_in_caches {
                text.push_str("</object>\n");
            }
            text.push_str("</object>\n");
        }
        text + "</object>\n</topology>\n"
    }

    /// The path of its file.
    fn file(&self) -> String {
        let name = self.name.replace([' ', ','], "_");
        let path = format!("{}/{name}.xml", env!("CARGO_TARGET_TMPDIR"));
        // Whoever reads it meanwhile finds one or the other whole.
        let new = format!("{path}.{:?}", std::thread::current().id());
        fs::write(&new, self.xml()).expect("written");
        fs::rename(&new, &path).expect("renamed");
        path
    }

    /// Settings of its ranks: these, and those that all of them need.
    pub fn config(&self, settings: &[(&str, &str)]) -> CommConfig {
        let file = self.file();
        // There are fewer cores than the file says, for ranks and for threads of kolo.
        let usual = [
            ("topo_file", &*file),
            ("affinity", "none"),
            ("wait", "sleep"),
        ];
        let all = usual.iter().chain(settings);
        CommConfig {
            overrides: all.map(|(k, v)| (k.to_string(), v.to_string())).collect(),
            ..CommConfig::default()
        }
    }

    /// A communicator of threads, each bound to the core of its spot.
    pub fn made(&self, spots: &[Spot], settings: &[(&str, &str)]) -> Vec<Communicator> {
        let config = self.config(settings);
        let members = ThreadsBootstrap::group(spots.len() as u32);
        std::thread::scope(|scope| {
            let made = members.into_iter().zip(spots).map(|(member, spot)| {
                let (config, core) = (&config, spot.core);
                let init = move || Communicator::init_bootstrap(Box::new(member), config);
                scope.spawn(move || bound(core, init))
            });
            let made: Vec<_> = made.collect();
            let joined = made.into_iter().map(|thread| thread.join());
            joined
                .map(|made| made.expect("no panic").expect("init"))
                .collect()
        })
    }
}

/// Processors in the way of hwloc, the highest word first.
fn list_of(first: u32, count: u32) -> String {
    let mut words = [0_u32; 6];
    for pu in first..first + count {
        words[pu as usize / 32] |= 1 << (pu % 32);
    }
    let words = words.iter().rev().map(|word| format!("0x{word:08x}"));
    words.collect::<Vec<_>>().join(",")
}

/// The node whose ranks sit on these spots.
pub fn nodes(spots: &[Spot]) -> Nodes {
    let caches = spots.iter().map(|spot| spot.cache).collect();
    let sockets = spots.iter().map(|spot| spot.socket).collect();
    Nodes::one(spots.len() as u32).with_parts(&[caches, sockets])
}
