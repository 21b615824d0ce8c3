//! Where warnings and log lines go: to stderr, or to the file of `KOLO_DEBUG_FILE`.
//!
//! A program that has a `tracing` subscriber of its own keeps it: kolo's is only the default.

use crate::base::Rank;
use crate::config::{DebugLevel, Settings};
use std::fs::OpenOptions;
use std::sync::{Mutex, Once};
use tracing_subscriber::filter::EnvFilter;

static INSTALLED: Once = Once::new();
static TOLD: Once = Once::new();

/// Under what name the version is told where nothing else of its level is.
const VERSION: &str = "kolo_version";

/// Installs the default subscriber, once a process, as the first communicator's settings say.
pub fn install(settings: &Settings, host: &str, rank: Rank) {
    INSTALLED.call_once(|| {
        let filter = match settings.debug() {
            DebugLevel::None => "off".to_owned(),
            DebugLevel::Version => format!("warn,{VERSION}=info"),
            DebugLevel::Warn => "warn".to_owned(),
            DebugLevel::Info => "info".to_owned(),
            DebugLevel::Trace => "trace".to_owned(),
        };
        let builder = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(filter))
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
        if settings.debug() > DebugLevel::Version {
            tracing::info!("kolo {}", env!("CARGO_PKG_VERSION"));
        }
    });
    // Who asks for the version alone asks for one line of a job.
    if settings.debug() == DebugLevel::Version && rank == Rank(0) {
        TOLD.call_once(|| tracing::info!(target: VERSION, "kolo {}", env!("CARGO_PKG_VERSION")));
    }
}
