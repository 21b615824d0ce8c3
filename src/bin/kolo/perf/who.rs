//! The ranks of a measurement, as they describe themselves: process, host, cores, memory.

use super::options::PerfArgs;
use super::team::Member;
use super::{device, memory};
use crate::facts;
use kolo::base::{Error, Rank, Result};
use kolo::comm::Inspect;
use kolo::topo::graph::TopoFile;
use kolo::topo::{Machine, RankPlace};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// All ranks.
pub struct Who {
    /// In rank order.
    pub places: Vec<Value>,
}

/// Ranks of a node that share its cores.
#[derive(Debug, PartialEq, Eq)]
pub struct SharedCores {
    pub host: String,
    pub ranks: usize,
    pub cores: usize,
}

/// The numbers of a list such as `0-3,8`.
fn numbers(list: &str) -> impl Iterator<Item = u32> + '_ {
    list.split(',')
        .filter_map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            Some(first.trim().parse::<u32>().ok()?..=last.trim().parse().ok()?)
        })
        .flatten()
}

/// One rank as the list before the table shows it.
pub struct Seen<'a> {
    pub group: u64,
    pub pid: u64,
    pub host: &'a str,
    /// Its number among the ranks of its node; with `NCCL_TESTS_DEVICE` among those of its process,
    /// from that number on.
    pub device: u64,
    pub cores: &'a str,
    pub name: &'a str,
    /// Where its GPU is plugged in, if it has one; `name` and `device` are the GPU's then.
    pub pci: Option<&'a str>,
}

impl Who {
    /// Every rank calls it.
    ///
    /// # Errors
    /// A machine that cannot be read; kolo's.
    pub fn gather(member: &Member) -> Result<Who> {
        let rank = Rank(member.team.rank());
        let machine = match member.comm.settings().topo_file() {
            Some(file) => TopoFile::machine(file)?,
            None => None,
        };
        let machine = match &machine {
            Some(machine) => machine,
            None => Machine::detect()?,
        };
        let place = RankPlace::here(rank, None, machine)?;
        let mut cores = place.cores.to_string();
        if cores.len() > 100 {
            cores = format!("{} of them", place.core_count());
        }
        let name: String = facts::processor().chars().take(60).collect();
        let gpu = member.device.map(device::described).transpose()?;
        let mut mine = json!({
            "pid": place.pid, "host": place.host, "node": place.host_hash.to_string(),
            "cores": cores, "name": name, "group": member.color,
            "memory": memory::available(),
        });
        if let Some(gpu) = gpu {
            mine["gpu"] = gpu;
        }
        let texts = member.gather_text(&mine.to_string())?;
        let places = texts
            .iter()
            .map(|text| {
                serde_json::from_str(text)
                    .map_err(|_| Error::internal(format!("a rank describes itself as {text}")))
            })
            .collect::<Result<_>>()?;
        Ok(Who { places })
    }

    /// Whether all ranks are on one machine.
    pub fn same_host(&self) -> bool {
        self.nodes() == 1
    }

    /// Machines.
    pub fn nodes(&self) -> usize {
        let mut nodes: Vec<_> = self.places.iter().map(|place| &place["node"]).collect();
        nodes.sort_by_key(|node| node.to_string());
        nodes.dedup();
        nodes.len()
    }

    /// Nodes on which there are more ranks than cores that they may use; where cores are only
    /// counted, as many as there are at least.
    pub fn crowds(&self) -> Vec<SharedCores> {
        let mut nodes: Vec<(&Value, SharedCores, BTreeSet<u32>)> = Vec::new();
        for place in &self.places {
            let node = &place["node"];
            let at = nodes.iter().position(|known| known.0 == node);
            let at = at.unwrap_or_else(|| {
                let host = place["host"].as_str().unwrap_or("?").to_owned();
                let (ranks, cores) = (0, 0);
                nodes.push((node, SharedCores { host, ranks, cores }, BTreeSet::new()));
                nodes.len() - 1
            });
            let (_, crowd, cores) = &mut nodes[at];
            crowd.ranks += 1;
            let text = place["cores"].as_str().unwrap_or("");
            let counted = text
                .strip_suffix(" of them")
                .and_then(|count| count.parse().ok());
            crowd.cores = crowd.cores.max(counted.unwrap_or(0));
            cores.extend(numbers(text));
        }
        let all = nodes.into_iter().map(|(_, crowd, cores)| SharedCores {
            cores: crowd.cores.max(cores.len()),
            ..crowd
        });
        all.filter(|crowd| 0 < crowd.cores && crowd.cores < crowd.ranks)
            .collect()
    }

