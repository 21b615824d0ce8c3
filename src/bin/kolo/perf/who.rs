//! The ranks of a measurement, as they describe themselves: process, host, cores, memory.

use super::options::PerfArgs;
use super::team::Member;
use super::{device, memory};
use crate::facts;
use kolo::base::{Error, Rank, Result};
use kolo::topo::graph::TopoFile;
use kolo::topo::{Machine, RankPlace};
use serde_json::{Value, json};

/// All ranks.
pub struct Who {
    /// In rank order.
    pub places: Vec<Value>,
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
