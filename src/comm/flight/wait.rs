//! Waiting: spin, then yield, then sleep on the doorbell, by the cores that the ranks really have.
//!
//! Whoever waits also moves other work of the process, gives the program's MPI its turns
//! ([`super::turn`]), and looks for reasons to stop: abort, death of a peer, a limit. After a while
//! it reads the board: who has not called yet, and who called something else.

use super::turn;
use crate::base::clock::{self, Moment};
use crate::base::{Code, Error, Result};
use crate::comm::calling::waiting_call::WaitingCall;
use crate::comm::failing::{circle, fault, still_there, stood::Stood};
use crate::comm::health::Health;
use crate::comm::identity::WaitSetup;
use crate::exec::Waiting;
use crate::exec::trace::Tracer;
use crate::proxy::net::{Links, live};
use crate::proxy::progress::{Engine, Inside, Pass};
use crate::proxy::service::Alarm;
use crate::transport::futex::SystemFutex;
use crate::transport::net::sleep_on;
use crate::wire::board::SendNote;
use crate::wire::doorbell::Ticket;
use std::time::Duration;

/// Polls between two looks at the abort word while spinning.
const LOOK_EVERY: u32 = 64;
/// Polls after which a wait is no short one, whatever the setting of polls before the first yield.
const MANY_POLLS: u32 = 1024;
/// Yields between two looks at the clock.
const CLOCK_EVERY: u32 = 64;
/// The first nap; each one is twice as long as the one before, up to [`LONGEST_NAP`].
const FIRST_NAP: Duration = Duration::from_micros(500);
/// The longest nap: the bound within which an abort is noticed even if nobody rings.
const LONGEST_NAP: Duration = Duration::from_millis(20);
/// The longest nap on the network: the ranks of this node are not heard meanwhile.
const LONGEST_NETWORK_NAP: Duration = Duration::from_millis(2);
/// Most yields before the network is slept on: about as long as a message takes on its way.
const NETWORK_YIELDS: u32 = 64;
/// How long ranks may disagree before the boards are compared.
const SUSPICION: Duration = Duration::from_millis(200);

/// The waiting of one call. Most calls hardly wait: what it takes to wait for long is made then,
/// and elsewhere, as each small call moves this.
pub(in crate::comm) struct Waiter<'a> {
    health: &'a Health,
    call: WaitingCall,
    spins: u32,
    long: Option<Box<Long<'a>>>,
}

impl<'a> Waiter<'a> {
    #[inline(always)]
    pub fn new(health: &'a Health, call: impl Into<WaitingCall>) -> Waiter<'a> {
        Waiter {
            health,
            call: call.into(),
            spins: 0,
            long: None,
        }
    }

    /// Something moved: waiting begins anew.
    #[inline]
    pub fn moved(&mut self) {
        self.spins = 0;
        if self.long.is_some() {
            self.long = None;
        }
        self.turn();
    }

    /// Gives MPI a turn if one is due, where the call itself is not held up.
    #[inline]
    fn turn(&self) {
        if let Some(hook) = &self.health.idle {
            turn::moving(hook);
        }
    }

    /// A look around while spinning.
    #[cold]
    fn look(&mut self, peer: usize) -> Result<()> {
        if self.health.is_stopped() {
            return self.slow(peer);
        }
        if self.spins < MANY_POLLS {
            self.turn();
        } else if let Some(hook) = &self.health.idle {
            turn::waiting(hook);
        }
        std::hint::spin_loop();
        Ok(())
    }

    #[cold]
    fn slow(&mut self, peer: usize) -> Result<()> {
        if self.health.is_stopped() {
            if let Some(long) = &mut self.long {
                long.has_failed = true;
            }
            return Err(self.health.stop_error().during(self.call.name));
        }
        let (health, call) = (self.health, self.call);
        let long = self
            .long
            .get_or_insert_with(|| Box::new(Long::begin(health, call)));
        // The call that waits is this thread's, whatever its end stops.
        let result = long.wait(peer).map_err(|error| health.tells(error));
        long.has_failed |= result.is_err();
        result
    }
}

/// Waiting that has gone beyond spinning.
struct Long<'a> {
    health: &'a Health,
    /// Its number among the noted waits, once it is noted.
    noted: Option<u64>,
    call: WaitingCall,
    since: Moment,
    /// It has lasted for less than the time between two turns, as far as was seen.
    is_young: bool,
    yields: u32,
    /// How busy this thread had been at the first look at the clock.
    busy: Option<Duration>,
    nap: Duration,
    ticket: Option<Ticket>,
    compared: Duration,
    warned: bool,
    /// When the other nodes were asked who is late.
    asked: Option<Duration>,
    /// The rank that is waited for has left: what it sent before is looked for once more.
    left: bool,
    /// Its end, as far as it was seen.
    ended: Stood,
    /// It ends with an error: others that fail at the same time are to see for what it waited.
    has_failed: bool,
    /// Whether MPI gets turns from this thread.
    has_turns: bool,
    /// Drives what is in flight.
    inside: Option<Inside<'static>>,
}

