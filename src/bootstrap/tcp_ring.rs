//! A [`Bootstrap`] over TCP: ranks that are threads of one process speak with one voice ([`Team`]),
//! and processes form a ring of sockets ([`super::circle`]).

use super::circle::Asking;
use super::net;
use super::rendezvous::Rendezvous;
use super::ring_words::inherited;
use super::settings::NetSettings;
use super::team::Team;
use super::unique_id::UniqueId;
use super::{Bootstrap, ContributionList, opening};
use crate::base::birth::Birth;
use crate::base::clock::{Moment, now};
use crate::base::{Error, Rank, Result, fork};
use std::sync::Arc;
use std::time::Duration;

/// A [`Bootstrap`] over TCP.
///
/// Cost: two sockets a process. Safe for calls from several threads (one waits for the other).
pub struct TcpRing {
    rank: Rank,
    nranks: u32,
    settings: NetSettings,
    /// The process that made it: a forked child has no sockets, and must not speak for it.
    generation: u32,
    /// When this rank began to meet the others.
    begun: Moment,
    team: Arc<Team>,
}

impl TcpRing {
    /// Joins the communicator of `id` as `rank` of `nranks`; returns when all ranks are there.
    ///
    /// Errors: the id is garbled, the root cannot be reached, this rank does not fit (out of
    /// range, twice, another number of ranks), another rank died or gave up, or the timeout
    /// passed. Every error names what to do; a refused rank does not harm the others.
    pub fn connect(
        id: &UniqueId,
        rank: u32,
        nranks: u32,
        settings: &NetSettings,
    ) -> Result<TcpRing> {
        TcpRing::join(id, rank, nranks, settings)
            .map_err(|error| error.at(Rank(rank)).during("start over TCP"))
    }

    fn join(id: &UniqueId, rank: u32, nranks: u32, settings: &NetSettings) -> Result<TcpRing> {
        let id = &UniqueId::from_bytes(*id.as_bytes())?;
        if rank >= nranks {
            return Err(Error::argument(
                format!("rank {rank} of {nranks} does not exist"),
                "ranks count from 0 to nranks - 1: check the arguments of koloCommInitRank",
            ));
        }
        // Ranks that are threads of one process have their sockets in one table.
        net::raise_file_limit();
        if id.is_named() && rank == 0 {
            opening::start_named(id, settings)?;
        }
        let begun = now();
        Ok(TcpRing {
            rank: Rank(rank),
            nranks,
            settings: settings.clone(),
            generation: fork::generation(),
            begun,
            team: Rendezvous::new(id, rank, nranks, settings)?.meet()?,
        })
    }

    fn gather(&self, name: &str, root: Option<Rank>, mine: &[u8]) -> Result<ContributionList> {
        if self.is_inherited() {
            return Err(inherited().at(self.rank));
        }
        let asking = Asking {
            rank: self.rank,
            settings: &self.settings,
            begun: self.begun,
        };
        let gathered = self.team.gather(&asking, root, mine);
        gathered.map_err(|error| error.at(self.rank).during(format!("bootstrap {name}")))
    }

    fn is_inherited(&self) -> bool {
        self.generation != fork::generation()
    }
}

impl Bootstrap for TcpRing {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn nranks(&self) -> u32 {
        self.nranks
    }

    fn birth(&self) -> Option<&Birth> {
        self.settings.birth.as_deref()
    }

    fn time_left(&self) -> Option<Duration> {
        let limit = self.settings.meet_limit;
        limit.map(|limit| net::left(self.begun, limit))
    }

    fn all_gather(&self, mine: &[u8]) -> Result<ContributionList> {
        self.gather("all_gather", None, mine)
    }

    fn broadcast(&self, root: Rank, data: &mut Vec<u8>) -> Result<()> {
        let is_root = root == self.rank;
        let mine: &[u8] = if is_root { data } else { &[] };
        let all = self.gather("broadcast", Some(root), mine)?;
        if !is_root {
            data.clone_from(&all[root.index()]);
        }
        Ok(())
    }

    fn barrier(&self) -> Result<()> {
        self.all_gather(&[]).map(|_| ())
    }
}

impl Drop for TcpRing {
    fn drop(&mut self) {
        if !self.is_inherited() {
            let why = self.settings.go_on().err();
            self.team.leave(self.rank, why.as_ref());
        }
    }
}
