//! Two states, or a state and a bare socket, in one thread: every order of events on purpose.

use super::*;
use crate::proxy::socket::Received;
use std::sync::Mutex;

pub(super) const NONCE: Nonce = Nonce(77);

type Heard = Arc<Mutex<Vec<(Vec<Rank>, String)>>>;

/// A state that watches `NONCE` for rank 0, and a link that a bare socket made to it.
pub(super) struct Bench {
    pub state: State,
    pub watch: u64,
    heard: Heard,
    link: u64,
    pub far: Fd,
}

fn watch(state: &mut State, rank: u32) -> (u64, Heard) {
    let heard = Heard::default();
    let sink = heard.clone();
    let on_death: OnDeath = Arc::new(move |ranks: &[Rank], text: &str| {
        sink.lock().unwrap().push((ranks.to_vec(), text.to_owned()));
    });
    (state.watch(NONCE, Rank(rank), "node1", on_death), heard)
}

pub(super) fn bench() -> Bench {
    let address = Address::random().unwrap();
    let listener = socket::listen(&address).unwrap();
    let far = socket::connect(&address).unwrap();
    let mut state = State::default();
    let (watch, heard) = watch(&mut state, 0);
    state.accepted(socket::accept(&listener).unwrap());
    let link = *state.links.keys().next().unwrap();
    Bench {
        state,
        watch,
        heard,
        link,
        far,
    }
}

impl Bench {
    pub fn send(&self, kind: ServiceKind, secret: u128, rank: u32) {
        let mut frame = Frame::new(kind, 5, secret);
        frame.rank = rank;
        frame.pid = 1234;
        socket::send(&self.far, &frame, None).unwrap();
    }

    /// The service thread's turn, with the callbacks.
    pub fn turn(&mut self) {
        let mut deaths = Vec::new();
        incoming::readable(&mut self.state, self.link, &mut deaths);
        for death in deaths {
            (death.on_death)(&death.ranks, &death.text);
        }
    }

    fn receive(&self) -> Option<Frame> {
        match socket::receive(&self.far, false) {
            Ok(Received::Frame(frame, _)) => Some(frame),
            Ok(_) => None,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                None
            }
        }
    }

    fn heard(&self) -> Vec<(Vec<Rank>, String)> {
        std::mem::take(&mut *self.heard.lock().unwrap())
    }

    fn is_open(&self) -> bool {
        self.state.links.contains_key(&self.link)
    }
}

#[test]
fn only_ranks_without_goodbye_are_dead() {
    let mut bench = bench();
    for rank in [3, 4, 5] {
        bench.send(ServiceKind::Hello, NONCE.0, rank);
    }
    bench.send(ServiceKind::Bye, NONCE.0, 4);
    bench.turn();
    let welcome = bench.receive().unwrap();
    assert_eq!((welcome.kind, welcome.operation), (ServiceKind::Welcome, 5));
    bench.far = socket::listen(&Address::random().unwrap()).unwrap();
    bench.turn();
    let text = "process 1234 on node1 ended (it was killed or crashed)";
    assert_eq!(bench.heard(), [(vec![Rank(3), Rank(5)], text.to_owned())]);
    assert!(!bench.is_open());
}

#[test]
fn a_goodbye_counts_although_the_leaver_had_not_read_everything() {
    let mut bench = bench();
    // The welcome is never read, so closing resets the connection: the error comes before the
    // goodbye that waits behind it.
    bench.send(ServiceKind::Hello, NONCE.0, 3);
    bench.turn();
    bench.send(ServiceKind::Bye, NONCE.0, 3);
    bench.far = socket::listen(&Address::random().unwrap()).unwrap();
    bench.turn();
    assert!(!bench.is_open());
    assert_eq!(bench.heard(), []);
}

