//! The doorbell: how a publisher wakes a rank that sleeps, at the price of a load when none does.
//!
//! **Problem.** The sleeper arms the bell, looks once more for what it waits for, and then sleeps
//! until the ticket changes. The publisher publishes and then tests whether the bell is armed. At
//! least one of them must see the other (Dekker's argument): either the sleeper finds what was
//! published, or the publisher rings. For that a full fence must stand on each side between store
//! and load. But that of the publisher waits until the cache line that it has just published is
//! its own, which is a third of the time of a small call, while hardly anybody ever sleeps.
//!
//! **Idea.** The sleeper pays for both ([`Fencing::Sleeper`]): when it has armed the bell, it has
//! the system pass a full fence on every thread that may publish ([`Futex::fence_all`]; Linux calls
//! it membarrier), and only then looks once more. Wherever such a thread is just then: if it passes
//! that fence before its look at the bell, it finds the bell armed; if after, it has published
//! before the fence, and the sleeper finds that. The compiler must keep the publisher's store
//! before its load, and nothing else. Where a process of the node cannot have this done to it, all
//! publishers of the node fence as they always could ([`Fencing::Publisher`]).
//!
//! Reference: P. McKenney, M. Desnoyers, "sys_membarrier", Linux, Documentation and
//! `membarrier(2)`; E. W. Dekker's algorithm as told in E. W. Dijkstra, EWD 123 (1965).

use crate::base::sync::{AtomicU32, Ordering, compiler_fence, fence};
use std::time::Duration;

/// Sleeping and waking on a word of shared memory: the kernel's futex, or a model of it.
pub trait Futex {
    /// Sleeps while `*word == value`, at most `limit`; may wake for no reason.
    fn wait(&self, word: &AtomicU32, value: u32, limit: Duration);
    /// Wakes everybody who sleeps on the word.
    fn wake(&self, word: &AtomicU32);
    /// Returns when every thread that may ring a bell of [`Fencing::Sleeper`] has passed a full
    /// fence since this was called; this thread too.
    fn fence_all(&self);
}

/// Who sees to it that a publisher passes a full fence between its store and its look at the bell.
/// All who use a bell must go by the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fencing {
    /// The publisher, every time.
    Publisher,
    /// The sleeper, for all publishers, when it has armed the bell.
    Sleeper,
}

impl Fencing {
    /// Orders what a publisher has published before its look at bells.
    #[inline(always)]
    pub fn published(self) {
        match self {
            Fencing::Publisher => fence(Ordering::SeqCst),
            // Sleepers have the processor fence: the compiler must not undo the order before.
            Fencing::Sleeper => compiler_fence(Ordering::SeqCst),
        }
    }
}

/// One rank's bell. Its line is written by those who sleep and those who wake them, and by nobody
/// else: publishers find it in their cache.
#[repr(C, align(64))]
pub struct Doorbell {
    ticket: AtomicU32,
    armed: AtomicU32,
}

/// How many bells of a node are armed, on a line of its own: what a publisher for all ranks looks
/// at before it looks at each bell.
#[repr(C, align(64))]
#[derive(Default)]
pub struct ArmedBells(AtomicU32);

impl ArmedBells {
    /// Whether any bell may be armed, for a publisher that has passed [`Fencing::published`].
    #[inline(always)]
    pub fn any(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }
}

/// A bell as its owner has it: what it touches before it sleeps.
#[derive(Clone, Copy)]
pub struct OwnBell<'a> {
    /// The bell itself.
    pub bell: &'a Doorbell,
    /// Where publishers for all look first, if some do.
    pub count: Option<&'a ArmedBells>,
    /// Who fences.
    pub fencing: Fencing,
}

impl<'a> From<&'a Doorbell> for OwnBell<'a> {
    /// A bell whose publishers fence, and look at no count.
    fn from(bell: &'a Doorbell) -> OwnBell<'a> {
        OwnBell {
            bell,
            count: None,
            fencing: Fencing::Publisher,
        }
    }
}

impl OwnBell<'_> {
    /// Announces that this rank is about to sleep. Look for what you wait for after this.
    pub fn arm(&self, futex: &impl Futex) -> Ticket {
        // Before the bell is armed: any ring from then on makes the ticket out of date.
        let ticket = self.bell.ticket.load(Ordering::Relaxed);
        self.bell.armed.fetch_add(1, Ordering::Relaxed);
        if let Some(count) = self.count {
            count.0.fetch_add(1, Ordering::Relaxed);
        }
        match self.fencing {
            Fencing::Publisher => fence(Ordering::SeqCst),
            Fencing::Sleeper => futex.fence_all(),
        }
        Ticket(ticket)
    }

    /// A new ticket after a sleep, while the bell stays armed. Look for what you wait for after
    /// this: a publisher that has not seen the bell armed had published before [`OwnBell::arm`]
    /// returned, one that rang before this did so before its ticket, and one that rings later
    /// makes this ticket out of date.
    pub fn again(&self) -> Ticket {
        Ticket(self.bell.ticket.load(Ordering::Acquire))
    }

    /// Sleeps until somebody rings after this ticket was given, or `limit` is over.
    pub fn sleep(&self, ticket: Ticket, limit: Duration, futex: &impl Futex) {
        futex.wait(&self.bell.ticket, ticket.0, limit);
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

    /// Takes back one [`OwnBell::arm`].
    pub fn disarm(&self) {
        self.bell.armed.fetch_sub(1, Ordering::Relaxed);
        if let Some(count) = self.count {
            count.0.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Rings of a bell so far, as [`OwnBell::arm`] counted them. Sleeping ends when there are more.
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

    /// Call after publishing: wakes the rank if it sleeps.
    #[inline(always)]
    pub fn ring(&self, fencing: Fencing, futex: &impl Futex) {
        fencing.published();
        self.ring_fenced(futex);
    }

    /// [`Doorbell::ring`] for a publisher that has just passed [`Fencing::published`]. True if
    /// somebody sleeps, or is about to.
    #[inline(always)]
    pub fn ring_fenced(&self, futex: &impl Futex) -> bool {
        let armed = self.armed.load(Ordering::Relaxed) != 0;
        if armed {
            self.wake(futex);
        }
        armed
    }

    /// Call after publishing to one who sleeps on this bell, or on one of `others` alone; see
    /// [`OwnBell::sleep_beside`]. True if he sleeps, or is about to.
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

    #[cold]
    fn wake(&self, futex: &impl Futex) {
        // Release: whoever sees the new ticket sees what was published.
        self.ticket.fetch_add(1, Ordering::Release);
        futex.wake(&self.ticket);
    }
}
