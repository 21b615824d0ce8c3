//! The parsers of foreign bytes, by the names of their corpora: what `tests/fuzz.rs` runs over
//! these and what `make fuzz` runs without end.

/// A parser that takes whatever there is.
pub type Parser = fn(&[u8]);

/// All of them.
pub const TARGETS: &[(&str, Parser)] = &[
    ("bootstrap_frame", kolo::bootstrap::fuzz::frame),
    ("unique_id", kolo::bootstrap::fuzz::unique_id),
    ("host_list", kolo::bootstrap::fuzz::host_list),
    ("pmi", kolo::bootstrap::fuzz::pmi),
    ("proxy_frame", kolo::proxy::fuzz::frame),
    ("lookout_message", kolo::proxy::fuzz::message),
    ("socket_header", kolo::transport::net::socket::fuzz::header),
    (
        "socket_meeting",
        kolo::transport::net::socket::fuzz::meeting,
    ),
    ("settings_toml", kolo::config::fuzz::toml),
    ("settings_variable", kolo::config::fuzz::variable),
    ("records", records),
    ("topology", kolo::topo::fuzz::topology),
    ("graph_file", kolo::topo::fuzz::graph_file),
    ("cpu_set", kolo::topo::fuzz::cpu_set),
    ("tuner_file", kolo::tune::fuzz::tuner_file),
    ("mpi_table", kolo::tune::fuzz::mpi_table),
];

/// Every kind of record that ranks tell each other while a communicator is made.
pub fn records(bytes: &[u8]) {
    kinds_of_records(bytes);
}

/// The names of these kinds, and whether the bytes are one of them.
pub fn kinds_of_records(bytes: &[u8]) -> Vec<(&'static str, bool)> {
    let mut kinds = vec![
        kolo::config::fuzz::records(bytes),
        kolo::transport::net::socket::fuzz::records(bytes),
        kolo::proxy::fuzz::records(bytes),
    ];
    kinds.extend(kolo::bootstrap::fuzz::records(bytes));
    kinds.extend(kolo::comm::fuzz::records(bytes));
    kinds
}

/// Runs the parser with this name.
#[allow(dead_code, reason = "the test runs all")]
pub fn run(name: &str, bytes: &[u8]) {
    let (_, parser) = TARGETS
        .iter()
        .find(|(known, _)| *known == name)
        .expect("a target is named like its parser");
    parser(bytes);
}
