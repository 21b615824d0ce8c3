//! The service thread: what it sleeps on, and what it does when it wakes.

use super::super::attended;
use super::super::inquiry;
use super::super::state::{Death, STRANGER_LIMIT, incoming};
use super::{Service, deaths, spare, through};
use crate::base::clock::{self, Moment};
use crate::base::{caught, turns};
use crate::transport::fork::Fd;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// How long no connection is accepted after the process ran out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long, in milliseconds, until what cannot say when it needs attention is tended.
const SOON: libc::c_int = 20;

/// Serves the processes of this machine, for as long as this one lives.
pub(super) fn run(service: &Service) {
    let mut entries = Vec::new();
    let mut links = Vec::new();
    let mut places = attended::Places::default();
    loop {
        let mut faults = Vec::new();
        let mut limit = poll_list(service, &mut entries, &mut links);
        let sleeps = service
            .attended
            .watch(&mut entries, &mut places, &mut faults);
        if !sleeps && !(0..=SOON).contains(&limit) {
            limit = SOON;
        }
        if !faults.is_empty() {
            limit = 0;
        }
        // SAFETY: `entries` is a live array of that many entries.
        let ready =
            unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, limit) };
        if ready < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            // The kernel has no memory at the moment: rest instead of spinning.
            turns::sleep(ACCEPT_PAUSE);
        }
        if ready >= 0 {
            let all = ready == 0 || entries[0].revents != 0;
            let mut deaths = Vec::new();
            let turned = caught(|| turn(service, &entries, &links, &mut deaths));
            faults.extend(turned.err());
            places.tend(&entries, all, &service.attended, &mut faults);
            faults.extend(caught(|| through::send_for_others(service)).err());
            deaths::report(service, deaths, &mut faults);
        }
        if !faults.is_empty() {
            deaths::broken(service, &faults);
        }
    }
}

/// Fills the list for poll, the links' numbers beside it, and says how long poll may sleep:
/// without limit unless a stranger or a pause is to end.
fn poll_list(
    service: &Service,
    entries: &mut Vec<libc::pollfd>,
    links: &mut Vec<u64>,
) -> libc::c_int {
    entries.clear();
    links.clear();
    let mut state = service.lock();
    state.sweep();
    let mut limit: Option<Duration> = None;
    let mut due = |since: Moment, after: Duration| {
        let left = since.left(after).min(clock::LOOK);
        limit = Some(limit.map_or(left, |limit| limit.min(left)));
    };
    if let Some(since) = state.accept_paused {
        if since.past(ACCEPT_PAUSE) {
            state.accept_paused = None;
        } else {
            due(since, ACCEPT_PAUSE);
        }
    }
    let entry = |fd: &Fd, events| libc::pollfd {
        fd: fd.as_raw_fd(),
        events,
        revents: 0,
    };
    let accepting = if state.accept_paused.is_none() {
        libc::POLLIN
    } else {
        0
    };
    if !state.unfinished.is_empty() {
        // Looked at again after the millisecond that every limit has.
        due(clock::now(), Duration::ZERO);
    }
    entries.push(entry(&service.bell, libc::POLLIN));
    entries.push(entry(&service.listener, accepting));
    for (id, link) in &state.links {
        entries.push(entry(&link.fd, link.events()));
        links.push(*id);
        if let Some(since) = link.stranger_since() {
            due(since, STRANGER_LIMIT);
        }
    }
    // One millisecond more, so that what is due is past when poll returns.
    limit.map_or(-1, |limit| limit.as_millis() as libc::c_int + 1)
}

/// Handles everything that poll found.
fn turn(service: &Service, entries: &[libc::pollfd], links: &[u64], deaths: &mut Vec<Death>) {
    if entries[0].revents != 0 {
        let mut count = [0_u8; 8];
        // SAFETY: eight writable bytes; the descriptor does not block.
        unsafe {
            libc::read(
                service.bell.as_raw_fd(),
                count.as_mut_ptr().cast(),
                count.len(),
            )
        };
    }
    let mut state = service.lock();
    for (entry, &id) in entries[2..].iter().zip(links) {
        if entry.revents & libc::POLLOUT != 0 {
            state.writable(id);
        }
        if entry.revents & !libc::POLLOUT != 0 {
            incoming::readable(&mut state, id, deaths);
        }
    }
    if entries[1].revents != 0 {
        spare::accept(service, &mut state);
    }
    let alarms = std::mem::take(&mut state.alarms);
    let questions = std::mem::take(&mut state.questions);
    drop(state);
    for (question, asker) in questions {
        inquiry::came(question, inquiry::local(asker));
    }
    service.answers.notify_all();
    alarms.iter().for_each(|(on_alarm, why)| on_alarm(*why));
}
