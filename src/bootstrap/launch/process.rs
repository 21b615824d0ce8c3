//! This process among those that were started together, and how it meets them.

use crate::base::{Error, Result};
use crate::bootstrap::settings::NetSettings;
use crate::bootstrap::{Bootstrap, TcpRing, ThreadsBootstrap, UniqueId};
use std::fmt;

/// In which way a process learned its rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// Nobody started others with it.
    Nobody,
    /// `KOLO_RANK` and `KOLO_NRANKS`.
    Variables,
    /// A PMIx server.
    Pmix,
    /// A PMI server.
    Pmi,
    /// The variables of a Slurm step.
    Slurm,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Launcher::Nobody => "no launcher",
            Launcher::Variables => "KOLO_RANK",
            Launcher::Pmix => "PMIx",
            Launcher::Pmi => "PMI",
            Launcher::Slurm => "Slurm variables",
        })
    }
}

/// This process among those that were started together.
#[derive(Clone, Debug)]
pub struct Launch {
    /// This rank, `0..nranks`.
    pub rank: u32,
    /// How many ranks there are, at least 1.
    pub nranks: u32,
    /// How this became known.
    pub by: Launcher,
    /// Where they meet; `None` for one rank alone.
    pub id: Option<UniqueId>,
}

impl Launch {
    pub(super) fn alone(by: Launcher) -> Launch {
        Launch {
            rank: 0,
            nranks: 1,
            by,
            id: None,
        }
    }

    /// Meets the other ranks. Every rank calls it.
    ///
    /// # Errors
    /// Those of [`TcpRing::connect`].
    pub fn connect(&self, settings: &NetSettings) -> Result<Box<dyn Bootstrap>> {
        if let Some(id) = &self.id {
            return Ok(Box::new(TcpRing::connect(
                id,
                self.rank,
                self.nranks,
                settings,
            )?));
        }
        let alone = ThreadsBootstrap::group(1).pop();
        let alone = alone.ok_or_else(|| Error::internal("a group of one rank has none"))?;
        Ok(Box::new(alone))
    }
}