impl<'a> Long<'a> {
    fn begin(health: &'a Health, call: WaitingCall) -> Long<'a> {
        if call.sends != SendNote::NOTHING {
            health
                .node
                .board(health.rank as usize)
                .note_sends(call.sends);
        }
        Long {
            health,
            noted: None,
            call,
            since: clock::now(),
            is_young: true,
            yields: 0,
            busy: None,
            nap: FIRST_NAP,
            ticket: None,
            compared: SUSPICION,
            warned: false,
            asked: None,
            left: false,
            has_failed: false,
            has_turns: false,
            ended: Stood::default(),
            inside: None,
        }
    }

    fn wait(&mut self, peer: usize) -> Result<()> {
        self.yields = self.yields.wrapping_add(1);
        if self.yields.is_multiple_of(CLOCK_EVERY) {
            self.note(peer);
        }
        let carries = self.health.links().is_some_and(Links::is_busy);
        if let Some(hook) = &self.health.idle {
            self.has_turns = if self.is_short() {
                turn::moving(hook)
            } else {
                turn::waiting(hook)
            };
        }
        let engine = Engine::global();
        if engine.busy() {
            self.inside.get_or_insert_with(|| engine.enter());
            if engine.drive() {
                return Ok(());
            }
        }
        // What comes over the network wakes from sleep, and other ranks may need the core for it.
        let from_afar = carries && !self.health.is_mate(peer as u32);
        let patience = match self.health.wait.yields {
            WaitSetup::NO_SLEEP => return self.give_way(peer),
            yields if from_afar => yields.min(NETWORK_YIELDS),
            yields => yields,
        };
        if self.yields < patience || engine.busy() {
            return self.give_way(peer);
        }
        // Whoever goes to sleep knows first whether MPI moves data.
        if self.is_young
            && let Some(hook) = &self.health.idle
        {
            self.has_turns = turn::waiting(hook);
        }
        let rest = match self.has_turns {
            true => turn::rest(),
            false => Some(Duration::MAX),
        };
        let Some(rest) = rest else {
            return self.give_way(peer);
        };
        // Whoever sleeps here does not hear of new work in flight: the progress thread moves it.
        self.inside = None;
        match carries {
            true => self.sleep_on_network(rest),
            false => self.sleep(rest),
        }
        self.look(peer)
    }

    /// Whether the wait has been so short that it may end at any moment: a turn of MPI's, in which
    /// some MPIs give the core away, would take longer than most calls.
    fn is_short(&mut self) -> bool {
        self.is_young = self.is_young && self.since.waited() < turn::POLLED;
        self.is_young
    }

    /// Gives the core to whoever wants it, and looks around now and then.
    fn give_way(&mut self, peer: usize) -> Result<()> {
        std::thread::yield_now();
        if !self.yields.is_multiple_of(CLOCK_EVERY) {
            return Ok(());
        }
        self.hurry();
        self.look(peer)
    }

    /// Leaves out the rest of the yields before the first sleep, where they have taken enough of
    /// the processor.
    fn hurry(&mut self) {
        let wait = &self.health.wait;
        if self.yields >= wait.yields || wait.yields == WaitSetup::NO_SLEEP {
            return;
        }
        let busy = clock::busy();
        let since = *self.busy.get_or_insert(busy);
        if busy.saturating_sub(since) >= wait.yields_for {
            self.yields = wait.yields;
        }
    }

    /// Sleeps until something happens on the network, or for a nap, at most `rest`: ranks of this
    /// node ring the bell, which does not wake from this.
    fn sleep_on_network(&mut self, rest: Duration) {
        let Some(links) = self.health.links() else {
            return;
        };
        let mut set = Vec::new();
        let nap = match live::watch(links, &mut set) {
            true => self.nap.min(LONGEST_NETWORK_NAP),
            false => FIRST_NAP,
        };
        sleep_on(&mut set, nap.min(rest));
        self.nap = (self.nap * 2).min(LONGEST_NAP);
    }

    /// The first call arms the bell and goes back to look once more; the next ones sleep. Arming
    /// may interrupt all ranks of the node, so it is done once.
    fn sleep(&mut self, rest: Duration) {
        let bell = self.health.node.own_bell(self.health.rank as usize);
        self.ticket = Some(match self.ticket.take() {
            None => bell.arm(&SystemFutex),
            Some(ticket) => {
                bell.sleep(ticket, self.nap.min(rest), &SystemFutex);
                self.nap = (self.nap * 2).min(LONGEST_NAP);
                bell.again()
            }
        });
    }

    fn note(&mut self, peer: usize) {
        let (here, queued) = (&self.health.whereabouts, self.health.blocked.queued());
        let (call, since) = (self.call, self.since);
        let noted = *self.noted.get_or_insert_with(|| here.waits(call, since));
        here.waits_for(noted, peer, queued);
    }

    /// Reasons to stop or to speak that need the clock.
    fn look(&mut self, peer: usize) -> Result<()> {
        let waited = self.since.waited();
        self.note(peer);
        still_there::is_still_there(self.health, &mut self.ended, self.call.name, peer)?;
        let wait = &self.health.wait;
        if waited >= self.compared {
            if let Err(error) = fault::check_left(self.health, &self.call, peer) {
                if self.left {
                    return Err(error);
                }
                self.left = true;
                return Ok(());
            }
            let is_first = self.compared == SUSPICION;
            self.compared = waited * 2;
            if is_first && self.call.sends != SendNote::NOTHING {
                circle::forget_others(self.health);
            }
            // The boards of other nodes are as they were told: the answer counts the next time.
            self.health.alarm(Alarm::Ask);
            if let Some(call) = self.call.number.or(self.health.blocked.queued()) {
                fault::compare_recent(&self.health.into(), call)?;
            }
        }
        let warns = !wait.warn_after.is_zero() && waited >= wait.warn_after;
        if warns && !self.warned && self.health.network.is_some() && self.asked.is_none() {
            self.asked = Some(waited);
            self.health.alarm(Alarm::Ask);
        }
        let answered = self.asked.is_none_or(|asked| waited >= asked + SUSPICION);
        if warns && !self.warned && answered {
            self.warned = true;
            let late = fault::late(self.health, &self.call, peer);
            tracing::warn!(
                "kolo: rank {}: {}{} has waited {:.0} s for {}{}",
                self.health.rank,
                self.call.name,
                self.health.on(),
                waited.as_secs_f64(),
                late.who,
                late.advice(),
            );
            if let Some(links) = self.health.links() {
                tracing::debug!("kolo: meanwhile {}", live::picture(links));
            }
        }
        if !wait.timeout.is_zero() && waited >= wait.timeout {
            let late = fault::late(self.health, &self.call, peer);
            let remedy = late.remedy.map_or_else(
                || {
                    format!(
                        "look into the output of that rank, which may compute, write files or \
                         hang; {} is how long calls wait here, and none is without limit",
                        fault::limit(&self.health.settings, wait.timeout)
                    )
                },
                str::to_owned,
            );
            return Err(Error::new(
                Code::Timeout,
                format!("waited {:.1} s for {}", waited.as_secs_f64(), late.who),
                remedy,
            )
            .with_peer(crate::base::Rank(peer as u32))
            .during(self.call.name));
        }
        Ok(())
    }
}

impl Tracer for Waiter<'_> {}

impl Waiting for Waiter<'_> {
    #[inline]
    fn moved(&mut self) -> Result<()> {
        Waiter::moved(self);
        match self.health.is_stopped() {
            false => Ok(()),
            true => Err(self.health.stop_error().during(self.call.name)),
        }
    }

