//! Tests of panics on the service thread.

use super::start::start_thread;
use super::*;
use crate::base::Rank;
use crate::base::birth::Birth;
use std::fs::File;
use std::sync::mpsc;
use std::time::Duration;

type Said = (Vec<Rank>, String);

/// A service of its own, as the process's would end all communicators of these tests.
fn service() -> &'static Service {
    let service = Service::create().unwrap();
    start_thread(Arc::clone(&service)).unwrap();
    Box::leak(Box::new(service))
}

fn watch(service: &'static Service, nonce: u128) -> (Watch, mpsc::Receiver<Said>) {
    let (say, hear) = mpsc::channel();
    let say = Mutex::new(say);
    let on_death: OnDeath = Arc::new(move |ranks: &[Rank], text: &str| {
        let said = (ranks.to_vec(), text.to_owned());
        let _ = say.lock().unwrap().send(said);
    });
    (
        Watch::begin(service, Nonce(nonce), Rank(0), "node1", on_death),
        hear,
    )
}

/// Panics where it is told to, each time.
struct Fragile {
    watches: bool,
}

impl Attended for Fragile {
    fn watch(&self, _: &mut Vec<libc::pollfd>) -> bool {
        assert!(self.watches, "list 3 is gone");
        // It is tended soon, whatever the thread sleeps on.
        false
    }

    fn tend(&self) {
        assert!(!self.watches, "door 4 is gone");
    }
}

/// Has nothing to sleep on, and waits to be tended.
struct Quiet(Mutex<mpsc::Sender<()>>);

impl Attended for Quiet {
    fn watch(&self, _: &mut Vec<libc::pollfd>) -> bool {
        true
    }

    fn tend(&self) {
        let _ = self.0.lock().unwrap().send(());
    }
}

