//! Groups of jobs that are made up.

use super::super::made_up::{self, give_verbs, job, settled};
use super::*;

fn text(job: &JobWays) -> String {
    let lines = job
        .groups()
        .iter()
        .flat_map(WayGroup::lines)
        .collect::<Vec<_>>();
    lines.join("\n")
}

#[test]
fn a_job_of_two_nodes_has_a_line_for_each_place() {
    let job = job(2, 4);
    let groups = job.groups();
    let counts: Vec<_> = groups.iter().map(|one| (one.between, one.pairs)).collect();
    let wanted = [
        (Between::Process, 0),
        (Between::Node, 12),
        (Between::Nodes, 16),
    ];
    assert_eq!(counts, wanted);
    assert_eq!(
        text(&job),
        "in a process (no such ranks here): memory of the process; buffers are read where they \
         lie\n\
         on a node (12 pairs): memory of the node; koloMemAlloc and registered buffers are read \
         where they lie, others pass slots\n  \
         not CMA: no size is set; to use it: KOLO_CMA_FROM=SIZE\n\
         between nodes (16 pairs): socket over eth0; large data from and into where they lie, \
         copied by the system\n  \
         not plugin: there is no libnccl-net.so\n  \
         not verbs: no RDMA here: libibverbs knows none on this node\n  \
         not ofi: it was not asked for"
    );
}

#[test]
fn a_node_without_rdma_is_named_and_the_job_fails() {
    let mut job = job(3, 2);
    give_verbs(&mut job, 0..4);
    let groups = job.groups();
    let last = &groups[2];
    assert!(last.fails, "{last:?}");
    let way =
        "none, as ranks would take different networks: socket on node3; verbs on node1, node2";
    assert_eq!(last.way, way);
    let not: Vec<String> = last.not.iter().map(NotTaken::line).collect();
    let wanted = "not verbs on node3: no RDMA here: libibverbs knows none on this node";
    assert!(not.contains(&wanted.to_owned()), "{not:?}");
    assert!(
        not[0] == "not plugin: there is no libnccl-net.so",
        "{not:?}"
    );
    give_verbs(&mut job, 4..6);
    let all = text(&job);
    let way = "between nodes (12 pairs): verbs over mlx5_0, mlx5_1; koloMemAlloc and registered \
               buffers from and into where they lie";
    assert!(all.contains(way) && !all.contains("not verbs"), "{all}");
}

#[test]
fn what_joins_nodes_makes_groups() {
    let mut job = job(3, 1);
    job.ranks[2].table = made_up::table(3, &[("eth0", "10.99.0.3/24")]);
    let routed = text(&settled(job.clone()));
    let lines = [
        "between node1, node2 (1 pair): socket over eth0; large",
        "between node1, node2, node3 (2 pairs): socket over eth0, through a router; large",
    ];
    assert!(lines.iter().all(|line| routed.contains(line)), "{routed}");
    job.ranks[2].table = made_up::table(3, &[("docker0", "172.17.0.1/16")]);
    job.ranks[0].table =
        made_up::table(1, &[("docker0", "172.17.0.1/16"), ("eth0", "10.77.0.1/24")]);
    let job = settled(job);
    let lost: Vec<WayGroup> = job.groups().into_iter().filter(|one| one.fails).collect();
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(
        lost[0]
            .way
            .starts_with("none, as no interfaces join them: docker0"),
        "{lost:?}"
    );
    assert_eq!(lost[0].nodes, ["node1", "node3"]);
}

#[test]
fn processes_of_a_machine_that_count_as_nodes_hear_of_the_setting() {
    let mut job = job(2, 1);
    for rank in &mut job.ranks {
        let place = rank.place.as_mut().expect("a place");
        (place.host, place.boot_id) = ("node1".into(), String::new());
    }
    let line = "not memory of the node: a setting lets processes of one machine count as \
                different nodes; to use it: unset KOLO_SHM_DISABLE and KOLO_HOSTID";
    assert_eq!(text(&job).matches(line).count(), 1, "{}", text(&job));
    let pair = job.pair([0, 1]).unwrap();
    assert!(
        pair.not[0].line() == line && pair.not.len() == 4,
        "{pair:?}"
    );
    // Two machines that a setting names are two.
    let place = job.ranks[1].place.as_mut().expect("a place");
    place.host = "node2".into();
    assert!(!text(&job).contains("not memory"), "{}", text(&job));
}

#[test]
fn cma_is_told_with_its_size_or_the_refusal() {
    let mut job = job(2, 2);
    for rank in &mut job.ranks {
        (rank.private_from, rank.private_not) = (Some(1 << 20), None);
    }
    // Tried as if all could be read.
    for tried in &mut job.tried {
        tried.refused = None;
    }
    let all = text(&job);
    let line = "others by CMA from 1 MiB on, in communicators of one node";
    assert!(
        all.contains("on a node (2 pairs)") && all.contains(line),
        "{all}"
    );
    job.tried[3].refused = Some(("cannot read".into(), "sysctl".into()));
    let all = text(&job);
    assert!(
        all.contains("on node1 (1 pair): ") && all.contains(line),
        "{all}"
    );
    let line = "others pass slots\n  not CMA: cannot read; to use it: sysctl";
    assert!(
        all.contains("on node2 (1 pair): ") && all.contains(line),
        "{all}"
    );
    for rank in &mut job.ranks {
        rank.is_direct = false;
        rank.private_not = Some(("KOLO_DIRECT is off".into(), "unset KOLO_DIRECT".into()));
    }
    let all = text(&job);
    assert_eq!(
        all.matches("not in place: KOLO_DIRECT is off; to use it: unset KOLO_DIRECT")
            .count(),
        2
    );
    assert!(!all.contains("where they lie, others"), "{all}");
}

#[test]
fn one_pair_has_its_own_words() {
    let mut job = job(3, 2);
    give_verbs(&mut job, 4..6);
    let of = |a, b| job.pair([a, b]).unwrap();
    assert_eq!(of(0, 0).between, Between::Process);
    let mates = of(2, 3);
    assert_eq!(
        (mates.between, mates.nodes.as_slice()),
        (Between::Node, &["node2".to_owned()][..])
    );
    let far = of(0, 3);
    assert!(
        !far.fails && far.way.starts_with("socket over eth0"),
        "{far:?}"
    );
    assert_eq!((far.nodes.join(" "), far.pairs), ("node1 node2".into(), 1));
    let unlike = of(0, 5);
    assert!(unlike.fails && unlike.way.ends_with("different networks: socket and verbs"));
    let error = job.pair([1, 6]).unwrap_err();
    assert!(error.what.contains("no rank 6: 6 ranks"), "{error}");
}

/// The figures of a large job, in few lines.
#[test]
fn a_thousand_ranks_are_three_lines_and_their_reasons() {
    let mut job = job(250, 4);
    let groups = job.groups();
    let all: u64 = groups.iter().map(|one| one.pairs).sum();
    assert_eq!((groups.len(), all), (3, 1000 * 999 / 2));
    assert_eq!(text(&job).lines().count(), 7);
    give_verbs(&mut job, 8..1000);
    let all = text(&job);
    assert!(
        all.contains("socket on node1, node2; verbs on node3, node4"),
        "{all}"
    );
    assert!(all.contains(" and 244 more"), "{all}");
    assert_eq!(all.lines().count(), 7, "{all}");
}
