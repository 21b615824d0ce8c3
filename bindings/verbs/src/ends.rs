//! Parts that both ends of a connection share: queue pairs, completions, the line, and how errors
//! are noticed.
//!
//! Every call polls completions; that is cheap. What costs a system call or a clock is looked at
//! only when nothing else happens, at most once a millisecond: the line to the peer, the port, the
//! events of the device, and for how long work has been on its way without an answer.
//!
//! The first error stops the queue pairs, so that no memory of the caller is touched any more, and
//! is told to the peer; every later call returns it again.

use crate::device::Port;
use crate::events::Alarm;
use crate::explain;
use crate::gid::Gid;
use crate::hello::Hello;
use crate::network::Network;
use crate::queue::{Path, Queue};
use crate::verbs::Completions;
use ibverbs_sys as ib;
use kolo::base::clock::{Moment, now};
use kolo::base::{Code, Error, Result};
use kolo_plugin::line::{Ending, Line};
use std::sync::Arc;
use std::time::Duration;

/// Fruitless calls between two looks at the clock.
const CALLS: u32 = 32;

/// Least time between two looks at what costs more than the clock.
const LOOK: Duration = Duration::from_millis(1);

/// Most completions that are taken at once.
const BATCH: usize = 16;

/// One end of a connection.
pub struct Ends {
    // Dropped in this order: queue pairs before their completion queue.
    pub queues: Vec<Queue>,
    completions: Completions,
    pub network: Arc<Network>,
    port: usize,
    pub line: Option<Line>,
    alarm: Arc<Alarm>,
    peer: String,
    error: Option<Error>,
    /// The peer has closed; what has arrived can still be taken.
    pub left: Option<Error>,
    /// Work whose completion is awaited.
    pub in_flight: u32,
    watch: Watch,
}

/// Counts and times kept from one look to the next.
struct Watch {
    calls: u32,
    last: Moment,
    completed: u64,
    completed_before: u64,
    was_busy: bool,
    quiet: Duration,
}

/// A completion, in terms of the end.
pub enum Done {
    /// Work that this end posted, by its number.
    Work(u64),
    /// A value from the peer, and the index of the queue pair that it came by.
    Value(u32, usize),
}

impl Ends {
    /// Makes `count` queue pairs on a port, not yet connected.
    pub fn new(
        network: &Arc<Network>,
        port: usize,
        count: u32,
        sends: u32,
        receives: u32,
    ) -> Result<Ends> {
        let device = &network.ports[port].device;
        let number = network.ports[port].number;
        let (sends, receives) = (sends.min(device.max_work), receives.min(device.max_work));
        let entries = (count * (sends + receives)).min(device.max_completions);
        let completions = Completions::new(&device.domain, entries)?;
        let queues: Result<Vec<Queue>> = (0..count)
            .map(|_| Queue::new(&device.domain, &completions, sends, receives, number))
            .collect();
        let ends = Ends {
            queues: queues?,
            completions,
            network: network.clone(),
            port,
            line: None,
            alarm: Arc::default(),
            peer: String::new(),
            error: None,
            left: None,
            in_flight: 0,
            watch: Watch {
                calls: 0,
                last: now(),
                completed: 0,
                completed_before: 0,
                was_busy: false,
                quiet: Duration::ZERO,
            },
        };
        for queue in &ends.queues {
            device.watcher.enter(queue.number(), &ends.alarm);
        }
        Ok(ends)
    }

    /// The port of this end.
    pub fn port(&self) -> &Port {
        &self.network.ports[self.port]
    }

    /// Its place among the ports.
    pub fn port_index(&self) -> usize {
        self.port
    }

    /// The address that this end uses.
    pub fn gid(&self) -> Result<Gid> {
        let port = self.port();
        let context = port.device.domain.context();
        let table = context.gids(port.number, port.gid_count, port.ethernet);
        let wanted = self.network.settings.gid_index;
        crate::gid::choose(&table, wanted, port.ethernet, &port.text())
    }

    /// Returns the greeting that tells the other end about this one.
    pub fn hello(&self, gid: &Gid, area: (u64, u32)) -> Hello {
        let port = self.port();
        Hello {
            queues: self
                .queues
                .iter()
                .map(|q| (q.number(), q.first_packet))
                .collect(),
            split: self.network.settings.split,
            ethernet: port.ethernet,
            reads: port.device.reads,
            answers: port.device.answers,
            mtu: port.mtu,
            lid: port.lid,
            gid: gid.raw,
            area: area.0,
            area_key: area.1,
            host: self.network.host.clone(),
            device: port.device.name.clone(),
            port: port.number,
            pid: std::process::id(),
        }
    }