/// Brings a thing when the thread has looked through its list and does not sleep yet.
struct Late(&'static Service, Mutex<Option<Arc<dyn Attended>>>);

impl Attended for Late {
    fn watch(&self, _: &mut Vec<libc::pollfd>) -> bool {
        let brought = self.1.lock().unwrap().take();
        if let Some(attended) = brought {
            self.0.attend(attended);
        }
        true
    }

    fn tend(&self) {}
}

#[test]
fn what_is_added_while_the_thread_goes_to_sleep_is_tended() {
    let service = service();
    let (say, hear) = mpsc::channel();
    let quiet = Arc::new(Quiet(Mutex::new(say)));
    service.attend(Arc::new(Late(service, Mutex::new(Some(quiet)))));
    hear.recv_timeout(Duration::from_secs(60))
        .expect("it was not tended");
}

fn heard(hear: &mpsc::Receiver<Said>) -> String {
    let (ranks, text) = hear.recv().unwrap();
    assert!(ranks.is_empty(), "no rank has died: {ranks:?}");
    text
}

#[test]
fn a_panic_is_told_and_the_thread_lives_on() {
    let service = service();
    for (watches, word) in [(true, "door 4 is gone"), (false, "list 3 is gone")] {
        let (_one, hear_one) = watch(service, 1);
        let (_other, hear_other) = watch(service, 2);
        service.attend(Arc::new(Fragile { watches }));
        for hear in [&hear_one, &hear_other] {
            let text = heard(hear);
            assert!(
                text.contains("service thread failed") && text.contains(word),
                "{text}"
            );
        }
        // Its turns go on, and each of them ends.
        service.await_turn();
        assert!(
            hear_one.try_recv().is_err(),
            "what panicked is attended no more"
        );
    }
}

/// The end of a communicator, whose rank 1 sends for rank 0, in a process that is stopped.
#[test]
fn a_stopped_proxy_rank_is_given_up() {
    let service = service();
    let (watch, _hear) = watch(service, 4);
    let mut sleeper = std::process::Command::new("sleep")
        .arg("100")
        .spawn()
        .unwrap();
    // SAFETY: a child of this test that has not been waited for.
    assert_eq!(unsafe { libc::kill(sleeper.id() as i32, libc::SIGSTOP) }, 0);
    // Its service, as far as the connection goes: it lets this one in, and then says nothing.
    let address = Address::random().unwrap();
    let listener = socket::listen(&address).unwrap();
    let peer = Peer {
        address,
        pid: sleeper.id(),
        ranks: vec![Rank(1)],
    };
    let operation = service
        .lock()
        .hello(Nonce(4), Rank(0), service.pid, &peer)
        .unwrap();
    let far = socket::accept(&listener).unwrap();
    let welcome = Frame::new(ServiceKind::Welcome, operation, 0);
    socket::send(&far, &welcome, None).unwrap();
    service.wake();
    while service.lock().answer(operation).is_none() {
        service.await_turn();
    }
    watch.caller().close(Rank(1)).wait_within(Duration::ZERO);
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

#[test]
fn an_alarm_that_panics_is_told() {
    let service = service();
    let (watch, hear) = watch(service, 3);
    watch.heed(Arc::new(|_| panic!("board 5 is gone")));
    let mut state = service.lock();
    let called = state.alarm(Nonce(3), Alarm::Ask);
    state.alarms = called.into_iter().map(|it| (it, Alarm::Ask)).collect();
    drop(state);
    service.wake();
    assert!(heard(&hear).contains("board 5 is gone"));
    service.await_turn();
}

/// A process that is stopped: its socket lets others in, and nobody answers there. Without the
/// limit these calls would wait for ever.
#[test]
fn a_stopped_process_is_waited_for_no_longer_than_the_start_may_take() {
    let service = service();
    let (watch, _hear) = watch(service, 5);
    // Of two processes the one with the larger address links.
    let address = std::iter::repeat_with(|| Address::random().unwrap())
        .find(|address| *address < service.address())
        .unwrap();
    let _listener = socket::listen(&address).unwrap();
    let until = |limit, birth| Until { limit, birth };
    let soon = until(Some(Duration::from_millis(20)), None);
    let key = Key::new(Nonce(5), Rank(0));
    let fetched = service.fetch_until(&address, key, soon).err().unwrap();
    assert_eq!(fetched.kind(), io::ErrorKind::TimedOut);
    let peer = Peer {
        address,
        pid: 1,
        ranks: vec![Rank(1)],
    };
    let linked = watch.link(&peer, soon).unwrap_err();
    assert_eq!(linked.kind(), io::ErrorKind::TimedOut);
    // A start that is called off waits no longer, though there is no limit.
    let birth = Birth::begun(Rank(0), 2, None).unwrap();
    std::thread::scope(|scope| {
        let fetching =
            scope.spawn(|| service.fetch_until(&address, key, until(None, Some(&birth))));
        let linking = scope.spawn(|| watch.link(&peer, until(None, Some(&birth))));
        std::thread::sleep(Duration::from_millis(5));
        birth.call_off("called CommAbort");
        let fetched = fetching.join().unwrap().err().unwrap();
        let linked = linking.join().unwrap().unwrap_err();
        for error in [fetched, linked] {
            assert_eq!(error.kind(), io::ErrorKind::ConnectionAborted);
            assert!(error.to_string().contains("called CommAbort"), "{error}");
        }
    });
}

/// A driver that waits in another thread must not keep the service from its other work: a maker
/// that answers only when memory under another key has been handed over.
#[test]
fn memory_that_is_made_slowly_holds_up_nobody() {
    let service = service();
    let file = || Arc::new(Fd::new(File::open("/proc/self/maps").unwrap().into()).unwrap());
    let ((begin, begun), (let_go, wait)) = (mpsc::channel(), mpsc::channel());
    let wait = Mutex::new(wait);
    let [ready, slow, fails, panics] = [0, 1, 2, 3].map(|rank| Key::new(Nonce(6), Rank(rank)));
    let made = file();
    let slowly = move || {
        begin.send(()).unwrap();
        wait.lock().unwrap().recv().ok().map(|()| Arc::clone(&made))
    };
    let _ready = service.publish(ready, file());
    let _promises = [
        service.promise(slow, Arc::new(slowly)),
        service.promise(fails, Arc::new(|| None)),
        service.promise(panics, Arc::new(|| panic!("device 7 is gone"))),
    ];
    let address = service.address();
    std::thread::scope(|scope| {
        let asker = scope.spawn(|| service.fetch(&address, slow));
        begun.recv().unwrap();
        service.fetch(&address, ready).unwrap();
        service.await_turn();
        assert!(!asker.is_finished(), "its memory is not made yet");
        let_go.send(()).unwrap();
        asker.join().unwrap().unwrap();
    });
    for key in [fails, panics] {
        let refused = service.fetch(&address, key).err().unwrap();
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionReset);
    }
}
