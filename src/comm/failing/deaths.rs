//! News that ranks have died: it stops the communicator, or the one that is being made.

use crate::base::{Error, Rank};
use crate::proxy::service::{EndStep, OnEnd};
use crate::proxy::{OnDeath, death, try_lock};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A communicator that hears of deaths.
pub(in crate::comm) trait Hears: Send + Sync {
    /// Whether a rank has let go of it, so that its death is no news.
    fn has_let_go(&self, rank: Rank) -> bool;

    /// Whether a rank has ended, which is no death.
    fn has_ended(&self, rank: Rank) -> bool;

    /// There are no processes of these ranks any more, which have ended.
    fn have_vanished(&self, ranks: &[Rank]);

    /// This process exits with status 0: goes on with a step, and says whether it is done. See
    /// [`OnEnd`].
    fn ends(&self, step: EndStep, is_last: bool) -> bool;

    /// It cannot go on, for this reason.
    fn hears(&self, error: &Error);
}

/// Where the news goes.
#[derive(Default)]
pub(in crate::comm) struct Deaths(Mutex<Known>);

#[derive(Default)]
struct Known {
    hearer: Option<Weak<dyn Hears>>,
    /// The first news that came before there was a communicator, and of whom.
    early: Option<(Vec<Rank>, Error)>,
    /// Those of communicators that were split from this one, with the ranks here of their ranks.
    children: Vec<(Weak<Deaths>, Arc<[Rank]>)>,
    /// News heard so far, for children that are made while it goes round.
    heard: Vec<News>,
}

/// News of what has become of ranks: see [`Deaths::hear`].
#[derive(Clone)]
struct News {
    ranks: Vec<Rank>,
    what: &'static str,
    description: String,
}

impl News {
    /// Tells a communicator whose ranks are `members` here, if it concerns any of them.
    fn tell(&self, child: &Weak<Deaths>, members: &[Rank]) {
        let theirs = (0..).map(Rank).zip(members);
        let theirs = theirs.filter(|(_, here)| self.ranks.contains(here));
        let theirs: Vec<Rank> = theirs.map(|(rank, _)| rank).collect();
        if let Some(child) = child.upgrade()
            && (self.ranks.is_empty() || !theirs.is_empty())
        {
            child.hear(&theirs, self.what, &self.description);
        }
    }
}

impl Deaths {
    /// Returns the function that is called, on any thread, when ranks are seen to have died or
    /// left. `what` is the verb for it, such as "died".
    pub fn callback(self: &Arc<Self>, what: &'static str) -> OnDeath {
        let deaths = Arc::clone(self);
        Arc::new(move |ranks: &[Rank], description: &str| deaths.hear(ranks, what, description))
    }

    /// The communicator whose ranks are `members` here hears what this one hears, and what it has
    /// heard: a rank may die while the child is made, and its news be on its way round.
    pub fn adopt(&self, child: &Arc<Deaths>, members: Arc<[Rank]>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.children.retain(|(child, _)| child.strong_count() > 0);
        let child = Arc::downgrade(child);
        known.children.push((child.clone(), Arc::clone(&members)));
        let heard = known.heard.clone();
        drop(known);
        heard.iter().for_each(|news| news.tell(&child, &members));
    }

    /// Function that the exit of this process with status 0 calls.
    pub fn at_end(self: &Arc<Self>) -> OnEnd {
        let deaths = Arc::clone(self);
        Arc::new(move |step, is_last| deaths.end(step, is_last))
    }

    /// This process exits: the ranks here of this communicator and of its children may leave so.
    fn end(&self, step: EndStep, is_last: bool) -> bool {
        // Whoever has it may have been stopped for good: whoever exits asks again, within limits.
        let Some(known) = try_lock(&self.0) else {
            return false;
        };
        let hearer = known.hearer.as_ref().and_then(Weak::upgrade);
        let children = known.children.clone();
        drop(known);
        let mut is_done = hearer.is_none_or(|hearer| hearer.ends(step, is_last));
        for child in children.iter().filter_map(|(child, _)| child.upgrade()) {
            is_done &= child.end(step, is_last);
        }
        is_done
    }