    /// Connects all queue pairs to those of `peer`.
    pub fn connect(&mut self, peer: &Hello, gid: &Gid, traffic_class: u8) -> Result<()> {
        let port = self.port();
        let text = peer.text();
        if peer.ethernet != port.ethernet {
            let kind = |ethernet| if ethernet { "RoCE" } else { "InfiniBand" };
            return Err(Error::usage(
                format!(
                    "{} is {}, and {text} is {}",
                    port.text(),
                    kind(port.ethernet),
                    kind(peer.ethernet)
                ),
                "choose ports of one kind on all nodes with KOLO_IB_HCA",
            ));
        }
        if peer.queues.len() != self.queues.len() {
            return Err(Error::internal(
                "the ends have different numbers of queue pairs",
            ));
        }
        let settings = &self.network.settings;
        let path = Path {
            port: port.number,
            mtu: port.mtu.min(peer.mtu),
            lid: peer.lid,
            gid: peer.gid,
            gid_index: gid.index,
            // Ports of one InfiniBand subnet need no global route.
            is_global: port.ethernet || peer.lid == 0 || peer.gid[..8] != gid.raw[..8],
            service_level: settings.service_level,
            traffic_class: settings.traffic_class.unwrap_or(traffic_class),
            timeout: settings.timeout,
            retry_count: settings.retry_count,
            reads: port.device.reads.min(peer.answers),
            answers: port.device.answers.min(peer.reads),
        };
        for (queue, (number, first)) in self.queues.iter().zip(&peer.queues) {
            queue.connect(*number, *first, &path).map_err(|mut error| {
                error.what = format!("{}, {text}, from {}", error.what, port.text());
                error
            })?;
        }
        self.peer = text;
        Ok(())
    }

