//! Words for what processes and threads do outside of kolo.

use super::seen::{ProcessSeen, ThreadSeen};
use crate::topo::place_name;

/// Whether it is stopped, by a signal or a debugger.
pub(super) fn is_stopped(thread: &ThreadSeen) -> bool {
    matches!(thread.state.as_str(), "T" | "t")
}

/// Tells of a process, and what its first thread does.
pub(super) fn process_words(process: &ProcessSeen) -> String {
    let place = place_name(&process.host, process.pid);
    match process.threads.first() {
        Some(thread) if is_stopped(thread) => format!("{place}, which is stopped"),
        Some(thread) => format!("{place}, which is {}", thread_words(process, thread)),
        None => place,
    }
}

/// Tells what a thread does.
pub(super) fn thread_words(process: &ProcessSeen, thread: &ThreadSeen) -> String {
    let mut words = String::new();
    if thread.id != process.pid {
        words = format!("its thread {} is ", thread.id);
    }
    let what = match (&thread.within, thread.busy, thread.state.as_str()) {
        (_, true, _) => "running (it computes, or polls)".to_owned(),
        (Some(within), _, "D") => format!("in the kernel, {within}"),
        (None, _, "D") => "in the kernel, in a call that cannot be interrupted".into(),
        (Some(within), ..) => within.clone(),
        (None, _, state) => format!("not running (its state is {state})"),
    };
    words + &what
}