    /// The ranks for the list, in order; devices of a process begin with `first`, if it is given.
    pub fn list(&self, first: Option<u32>) -> impl Iterator<Item = Seen<'_>> {
        self.places.iter().enumerate().map(move |(rank, place)| {
            let beside = |other: &&Value| {
                let same = other["node"] == place["node"];
                same && (first.is_none() || other["pid"] == place["pid"])
            };
            let gpu = &place["gpu"];
            let before = self.places[..rank].iter().filter(beside).count();
            Seen {
                group: place["group"].as_u64().unwrap_or(0),
                pid: place["pid"].as_u64().unwrap_or(0),
                host: place["host"].as_str().unwrap_or("?"),
                device: gpu["number"]
                    .as_u64()
                    .unwrap_or(u64::from(first.unwrap_or(0)) + before as u64),
                cores: place["cores"].as_str().unwrap_or("?"),
                name: gpu["name"]
                    .as_str()
                    .unwrap_or_else(|| place["name"].as_str().unwrap_or("")),
                pci: gpu["pci"].as_str(),
            }
        })
    }

    /// The greatest size that every rank has memory for.
    pub fn most_bytes(&self, args: &PerfArgs) -> u64 {
        let most = |place: &Value| {
            let same = |other: &&Value| other["node"] == place["node"];
            let ranks = self.places.iter().filter(same).count() as u64;
            let available = place["memory"].as_u64().unwrap_or(0);
            let of_host = memory::most_bytes(available, ranks, args.checks > 0);
            of_host.min(self.most_of_gpu(&place["gpu"]))
        };
        self.places.iter().map(most).min().unwrap_or(0)
    }
}

impl Who {
    /// The greatest size that a GPU has memory for; no limit where there is none.
    fn most_of_gpu(&self, gpu: &Value) -> u64 {
        let Some(free) = gpu["memory"].as_u64() else {
            return u64::MAX;
        };
        let same = |other: &&Value| other["gpu"]["uuid"] == gpu["uuid"];
        let ranks = self.places.iter().filter(same).count() as u64;
        memory::most_bytes(free, ranks, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_share_cores_are_found() {
        let place = |node: &str, cores: &str| {
            let host = format!("host of {node}");
            json!({ "node": node, "host": host, "cores": cores })
        };
        let places = vec![
            place("a", "0-1"),
            place("b", "0,2-4"),
            place("a", "1"),
            place("b", "0,2-4"),
            place("a", "0-1"),
            place("c", "64 of them"),
        ];
        let crowds = Who { places }.crowds();
        let (host, ranks, cores) = ("host of a".to_owned(), 3, 2);
        assert_eq!(crowds, [SharedCores { host, ranks, cores }]);
    }

    #[test]
    fn devices_count_on_nodes_or_from_a_number_in_processes() {
        let place = |node: &str, pid: u32| json!({ "node": node, "pid": pid });
        let who = Who {
            places: vec![
                place("a", 1),
                place("a", 1),
                place("b", 1),
                place("a", 2),
                place("b", 7),
            ],
        };
        let devices = |first| -> Vec<u64> { who.list(first).map(|seen| seen.device).collect() };
        assert_eq!(devices(None), [0, 1, 0, 2, 1]);
        assert_eq!(devices(Some(4)), [4, 5, 4, 4, 4]);
        assert_eq!((who.nodes(), who.same_host()), (2, false));
    }

    #[test]
    fn ranks_of_one_gpu_share_its_memory() {
        let gpu = |number: u32, uuid: &str, memory: u64| {
            let gpu = json!({
                "number": number, "uuid": uuid, "memory": memory, "pci": "0:1", "name": "A GPU",
            });
            json!({ "node": "a", "pid": 1, "name": "A CPU", "gpu": gpu })
        };
        let who = Who {
            places: vec![
                gpu(3, "x", 4 << 30),
                gpu(0, "y", 9 << 30),
                gpu(3, "x", 4 << 30),
            ],
        };
        let most = |rank: usize| who.most_of_gpu(&who.places[rank]["gpu"]);
        assert_eq!((most(0), most(1)), ((3 << 30) / 4, 4 << 30));
        assert_eq!(who.most_of_gpu(&Value::Null), u64::MAX);
        let seen: Vec<_> = who
            .list(Some(7))
            .map(|seen| (seen.device, seen.name))
            .collect();
        assert_eq!(seen, [(3, "A GPU"), (0, "A GPU"), (3, "A GPU")]);
        assert_eq!(who.list(None).next().and_then(|seen| seen.pci), Some("0:1"));
    }
}