#[test]
fn an_announced_exit_is_described() {
    for (status, words) in [(0, "in the middle of something"), (1, "with status 1")] {
        let mut bench = bench();
        bench.send(ServiceKind::Hello, NONCE.0, 3);
        let frame = Frame::new(ServiceKind::Leaving, status, 0);
        socket::send(&bench.far, &frame, None).unwrap();
        bench.far = socket::listen(&Address::random().unwrap()).unwrap();
        bench.turn();
        let text = &bench.heard()[0].1;
        let words = format!("ended without koloCommDestroy, {words}");
        assert!(text.ends_with(&words), "{text}");
    }
}

#[test]
fn strangers_may_say_nothing_but_the_secret() {
    for (kind, secret) in [
        (ServiceKind::Hello, 78),
        (ServiceKind::Welcome, NONCE.0),
        (ServiceKind::GetFd, NONCE.0),
        (ServiceKind::Bye, NONCE.0),
        (ServiceKind::Leaving, 0),
    ] {
        let mut bench = bench();
        bench.send(kind, secret, 3);
        bench.turn();
        assert!(!bench.is_open(), "{kind:?}");
        assert_eq!(bench.heard(), []);
    }
}

#[test]
fn a_known_process_may_ask_for_an_unknown_communicator() {
    let mut bench = bench();
    bench.send(ServiceKind::Hello, NONCE.0, 3);
    bench.send(ServiceKind::Hello, 78, 3);
    bench.turn();
    assert_eq!(bench.receive().unwrap().kind, ServiceKind::Welcome);
    assert_eq!(bench.receive().unwrap().kind, ServiceKind::Refused);
    assert!(bench.is_open());
}

#[test]
fn messages_wait_in_order_for_a_process_that_does_not_read() {
    let mut bench = bench();
    bench.send(ServiceKind::Hello, NONCE.0, 3);
    bench.turn();
    let count = 3000;
    for number in 0..count {
        let link = bench.state.links.get_mut(&bench.link).unwrap();
        link.post(Frame::new(ServiceKind::Bye, number, 0));
    }
    let link = &bench.state.links[&bench.link];
    assert!(!link.out.is_empty() && link.events() & libc::POLLOUT != 0);
    assert_eq!(bench.receive().unwrap().kind, ServiceKind::Welcome);
    for number in 0..count {
        let frame = bench.receive().unwrap_or_else(|| {
            bench.state.writable(bench.link);
            bench.receive().unwrap()
        });
        assert_eq!(frame.operation, number);
    }
    assert_eq!(bench.receive(), None);
    bench.state.writable(bench.link);
    assert_eq!(bench.state.links[&bench.link].events(), libc::POLLIN);
}

/// A stopped process reads nothing for long, and is no dead one: its link stays, and nothing of
/// what it must hear is lost. Of alarms, which are said again and again, it hears each once.
#[test]
fn a_process_that_does_not_read_keeps_its_link() {
    let mut bench = bench();
    bench.send(ServiceKind::Hello, NONCE.0, 3);
    bench.turn();
    assert_eq!(bench.receive().unwrap().kind, ServiceKind::Welcome);
    let count = 70_000;
    for number in 0..count {
        let link = bench.state.links.get_mut(&bench.link).unwrap();
        link.post(Frame::new(ServiceKind::Bye, number, 0));
    }
    let before = bench.state.links[&bench.link].out.len();
    for _ in 0..count {
        let link = bench.state.links.get_mut(&bench.link).unwrap();
        link.post(Frame::new(ServiceKind::Alarm, 1, NONCE.0));
    }
    let link = &bench.state.links[&bench.link];
    assert!(!link.closing && link.out.len() == before + 1);
    for number in 0..count {
        let frame = bench.receive().unwrap_or_else(|| {
            bench.state.writable(bench.link);
            bench.receive().unwrap()
        });
        assert_eq!((frame.kind, frame.operation), (ServiceKind::Bye, number));
    }
    bench.state.writable(bench.link);
    assert_eq!(bench.receive().unwrap().kind, ServiceKind::Alarm);
    assert_eq!(bench.receive(), None);
}

