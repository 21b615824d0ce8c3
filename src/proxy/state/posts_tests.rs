//! Lookouts that stay: every order of events on purpose.

use super::tests::{NONCE, bench};
use super::*;
use std::sync::Mutex;
use std::time::Duration;

#[derive(Default)]
struct Keeper {
    alarms: Mutex<Vec<Alarm>>,
    dead: Mutex<Vec<Rank>>,
}

impl Staying for Keeper {
    fn alarmed(&self, why: Alarm) {
        self.alarms.lock().unwrap().push(why);
    }

    fn died(&self, ranks: &[Rank], text: &str) {
        assert!(text.contains("node1"), "{text}");
        self.dead.lock().unwrap().extend(ranks);
    }

    fn relieved(&self) {}

    fn go_on(&self) {}

    fn exit(&self, _: &[Rank], _: &str, _: Duration) {}
}

/// A keeper whose rank, the only one here, has left, while rank 3 is in another process.
fn staying() -> (super::tests::Bench, Arc<Keeper>) {
    let mut bench = bench();
    bench.send(ServiceKind::Hello, NONCE.0, 3);
    bench.turn();
    let keeper = Arc::new(Keeper::default());
    posts::stay(&mut bench.state, NONCE, bench.watch, keeper.clone());
    leaving::unwatch(&mut bench.state, NONCE, bench.watch);
    assert!(bench.state.relieved.is_empty());
    assert!(posts::parting(&bench.state, NONCE).is_empty());
    (bench, keeper)
}

#[test]
fn who_stays_hears_alarms_until_the_last_rank_leaves() {
    let (mut bench, keeper) = staying();
    let mut alarm = Frame::new(ServiceKind::Alarm, Alarm::Ask as u64, NONCE.0);
    alarm.rank = 3;
    socket::send(&bench.far, &alarm, None).unwrap();
    bench.turn();
    for (on_alarm, why) in std::mem::take(&mut bench.state.alarms) {
        on_alarm(why);
    }
    assert_eq!(*keeper.alarms.lock().unwrap(), [Alarm::Ask]);
    bench.send(ServiceKind::Bye, NONCE.0, 3);
    bench.turn();
    assert_eq!(bench.state.relieved.len(), 1);
    assert_eq!(posts::parting(&bench.state, NONCE).len(), 1);
    let this: Arc<dyn Staying> = keeper.clone();
    posts::parted(&mut bench.state, NONCE, &this);
    assert!(posts::parting(&bench.state, NONCE).is_empty());
    assert!(posts::staying(&bench.state).is_empty());
    assert!(keeper.dead.lock().unwrap().is_empty());
}

#[test]
fn who_stays_hears_of_deaths() {
    let (mut bench, keeper) = staying();
    drop(std::mem::replace(&mut bench.far, {
        let address = Address::random().unwrap();
        socket::listen(&address).unwrap()
    }));
    bench.turn();
    assert_eq!(*keeper.dead.lock().unwrap(), [Rank(3)]);
    assert_eq!(bench.state.relieved.len(), 1);
}

#[test]
fn ranks_of_this_process_keep_it_too() {
    let mut bench = bench();
    let keeper = Arc::new(Keeper::default());
    let other = bench
        .state
        .watch(NONCE, Rank(1), "node1", Arc::new(|_, _| {}));
    posts::stay(&mut bench.state, NONCE, bench.watch, keeper.clone());
    leaving::unwatch(&mut bench.state, NONCE, bench.watch);
    assert!(bench.state.relieved.is_empty());
    assert_eq!(posts::staying(&bench.state)[0].behind, [Rank(1)]);
    for on_alarm in bench.state.alarm(NONCE, Alarm::Abort) {
        on_alarm(Alarm::Abort);
    }
    assert_eq!(*keeper.alarms.lock().unwrap(), [Alarm::Abort]);
    leaving::unwatch(&mut bench.state, NONCE, other);
    assert_eq!(bench.state.relieved.len(), 1);
}
