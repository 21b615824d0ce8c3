//! Jobs that are made up, for tests to change.

use super::job::JobWays;
use super::said::{NetworkSaid, RankWays};
use super::tried::{self, RankTried};
use kolo::base::Rank;
use kolo::base::interfaces::class::FaceClass;
use kolo::base::interfaces::face::{FaceAddress, Signs};
use kolo::base::interfaces::ways::{FaceCard, FaceTable};
use kolo::topo::{CpuSet, RankPlace, SharedParts};
use kolo::transport::cma::MarkCard;

/// So many nodes, called `node1` and so on, of so many ranks, joined by sockets.
pub fn job(nodes: usize, per_node: usize) -> JobWays {
    let rank = |rank: usize| {
        let node = rank / per_node + 1;
        RankWays {
            place: Some(place(rank as u32, node)),
            is_direct: true,
            private_not: Some(("no size is set".into(), "KOLO_CMA_FROM=SIZE".into())),
            mark: Some(MarkCard {
                address: 8,
                word: 1,
            }),
            networks: ["plugin", "verbs", "ofi", "socket", "mpi"]
                .map(network)
                .to_vec(),
            table: table(node as u64, &[("eth0", &format!("10.77.0.{node}/24"))]),
            ..RankWays::default()
        }
    };
    settled(JobWays {
        ranks: (0..nodes * per_node).map(rank).collect(),
        tried: Vec::new(),
    })
}

/// Lets all ranks try again, after a change of tables.
pub fn settled(job: JobWays) -> JobWays {
    let nodes = job.nodes().expect("all have told");
    let ranks = (0..job.ranks.len() as u32).map(Rank);
    let tried: Vec<RankTried> = ranks
        .map(|rank| tried::of(rank, &nodes, &job.ranks))
        .collect();
    JobWays { tried, ..job }
}

/// Gives these ranks verbs.
pub fn give_verbs(job: &mut JobWays, ranks: std::ops::Range<usize>) {
    for rank in &mut job.ranks[ranks] {
        rank.networks[1] = NetworkSaid {
            kind: "verbs".into(),
            name: "verbs".into(),
            devices: vec!["mlx5_0".into(), "mlx5_1".into()],
            lends: true,
            ..NetworkSaid::default()
        };
        rank.networks[3] = NetworkSaid {
            kind: "socket".into(),
            why_not: "a better one was found".into(),
            ..NetworkSaid::default()
        };
    }
}

fn network(kind: &str) -> NetworkSaid {
    let why_not = match kind {
        "socket" => "",
        "verbs" => "no RDMA here: libibverbs knows none on this node",
        "plugin" => "there is no libnccl-net.so",
        _ => "it was not asked for",
    };
    NetworkSaid {
        kind: kind.into(),
        name: kind.into(),
        devices: vec!["eth0".into()],
        lends: true,
        why_not: why_not.into(),
        ..NetworkSaid::default()
    }
}

fn place(rank: u32, node: usize) -> RankPlace {
    RankPlace {
        rank: Rank(rank),
        host: format!("node{node}"),
        host_hash: node as u64,
        boot_id: "boot".into(),
        pid: 100 + rank,
        process: u64::from(rank) + 1,
        cpus: CpuSet::single(rank),
        cores: CpuSet::single(rank),
        quota: None,
        numa: CpuSet::single(0),
        sharing: SharedParts::default(),
    }
}

/// A table of interfaces with one address each.
pub fn table(machine: u64, faces: &[(&str, &str)]) -> FaceTable {
    let card = |&(name, text): &(&str, &str)| {
        let (ip, prefix) = text.split_once('/').expect("an address with its prefix");
        let places = vec![FaceAddress {
            ip: ip.parse().expect("an address"),
            prefix: prefix.parse().expect("a prefix"),
            scope: 0,
            port: 0,
        }];
        FaceCard {
            name: name.into(),
            class: FaceClass::of(name, &places, Signs::default(), (false, false)),
            places,
        }
    };
    FaceTable {
        machine,
        is_named: false,
        cards: faces.iter().map(card).collect(),
    }
}
