//! Messages of other processes, and the ends of their links.

use super::super::frame::{Frame, ServiceKind};
use super::super::inquiry::Inquiry;
use super::super::socket::{self, Received};
use super::alarm::Alarm;
use super::link::End;
use super::{Answer, Death, State, offer, posts, proxied};
use crate::base::Rank;
use crate::transport::segment::Nonce;
use std::io;

/// How many messages of one link are read before the others get their turn.
const READ_COUNT: usize = 64;

/// Reads what has come over a link, and adds the deaths that it tells of.
pub fn readable(state: &mut State, id: u64, deaths: &mut Vec<Death>) {
    let mut reset = false;
    for _ in 0..READ_COUNT {
        let Some(link) = state.links.get(&id) else {
            return;
        };
        match socket::receive(&link.fd, false) {
            Ok(Received::Frame(frame, _)) => {
                if !understood(state, id, &frame) {
                    return end(state, id, End::Garbage, deaths);
                }
            }
            Ok(Received::Garbage) => return end(state, id, End::Garbage, deaths),
            Ok(Received::End) => return end(state, id, End::Closed, deaths),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => return,
                io::ErrorKind::Interrupted => {}
                // The other side closed before it had read all from here. This error comes
                // once, *before* messages that still wait, and a goodbye may be among them.
                io::ErrorKind::ConnectionReset if !reset => reset = true,
                _ => return end(state, id, End::Closed, deaths),
            },
        }
    }
}

/// Acts on a message; false if its sender had no right to it or makes no sense.
fn understood(state: &mut State, id: u64, frame: &Frame) -> bool {
    let nonce = Nonce(frame.secret);
    let is_ours = state.watchers.contains_key(&nonce);
    let Some(link) = state.links.get_mut(&id) else {
        return false;
    };
    match frame.kind {
        ServiceKind::Hello if link.address.is_none() => {
            if !is_ours && !link.known {
                return false;
            }
            let answer = if is_ours {
                link.known = true;
                link.pid = frame.pid;
                link.uses.entry(nonce).or_default().insert(Rank(frame.rank));
                ServiceKind::Welcome
            } else {
                ServiceKind::Refused
            };
            link.post(Frame::new(answer, frame.operation, 0));
        }
        ServiceKind::Welcome | ServiceKind::Refused if link.address.is_some() => {
            let welcome = frame.kind == ServiceKind::Welcome;
            answered(state, id, frame.operation, welcome);
        }
        ServiceKind::NoRoom if link.address.is_some() => {
            return turned_away(state, id, frame.slots);
        }
        ServiceKind::GetFd if link.address.is_none() => {
            return offer::hand_over(&state.published, &link.fd, frame);
        }
        ServiceKind::Inquire if link.address.is_none() && !link.known => {
            inquired(state, id, frame);
        }
        ServiceKind::Start if link.known => return proxied::start_came(state, id, frame),
        ServiceKind::Close if link.known => proxied::close_came(state, id, frame),
        ServiceKind::Closed if link.known => proxied::closed_came(state, id, frame.operation),
        ServiceKind::Bye if link.known => {
            if let Some(ranks) = link.uses.get_mut(&nonce) {
                ranks.remove(&Rank(frame.rank));
            }
            // Whoever left in good order has waited for what others sent.
            state.tell_gone(nonce, &[Rank(frame.rank)]);
            posts::relieve(state, nonce);
        }
        ServiceKind::Leaving if link.known => {
            link.leaving = Some(frame.operation as u32 as i32);
            let uses = link.uses.iter();
            let uses: Vec<_> = uses
                .map(|(nonce, ranks)| (*nonce, Vec::from_iter(ranks.iter().copied())))
                .collect();
            for (nonce, ranks) in uses {
                state.tell_gone(nonce, &ranks);
            }
        }
        ServiceKind::Alarm if link.known => {
            let why = match frame.operation {
                1 => Alarm::Abort,
                2 => Alarm::Ask,
                _ => return false,
            };
            let called = state.heeding(nonce).into_iter();
            state.alarms.extend(called.map(|on_alarm| (on_alarm, why)));
        }
        _ => return false,
    }
    true
}

/// Somebody asks from outside: the link is theirs from now on who answer.
fn inquired(state: &mut State, id: u64, frame: &Frame) {
    let link = state.links.remove(&id).map(|link| link.fd);
    state.questions.extend(Inquiry::of(frame).zip(link));
}

/// The first word on this link, and, as this is false, the last.
fn turned_away(state: &mut State, link_id: u64, limit: u64) -> bool {
    let waiting = state.pending.values_mut();
    for pending in waiting.filter(|pending| pending.link == link_id) {
        pending.answer = Some(Answer::NoRoom(limit));
    }
    false
}

fn answered(state: &mut State, link_id: u64, operation: u64, welcome: bool) {
    let Some(pending) = state.pending.get_mut(&operation) else {
        return;
    };
    if pending.link != link_id || pending.answer.is_some() {
        return;
    }
    if !welcome {
        pending.answer = Some(Answer::Refused);
        return;
    }
    pending.answer = Some(Answer::Welcome);
    if let Some(link) = state.links.get_mut(&link_id)
        && state.watchers.contains_key(&pending.nonce)
    {
        let ranks = pending.ranks.iter().copied();
        link.uses.entry(pending.nonce).or_default().extend(ranks);
    }
}

/// A link is over: whoever waits for an answer gets none, and the ranks behind it that have
/// not said goodbye are dead to the watchers of their communicators.
fn end(state: &mut State, id: u64, why: End, deaths: &mut Vec<Death>) {
    let Some(link) = state.links.remove(&id) else {
        return;
    };
    for pending in state.pending.values_mut() {
        if pending.link == id {
            pending.answer.get_or_insert(Answer::Lost);
        }
    }
    let fate = why.fate(link.leaving);
    for (nonce, ranks) in link.uses.iter().filter(|(_, ranks)| !ranks.is_empty()) {
        let all: Vec<Rank> = ranks.iter().copied().collect();
        state.tell_gone(*nonce, &all);
        let watchers = state.watchers.get(nonce).into_iter().flatten();
        let posts = state.posts.get(nonce).into_iter().flatten();
        let told = watchers
            .map(|watcher| (&watcher.on_death, &watcher.node))
            .chain(posts.map(|post| (&post.on_death, &post.node)));
        for (on_death, node) in told {
            deaths.push(Death {
                on_death: on_death.clone(),
                ranks: all.clone(),
                text: format!("process {} on {node} {fate}", link.pid),
            });
        }
    }
    link.uses
        .keys()
        .for_each(|nonce| posts::relieve(state, *nonce));
}
