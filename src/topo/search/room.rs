//! Room that is left on the links while rings and trees are laid over them, and the count of steps.

use super::super::graph::Graph;

/// The room that is left.
#[derive(Clone, Debug)]
pub(super) struct Room {
    left: Vec<u32>,
    /// Ways that were tried.
    pub(super) steps: u64,
    most: u64,
}

impl Room {
    /// All links whole, and so many steps allowed.
    pub(super) fn new(graph: &Graph, most: u64) -> Room {
        Room {
            left: graph
                .links
                .iter()
                .map(|link| link.megabytes_per_s)
                .collect(),
            steps: 0,
            most,
        }
    }

    /// Whether all steps are used up.
    pub(super) fn spent(&self) -> bool {
        self.steps >= self.most
    }

    /// Takes `rate` from every link, or from none where one has less.
    pub(super) fn take(&mut self, links: &[u32], rate: u32) -> bool {
        self.steps += 1;
        for (done, &link) in links.iter().enumerate() {
            let left = &mut self.left[link as usize];
            if *left < rate {
                self.give(&links[..done], rate);
                return false;
            }
            *left -= rate;
        }
        true
    }

    /// Takes from every link of several ways, or from none.
    pub(super) fn take_all(&mut self, ways: &[&[u32]], rate: u32) -> bool {
        for (done, way) in ways.iter().enumerate() {
            if !self.take(way, rate) {
                ways[..done].iter().for_each(|way| self.give(way, rate));
                return false;
            }
        }
        true
    }

    /// Gives back what was taken.
    pub(super) fn give(&mut self, links: &[u32], rate: u32) {
        for &link in links {
            self.left[link as usize] += rate;
        }
    }

    /// Gives back what several ways took.
    pub(super) fn give_all(&mut self, ways: &[&[u32]], rate: u32) {
        ways.iter().for_each(|way| self.give(way, rate));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::CpuSet;
    use super::super::super::graph::{LinkKind, NodeKind};
    use super::*;

    #[test]
    fn nothing_is_taken_where_not_all_fits() {
        let mut graph = Graph::new("test");
        for number in 0..3 {
            graph.add(NodeKind::Gpu, number, "", CpuSet::new());
        }
        graph.join(0, 1, LinkKind::NvLink, 20);
        graph.join(1, 2, LinkKind::NvLink, 10);
        let mut room = Room::new(&graph, 5);
        let whole = room.left.clone();
        assert!(!room.take(&[0, 2], 15));
        assert!(!room.take_all(&[&[0], &[1], &[2]], 15));
        assert_eq!(room.left, whole);
        assert!(room.take_all(&[&[0], &[2]], 10));
        assert_eq!(room.left, [10, 20, 0, 10]);
        assert!(room.spent(), "{} ways were tried", room.steps);
        room.give_all(&[&[0], &[2]], 10);
        assert_eq!(room.left, whole);
    }
}
