//! Orders of ranks whose places are made up, on machines that are described.

use super::*;
use crate::comm::start::by_switch;
use crate::config::Sources;
use crate::topo::Usable;

fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/topologies");
    folder.join(name)
}

fn settings(more: &[(&str, &str)]) -> Settings {
    let caller = more.iter().map(|(k, v)| (k.to_string(), v.to_string()));
    let sources = Sources {
        caller: caller.collect(),
        ..Sources::default()
    };
    Settings::load_from(&sources).unwrap()
}

/// Ranks bound to one processor each.
fn bound(machine: &Machine, pus: &[u32]) -> Vec<RankPlace> {
    let place = |(rank, &pu): (u32, &u32)| {
        let usable = Usable::of(machine, &CpuSet::single(pu), None).unwrap();
        RankPlace::new(Rank(rank), "node", None, "boot", machine, usable)
    };
    (0..).zip(pus).map(place).collect()
}

/// Runs [`say`] for every rank and [`heard`] once, without the exchange between them.
fn agreed(
    settings: &Settings,
    graph: Option<&GraphText>,
    places: &[RankPlace],
    nodes: &Nodes,
) -> Result<Nodes> {
    let said: Vec<Speech> = (0..places.len() as u32)
        .map(|rank| say(Rank(rank), settings, graph, places, nodes).0)
        .collect();
    let speakers = said.iter().filter(|&said| *said != Speech::Silent).count();
    assert_eq!(speakers, nodes.count() as usize, "one rank a node speaks");
    heard(
        &said.iter().collect::<Vec<_>>(),
        settings,
        places,
        nodes.clone(),
    )
    .map(|(nodes, _)| nodes)
}

#[test]
fn rings_stay_on_a_socket_as_long_as_they_can() {
    let path = file("intel_2s_2nic.xml");
    let machine = Machine::from_xml_file(&path).unwrap();
    let settings = settings(&[("topo_file", path.to_str().unwrap())]);
    // Dealt to the two sockets in turn, as some launchers do.
    let sockets: Vec<u32> = (0..2)
        .map(|at| machine.numa[at].cpus.first().unwrap())
        .collect();
    let pus: Vec<u32> = (0..8)
        .map(|rank| sockets[rank % 2] + rank as u32 / 2)
        .collect();
    let places = bound(&machine, &pus);
    let nodes = agreed(&settings, None, &places, &Nodes::one(8)).unwrap();
    let crossings = |order: &[u32]| {
        let next = order.iter().cycle().skip(1);
        order
            .iter()
            .zip(next)
            .filter(|(a, b)| *a % 2 != *b % 2)
            .count()
    };
    let ring = nodes.ring(0).expect("not the order of ranks");
    assert_eq!(crossings(ring), 2, "{ring:?}");
    let chain = nodes.chain(0, 0).ranks;
    assert!(crossings(&chain) <= 2, "{chain:?}");
    // Dealt in blocks, the order of ranks is as good as any.
    let pus: Vec<u32> = (0..8)
        .map(|rank| sockets[rank / 4] + rank as u32 % 4)
        .collect();
    let nodes = agreed(&settings, None, &bound(&machine, &pus), &Nodes::one(8)).unwrap();
    let ring: Vec<u32> = nodes.along_ring(0, 0).into_owned();
    let halves = |order: &[u32]| {
        let next = order.iter().cycle().skip(1);
        order
            .iter()
            .zip(next)
            .filter(|(a, b)| *a / 4 != *b / 4)
            .count()
    };
    assert_eq!(halves(&ring), 2, "{ring:?}");
}

#[test]
fn a_machine_without_near_and_far_changes_nothing() {
    let path = file("laptop.xml");
    let machine = Machine::from_xml_file(&path).unwrap();
    let settings = settings(&[("topo_file", path.to_str().unwrap())]);
    let places = bound(&machine, &[6, 0, 4, 2]);
    let nodes = agreed(&settings, None, &places, &Nodes::one(4)).unwrap();
    assert_eq!(nodes, Nodes::one(4));
}

