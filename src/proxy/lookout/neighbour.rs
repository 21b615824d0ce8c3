//! A lookout's connections with its neighbours in the ring.

use super::ear::{Ear, Newcomers};
use super::message::{Message, News};
use crate::base::clock;
use crate::base::turns;
use crate::base::{Error, Rank, Result};
use crate::transport::net::{Connecting, Request, SendComm};
use std::collections::VecDeque;
use std::time::Duration;

const BYE_PAUSE: Duration = Duration::from_micros(100);
/// Messages that may wait for a neighbour. Who reads nothing for so long learns no more of what
/// ranks do at the moment, but still who has stopped the communicator, left it or was lost: of that
/// there is a message or two for each rank.
const MOST_QUEUED: usize = 4096;

/// The way to a neighbour.
enum Mouth {
    Connecting(Box<dyn Connecting>),
    Up(Box<dyn SendComm>),
}

/// A message of a neighbour, or its loss.
pub(super) enum Heard {
    Message(Message),
    /// Nothing will come any more, because of this.
    Lost(Error),
}

/// A neighbour in the ring.
pub(super) struct Neighbour {
    pub rank: u32,
    /// It has said goodbye, or was lost.
    pub departed: bool,
    mouth: Mouth,
    ear: Option<Ear>,
    queue: VecDeque<Vec<u8>>,
    /// The message at the head of the queue is on its way.
    request: Option<Request>,
    failed: Option<Error>,
}

impl Neighbour {
    /// A neighbour to which `hello` is said first.
    pub fn new(rank: u32, connecting: Box<dyn Connecting>, hello: Vec<u8>) -> Neighbour {
        Neighbour {
            rank,
            departed: false,
            mouth: Mouth::Connecting(connecting),
            ear: None,
            queue: VecDeque::from([hello]),
            request: None,
            failed: None,
        }
    }

    /// Whether this lookout has ever reached it.
    pub fn was_met(&self) -> bool {
        matches!(self.mouth, Mouth::Up(_))
    }

    /// It has connected to this lookout.
    pub fn hear_over(&mut self, ear: Ear) {
        self.ear.get_or_insert(ear);
    }

    /// Takes a message down for it.
    pub fn queue(&mut self, message: Vec<u8>) {
        let has_room = self.queue.len() < MOST_QUEUED || !Message::is_of_the_moment(&message);
        if !self.departed && has_room {
            self.queue.push_back(message);
        }
    }

    /// Sends what it takes.
    pub fn send(&mut self) {
        if self.departed {
            return;
        }
        if let Err(error) = self.try_send() {
            self.failed.get_or_insert(error);
        }
    }

    fn try_send(&mut self) -> Result<()> {
        if let Mouth::Connecting(connecting) = &mut self.mouth {
            match connecting.poll()? {
                Some(comm) => self.mouth = Mouth::Up(comm),
                None => return Ok(()),
            }
        }
        let Mouth::Up(comm) = &mut self.mouth else {
            return Ok(());
        };
        while let Some(message) = self.queue.front() {
            if self.request.is_none() {
                let (data, bytes) = (message.as_ptr(), message.len());
                // SAFETY: the bytes of the vector stay where they are, unchanged, until it is
                // taken from the queue, which is when the request is done.
                self.request = unsafe {
                    let region = comm.register(data, bytes)?;
                    comm.isend(data, bytes, 0, region)?
                };
            }
            let done = match &self.request {
                Some(request) => comm.test(request)?.is_some(),
                None => false,
            };
            if !done {
                return Ok(());
            }
            self.request = None;
            self.queue.pop_front();
        }
        Ok(())
    }

    /// Returns the messages that have come since the last time.
    pub fn look(&mut self) -> Vec<Heard> {
        let mut heard = Vec::new();
        if self.departed {
            return heard;
        }
        self.send();
        if let Some(ear) = &mut self.ear {
            loop {
                match ear.next() {
                    Ok(None) => break,
                    Ok(Some(message)) => {
                        let is_bye = message.news == News::Bye;
                        heard.push(Heard::Message(message));
                        if is_bye {
                            self.failed = None;
                            return heard;
                        }
                    }
                    Err(error) => {
                        self.failed.get_or_insert(error);
                        break;
                    }
                }
            }
        }
        // A goodbye may have come after the way to it was closed, and lie where nobody has looked.
        if self.ear.is_some() {
            heard.extend(self.lost());
        }
        heard
    }

    fn lost(&mut self) -> Option<Heard> {
        let error = self.failed.take()?;
        self.departed = true;
        Some(Heard::Lost(error.with_peer(Rank(self.rank))))
    }

    /// Whether the way to it has failed and it was never heard: it may be among the newcomers.
    pub fn is_in_doubt(&self) -> bool {
        self.failed.is_some() && self.ear.is_none()
    }

    /// Looks once more, after newcomers were let in: what is not heard now is lost.
    pub fn look_again(&mut self) -> Vec<Heard> {
        let mut heard = self.look();
        heard.extend(self.lost());
        heard
    }

