//! What a node tries with others: connections through the interfaces that kolo would use, and the
//! names of the other nodes.

use super::facts::{Face, NodeSeen, Trial, Trials, partners};
use kolo::bootstrap::reach;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

/// How long one trial may take. A link on which nobody answers is told by the system after 3 s.
pub const LIMIT: Duration = Duration::from_millis(3500);

/// A connection to try.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tryout {
    from: (String, IpAddr),
    node: usize,
    to: (String, SocketAddr),
}

/// What node `me` tries: with each partner, all pairs of interfaces in one subnet; where there is
/// none, the first of both, which a router may join.
fn questions(me: usize, nodes: &[NodeSeen]) -> Vec<Tryout> {
    let mut found = Vec::new();
    let Some(own) = nodes.get(me) else {
        return found;
    };
    let faces = || {
        let with_address = |face: &'_ Face| face.address.map(|address| (face.clone(), address));
        own.facts.faces.iter().filter_map(with_address)
    };
    for node in partners(me, nodes.len()) {
        let listens = &nodes[node].facts.listens;
        let before = found.len();
        for (face, address) in faces() {
            let near = |to: IpAddr| {
                let there = Face {
                    address: Some(to),
                    ..face.clone()
                };
                to.is_ipv4() == address.is_ipv4() && there.subnet() == face.subnet()
            };
            let near = listens.iter().filter(|(_, place)| near(place.ip()));
            found.extend(near.map(|to| Tryout {
                from: (face.name.clone(), address),
                node,
                to: to.clone(),
            }));
        }
        if found.len() == before
            && let Some((face, address)) = faces().next()
            && let Some(to) = listens
                .iter()
                .find(|to| to.1.is_ipv4() == address.is_ipv4())
        {
            found.push(Tryout {
                from: (face.name.clone(), address),
                node,
                to: to.clone(),
            });
        }
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
    let pairs: Vec<(IpAddr, SocketAddr)> = questions
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
    use super::super::samples::healthy;
    use super::*;

    fn listening(nodes: usize) -> Vec<NodeSeen> {
        let mut job = healthy(nodes, 1);
        for node in &mut job.nodes {
            let second = Face {
                name: "eth1".into(),
                address: node.facts.faces[0].address.map(|address| match address {
                    IpAddr::V4(v4) => IpAddr::from([10, 77, 1, v4.octets()[3]]),
                    v6 => v6,
                }),
                ..node.facts.faces[0].clone()
            };
            node.facts.faces.push(second);
            let faces = node.facts.faces.iter();
            let listens = faces.map(|face| (face.name.clone(), (face.address.unwrap(), 9).into()));
            node.facts.listens = listens.collect();
        }
        job.nodes
    }

    #[test]
    fn interfaces_of_one_subnet_try_each_other() {
        let nodes = listening(3);
        let all = questions(1, &nodes);
        let shown: Vec<(&str, usize, String)> = all
            .iter()
            .map(|one| (one.from.0.as_str(), one.node, one.to.1.ip().to_string()))
            .collect();
        assert_eq!(
            shown,
            [
                ("eth0", 0, "10.77.0.1".into()),
                ("eth1", 0, "10.77.1.1".into()),
                ("eth0", 2, "10.77.0.3".into()),
                ("eth1", 2, "10.77.1.3".into()),
            ]
        );
    }

    #[test]
    fn nodes_without_a_common_subnet_try_their_first_interfaces() {
        let mut nodes = listening(2);
        for face in &mut nodes[0].facts.faces {
            face.prefix = 32;
        }
        let all = questions(0, &nodes);
        assert_eq!(all.len(), 1);
        assert_eq!(
            (all[0].from.0.as_str(), all[0].to.0.as_str()),
            ("eth0", "eth0")
        );
    }
}
