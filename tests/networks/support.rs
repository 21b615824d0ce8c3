//! Ranks as threads, some of which are on other nodes by the setting `hostid`.

use kolo::bootstrap::ThreadsBootstrap;
use kolo::comm::Inspect;
use kolo::comm::RawCalls;
use kolo::comm::{CommConfig, Communicator};

/// The settings of a rank on a node of this name.
pub fn on_node(node: usize, overrides: &[(&str, &str)]) -> CommConfig {
    let node = ("hostid", &*format!("node{node}"));
    let all = overrides.iter().chain([&node]);
    CommConfig {
        overrides: all
            .map(|(key, value)| (key.to_string(), value.to_string()))
            .collect(),
        ..CommConfig::default()
    }
}

/// A rank that fails an assertion must not leave the others waiting.
struct AbortOnPanic<'a>(&'a Communicator);

impl Drop for AbortOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self.0.abort();
        }
    }
}

/// Runs `body` with a communicator and leaves it in order.
pub fn with(comm: &Communicator, body: impl FnOnce(&Communicator)) {
    let _guard = AbortOnPanic(comm);
    body(comm);
    let (executed, planned) = comm.step_counts().unwrap();
    assert_eq!(executed, planned, "there is no path beside the plan");
    comm.destroy().unwrap();
}

/// Runs `body` on a thread for each rank; rank r is on node `nodes[r]`.
pub fn threads(nodes: &[usize], overrides: &[(&str, &str)], body: impl Fn(&Communicator) + Sync) {
    threads_that_own(nodes, overrides, |comm| with(&comm, &body));
}

/// Runs threads with a body that ends the communicator itself.
pub fn threads_that_own(
    nodes: &[usize],
    overrides: &[(&str, &str)],
    body: impl Fn(Communicator) + Sync,
) {
    let members = ThreadsBootstrap::group(nodes.len() as u32);
    std::thread::scope(|scope| {
        for (member, &node) in members.into_iter().zip(nodes) {
            let (body, config) = (&body, on_node(node, overrides));
            scope.spawn(move || {
                let comm = Communicator::init_bootstrap(Box::new(member), &config).unwrap();
                body(comm);
            });
        }
    });
}