    fn hear(&self, ranks: &[Rank], what: &'static str, description: &str) {
        let news = News {
            ranks: ranks.to_vec(),
            what,
            description: description.to_string(),
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let hearer = known.hearer.as_ref().and_then(Weak::upgrade);
        let children = known.children.clone();
        known.heard.push(news.clone());
        drop(known);
        for (child, members) in &children {
            news.tell(child, members);
        }
        // A process that is watched for another communicator's sake may have left this one. On
        // several nodes there are no others, and one that has left may still send for its node.
        let has_left = |rank: Rank| {
            let is_gone =
                |hearer: &Arc<dyn Hears>| hearer.has_let_go(rank) || hearer.has_ended(rank);
            hearer.as_ref().is_some_and(is_gone)
        };
        if let Some(hearer) = &hearer {
            let ended = ranks.iter().copied().filter(|&rank| hearer.has_ended(rank));
            let ended: Vec<Rank> = ended.collect();
            if !ended.is_empty() {
                hearer.have_vanished(&ended);
            }
        }
        let staying: Vec<Rank> = ranks
            .iter()
            .copied()
            .filter(|&rank| !has_left(rank))
            .collect();
        if ranks.is_empty() || !staying.is_empty() {
            self.hear_own(&staying, what, description);
        }
    }

    fn hear_own(&self, ranks: &[Rank], what: &str, description: &str) {
        let error = death::error(ranks, what, description);
        let error = error.unwrap_or_else(|| Error::internal(description));
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(hearer) = known.hearer.as_ref().and_then(Weak::upgrade) else {
            known.early.get_or_insert((ranks.to_vec(), error));
            return;
        };
        // Stopping tells others, of which more news may come on this thread.
        drop(known);
        hearer.hears(&error);
    }

    /// There is a communicator now: it hears what came before it, and what comes.
    pub fn hand_over<T: Hears + 'static>(&self, hearer: &Arc<T>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let weak: Weak<T> = Arc::downgrade(hearer);
        known.hearer = Some(weak);
        let early = known.early.take();
        drop(known);
        let Some((ranks, error)) = early else { return };
        let has_ended = |rank: &Rank| hearer.has_ended(*rank);
        match !ranks.is_empty() && ranks.iter().all(has_ended) {
            true => hearer.have_vanished(&ranks),
            false => hearer.hears(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Deaths, EndStep};
    use crate::base::Rank;
    use crate::comm::{CommConfig, Communicator};
    use std::sync::Arc;

    /// Returns the error of a busy rank's next call, when another one has `aborted` and its process
    /// has ended meanwhile.
    fn heard(aborted: bool) -> String {
        let comms = Communicator::init_all(2, &CommConfig::default()).unwrap();
        let deaths = Arc::new(Deaths::default());
        deaths.hand_over(&comms[0].queue);
        if aborted {
            comms[1].abort().unwrap();
        }
        deaths.callback("died")(&[Rank(1)], "process 7 on some node ended");
        comms[0].barrier().unwrap_err().to_string()
    }

    #[test]
    fn a_death_does_not_hide_the_abort_before_it() {
        let (after_abort, alone) = (heard(true), heard(false));
        assert!(
            after_abort.contains("rank 1 called CommAbort"),
            "{after_abort}"
        );
        assert!(!after_abort.contains("died"), "{after_abort}");
        assert!(alone.contains("rank 1 died: process 7"), "{alone}");
    }

    /// Another thread has what the exit needs to know, for however many looks.
    #[test]
    fn an_end_is_not_done_while_another_thread_is_at_it() {
        let deaths = Arc::new(Deaths::default());
        let at_end = deaths.at_end();
        let held = deaths.0.lock().unwrap();
        assert!(!at_end(EndStep::Note, false) && !at_end(EndStep::Tell, false));
        drop(held);
        assert!(at_end(EndStep::Note, false));
    }

    /// Whether the news comes before the communicator or behind it.
    #[test]
    fn an_end_is_no_death() {
        for is_early in [false, true] {
            let comms = Communicator::init_all(2, &CommConfig::default()).unwrap();
            let deaths = Arc::new(Deaths::default());
            let tell = || deaths.callback("died")(&[Rank(1)], "process 7 on some node ended");
            comms[0].queue.node.board(1).end();
            match is_early {
                true => tell(),
                false => deaths.hand_over(&comms[0].queue),
            }
            match is_early {
                true => deaths.hand_over(&comms[0].queue),
                false => tell(),
            }
            comms[0].async_error().unwrap();
            let error = comms[0].barrier().unwrap_err().to_string();
            let words = "has ended with status 0 without taking part in this call";
            assert!(error.contains(words), "{error}");
        }
    }

    /// The news has gone round when the child is adopted, and it has no communicator yet.
    #[test]
    fn a_child_hears_what_was_heard_before_it() {
        let parent = Arc::new(Deaths::default());
        parent.callback("died")(&[Rank(7)], "process 7 on some node ended");
        let children = [[Rank(9), Rank(7)], [Rank(9), Rank(8)]].map(|members| {
            let child = Arc::new(Deaths::default());
            parent.adopt(&child, members.into());
            child
        });
        let heard = children.map(|child| {
            let comms = Communicator::init_all(2, &CommConfig::default()).unwrap();
            child.hand_over(&comms[0].queue);
            comms[0].async_error().map_err(|error| error.to_string())
        });
        let error = heard[0].as_ref().unwrap_err();
        assert!(error.contains("rank 1 died: process 7"), "{error}");
        assert_eq!(heard[1], Ok(()));
    }
}
