//! The log: warnings, and what `KOLO_DEBUG` asks for, to stderr or to the file of
//! `KOLO_DEBUG_FILE`.
//!
//! Problem: a job has many processes that share one stderr, and most of what one of them has to say
//! at init the others could say too. Idea: every line says host and rank; warnings and failures
//! come from whom they concern; at `info` only rank 0 speaks, and at `trace` everybody does.
//!
//! A program that has a `tracing` subscriber of its own keeps it: kolo's is only the default.

use crate::base::descriptors::lifted;
use crate::base::starts::{self, Start};
use crate::base::{Rank, clock, quiet};
use crate::config::{self, DebugLevel, Errors, Settings};
use crate::topo::{self, RankPlace};
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::{Once, OnceLock, PoisonError, RwLock};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

static INSTALLED: Once = Once::new();
static TOLD: Once = Once::new();

/// Under what name the version is told where nothing else of its level is.
const VERSION: &str = "kolo_version";

/// Who writes the lines of this process.
struct Who {
    host: String,
    /// The rank in the first communicator; none before there is one, and where several ranks of it
    /// are in this process.
    rank: Option<Rank>,
    /// Whether rank 0 of it is here, or nothing is known of ranks.
    speaks: bool,
    /// Whether all ranks of the first communicator have met.
    is_settled: bool,
}

static WHO: RwLock<Who> = RwLock::new(Who {
    host: String::new(),
    rank: None,
    speaks: true,
    is_settled: false,
});

/// Where lines go.
static FILE: OnceLock<Option<File>> = OnceLock::new();
/// The setting `errors` of the first communicator: it says what follows a call that fails.
static ERRORS: OnceLock<Errors> = OnceLock::new();
/// Puts a sentence into the words of the program's language, where a binding has some.
static WORDS: OnceLock<fn(&str) -> String> = OnceLock::new();

thread_local! {
    /// The rank in whose name this thread acts now, where that is known.
    static ACTING: Cell<Option<Rank>> = const { Cell::new(None) };
}

/// Acts in the name of a rank until it is dropped: what it does as rank 0 is told at `info`, as
/// another rank not.
pub(super) struct Acting(Option<Rank>);

impl Acting {
    /// From now on.
    pub fn rank(rank: Rank) -> Acting {
        Acting(ACTING.replace(Some(rank)))
    }
}

impl Drop for Acting {
    fn drop(&mut self) {
        ACTING.set(self.0);
    }
}

/// Installs the default subscriber, once a process, as the first communicator's settings say.
pub fn install(settings: &Settings, host: &str, rank: Rank) {
    know(|who| {
        host.clone_into(&mut who.host);
        (who.rank, who.speaks) = (Some(rank), rank == Rank(0));
    });
    install_as(settings);
    // Who asks for the version alone asks for one line of a job.
    if settings.debug() == DebugLevel::Version && rank == Rank(0) {
        TOLD.call_once(|| tracing::info!(target: VERSION, "kolo {}", env!("CARGO_PKG_VERSION")));
    }
}

/// Installs it for who has something to say before there is a communicator; what then follows from
/// a call that fails.
pub fn ensure() -> Errors {
    if !INSTALLED.is_completed() {
        let host = topo::host_name();
        let host = host.split('.').next().unwrap_or(&host);
        know(|who| host.clone_into(&mut who.host));
        // Settings that cannot be read are an error of whoever needs them.
        install_as(&Settings::load(&[]).unwrap_or_else(|_| Settings::defaults()));
    }
    ERRORS.get().copied().unwrap_or(Errors::Return)
}

fn know(change: impl FnOnce(&mut Who)) {
    let mut who = WHO.write().unwrap_or_else(PoisonError::into_inner);
    if !who.is_settled {
        change(&mut who);
    }
}

/// The ranks of a communicator have met: `rank` learns which of them are in its process. The first
/// communicator counts.
pub(super) fn settle(rank: Rank, places: &[RankPlace]) {
    let mine = &places[rank.index()];
    let here = places.iter().filter(|place| place.shares_process(mine));
    let mut here = here.map(|place| place.rank);
    let (first, others) = (here.next(), here.next().is_some());
    know(|who| {
        who.rank = first.filter(|_| !others);
        who.speaks = first == Some(Rank(0));
        who.is_settled = true;
    });
}