    /// The error that has ended this connection, if one has.
    pub fn check(&self) -> Result<()> {
        match &self.error {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// Ends the connection; the first error stays. `tell`: whether the peer does not know it yet.
    pub fn fail(&mut self, error: Error, tell: bool) -> Error {
        if let Some(first) = &self.error {
            return first.clone();
        }
        for queue in &self.queues {
            queue.stop();
        }
        if let Some(line) = self.line.as_mut().filter(|_| tell) {
            line.say_error(&error);
        }
        self.error = Some(error.clone());
        error
    }

    /// Takes what has completed. An error completion ends the connection.
    pub fn poll(&mut self, mut each: impl FnMut(&mut Vec<Queue>, Done)) -> Result<bool> {
        self.check()?;
        let mut room = [ib::ibv_wc::default(); BATCH];
        let mut any = false;
        loop {
            let count = match self.completions.poll(&mut room) {
                Ok(count) => count,
                Err(error) => {
                    let doing = format!("cannot poll completions of {}", self.port().text());
                    let error = Error::system(doing, &error, "see `dmesg`");
                    return Err(self.fail(error, true));
                }
            };
            for one in &room[..count] {
                self.watch.completed += 1;
                if let Some((status, vendor)) = one.error() {
                    self.failed(status, vendor)?;
                    continue;
                }
                let done = match one.opcode() {
                    ib::ibv_wc_opcode::IBV_WC_RECV_RDMA_WITH_IMM => {
                        let by = self.queues.iter().position(|q| q.number() == one.qp_num);
                        Done::Value(u32::from_be(one.imm_data), by.unwrap_or(0))
                    }
                    _ => {
                        self.in_flight = self.in_flight.saturating_sub(1);
                        Done::Work(one.wr_id())
                    }
                };
                any = true;
                each(&mut self.queues, done);
            }
            if count < BATCH {
                return Ok(any);
            }
        }
    }

    /// An error completion: the peer's own words, where it has said any, are better than the
    /// adapter's. After a goodbye it is what must come: nobody answers any more.
    fn failed(&mut self, status: ib::ibv_wc_status::Type, vendor: u32) -> Result<()> {
        let said = self
            .line
            .as_mut()
            .filter(|_| self.left.is_none())
            .and_then(Line::look);
        if let Some(bye @ Ending::Bye(_)) = said.clone() {
            self.left = Some(bye.error(&self.peer));
        }
        if self.left.is_some() {
            return Ok(());
        }
        let (here, peer) = (self.port().text(), self.peer.clone());
        let mut error = explain::completion(status, vendor, &here, &peer, &self.network.settings);
        if let Some(event) = self.alarm.text() {
            error.what = format!("{}; the adapter reported \"{event}\"", error.what);
        }
        if self
            .port()
            .device
            .health
            .down_for(self.port().number)
            .is_some()
        {
            error.what = format!("{}; {here} is down", error.what);
        }
        let known = said.is_some();
        if let Some(said) = said {
            let ending = said.error(&self.peer);
            error.code = ending.code;
            error.what = format!("{}; {}", ending.what, error.what);
        }
        Err(self.fail(error, !known))
    }

    /// To be called when nothing else happened: now and then looks at what else may have.
    pub fn idle(&mut self) -> Result<()> {
        self.watch.calls += 1;
        if self.watch.calls < CALLS {
            return Ok(());
        }
        self.watch.calls = 0;
        let since = self.watch.last.waited();
        if since < LOOK {
            return Ok(());
        }
        self.watch.last = now();
        self.look(since)
    }

    fn look(&mut self, since: Duration) -> Result<()> {
        let here = self.port().text();
        let peer = self.peer.clone();
        let health = self.port().device.health.clone();
        let limit = self.network.settings.link_timeout;
        let link = |what: String| {
            Error::new(
                Code::RemoteError,
                what,
                "check cable, switch and port of both ends (`ibv_devinfo`); KOLO_NET_LINK_TIMEOUT \
                 sets how long a link may be away",
            )
        };
        if let Some(event) = self.alarm.text() {
            let what = format!("a queue pair of {here} to {peer} failed: \"{event}\"");
            let error = Error::new(
                Code::SystemError,
                what,
                "see `dmesg` for messages of its driver",
            );
            return Err(self.fail(error, true));
        }
        if health.fatal.load(std::sync::atomic::Ordering::Relaxed) {
            let what = format!("the adapter of {here} has failed or is gone");
            let error = Error::new(
                Code::SystemError,
                what,
                "see `dmesg` for messages of its driver",
            );
            return Err(self.fail(error, true));
        }
        let down = health
            .down_for(self.port().number)
            .map(Duration::from_millis);
        if let Some(down) = down.filter(|down| limit.is_some_and(|limit| *down >= limit)) {
            let what = format!(
                "the link of {here} to {peer} has been down for {:.1} s",
                down.as_secs_f64()
            );
            return Err(self.fail(link(what), true));
        }
        self.watch_silence(since);
        if let Some(limit) = limit.filter(|limit| self.watch.quiet >= *limit) {
            let what = format!(
                "work from {here} to {peer} has had no answer for {:.1} s",
                limit.as_secs_f64()
            );
            return Err(self.fail(link(what), true));
        }
        match self
            .line
            .as_mut()
            .filter(|_| self.left.is_none())
            .and_then(Line::look)
        {
            None => Ok(()),
            Some(bye @ Ending::Bye(_)) => {
                self.left = Some(bye.error(&peer));
                Ok(())
            }
            Some(said) => {
                let error = said.error(&peer);
                Err(self.fail(error, false))
            }
        }
    }

    /// Adds up time in which work was on its way and nothing completed. Completions were polled
    /// just before, so time in which nobody looked is not silence of the link.
    fn watch_silence(&mut self, since: Duration) {
        let watch = &mut self.watch;
        let silent = watch.was_busy && watch.completed == watch.completed_before;
        watch.quiet = match silent {
            true => watch.quiet + since,
            false => Duration::ZERO,
        };
        watch.completed_before = watch.completed;
        watch.was_busy = self.in_flight > 0;
    }

    /// Says goodbye in good order, or that messages were given up.
    pub fn close(&mut self, unfinished: usize) -> Result<()> {
        if self.error.is_none() && unfinished > 0 {
            let error = Error::usage(
                format!(
                    "a connection to {} was closed with {unfinished} requests open",
                    self.peer
                ),
                "test every request until it is done before closing",
            );
            return Err(self.fail(error, true));
        }
        if let Some(line) = self.line.as_mut().filter(|_| self.error.is_none()) {
            // A message that the adapter has confirmed is there.
            line.say_bye(0);
        }
        Ok(())
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        let device = &self.network.ports[self.port].device;
        for queue in &self.queues {
            device.watcher.leave(queue.number());
        }
    }
}
