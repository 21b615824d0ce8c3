//! The ranks of a communicator that are threads of one process: they speak with one voice.
//!
//! **Problem.** Were each rank a member of the ring, every exchange would pass each contribution
//! through all ranks: 512 ranks in 32 processes would open and seal 512 x 511 frames.
//!
//! **Idea.** The ranks of a process put their contributions together. Whoever comes last carries
//! them round the ring of processes ([`Circle`]) for all; the others sleep, and hold the same list
//! afterwards ([`ContributionList`]). One rank of a process makes its links: its *lead*, the
//! lowest.
//!
//! Operations are *rounds*, as among threads alone ([`super::local`]): a rank can be at most one
//! round ahead, so one stored result is enough.

use super::bell::StartBell;
use super::bundle::{Bytes, ProcessParts};
use super::circle::{Asking, Circle, Stops, Waited};
use super::frame::{FrameKind, MAX_BUNDLE, check_length};
use super::gathered::ContributionList;
use super::net;
use super::ring_words::{left, operation_name};
use crate::base::birth;
use crate::base::clock::{Moment, now};
use crate::base::record;
use crate::base::{Error, Rank, Result, fork, turns};
use crate::trust::proof::KEY_BYTES;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The ranks of this process in a communicator.
pub(super) struct Team {
    /// Ascending.
    mates: Vec<Rank>,
    nranks: u32,
    /// None where a rank is alone in its process.
    bells: Option<Bells>,
    state: Mutex<State>,
    changed: Condvar,
}

struct Bells {
    /// All have joined and the links are there, or it has failed.
    formed: StartBell,
    /// It has failed.
    alarm: StartBell,
}

/// How a team reaches the other processes.
enum Voice {
    /// Its lead makes the links.
    Unmade,
    /// There are no other processes.
    Alone,
    Ring(Box<Circle>),
    /// A rank uses it.
    Away,
}

struct State {
    /// How many of its ranks have come.
    joined: usize,
    voice: Voice,
    /// Number of the round that collects deposits now.
    round: u64,
    deposits: Vec<Option<Vec<u8>>>,
    operation: Option<TeamRound>,
    /// Of round `round - 1`.
    result: Option<ContributionList>,
    /// The first rank that has left.
    left: Option<Rank>,
    broken: Option<Error>,
}

/// The operation of a round.
#[derive(Clone, Copy)]
struct TeamRound {
    root: Option<Rank>,
    by: Rank,
    since: Moment,
    /// Whether a late rank was named.
    warned: bool,
}

impl TeamRound {
    fn kind(&self) -> FrameKind {
        match self.root {
            None => FrameKind::Gather,
            Some(_) => FrameKind::Broadcast,
        }
    }
}

/// A team that not all of its ranks have joined yet.
struct Joining {
    generation: u32,
    key: [u8; KEY_BYTES],
    team: Arc<Team>,
}

static JOINING: Mutex<Vec<Joining>> = Mutex::new(Vec::new());
/// So many teams may be joining before those that have failed are dropped.
const MOST_JOINING: usize = 16;

impl Team {
    /// The team of the ranks `mates`, ascending, of `nranks`, for one of them; `key` is known to
    /// their communicator alone.
    ///
    /// # Errors
    /// No descriptors.
    pub fn join(key: [u8; KEY_BYTES], mates: Vec<Rank>, nranks: u32) -> Result<Arc<Team>> {
        if mates.len() == 1 {
            let team = Team::new(mates, nranks, None);
            team.lock().joined = 1;
            return Ok(Arc::new(team));
        }
        let mut all = JOINING.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = fork::generation();
        all.retain(|one| one.generation == generation);
        // Mates of one that has failed hear why as long as it is here.
        if all.len() > MOST_JOINING {
            all.retain(|one| one.team.lock().broken.is_none());
        }
        let at = match all
            .iter()
            .position(|one| one.key == key && one.team.mates == mates)
        {
            Some(at) => at,
            None => {
                let bells = Bells {
                    formed: StartBell::new()?,
                    alarm: StartBell::new()?,
                };
                let team = Arc::new(Team::new(mates.clone(), nranks, Some(bells)));
                all.push(Joining {
                    generation,
                    key,
                    team,
                });
                all.len() - 1
            }
        };
        let team = Arc::clone(&all[at].team);
        let mut state = team.lock();
        state.joined += 1;
        if state.joined == team.mates.len() {
            all.swap_remove(at);
        }
        team.tell_formed(&state);
        drop(state);
        Ok(team)
    }