fn install_as(settings: &Settings) {
    INSTALLED.call_once(|| {
        let debug = settings.debug();
        let _ = ERRORS.set(settings.errors());
        let host = WHO.read().unwrap_or_else(PoisonError::into_inner);
        let path = settings.debug_file_of(&host.host, std::process::id());
        drop(host);
        let file = path.and_then(|path| {
            let opened = OpenOptions::new().create(true).append(true).open(&path);
            let opened = opened.and_then(lifted);
            if let Err(error) = &opened {
                let path = path.display();
                quiet::tell(&format!("kolo: log lines go to stderr: {path}: {error}"));
            }
            opened.ok()
        });
        let has_colours =
            file.is_none() && config::may_use_colours() && std::io::stderr().is_terminal();
        let _ = FILE.set(file);
        let most = match debug {
            DebugLevel::None => LevelFilter::OFF,
            DebugLevel::Warn => LevelFilter::WARN,
            DebugLevel::Version | DebugLevel::Info => LevelFilter::INFO,
            DebugLevel::Trace => LevelFilter::TRACE,
        };
        // An error means that the program has a subscriber already, which is fine.
        let _ = tracing::subscriber::set_global_default(LogWriter {
            debug,
            most,
            has_colours,
        });
        starts::note(Start::Log);
        let who = WHO.read().unwrap_or_else(PoisonError::into_inner);
        // The ranks of a job read the same files, and one line is enough.
        let speaks = who.rank.is_none() || who.speaks;
        drop(who);
        for text in settings.warnings().iter().filter(|_| speaks) {
            tracing::warn!("{text}");
        }
        if debug > DebugLevel::Version {
            tracing::info!("kolo {}", env!("CARGO_PKG_VERSION"));
        }
    });
}

/// Where the log goes, whole lines at a time.
struct Out;

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match FILE.get() {
            Some(Some(file)) => quiet::put(file.as_fd(), bytes),
            _ => quiet::put(std::io::stderr().lock().as_fd(), bytes),
        }
        // Nobody is left to be told of a failure, and whoever was told would try stderr too.
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// From now on lines are in these words, which may be asked for on any thread.
pub fn speak_as(words: fn(&str) -> String) {
    WORDS.get_or_init(|| words);
}

/// A sentence, or a name in it, as the program's language has it.
pub fn in_words(text: &str) -> Cow<'_, str> {
    match WORDS.get() {
        Some(words) => words(text).into(),
        None => text.into(),
    }
}

/// A line about a call of the C or Fortran interface that has failed.
pub fn failure(text: &str) {
    tracing::error!("{text}");
}

/// A line about something suspicious.
pub fn warning(text: &str) {
    tracing::warn!("{text}");
}

/// Writes a warning where the thread ends and the subscriber's own memory of it may be gone.
pub fn at_exit(text: &str) {
    if ERRORS.get().is_none() || !tracing::enabled!(Level::WARN) {
        return;
    }
    let who = WHO.read().unwrap_or_else(PoisonError::into_inner);
    let line = format!(
        "{} WARN kolo {}: {}\n",
        clock::told(),
        who.name(None),
        in_words(text)
    );
    // Nobody is left to be told of a failure.
    let _ = Out.write_all(line.as_bytes());
}

/// Whether rank 0 of the first communicator is in this process.
pub(super) fn speaks() -> bool {
    WHO.read().unwrap_or_else(PoisonError::into_inner).speaks
}

/// Writes lines to where the log goes, as they are.
pub(super) fn plain(text: &str) {
    // Nobody is left to be told of a failure.
    let _ = Out.write_all(text.as_bytes());
}

impl Who {
    /// `node7 rank 3`.
    fn name(&self, acting: Option<Rank>) -> String {
        let host = match self.host.as_str() {
            "" => "?",
            host => host,
        };
        match self.rank.or(acting) {
            Some(rank) => format!("{host} rank {rank}"),
            None => format!("{host} pid {}", std::process::id()),
        }
    }
}

