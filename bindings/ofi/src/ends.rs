//! Parts that both ends of a connection share: the endpoint, the line, and how errors are noticed.
//!
//! Every call that waits drives the endpoint. The line to the peer costs a system call, and is
//! looked at when nothing else happens, at most once a millisecond. It is the line that tells of a
//! peer that was killed, and, by the system's keepalive, of a node that is gone: what a provider
//! tells of either, and when, differs, and one that only receives may never tell.
//!
//! The first error is the last word, and is told to the peer; every later call returns it again.

use crate::endpoint::Endpoint;
use crate::hello::Hello;
use crate::libfabric::Failure;
use crate::network::Network;
use kolo::base::clock::{Moment, now};
use kolo::base::{Code, Error, Result};
use kolo_plugin::line::{Ending, Line};
use std::sync::Arc;
use std::time::Duration;

/// Fruitless calls between two looks at the clock.
const CALLS: u32 = 32;

/// Least time between two looks at the line.
const LOOK: Duration = Duration::from_millis(1);

/// How long what a peer has sent before its goodbye may still be on its way.
const LATE: Duration = Duration::from_secs(5);

/// One end of a connection.
pub struct Ends {
    /// The endpoint of its device.
    pub endpoint: Arc<Endpoint>,
    /// Its number there, with which the tags of what it receives begin.
    pub number: u32,
    network: Arc<Network>,
    device: usize,
    line: Option<Line>,
    peer: String,
    error: Option<Error>,
    left: Option<Left>,
    calls: u32,
    last: Moment,
}

/// Place of the other end.
#[derive(Clone, Copy, Default)]
pub struct Peer {
    /// The number of its endpoint on this one.
    pub address: u64,
    /// Its number there.
    pub number: u32,
}

/// The goodbye of a peer.
struct Left {
    error: Error,
    /// How many messages it has sent in all, as far as it is told.
    messages: u64,
    since: Moment,
}

impl Ends {
    /// Makes an end on a device, not yet connected.
    pub fn new(network: &Arc<Network>, device: usize) -> Result<Ends> {
        let endpoint = network.endpoint(device)?;
        Ok(Ends {
            number: endpoint.numbers.draw()?,
            endpoint,
            network: network.clone(),
            device,
            line: None,
            peer: "a peer that is not known yet".into(),
            error: None,
            left: None,
            calls: 0,
            last: now(),
        })
    }

    /// Returns the greeting that tells the other end about this one.
    pub fn hello(&self) -> Hello {
        let facts = &self.network.devices[self.device].facts;
        Hello {
            name: self.endpoint.name.clone(),
            number: self.number,
            provider: facts.provider.clone(),
            device: facts.domain.clone(),
            host: self.network.host.clone(),
            pid: std::process::id(),
        }
    }

    /// Where the end is that has greeted so.
    pub fn connect(&mut self, peer: &Hello) -> Result<Peer> {
        let facts = &self.network.devices[self.device].facts;
        self.peer = peer.text();
        if peer.provider != facts.provider {
            return Err(Error::usage(
                format!(
                    "this end uses the libfabric provider {}, and {} uses {}",
                    facts.provider, self.peer, peer.provider
                ),
                "set KOLO_OFI_PROVIDER to one that all nodes have",
            ));
        }
        Ok(Peer {
            address: self.endpoint.peer(&peer.name)?,
            number: peer.number,
        })
    }

    /// Takes over the line to the peer.
    pub fn keep_line(&mut self, line: Line) {
        self.line = Some(line);
    }

    /// The error that has ended this connection, if one has.
    pub fn check(&self) -> Result<()> {
        self.error.clone().map_or(Ok(()), Err)
    }

    /// Ends the connection; the first error stays. `tell`: whether the peer does not know it yet.
    pub fn fail(&mut self, error: Error, tell: bool) -> Error {
        if let Some(first) = &self.error {
            return first.clone();
        }
        if let Some(line) = self.line.as_mut().filter(|_| tell) {
            line.say_error(&error);
        }
        self.error.insert(error).clone()
    }

    /// The provider refuses or ends something in failure: the peer's own words, where it has said
    /// any, are better than the provider's.
    pub fn failed(&mut self, doing: &str, failure: &Failure) -> Error {
        let mut error = Error::new(
            Code::RemoteError,
            format!(
                "libfabric by {} to {}: {doing} failed: {}",
                self.endpoint.text, self.peer, failure.text
            ),
            "see whether that process still runs, and check the link of both nodes (`fi_info`, \
             `fi_pingpong`); KOLO_NET=socket does without libfabric",
        );
        let said = self.line.as_mut().and_then(Line::look);
        let known = said.is_some();
        if let Some(said) = said {
            let ending = said.error(&self.peer);
            error.code = ending.code;
            error.what = format!("{}; {}", ending.what, error.what);
        }
        self.fail(error, !known)
    }

    /// Drives the endpoint.
    pub fn poll(&mut self) -> Result<()> {
        let polled = self.endpoint.poll();
        polled.map_err(|failure| self.failed("to look for what has ended", &failure))
    }

    /// To be called when nothing else happened: now and then looks at the line. `received` is the
    /// number of messages that have come. An error when the peer has left and nothing is to come.
    pub fn idle(&mut self, received: u64) -> Result<()> {
        self.calls += 1;
        if self.calls >= CALLS && self.last.past(LOOK) {
            self.calls = 0;
            self.last = now();
            self.look()?;
        }
        let Some(left) = &self.left else {
            return Ok(());
        };
        // The numbers are told modulo some power of 2.
        let all = (received & 0xff_ffff) == left.messages;
        if all || left.since.past(LATE) {
            let error = left.error.clone();
            return Err(self.fail(error, false));
        }
        Ok(())
    }

    fn look(&mut self) -> Result<()> {
        let line = self.line.as_mut().filter(|_| self.left.is_none());
        match line.and_then(Line::look) {
            None => Ok(()),
            Some(bye @ Ending::Bye(_)) => {
                let messages = if let Ending::Bye(count) = bye {
                    count
                } else {
                    0
                };
                self.left = Some(Left {
                    error: bye.error(&self.peer),
                    messages,
                    since: now(),
                });
                Ok(())
            }
            Some(said) => {
                let error = said.error(&self.peer);
                Err(self.fail(error, false))
            }
        }
    }

    /// Says goodbye in good order after so many messages, or that requests were given up.
    pub fn part(&mut self, unfinished: usize, sent: u64) -> Result<()> {
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
            line.say_bye(sent);
        }
        Ok(())
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.endpoint.numbers.give_back(self.number);
    }
}