#[test]
fn goodbye_goes_to_those_who_know_the_rank() {
    let mut bench = bench();
    leaving::unwatch(&mut bench.state, NONCE, bench.watch);
    assert_eq!(bench.receive(), None);
    let (watch, _heard) = watch(&mut bench.state, 9);
    bench.send(ServiceKind::Hello, NONCE.0, 3);
    bench.turn();
    leaving::unwatch(&mut bench.state, NONCE, watch);
    assert_eq!(bench.receive().unwrap().kind, ServiceKind::Welcome);
    let bye = bench.receive().unwrap();
    assert_eq!(
        (bye.kind, bye.secret, bye.rank),
        (ServiceKind::Bye, NONCE.0, 9)
    );
    // Nobody watches any more: the end of the process is nobody's business.
    bench.far = socket::listen(&Address::random().unwrap()).unwrap();
    bench.turn();
    assert!(!bench.is_open() && bench.heard().is_empty());
}

/// The side that opens links, against a bare listening socket.
#[test]
fn one_link_serves_all_communicators_and_goes_with_the_last() {
    let address = Address::random().unwrap();
    let listener = socket::listen(&address).unwrap();
    let peer = Peer {
        address,
        pid: 5,
        ranks: vec![Rank(1)],
    };
    let mut state = State::default();
    let (watch_id, heard) = watch(&mut state, 0);
    let operation = state.hello(NONCE, Rank(0), 4, &peer).unwrap();
    let second = state.hello(NONCE, Rank(2), 4, &peer).unwrap();
    let far = socket::accept(&listener).unwrap();
    assert!(socket::accept(&listener).is_err(), "one link");
    assert_eq!(state.answer(operation), None);
    let id = *state.links.keys().next().unwrap();
    let mut deaths = Vec::new();
    socket::send(&far, &Frame::new(ServiceKind::Welcome, operation, 0), None).unwrap();
    socket::send(&far, &Frame::new(ServiceKind::Refused, second, 0), None).unwrap();
    incoming::readable(&mut state, id, &mut deaths);
    assert_eq!(state.answer(operation), Some(Answer::Welcome));
    assert_eq!(state.answer(second), Some(Answer::Refused));
    state.sweep();
    assert_eq!(state.links.len(), 1);
    leaving::unwatch(&mut state, NONCE, watch_id);
    state.sweep();
    assert!(state.links.is_empty() && deaths.is_empty() && heard.lock().unwrap().is_empty());
}

#[test]
fn a_lost_link_answers_whoever_waits_and_is_no_death_yet() {
    let address = Address::random().unwrap();
    let listener = socket::listen(&address).unwrap();
    let peer = Peer {
        address,
        pid: 5,
        ranks: vec![Rank(1)],
    };
    let mut state = State::default();
    let (_watch, _heard) = watch(&mut state, 0);
    let operation = state.hello(NONCE, Rank(0), 4, &peer).unwrap();
    drop(socket::accept(&listener).unwrap());
    let id = *state.links.keys().next().unwrap();
    let mut deaths = Vec::new();
    incoming::readable(&mut state, id, &mut deaths);
    assert!(deaths.is_empty());
    assert_eq!(state.answer(operation), Some(Answer::Lost));
    drop(listener);
    let refused = state.hello(NONCE, Rank(0), 4, &peer).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn strangers_are_bounded() {
    let address = Address::random().unwrap();
    let listener = socket::listen(&address).unwrap();
    let mut state = State::default();
    let mut far = Vec::new();
    for _ in 0..STRANGER_COUNT + 10 {
        far.push(socket::connect(&address).unwrap());
        state.accepted(socket::accept(&listener).unwrap());
    }
    assert_eq!(state.links.len(), STRANGER_COUNT);
    // A child that another test forks has the socket, too, until it has closed it.
    let has_ended = |_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        matches!(socket::receive(&far[9], false), Ok(Received::End))
    };
    assert!((0..5000).any(has_ended));
    assert!(socket::receive(&far[10], false).is_err());
}
