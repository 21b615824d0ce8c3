//! Trials of a node with others: connections by the ways that kolo would use, and the names of the
//! other nodes.

use super::facts::{NodeSeen, Trial, Trials, partners};
use kolo::base::interfaces::ways::{self, Barred};
use kolo::bootstrap::reach;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

/// How long one trial may take. A link on which nobody answers is told by the system after 3 s.
pub const LIMIT: Duration = Duration::from_millis(3500);

/// A connection to try.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tryout {
    from: (String, SocketAddr),
    node: usize,
    to: (String, SocketAddr),
}

/// Trials of node `me`: with each partner the ways that a communicator would use between them.
fn questions(me: usize, nodes: &[NodeSeen]) -> Vec<Tryout> {
    let mut found = Vec::new();
    for node in partners(me, nodes.len()) {
        let (own, there) = (&nodes[me].facts.table, &nodes[node].facts.table);
        let all = ways::ways(own, there, &Barred::new());
        let open = ways::best(&all).iter().filter(|way| way.to.port != 0);
        found.extend(open.map(|way| Tryout {
            from: (own.cards[way.exit].name.clone(), way.from.own()),
            node,
            to: (
                there.cards[way.entry].name.clone(),
                way.to.at(way.to.port, way.from.scope),
            ),
        }));
    }
    found
}

/// All that node `me` tries.
pub fn of(me: usize, nodes: &[NodeSeen]) -> Trials {
    let others = partners(me, nodes.len());
    let names: Vec<String> = others
        .iter()
        .map(|&node| nodes[node].name.clone())
        .collect();
    let asked = names.clone();
    let asking = thread::Builder::new().spawn(move || reach::unresolved(&asked, LIMIT));
    let questions = questions(me, nodes);
    let pairs: Vec<(SocketAddr, SocketAddr)> = questions
        .iter()
        .map(|question| (question.from.1, question.to.1))
        .collect();
    let answers = reach::try_all(&pairs, LIMIT);
    let trial = |(question, answer): (Tryout, _)| Trial {
        from: question.from.0,
        node: question.node,
        to: question.to.0,
        address: question.to.1,
        answer,
    };
    let links = questions.into_iter().zip(answers).map(trial).collect();
    // Without a thread nothing is said of names: the limits have a check of their own.
    let faults = asking
        .ok()
        .and_then(|asking| asking.join().ok())
        .unwrap_or_default();
    let unknown = names
        .into_iter()
        .zip(faults)
        .filter_map(|(name, why)| Some((name, why?)));
    Trials {
        links,
        names: unknown.collect(),
        clock: (0.0, 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{healthy, lead};
    use super::*;

    fn shown(me: usize, nodes: &[NodeSeen]) -> Vec<(String, usize, String)> {
        let all = questions(me, nodes).into_iter();
        all.map(|one| (one.from.0, one.node, one.to.1.ip().to_string()))
            .collect()
    }

    #[test]
    fn what_the_network_would_use_is_tried_and_nothing_else() {
        let mut job = healthy(3, 1);
        for (at, node) in job.nodes.iter_mut().enumerate() {
            lead(node, "eth1", &format!("10.77.1.{}/24", at + 1));
            lead(node, "docker0", "172.17.0.1/16");
            lead(node, "veth12", "fe80::1/64");
        }
        let wanted = [
            ("eth0", 0, "10.77.0.1"),
            ("eth1", 0, "10.77.1.1"),
            ("eth0", 2, "10.77.0.3"),
            ("eth1", 2, "10.77.1.3"),
        ];
        let wanted = wanted.map(|(from, node, to)| (from.to_string(), node, to.to_string()));
        assert_eq!(shown(1, &job.nodes), wanted);
    }

    #[test]
    fn nodes_without_a_common_subnet_try_what_a_router_may_join() {
        let mut job = healthy(2, 1);
        job.nodes[0].facts.table.cards.clear();
        lead(&mut job.nodes[0], "eth0", "10.99.0.1/24");
        let wanted = ("eth0".to_string(), 1, "10.77.0.2".to_string());
        assert_eq!(shown(0, &job.nodes), [wanted]);
    }
}
