//! Who is called when a rank dies or an alarm is raised, and lookouts that stay.

use crate::base::Rank;
use std::sync::Arc;
use std::time::Duration;

/// Called on the service thread with the dead ranks and a description of what happened to their
/// process ("process 77 on node1 ended ..."). With no ranks: the service of this process itself
/// has failed, and watches over nobody as it should. It must not block.
pub type OnDeath = Arc<dyn Fn(&[Rank], &str) + Send + Sync>;

/// Why ranks should look at their communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Alarm {
    /// It was stopped, as the abort record says.
    Abort = 1,
    /// A rank has waited for long, and wants to know what the ranks of other nodes do.
    Ask = 2,
}

/// Called on the service thread, or on the thread that raises the alarm. It must not block.
pub type OnAlarm = Arc<dyn Fn(Alarm) + Send + Sync>;

/// Called when this process exits with status 0, on the thread that does: first all to note the
/// end, and then all to tell it. Each goes on with a step, without waiting, and says whether it is
/// done; it is called again until then, or with true for the last time.
pub type OnEnd = Arc<dyn Fn(EndStep, bool) -> bool + Send + Sync>;

/// Work that is to be done at an exit with status 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndStep {
    /// To note the end where nothing is in flight.
    Note,
    /// To tell other nodes, and to wait for what is on its way to them.
    Tell,
}

/// A lookout whose own rank has left. All calls are made outside locks; but for `exit`, none may
/// wait. They come on any thread.
pub trait Staying: Send + Sync {
    /// A rank of the node raises an alarm.
    fn alarmed(&self, why: Alarm);

    /// The process of these ranks of the node has ended before they left.
    fn died(&self, ranks: &[Rank], text: &str);

    /// All ranks have left, as far as this process can see: nobody needs the lookout any more.
    fn relieved(&self);

    /// Goes on with saying goodbye.
    fn go_on(&self);

    /// This process exits. If of its ranks those that are `behind` have not left, `text` says it.
    fn exit(&self, behind: &[Rank], text: &str, limit: Duration);
}

/// A lookout that stays though its rank has left, with its callbacks.
pub(super) struct Post {
    pub keeper: Arc<dyn Staying>,
    pub on_alarm: OnAlarm,
    pub on_death: OnDeath,
    /// Its host, for messages.
    pub node: String,
    /// It is saying goodbye.
    pub relieved: bool,
}

/// Who stays where this process exits.
pub struct Last {
    pub keeper: Arc<dyn Staying>,
    pub node: String,
    /// Ranks of this process that are still watched: they have not left, or send for others.
    pub behind: Vec<Rank>,
}