    /// Adds what to sleep on. False if it should be looked after a little later all the same.
    pub fn watch(&self, set: &mut Vec<libc::pollfd>) -> bool {
        if self.departed {
            return true;
        }
        let speaks = match &self.mouth {
            Mouth::Connecting(connecting) => connecting.watch(set),
            // While nothing is to be said, what comes over it is of no interest.
            Mouth::Up(comm) => self.queue.is_empty() || comm.watch(set),
        };
        let heard = self.ear.as_ref().is_none_or(|ear| ear.watch(set));
        speaks && heard && self.failed.is_none()
    }

    /// Moves a goodbye on, and acknowledges the neighbour's own. True when this one has arrived, or
    /// is not needed any more.
    pub fn parts(&mut self) -> bool {
        let is_end = |heard: &Heard| match heard {
            Heard::Message(message) => message.news == News::Bye,
            Heard::Lost(_) => true,
        };
        self.departed |= self.look().iter().any(is_end) || self.is_in_doubt();
        if let Some(ear) = &mut self.ear {
            ear.acknowledge();
        }
        if self.departed {
            return true;
        }
        match &mut self.mouth {
            Mouth::Up(comm) if self.queue.is_empty() => {
                comm.finish();
                comm.is_settled()
            }
            _ => false,
        }
    }
}

/// Lets newcomers in who belong to the communicator and are neighbours.
pub(super) fn let_in(neighbours: &mut [Neighbour], newcomers: &mut Newcomers, nonce: u128) {
    for (rank, ear) in newcomers.look(nonce) {
        let known = neighbours.iter_mut().find(|it| it.rank == rank);
        // Whoever is none is closed.
        if let Some(neighbour) = known {
            neighbour.hear_over(ear);
        }
    }
}

