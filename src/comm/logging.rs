//! Where warnings and log lines go: to stderr, or to the file of `KOLO_DEBUG_FILE`.
//!
//! A program that has a `tracing` subscriber of its own keeps it: kolo's is only the default.

use crate::config::{DebugLevel, Settings};
use std::fs::OpenOptions;
use std::sync::{Mutex, Once};
use tracing_subscriber::filter::LevelFilter;

static INSTALLED: Once = Once::new();

/// Installs the default subscriber, once a process, as the first communicator's settings say.
pub(super) fn install(settings: &Settings, host: &str) {
    INSTALLED.call_once(|| {
        let level = match settings.debug() {
            DebugLevel::None => LevelFilter::OFF,
            DebugLevel::Version | DebugLevel::Warn => LevelFilter::WARN,
            DebugLevel::Info => LevelFilter::INFO,
            DebugLevel::Trace => LevelFilter::TRACE,
        };
        let builder = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_target(false);
        let file = settings.debug_file_of(host, std::process::id());
        let file = file.and_then(|path| {
            let opened = OpenOptions::new().create(true).append(true).open(&path);
            if let Err(error) = &opened {
                eprintln!("kolo: log lines go to stderr: {}: {error}", path.display());
            }
            opened.ok()
        });
        // An error means that the program has a subscriber already, which is fine.
        let _ = match file {
            Some(file) => builder
                .with_ansi(false)
                .with_writer(Mutex::new(file))
                .try_init(),
            None => builder.with_writer(std::io::stderr).try_init(),
        };
        if settings.debug() >= DebugLevel::Version {
            tracing::info!("kolo {}", env!("CARGO_PKG_VERSION"));
        }
    });
}
