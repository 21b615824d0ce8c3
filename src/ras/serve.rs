//! Answers to questions from outside, each on a short-lived thread.

use super::gather;
use super::seen::{AroundSeen, BoardSeen, ProcessSeen};
use crate::base::{caught, own_thread};
use crate::proxy::inquiry::{self, Asker, Inquiry};
use crate::proxy::lookout::Lookout;
use crate::transport::segment::Nonce;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Facts that a process can tell.
pub trait Insight: Send + Sync {
    /// Tells what the process does.
    fn own(&self) -> ProcessSeen;
    /// Tells what the boards of a communicator of this process say of its ranks.
    fn boards(&self, nonce: Nonce) -> Vec<BoardSeen>;
    /// The lookout of this process for a communicator.
    fn lookout(&self, nonce: Nonce) -> Option<Arc<Lookout>>;
}

static INSIGHT: OnceLock<&'static dyn Insight> = OnceLock::new();
/// Answers under way.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);
/// Most of them at a time: who asks more often gets none, and asks again.
const MOST_UNDER_WAY: usize = 16;
/// The stack of their threads, which read files and make text.
const STACK_BYTES: usize = 512 << 10;
/// How long the lookouts of other nodes may take.
const AROUND: Duration = Duration::from_millis(700);

/// From now on questions are answered.
pub fn begin(insight: &'static dyn Insight) {
    INSIGHT.get_or_init(|| insight);
    inquiry::answer_by(take);
}

/// A place among the answers under way, until it is dropped.
struct Busy;

impl Drop for Busy {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}

fn take(question: Inquiry, asker: Asker) {
    let Some(&insight) = INSIGHT.get() else {
        return;
    };
    // Relaxed: a count, which guards nothing.
    let busy = UNDER_WAY.fetch_add(1, Ordering::Relaxed);
    let place = Busy;
    if busy >= MOST_UNDER_WAY {
        return;
    }
    let thread = std::thread::Builder::new()
        .name("kolo ras".into())
        .stack_size(STACK_BYTES);
    // Where the system has no thread left, whoever has asked sees the end of the connection.
    let _ = own_thread::start(thread, move || {
        let _place = place;
        let _ = caught(move || {
            if let Ok(text) = answer(insight, question) {
                asker(&text);
            }
        });
    });
}

fn answer(insight: &dyn Insight, question: Inquiry) -> postcard::Result<Vec<u8>> {
    match question {
        Inquiry::Own => postcard::to_stdvec(&insight.own()),
        Inquiry::Boards(nonce) => postcard::to_stdvec(&insight.boards(nonce)),
        Inquiry::Node(nonce) => postcard::to_stdvec(&gather::of_job(gather::node(), nonce)),
        Inquiry::Around(nonce) => {
            let lookout = insight.lookout(nonce);
            let around = lookout.map(|lookout| lookout.look_around(AROUND));
            let (answers, silent) = around.unwrap_or_default();
            let processes = answers.iter().flat_map(|text| {
                let of_node: Vec<ProcessSeen> = postcard::from_bytes(text).unwrap_or_default();
                of_node
            });
            postcard::to_stdvec(&AroundSeen {
                processes: processes.collect(),
                silent,
            })
        }
    }
}