    fn new(mates: Vec<Rank>, nranks: u32, bells: Option<Bells>) -> Team {
        let voice = if mates.len() == nranks as usize {
            Voice::Alone
        } else {
            Voice::Unmade
        };
        Team {
            state: Mutex::new(State {
                joined: 0,
                voice,
                round: 0,
                deposits: vec![None; mates.len()],
                operation: None,
                result: None,
                left: None,
                broken: None,
            }),
            changed: Condvar::new(),
            mates,
            nranks,
            bells,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its lead has made the links.
    pub fn form(&self, circle: Circle) {
        let mut state = self.lock();
        state.voice = Voice::Ring(Box::new(circle));
        self.tell_formed(&state);
    }

    fn tell_formed(&self, state: &State) {
        if let (Some(bells), true) = (&self.bells, state.is_formed(self.mates.len())) {
            bells.formed.ring();
        }
    }

    /// Whether all have joined and the links are there.
    ///
    /// # Errors
    /// Why it has failed.
    pub fn is_formed(&self) -> Result<bool> {
        let state = self.lock();
        state.broken.clone().map_or(Ok(()), Err)?;
        Ok(state.is_formed(self.mates.len()))
    }

    /// Adds what ends the sleep of one who waits until it is formed.
    pub fn watch_formed(&self, set: &mut Vec<libc::pollfd>) {
        set.extend(self.bells.iter().map(|bells| bells.formed.watch()));
    }

    /// Adds what ends the sleep of one who makes its links, where another rank gives up.
    pub fn watch_alarm(&self, set: &mut Vec<libc::pollfd>) {
        set.extend(self.bells.iter().map(|bells| bells.alarm.watch()));
    }

    /// It goes on no more; the first reason counts, and the other processes are told.
    pub fn fail(&self, error: &Error) {
        self.fail_in(&mut self.lock(), error.clone());
    }

    fn fail_in(&self, state: &mut State, error: Error) {
        if state.broken.is_some() {
            return;
        }
        if let Voice::Ring(circle) = &mut state.voice {
            circle.abort(&error);
        }
        state.broken = Some(error);
        if let Some(bells) = &self.bells {
            bells.alarm.ring();
            bells.formed.ring();
        }
        self.changed.notify_all();
    }

    /// A rank leaves: in good order, or because it has given up.
    pub fn leave(&self, rank: Rank, why: Option<&Error>) {
        let mut state = self.lock();
        if let Some(why) = why {
            self.fail_in(&mut state, why.clone());
        }
        // Without this rank no operation can be complete any more.
        if state.left.is_none() && state.broken.is_none() {
            state.left = Some(rank);
            if let Voice::Ring(circle) = &mut state.voice {
                circle.farewell();
            }
        }
        self.changed.notify_all();
    }

    /// Gathers what all ranks give, or those of a broadcast from `root`. All ranks call it.
    pub fn gather(
        &self,
        asking: &Asking,
        root: Option<Rank>,
        mine: &[u8],
    ) -> Result<ContributionList> {
        let mut state = self.lock();
        let round = state.round;
        if let Err(error) = self.deposit(&mut state, asking, root, mine) {
            self.fail_in(&mut state, error.clone());
            return Err(error);
        }
        if state.deposits.iter().all(Option::is_some) {
            self.speak(state, asking)
        } else {
            self.wait(state, asking, round)
        }
    }

    fn deposit(
        &self,
        state: &mut State,
        asking: &Asking,
        root: Option<Rank>,
        mine: &[u8],
    ) -> Result<()> {
        let rank = asking.rank;
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        asking.settings.go_on()?;
        check_length(mine.len())?;
        if let Some(root) = root.filter(|root| root.0 >= self.nranks) {
            return Err(Error::argument(
                format!("root {root} of a broadcast among {} ranks", self.nranks),
                "roots count from 0 to nranks - 1",
            ));
        }
        let begun = *state.operation.get_or_insert(TeamRound {
            root,
            by: rank,
            since: now(),
            warned: false,
        });
        if begun.root != root {
            return Err(mismatch(rank, root, begun.by, begun.root));
        }
        let at = self.mates.binary_search(&rank).unwrap_or(0);
        if state.deposits[at].is_some() || matches!(state.voice, Voice::Away) {
            return Err(Error::usage(
                format!("rank {rank} calls an operation while another thread is in one"),
                "use one member from one thread at a time",
            ));
        }
        state.deposits[at] = Some(mine.to_vec());
        Ok(())
    }

    /// Carries the contributions of the process, which are complete, to all others.
    fn speak(&self, mut state: MutexGuard<'_, State>, asking: &Asking) -> Result<ContributionList> {
        let parts = state.deposits.iter_mut().filter_map(Option::take);
        let parts: Vec<Vec<u8>> = parts.collect();
        let begun = state.operation.take();
        let begun = begun.ok_or_else(|| Error::internal("a round without an operation"))?;
        let mut voice = std::mem::replace(&mut state.voice, Voice::Away);
        drop(state);
        let gathered = match &mut voice {
            Voice::Alone => Ok(parts),
            Voice::Ring(circle) => self.exchange(circle, asking, &begun, parts),
            Voice::Unmade | Voice::Away => Err(Error::internal("a process without links")),
        };
        let mut state = self.lock();
        state.voice = voice;
        match gathered {
            Ok(all) => {
                // Who gave up meanwhile could not tell the other processes: the circle was away.
                if let (Some(error), Voice::Ring(circle)) = (state.broken.clone(), &mut state.voice)
                {
                    circle.abort(&error);
                }
                let all = ContributionList::from(all);
                state.result = Some(all.clone());
                state.round += 1;
                self.changed.notify_all();
                Ok(all)
            }
            Err(error) => {
                // The circle has told the others already.
                let own = state.broken.get_or_insert(error).clone();
                self.changed.notify_all();
                Err(own)
            }
        }
    }

    fn exchange(
        &self,
        circle: &mut Circle,
        asking: &Asking,
        begun: &TeamRound,
        parts: Vec<Vec<u8>>,
    ) -> Result<Vec<Vec<u8>>> {
        let mates = self.mates.iter().copied();
        let bundle = record::encode(&ProcessParts {
            root: begun.root,
            parts: mates.zip(parts.into_iter().map(Bytes)).collect(),
        });
        if bundle.len() > MAX_BUNDLE {
            return Err(Error::usage(
                format!(
                    "the ranks of this process give {} bytes at once, more than {MAX_BUNDLE}",
                    bundle.len()
                ),
                "give less at once, or have fewer ranks in a process",
            ))
            .inspect_err(|error| circle.abort(error));
        }
        let go_on = || self.lock().broken.clone().map_or(Ok(()), Err);
        let stops = self.bells.as_ref().map(|bells| Stops {
            bell: &bells.alarm,
            go_on: &go_on,
        });
        let bundles = circle.gather(asking, stops, begun.kind(), begun.since, bundle)?;
        self.sorted(asking.rank, begun, bundles)
            .inspect_err(|error| circle.abort(error))
    }

    /// The contributions in the bundles of all processes, in order of ranks.
    fn sorted(&self, me: Rank, begun: &TeamRound, bundles: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let mut all = vec![None; self.nranks as usize];
        let mut count = 0;
        for bundle in bundles {
            let ProcessParts { root, parts } = record::decode(&bundle)?;
            let lead = parts.first().map_or(me, |(rank, _)| *rank);
            if root != begun.root {
                return Err(mismatch(me, begun.root, lead, root));
            }
            for (rank, Bytes(part)) in parts {
                let place = all.get_mut(rank.index()).filter(|place| place.is_none());
                let place = place.ok_or_else(|| not_all().with_peer(lead))?;
                *place = Some(part);
                count += 1;
            }
        }
        if count < all.len() {
            return Err(not_all());
        }
        Ok(all.into_iter().flatten().collect())
    }

    /// Sleeps until the round is over.
    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        asking: &Asking,
        round: u64,
    ) -> Result<ContributionList> {
        loop {
            // A round that is over counts even if somebody has left since.
            if state.round > round {
                let result = state.result.clone();
                return result.ok_or_else(|| Error::internal("a round without a result"));
            }
            if let Some(error) = &state.broken {
                return Err(error.clone());
            }
            let limit = match self.patience(&mut state, asking) {
                Ok(limit) => limit,
                Err(error) => {
                    self.fail_in(&mut state, error.clone());
                    return Err(error);
                }
            };
            let place = (&self.state, &self.changed);
            let left = state.left;
            let waits = |state: &mut State| state.waits(round) && state.left == left;
            state = turns::wait_while(place, state, limit.unwrap_or(Duration::MAX), waits);
        }
    }

    /// How long one may sleep who waits for others of the team.
    fn patience(&self, state: &mut State, asking: &Asking) -> Result<Option<Duration>> {
        asking.settings.go_on()?;
        // Whoever can be called off looks now and then.
        let birth = asking.settings.birth.as_ref();
        let look = birth.and_then(|birth| birth.bell()).map(|_| birth::LOOK);
        let missing = state.deposits.iter().position(Option::is_none);
        let (Some(missing), Some(begun)) = (missing, &mut state.operation) else {
            // The one who carries the contributions has its own patience.
            return Ok(look);
        };
        if let Some(gone) = state.left {
            return Err(left(gone));
        }
        let late = self.mates[missing];
        let waited = Waited {
            rank: asking.rank,
            operation: operation_name(begun.kind()),
            missing: &format!("rank {late}"),
            late,
        };
        let (since, warned) = (begun.since, &mut begun.warned);
        let limit = waited.patience(asking.settings, since, asking.begun, warned)?;
        Ok(net::sooner(limit, look))
    }
}

impl State {
    fn is_formed(&self, mates: usize) -> bool {
        self.joined == mates && !matches!(self.voice, Voice::Unmade)
    }

    fn waits(&self, round: u64) -> bool {
        self.round == round && self.broken.is_none()
    }
}

/// Says which call is meant.
fn call(root: Option<Rank>) -> String {
    match root {
        None => "all_gather".into(),
        Some(root) => format!("broadcast from root {root}"),
    }
}

fn mismatch(rank: Rank, root: Option<Rank>, other: Rank, theirs: Option<Rank>) -> Error {
    Error::usage(
        format!(
            "rank {rank} called {} where rank {other} called {}",
            call(root),
            call(theirs)
        ),
        "all ranks must call the same operations in the same order, with the same root",
    )
    .with_peer(other)
}

fn not_all() -> Error {
    Error::internal("what the processes gathered is not one part of each rank")
}
