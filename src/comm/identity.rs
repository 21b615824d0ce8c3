//! Identity of a communicator: who this rank is, among whom, and by which settings.
//!
//! Nothing here changes once the communicator is made, so every thread reads it without a lock. It
//! knows no memory that ranks share: what can end is in [`super::health`].

use crate::base::{Error, Rank};
use crate::comm::failing::whereabouts::Noting;
use crate::comm::flight::turn::IdleHook;
use crate::comm::network::Network;
use crate::config::{Errors, OnSignal, Settings};
use crate::exec::CommDevice;
use crate::topo::Pinning;
use crate::transport::node::NodeMemory;
use crate::transport::segment::Nonce;
use std::sync::Arc;

/// How a rank waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitSetup {
    /// In short, and what it follows from.
    pub policy: crate::topo::WaitPolicy,
    pub crowding: crate::topo::Crowding,
    /// Polls before the first yield.
    pub spins: u32,
    /// Yields before the first sleep, if there is one.
    pub yields: u32,
    /// Time of the processor that they may take. Where others work on this core a yield takes a
    /// change of threads and back: as many as do no harm on an idle core take a part of theirs.
    pub yields_for: std::time::Duration,
    /// How often the progress thread looks in vain before it sleeps.
    pub thread_looks: u32,
    /// Warning about late ranks.
    pub warn_after: std::time::Duration,
    /// Limit of a wait; zero for none.
    pub timeout: std::time::Duration,
}

impl WaitSetup {
    /// Value of [`WaitSetup::yields`]: whoever waits never sleeps.
    pub const NO_SLEEP: u32 = u32::MAX;
}

/// Switches that say who observes the calls of a communicator.
pub(super) struct CallsSeen {
    /// Each call is compared with those of the other ranks first (`KOLO_CHECK`).
    pub compared: bool,
    /// Each call is a line of the log.
    pub traced: bool,
    /// Each call is counted for a report.
    pub tallied: bool,
    /// True if any flag above is on, or `whereabouts` is there. A call reads only this one when
    /// nothing is observed.
    pub at_all: bool,
}

/// The name of a communicator.
pub(super) struct CommName {
    text: String,
    /// The program has given it.
    pub is_given: bool,
}

impl CommName {
    /// The one that the program has given, or one that is made of the nonce.
    pub fn new(given: Option<String>, nonce: u128) -> CommName {
        CommName {
            is_given: given.is_some(),
            text: given.unwrap_or_else(|| format!("{:08x}", nonce as u32)),
        }
    }
}

impl std::ops::Deref for CommName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl std::fmt::Display for CommName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self)
    }
}

/// The facts about a communicator that never change.
pub struct Identity {
    pub(super) rank: u32,
    pub(super) nranks: u32,
    pub(super) name: CommName,
    pub(super) settings: Settings,
    /// Device that its engine drives.
    pub(super) device: CommDevice,
    /// Where each rank runs, `host (pid)`, for messages.
    pub(super) places: Arc<[String]>,
    /// The other ranks that are threads of this process, in order.
    pub(super) process_mates: Vec<u32>,
    /// Names the communicator on all its nodes.
    pub(super) nonce: Nonce,
    pub(super) wait: WaitSetup,
    /// Who observes its calls.
    pub(super) seen: CallsSeen,
    /// Where kolo's own threads of this rank run.
    pub(super) pinning: Pinning,
    /// Lets the program's MPI make progress: see [`crate::comm::flight::turn`].
    pub(super) idle: Option<IdleHook>,
}

impl Identity {
    /// An error here, with rank and name of the communicator.
    #[cold]
    pub(in crate::comm) fn named(&self, error: Error) -> Error {
        let name = self.name.is_given.then_some(&*self.name);
        error.at(Rank(self.rank)).on(name)
    }

    /// An error of the call that this thread is in, with the place of that call where it is wanted.
    /// Finding it takes milliseconds, in which nobody may wait for a lock of this thread.
    #[cold]
    pub(in crate::comm) fn tells(&self, error: Error) -> Error {
        let error = self.named(error);
        match self.settings.errors() {
            Errors::Backtrace => error.with_place(),
            Errors::Return | Errors::Abort => error,
        }
    }

    /// The communicator behind the name of a call, if the program has named it.
    pub(in crate::comm) fn on(&self) -> String {
        match self.name.is_given {
            true => format!(" on communicator {}", self.name),
            false => String::new(),
        }
    }

    /// Facts for its notes.
    pub(in crate::comm) fn noting(&self, node: &NodeMemory, network: Option<&Network>) -> Noting {
        let lookout = network.and_then(|network| network.lookout.as_ref());
        Noting {
            nonce: self.nonce,
            name: self.name.to_string(),
            rank: Rank(self.rank),
            places: Arc::clone(&self.places),
            node: node.clone(),
            lookout: lookout.map(Arc::downgrade).unwrap_or_default(),
            calls: self.settings.on_signal() == OnSignal::Report,
        }
    }

    /// Host and process of a rank, for messages.
    pub(in crate::comm) fn place(&self, rank: u32) -> &str {
        self.places.get(rank as usize).map_or("?", String::as_str)
    }
}

#[cfg(test)]
impl Identity {
    /// The identity of a rank that has no communicator: `yields` before the first sleep.
    pub(in crate::comm) fn alone(rank: u32, nranks: u32, yields: u32) -> Identity {
        let settings = Settings::load_from(&Default::default()).expect("settings");
        Identity {
            rank,
            nranks,
            name: CommName::new(Some("alone".to_owned()), 7),
            settings,
            device: CommDevice::Host,
            places: (0..nranks)
                .map(|rank| format!("host{rank} (pid 7)"))
                .collect(),
            process_mates: (0..nranks).filter(|it| *it != rank).collect(),
            nonce: Nonce(7),
            wait: WaitSetup {
                policy: crate::topo::WaitPolicy::Yield,
                crowding: crate::topo::Crowding {
                    ranks: nranks,
                    cores: 1,
                    oversubscribed: nranks > 1,
                    throttled: false,
                },
                spins: 0,
                yields,
                yields_for: std::time::Duration::from_millis(4),
                thread_looks: 2,
                warn_after: std::time::Duration::ZERO,
                timeout: std::time::Duration::ZERO,
            },
            seen: CallsSeen {
                compared: false,
                traced: false,
                tallied: false,
                at_all: false,
            },
            pinning: Pinning {
                cpus: Default::default(),
                reason: crate::topo::PinReason::Off,
            },
            idle: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_the_rank_and_a_name_that_the_program_has_given() {
        let mut who = Identity::alone(1, 2, 0);
        let error = || Error::usage("it broke", "mend it");
        let text = who.tells(error()).to_string();
        assert!(text.contains("rank 1") && text.contains("alone"), "{text}");
        assert_eq!(who.on(), " on communicator alone");
        who.name = CommName::new(None, 0xabc);
        let text = who.tells(error()).to_string();
        assert!(text.contains("rank 1") && !text.contains("abc"), "{text}");
        assert_eq!((&*who.name, who.on().as_str()), ("00000abc", ""));
        assert_eq!((who.place(0), who.place(2)), ("host0 (pid 7)", "?"));
    }
}