/// Writes lines such as `2026-11-22T14:47:47.123456Z WARN kolo node7 rank 3: sentence`. It keeps
/// nothing for a thread: exit handlers write lines when all that a thread has is gone.
struct LogWriter {
    debug: DebugLevel,
    most: LevelFilter,
    has_colours: bool,
}

impl LogWriter {
    /// Whether this process says it.
    fn shows(&self, about: &Metadata<'_>, acting: Option<Rank>, who: &Who) -> bool {
        match (*about.level(), self.debug) {
            (Level::INFO, DebugLevel::Version) => about.target() == VERSION,
            (Level::INFO, DebugLevel::Info) => acting.map_or(who.speaks, |rank| rank == Rank(0)),
            _ => true,
        }
    }
}

impl Subscriber for LogWriter {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        *about.level() <= self.most
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.most)
    }

    // Spans of the program are not told.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let about = event.metadata();
        let acting = ACTING.get();
        let who = WHO.read().unwrap_or_else(PoisonError::into_inner);
        if !self.shows(about, acting, &who) {
            return;
        }
        let mut words = EventText::default();
        event.record(&mut words);
        let (name, rank) = (who.name(acting), who.rank.or(acting));
        drop(who);
        let mut line = clock::told();
        let level = about.level();
        line += &match self.has_colours {
            true => format!(" \x1b[{}m{level}\x1b[0m", colour(*level)),
            false => format!(" {level}"),
        };
        line += &format!(" kolo {name}: {}\n", in_words(&bare(&words.0, rank)));
        // Nobody is left to be told of a failure.
        let _ = Out.write_all(line.as_bytes());
    }
}

/// Text of an event: its message, and each other field by its name.
#[derive(Default)]
struct EventText(String);

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let space = if self.0.is_empty() { "" } else { " " };
        let _ = match field.name() {
            "message" => write!(self.0, "{space}{value:?}"),
            name => write!(self.0, "{space}{name}={value:?}"),
        };
    }
}

/// A sentence without the words that its line begins with already. A second number in one line is
/// that of the same rank in another communicator, and says so.
fn bare(text: &str, rank: Option<Rank>) -> Cow<'_, str> {
    let text = text.strip_prefix("kolo: ").unwrap_or(text);
    let Some(rank) = rank else {
        return text.into();
    };
    let named = text
        .strip_prefix("rank ")
        .and_then(|rest| rest.split_once(": "));
    match named.map(|(number, rest)| (number.parse::<u32>(), rest)) {
        Some((Ok(number), rest)) if number == rank.0 => rest.into(),
        Some((Ok(number), rest)) => format!("as rank {number} of its communicator: {rest}").into(),
        _ => text.into(),
    }
}

fn colour(level: Level) -> u8 {
    match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        _ => 34,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_does_not_say_twice_who_writes_it() {
        let text = "kolo: rank 3: AllReduce: it is late";
        assert_eq!(bare(text, Some(Rank(3))), "AllReduce: it is late");
        let other = "as rank 3 of its communicator: AllReduce: it is late";
        assert_eq!(bare(text, Some(Rank(2))), other);
        let of_many = "rank 3 of 8: it waits";
        assert_eq!(bare(of_many, Some(Rank(2))), of_many);
        assert_eq!(bare(text, None), "rank 3: AllReduce: it is late");
        assert_eq!(bare("NET socket", Some(Rank(0))), "NET socket");
    }

    #[test]
    fn whose_lines_they_are() {
        let mut who = Who {
            host: "node7".into(),
            rank: Some(Rank(3)),
            speaks: false,
            is_settled: true,
        };
        // The rank in the first communicator counts, also where it acts in another one.
        assert_eq!(who.name(Some(Rank(0))), "node7 rank 3");
        who.rank = None;
        assert_eq!(who.name(Some(Rank(1))), "node7 rank 1");
        let pid = std::process::id();
        assert_eq!(who.name(None), format!("node7 pid {pid}"));
    }
}
