//! Failures: what went wrong, who is told, and how everything in flight lets go of its buffers.
//!
//! [`fault`] finds the words, [`circle`] those for sends that wait for each other. [`deaths`] hears
//! of processes that ended, [`stop`] takes the news; [`Queue::fail`](super::queue::Queue) ends what
//! is in flight. [`still_there`] and [`ended`] tell ranks that left without a call, [`gone`] has
//! their words. [`parting`] is the end that a program asks for, [`farewell`] looks once more before
//! a rank leaves. Where a rank is, [`whereabouts`] notes; [`report`] says it when a signal ends the
//! process, [`shown`] tells it to `kolo ras`.

pub(in crate::comm) mod circle;
pub(in crate::comm) mod deaths;
mod disagreement;
pub(in crate::comm) mod ended;
pub(in crate::comm) mod farewell;
pub(in crate::comm) mod fault;
#[cfg(test)]
mod fork_tests;
pub(in crate::comm) mod gone;
mod kept;
#[cfg(test)]
mod panics_tests;
pub(in crate::comm) mod parting;
pub(in crate::comm) mod report;
pub(in crate::comm) mod shown;
pub(in crate::comm) mod still_there;
pub(in crate::comm) mod stood;
pub(in crate::comm) mod stop;
pub(in crate::comm) mod whereabouts;
