//! Words of a process about itself, as they go to whoever asks.

use serde::{Deserialize, Serialize};

/// A process, as it tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ProcessSeen {
    pub host: String,
    pub pid: u32,
    /// Its program.
    pub program: String,
    /// The job, as its launcher calls it.
    pub job: Option<String>,
    /// Threads of the program, the first one first.
    pub threads: Vec<ThreadSeen>,
    /// Communicators that are being made.
    pub starts: Vec<StartSeen>,
    /// Its ranks.
    pub ranks: Vec<RankSeen>,
    /// It did not answer: what stands here the system says.
    pub silent: bool,
}

/// A thread of the program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ThreadSeen {
    /// Its number.
    pub id: u32,
    /// State of the system: `R` runs, `S` sleeps, `D` cannot be disturbed, `T` is stopped.
    pub state: String,
    /// It used the processor while it was looked at.
    pub busy: bool,
    /// System call it is in, in words.
    pub within: Option<String>,
}

/// A communicator that is being made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StartSeen {
    pub rank: u32,
    pub nranks: u32,
    /// Phase of the start.
    pub phase: String,
    /// For so long.
    pub seconds: f64,
}

/// A rank of a communicator.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankSeen {
    /// The communicator: 32 hexadecimal digits, the same on all its ranks.
    pub comm: String,
    /// Its name, which ranks may choose.
    pub name: String,
    pub rank: u32,
    pub nranks: u32,
    /// Nodes that it has ranks on.
    pub nodes: u32,
    /// Collectives that the rank has begun.
    pub calls: u64,
    /// The last of them.
    pub last: Option<String>,
    /// Route of the call under way, where calls are noted (`KOLO_ON_SIGNAL=report`).
    pub route: Option<String>,
    /// Waits of threads at this moment, the longest first.
    pub waits: Vec<WaitSeen>,
    /// Why the communicator works no more.
    pub stopped: Option<FaultSeen>,
    /// That ranks have called different things.
    pub odd: Option<FaultSeen>,
    /// It can ask the other nodes.
    pub is_lookout: bool,
}

/// A fault that kolo has found itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FaultSeen {
    pub what: String,
    /// Next action.
    pub remedy: String,
}

/// A wait.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WaitSeen {
    /// Name of the call.
    pub call: String,
    /// Its number, if it is a collective.
    pub number: Option<u64>,
    /// The rank that is waited for.
    pub peer: Option<u32>,
    /// For so long.
    pub seconds: f64,
    /// Number of the thread that waits.
    pub thread: u32,
    /// Where a message waits to be received: to whom it goes, and its bytes.
    pub sends: Option<(u32, u64)>,
}

/// A rank, as the board of a communicator shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BoardSeen {
    pub rank: u32,
    /// Where it runs: `host (pid)`.
    pub place: String,
    pub calls: u64,
    pub last: Option<String>,
    pub over: Option<String>,
}

/// Collection of the lookouts of other nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AroundSeen {
    pub processes: Vec<ProcessSeen>,
    /// Places of lookouts who have not answered.
    pub silent: Vec<String>,
}