    #[inline(always)]
    fn pause(&mut self, peer: usize) -> Result<()> {
        if let Some(links) = self.health.links()
            && links.is_busy()
        {
            // A look at the network is a system call: giving the core away as well costs little,
            // and whoever is waited for may need it.
            return match links.pass() {
                Pass::Moved => {
                    self.turn();
                    Ok(())
                }
                _ => self.slow(peer),
            };
        }
        self.spins = self.spins.wrapping_add(1);
        if self.spins < self.health.wait.spins {
            if self.spins.is_multiple_of(LOOK_EVERY) {
                return self.look(peer);
            }
            std::hint::spin_loop();
            return Ok(());
        }
        self.slow(peer)
    }
}

impl Drop for Long<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.noted {
            self.health.whereabouts.goes_on(number);
        }
        if self.call.sends != SendNote::NOTHING && !self.has_failed {
            let board = self.health.node.board(self.health.rank as usize);
            board.note_sends(SendNote::NOTHING);
        }
        if self.ticket.take().is_some() {
            self.health
                .node
                .own_bell(self.health.rank as usize)
                .disarm();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::{CommConfig, Communicator};
    use std::sync::atomic::Ordering;

    /// Else the progress thread keeps away from work that is begun meanwhile.
    #[test]
    fn whoever_sleeps_does_not_drive() {
        let ranks = Health::alone(2, 100);
        let mut long = Long::begin(&ranks[0], ("a test", None).into());
        // As where something was in flight a moment ago.
        long.inside = Some(Engine::global().enter());
        long.yields = ranks[0].wait.yields;
        let mut idle_looks = 0;
        while idle_looks < 100 {
            long.wait(1).unwrap();
            if long.inside.is_none() {
                return;
            }
            // Other tests of this process may have something in flight.
            idle_looks += u32::from(!Engine::global().busy());
        }
        panic!("it sleeps and says that it drives");
    }

    /// Where others want the core, 20,000 yields take ten times as much of it as on an idle one.
    #[test]
    fn a_rank_that_waits_sleeps_before_it_has_taken_much_of_a_core() {
        use std::sync::atomic::AtomicBool;
        /// More than a yield and a look around take.
        const STEP: Duration = Duration::from_micros(200);
        let comms = Communicator::init_all(2, &CommConfig::default()).unwrap();
        let (queue, over) = (&comms[0].queue, AtomicBool::new(false));
        let most = 2 * queue.wait.yields_for;
        assert!(most < Duration::from_millis(20), "{most:?}");
        let took = std::thread::scope(|scope| {
            for _ in 0..2 * queue.wait.crowding.cores.min(8) {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        std::thread::yield_now();
                    }
                });
            }
            let mut long = Long::begin(queue, ("a test", None).into());
            let mut took = Duration::ZERO;
            while long.ticket.is_none() {
                let begin = clock::busy();
                long.wait(1).unwrap();
                // A pause of a virtual machine counts as time of whoever had the core.
                took += (clock::busy() - begin).min(STEP);
            }
            over.store(true, Ordering::Relaxed);
            took
        });
        assert!(took < most, "it took {took:?}");
    }

    /// Ranks of a circle that fail at the same time read each other's notes, whoever was first.
    #[test]
    fn for_which_message_a_call_waited_stays_known_when_another_rank_stops_it() {
        use crate::comm::Collective;
        let ranks = Health::alone(2, 100);
        let sends = SendNote::message(1, 800);
        let call = WaitingCall {
            sends,
            ..(Collective::Send.name(), None).into()
        };
        let noted = || ranks[1].node.board(0).sends();
        let mut waiter = Waiter::new(&ranks[0], call);
        waiter.slow(1).unwrap();
        assert_eq!(noted(), sends);
        waiter.moved();
        assert_eq!(noted(), SendNote::NOTHING);
        waiter.slow(1).unwrap();
        ranks[1].stop(&Error::usage("called off", ""));
        waiter.slow(1).expect_err("the communicator has stopped");
        drop(waiter);
        assert_eq!(noted(), sends);
    }
}