#[test]
fn a_graph_file_counts_on_any_machine_and_for_every_node() {
    let path = file("laptop.xml");
    let machine = Machine::from_xml_file(&path).unwrap();
    let settings = settings(&[("topo_file", path.to_str().unwrap())]);
    let text = "version = 1\nranks = 3\nring_bandwidth = 8.0\ntree_bandwidth = 8.0\n\
                [[ring]]\norder = [0, 2, 1]\n[[tree]]\nchain = [2, 0, 1]\n";
    let graph = |text: &str| GraphText {
        text: text.to_string(),
        name: "g.toml".to_string(),
    };
    let places = bound(&machine, &[0, 2, 4]);
    let one = agreed(&settings, Some(&graph(text)), &places, &Nodes::one(3)).unwrap();
    assert_eq!(one.ring(1), Some(&[0, 2, 1][..]));
    assert_eq!(one.chain(1, 0).ranks, [2, 0, 1]);
    // For two nodes it must say how data get from one to the other.
    let two_nodes = Nodes::uniform(2, 3);
    let places = bound(&machine, &[0, 2, 4, 0, 2, 4]);
    let error = agreed(&settings, Some(&graph(text)), &places, &two_nodes).unwrap_err();
    assert!(error.to_string().contains("no network port"), "{error}");
    let short = text.replace("order = [0, 2, 1]", "order = [0, 2]");
    let error = agreed(&settings, Some(&graph(&short)), &places, &two_nodes).unwrap_err();
    for word in ["g.toml", "line 6", "rank 1 is missing"] {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
}

#[test]
fn strange_words_are_refused() {
    let machine = Machine::from_xml_file(&file("laptop.xml")).unwrap();
    let places = bound(&machine, &[0, 2]);
    let heard = |said: &[Speech], nodes| {
        let said: Vec<&Speech> = said.iter().collect();
        heard(&said, &settings(&[]), &places, nodes)
    };
    let nothing = Speech::Graph(NodeGraph::default());
    for said in [Speech::Silent, nothing] {
        assert!(heard(&[said, Speech::Silent], Nodes::one(2)).is_err());
    }
    assert!(heard(&[Speech::Natural, Speech::Silent], Nodes::one(2)).is_ok());
    let two = [Speech::Natural, Speech::Silent];
    assert!(heard(&two, Nodes::every(2, 1)).is_err());
}

/// One node that found nothing: all keep their order, on every rank alike.
#[test]
fn a_node_that_knows_of_no_order_keeps_the_others_from_none() {
    let machine = Machine::from_xml_file(&file("laptop.xml")).unwrap();
    let places = bound(&machine, &[0, 2]);
    let nodes = || Nodes::every(2, 1);
    let (graph, problem) = say(Rank(0), &settings(&[]), None, &places, &nodes());
    assert!(problem.is_none() && matches!(graph, Speech::Graph(_)));
    for said in [
        vec![Speech::Natural, graph.clone()],
        vec![graph, Speech::Natural],
    ] {
        let (found, channels) = heard(
            &said.iter().collect::<Vec<_>>(),
            &settings(&[]),
            &places,
            nodes(),
        )
        .unwrap();
        assert!(
            channels.is_none() && found == nodes(),
            "no orders but that of the ranks"
        );
    }
}

/// Every second node hangs on the other switch; each has two ranks.
#[test]
fn nodes_of_one_switch_follow_each_other() {
    let machine = Machine::from_xml_file(&file("laptop.xml")).unwrap();
    let ranks = 8;
    let mut places = bound(&machine, &[0, 2, 0, 2, 0, 2, 0, 2]);
    for (place, rank) in places.iter_mut().zip(0..) {
        place.host_hash = rank / 2;
    }
    let nodes = || Nodes::every(ranks, 2);
    let quiet = settings(&[("topo_address", "ignore")]);
    let order = |address: &dyn Fn(u32) -> String| {
        let said: Vec<String> = (0..ranks)
            .map(|rank| match rank % 2 {
                0 => address(rank / 2),
                _ => String::new(),
            })
            .collect();
        let said: Vec<&str> = said.iter().map(String::as_str).collect();
        let nodes = by_switch::heard(&said, &places, nodes()).unwrap();
        let found = agreed(&quiet, None, &places, &nodes).unwrap();
        let numbers: Vec<u32> = (0..ranks / 2).map(|it| found.ranks_of(it)[0]).collect();
        let ring = found
            .ring(0)
            .map(|ring| ring.iter().map(|rank| rank / 2).collect());
        (numbers, ring.unwrap_or_default())
    };
    let mine = |node: u32| format!("spine/leaf{}/{node}", node % 2);
    let (numbers, ring): (_, Vec<u32>) = order(&mine);
    assert_eq!(numbers, [0, 4, 2, 6]);
    assert_eq!(ring, [0, 0, 2, 2, 1, 1, 3, 3], "the spine is crossed twice");
    // Where a node does not say, or all say the same, the order of the ranks stays.
    let unknown = |node: u32| if node == 3 { String::new() } else { mine(node) };
    assert_eq!(order(&unknown).0, [0, 2, 4, 6]);
    assert_eq!(order(&|_| mine(1)).0, [0, 2, 4, 6]);
    // A person may say it; this process has no word of Slurm's. One rank speaks for its node.
    let named = settings(&[("topo_address", "spine.leaf7")]);
    let say = |rank, settings| by_switch::say(Rank(rank), settings, &places, &nodes());
    assert_eq!(say(2, &named), format!("spine/leaf7/{}", places[2].host));
    assert_eq!(
        [say(3, &named), say(2, &quiet), say(2, &settings(&[]))],
        ["", "", ""]
    );
}
