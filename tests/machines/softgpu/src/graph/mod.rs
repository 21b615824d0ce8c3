//! Graphs: tasks with an order, made by capturing streams, run as often as one likes.

pub mod capture;
pub mod object;
pub mod run;

use crate::event::Point;
use crate::table::new_handle;
use object::Held;
use std::sync::Arc;

/// One task of a graph, which begins after others: of whichever type tasks are.
#[derive(Clone)]
pub struct Node<T> {
    pub handle: u64,
    pub task: T,
    /// Nodes before it in the list.
    pub after: Vec<usize>,
}

/// Nodes, each behind all that it waits for.
pub struct Graph<T> {
    pub nodes: Vec<Node<T>>,
    pub objects: Vec<Held>,
    /// A capture still adds to it.
    pub is_open: bool,
}

impl<T> Default for Graph<T> {
    fn default() -> Graph<T> {
        Graph {
            nodes: Vec::new(),
            objects: Vec::new(),
            is_open: false,
        }
    }
}

impl<T: Clone> Graph<T> {
    /// Adds a node, and gives its place.
    pub fn add(&mut self, task: T, after: Vec<usize>) -> usize {
        self.nodes.push(Node {
            handle: new_handle(),
            task,
            after,
        });
        self.nodes.len() - 1
    }

    /// The place of a node.
    pub fn place(&self, handle: u64) -> Option<usize> {
        self.nodes.iter().position(|node| node.handle == handle)
    }

    /// Whether a node is one of these, or one that they wait for, through others or not.
    pub fn is_before(&self, node: usize, these: &[usize]) -> bool {
        let mut is_before = vec![false; self.nodes.len()];
        for &one in these {
            is_before[one] = true;
        }
        // Whoever a node waits for stands before it.
        for at in (0..self.nodes.len()).rev().filter(|at| *at >= node) {
            if is_before[at] {
                for &earlier in &self.nodes[at].after {
                    is_before[earlier] = true;
                }
            }
        }
        is_before[node]
    }

    /// Makes an instance that can be launched: a copy, which holds the graph's objects, too.
    pub fn instantiate(&self) -> Arc<Instance<T>> {
        Arc::new(Instance {
            nodes: self.nodes.clone(),
            _objects: self.objects.iter().map(Held::again).collect(),
        })
    }
}

/// A graph as it was when it was instantiated. Whoever runs it keeps it.
pub struct Instance<T> {
    pub nodes: Vec<Node<T>>,
    _objects: Vec<Held>,
}

/// An instance that callers launch.
pub struct Executable<T> {
    pub instance: Arc<Instance<T>>,
    /// A launch waits for the one before it.
    pub last: Option<Point>,
}
