//! Graphs: tasks with an order, made by capturing streams, run as often as one likes.

pub mod capture;
pub mod object;
pub mod run;

use crate::table::new_handle;
use crate::task::Task;
use object::Held;
use std::sync::Arc;

/// One task of a graph, which begins after others.
#[derive(Clone)]
pub struct Node {
    pub handle: u64,
    pub task: Task,
    /// Nodes before it in the list.
    pub after: Vec<usize>,
}

/// Nodes, each behind all that it waits for.
#[derive(Default)]
pub struct Graph {
    pub nodes: Vec<Node>,
    pub objects: Vec<Held>,
    /// A capture still adds to it.
    pub is_open: bool,
}

impl Graph {
    /// Adds a node, and gives its place.
    pub fn add(&mut self, task: Task, after: Vec<usize>) -> usize {
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
    pub fn instantiate(&self) -> Arc<Instance> {
        Arc::new(Instance {
            nodes: self.nodes.clone(),
            _objects: self.objects.iter().map(Held::again).collect(),
        })
    }
}

/// A graph as it was when it was instantiated. Whoever runs it keeps it.
pub struct Instance {
    pub nodes: Vec<Node>,
    _objects: Vec<Held>,
}

/// An instance that callers launch.
pub struct Executable {
    pub instance: Arc<Instance>,
    /// A launch waits for the one before it.
    pub last: Option<crate::stream::Point>,
}

/// `CUgraphNodeType`.
pub fn kind(task: &Task) -> i32 {
    match task {
        Task::Launch(_) => 0,
        Task::Copy(_) => 1,
        Task::Fill(_) => 2,
        Task::Host(..) => 3,
        Task::Graph(_) => 4,
        Task::Mark | Task::Record(_) | Task::Free(_) => 5,
    }
}