/// Says goodbye to all and closes. Neighbours that leave at the same time may have no connection
/// yet, in either direction: until then they are let in. False if somebody did not hear it in time.
pub(super) fn part(
    mut neighbours: Vec<Neighbour>,
    mut newcomers: Newcomers,
    nonce: u128,
    bye: &[u8],
    limit: Duration,
) -> bool {
    for neighbour in &mut neighbours {
        neighbour.queue(bye.to_vec());
    }
    let start = clock::now();
    // All are asked each time: each of them may be waiting for this one.
    loop {
        let mut waits = false;
        let_in(&mut neighbours, &mut newcomers, nonce);
        for neighbour in &mut neighbours {
            waits |= !neighbour.parts();
        }
        if !waits || start.past(limit) {
            return !waits;
        }
        turns::sleep(BYE_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::lookout::message::token;
    use crate::proxy::patience::BYE_LIMIT;
    use crate::transport::net::socket::{SocketNet, SocketOptions};
    use crate::transport::net::{Handle, Net};
    use crate::wire::abort::Abort;

    const NONCE: u128 = 7;

    fn message(origin: u32, news: News) -> Vec<u8> {
        let message = Message {
            origin,
            number: 0,
            news,
        };
        message.encode()
    }

    /// A way to those who let newcomers in, over which nothing was said.
    fn a_way(net: &SocketNet, handle: &Handle, newcomers: &mut Newcomers) -> Box<dyn SendComm> {
        let mut connecting = net.connect(0, handle).unwrap();
        loop {
            assert!(newcomers.look(NONCE).is_empty());
            if let Some(comm) = connecting.poll().unwrap() {
                break comm;
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn an_abort_waits_behind_any_number_of_questions() {
        let options = SocketOptions {
            ifname: Some("=lo".into()),
            ..SocketOptions::default()
        };
        let net = SocketNet::new(options).unwrap();
        let door = net.listen(0).unwrap();
        let connecting = net.connect(0, &door.0).unwrap();
        let mut neighbour = Neighbour::new(1, connecting, message(0, News::Hello(7)));
        for _ in 0..2 * MOST_QUEUED {
            neighbour.queue(message(0, News::Ask));
        }
        assert_eq!(neighbour.queue.len(), MOST_QUEUED);
        let abort = message(
            0,
            News::Abort(Abort {
                code: 1,
                rank: 0,
                peer: None,
                text: "it ended".into(),
            }),
        );
        neighbour.queue(abort.clone());
        neighbour.queue(message(0, News::Ask));
        assert_eq!(neighbour.queue.back(), Some(&abort));
    }

    /// Nothing happens to a socket while it pauses between two tries.
    #[test]
    fn a_neighbour_is_looked_after_while_its_connection_pauses() {
        let options = SocketOptions {
            ifname: Some("=lo".into()),
            ..SocketOptions::default()
        };
        let net = SocketNet::new(options).unwrap();
        let (handle, door) = net.listen(0).unwrap();
        drop(door);
        let hello = message(0, News::Hello(token(NONCE, 0)));
        let mut neighbour = Neighbour::new(1, net.connect(0, &handle).unwrap(), hello);
        let mut set = Vec::new();
        // Nobody listens there, so that the try fails, and a pause follows.
        loop {
            neighbour.send();
            assert!(neighbour.failed.is_none());
            let sleeps = neighbour.watch(&mut set);
            if set.is_empty() {
                break assert!(!sleeps, "nobody would go on with it");
            }
            set.clear();
            std::thread::yield_now();
        }
    }

    /// Its node may be too busy for a word for any time.
    #[test]
    fn whoever_has_come_may_say_late_who_it_is() {
        let options = SocketOptions {
            ifname: Some("=lo".into()),
            ..SocketOptions::default()
        };
        let net = SocketNet::new(options).unwrap();
        let (handle, door) = net.listen(0).unwrap();
        let mut newcomers = Newcomers::new(door);
        let comm = a_way(&net, &handle, &mut newcomers);
        let mut set = Vec::new();
        assert_eq!(newcomers.ears.len(), 1);
        assert!(newcomers.watch(&mut set), "its time has no end");
        assert_eq!(set.len(), 2, "the listener and the newcomer");
        let hello = message(1, News::Hello(token(NONCE, 1)));
        let mut late = Neighbour::new(0, net.connect(0, &handle).unwrap(), hello);
        late.mouth = Mouth::Up(comm);
        let heard = loop {
            late.send();
            let heard = newcomers.look(NONCE);
            if !heard.is_empty() {
                break heard;
            }
            assert!(late.failed.is_none() && !newcomers.ears.is_empty());
            std::thread::yield_now();
        };
        assert!(heard.len() == 1 && heard[0].0 == 1);
    }

    /// The hello and the goodbye of a neighbour lie unread among the newcomers when the way to it
    /// fails: it has left, and is not lost.
    #[test]
    fn a_goodbye_that_nobody_has_read_yet_counts() {
        let options = SocketOptions {
            ifname: Some("=lo".into()),
            ..SocketOptions::default()
        };
        let net = SocketNet::new(options).unwrap();
        let (door, other) = (net.listen(0).unwrap(), net.listen(0).unwrap());
        let hello = |me| message(me, News::Hello(token(NONCE, me)));
        let mut leaving = Neighbour::new(0, net.connect(0, &door.0).unwrap(), hello(1));
        let mut stays = Neighbour::new(1, net.connect(0, &other.0).unwrap(), hello(0));
        let mut newcomers = Newcomers::new(door.1);
        leaving.mouth = Mouth::Up(a_way(&net, &door.0, &mut newcomers));
        let bye = message(1, News::Bye);
        let nobody = Newcomers::new(net.listen(0).unwrap().1);
        let has_parted = part(vec![leaving], nobody, NONCE, &bye, BYE_LIMIT * 20);
        assert!(has_parted, "its goodbye has arrived");
        stays.failed = Some(Error::internal("the way is closed"));
        assert!(stays.look().is_empty() && stays.is_in_doubt());
        let_in(std::slice::from_mut(&mut stays), &mut newcomers, NONCE);
        let is_bye = |it: &Heard| matches!(it, Heard::Message(it) if it.news == News::Bye);
        let heard = stays.look_again();
        assert!(heard.len() == 1 && is_bye(&heard[0]));
        // Of one that has said nothing the failure is the end.
        let mut silent = Neighbour::new(1, net.connect(0, &other.0).unwrap(), hello(0));
        silent.failed = Some(Error::internal("the way is closed"));
        assert!(silent.look().is_empty());
        assert!(matches!(silent.look_again()[..], [Heard::Lost(_)]));
    }

    /// Nobody has tended them: there is no connection in either direction.
    #[test]
    fn neighbours_that_leave_at_the_same_time_hear_of_it() {
        let options = SocketOptions {
            ifname: Some("=lo".into()),
            ..SocketOptions::default()
        };
        let net = SocketNet::new(options).unwrap();
        let mut doors = [net.listen(0).unwrap(), net.listen(0).unwrap()];
        let mut leaving = Vec::new();
        for me in 0..2 {
            let other: usize = 1 - me;
            let connecting = net.connect(0, &doors[other].0).unwrap();
            let hello = message(me as u32, News::Hello(token(NONCE, me as u32)));
            leaving.push(Neighbour::new(other as u32, connecting, hello));
        }
        std::thread::scope(|scope| {
            let parts = doors
                .iter_mut()
                .zip(leaving)
                .zip(0..)
                .map(|((door, neighbour), me)| {
                    let other = net.listen(0).unwrap().1;
                    let newcomers = Newcomers::new(std::mem::replace(&mut door.1, other));
                    let bye = message(me, News::Bye);
                    scope.spawn(move || part(vec![neighbour], newcomers, NONCE, &bye, BYE_LIMIT))
                });
            for heard in parts.collect::<Vec<_>>() {
                assert!(heard.join().unwrap());
            }
        });
    }
}
