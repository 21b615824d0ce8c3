//! Large calls use all interfaces of each node alike, where they have as many channels.

use crate::drawn;
use crate::support::{inputs, report};
use kolo::plan::{Algorithm, Cards, Collective};
use kolo::price::{Cluster, Costs, LinkPlace};
use kolo::tune::{Asked, Inputs, Route, Setting, Table};

const DRAWN: usize = 60;
/// The busiest interface of a node carries so much more than all of them on average.
const MOST: f64 = 1.1;

#[test]
fn interfaces_of_a_node_carry_the_same() {
    let mut random = drawn::random("rails");
    let mut held = 0;
    for _ in 0..DRAWN {
        let nics = [2, 3, 4, 8][random.usize(..4)];
        let machine = Cluster {
            nics,
            ..Cluster::uniform(random.u32(2..=4), nics * random.u32(1..=2))
        };
        let costs = match random.bool() {
            true => Costs::default().over_sockets(),
            false => Costs::default(),
        };
        let plain = inputs(machine);
        let setting = Setting {
            costs,
            ..plain.setting.clone()
        };
        let table = Table::new(Inputs {
            setting: setting.clone(),
            channels: (1, nics.max(2) as u16),
            channel_bytes: 256 << 10,
            ..plain
        });
        let collective = [
            Collective::AllReduce,
            Collective::AllGather,
            Collective::ReduceScatter,
            Collective::Broadcast,
            Collective::Reduce,
            Collective::AllToAll,
        ][random.usize(..6)];
        let bytes = [4 << 20, 16 << 20][random.usize(..2)];
        let asked = Asked::plain(collective, bytes);
        let route = Route::of(&asked, &table).after(Cards::Private);
        let choice = route.choice(&asked, &table).expect("a plan");
        // The search gives trees their ports, which is no matter of turns.
        if matches!(choice.algorithm, Algorithm::Tree | Algorithm::NvlsTree) {
            continue;
        }
        let way = (choice.algorithm, choice.protocol);
        let report = report(collective, way, bytes, choice.channels, &setting);
        held += 1;
        for kind in [LinkPlace::NicOut, LinkPlace::NicIn] {
            let mut nodes = vec![vec![0; nics as usize]; setting.machine.nodes as usize];
            for link in report.links.iter().filter(|link| link.kind == kind) {
                nodes[(link.index / nics) as usize][(link.index % nics) as usize] = link.bytes;
            }
            for loads in nodes {
                let all = loads.iter().sum::<u64>() as f64;
                let most = *loads.iter().max().expect("interfaces") as f64;
                assert!(
                    most * f64::from(nics) <= MOST * all,
                    "{} {} on {} channels, {bytes} bytes, {}x{}: {} {loads:?}",
                    collective.name(),
                    choice.algorithm.name(),
                    choice.channels,
                    setting.machine.nodes,
                    setting.machine.per_node,
                    kind.name()
                );
            }
        }
    }
    assert!(held > DRAWN / 2, "{held}");
}
