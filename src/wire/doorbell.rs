//! The doorbell: how a publisher wakes a rank that sleeps, at the price of one fence and one load
//! when it does not.
//!
//! The sleeper arms the bell, looks once more for what it waits for, and then sleeps until the
//! ticket changes. The publisher publishes and then tests whether the bell is armed. Between the
//! two stores and the two loads stands a full fence on each side, so at least one of them sees the
//! other (Dekker's argument): either the sleeper finds what was published, or the publisher rings.

use crate::base::sync::{AtomicU32, Ordering, fence};
use std::time::Duration;

/// Sleeping and waking on a word of shared memory: the kernel's futex, or a model of it.
pub trait Futex {
    /// Sleeps while `*word == value`, at most `limit`; may wake for no reason.
    fn wait(&self, word: &AtomicU32, value: u32, limit: Duration);
    /// Wakes everybody who sleeps on the word.
    fn wake(&self, word: &AtomicU32);
}

/// One rank's bell.
#[repr(C, align(64))]
pub struct Doorbell {
    ticket: AtomicU32,
    armed: AtomicU32,
}

/// What [`Doorbell::arm`] saw; sleeping ends when it is out of date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket(u32);

impl Default for Doorbell {
    fn default() -> Self {
        Self::new()
    }
}

impl Doorbell {
    /// A bell in ordinary memory, for the threads of one process.
    pub fn new() -> Doorbell {
        Doorbell {
            ticket: AtomicU32::new(0),
            armed: AtomicU32::new(0),
        }
    }

    /// Announces that this rank is about to sleep. Look for what you wait for after this.
    pub fn arm(&self) -> Ticket {
        let ticket = self.ticket.load(Ordering::Relaxed);
        self.armed.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        Ticket(ticket)
    }

    /// Sleeps until somebody rings after the matching [`Doorbell::arm`], or `limit` is over.
    pub fn sleep(&self, ticket: Ticket, limit: Duration, futex: &impl Futex) {
        futex.wait(&self.ticket, ticket.0, limit);
    }

    /// Takes back one [`Doorbell::arm`].
    pub fn disarm(&self) {
        self.armed.fetch_sub(1, Ordering::Relaxed);
    }

    /// Call after publishing: wakes the rank if it sleeps.
    #[inline(always)]
    pub fn ring(&self, futex: &impl Futex) {
        fence(Ordering::SeqCst);
        self.ring_fenced(futex);
    }

    /// [`Doorbell::ring`] for a publisher that has just passed a full fence. True if somebody
    /// sleeps, or is about to.
    #[inline(always)]
    pub fn ring_fenced(&self, futex: &impl Futex) -> bool {
        let armed = self.armed.load(Ordering::Relaxed) != 0;
        if armed {
            self.wake(futex);
        }
        armed
    }

    /// Call after publishing to one who sleeps on this bell, or on one of `others` alone; see
    /// [`Doorbell::sleep_beside`]. True if he sleeps, or is about to.
    pub fn ring_with<'a>(
        &self,
        others: impl Iterator<Item = &'a Doorbell>,
        futex: &impl Futex,
    ) -> bool {
        fence(Ordering::SeqCst);
        let armed = self.ring_fenced(futex);
        if armed {
            // Either he has armed the other bell by now, or he finds this ticket out of date.
            fence(Ordering::SeqCst);
            for bell in others {
                bell.ring_fenced(futex);
            }
        }
        armed
    }

    /// Sleeps on this bell alone, though one who rings `other`, armed before, shall wake him too:
    /// he does so by [`Doorbell::ring_with`].
    pub fn sleep_beside(
        &self,
        ticket: Ticket,
        other: (&Doorbell, Ticket),
        limit: Duration,
        futex: &impl Futex,
    ) {
        fence(Ordering::SeqCst);
        if other.0.ticket.load(Ordering::Relaxed) == other.1.0 {
            self.sleep(ticket, limit, futex);
        }
    }

    #[cold]
    fn wake(&self, futex: &impl Futex) {
        self.ticket.fetch_add(1, Ordering::Relaxed);
        futex.wake(&self.ticket);
    }
}
