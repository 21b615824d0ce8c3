//! Tests of the door, over pipes in memory.

use super::*;
use crate::trust::proof::Caller;
use std::cell::RefCell;
use std::rc::Rc;

const PROTOCOL: Preamble = Preamble {
    magic: *b"KOLOtst\xf2",
    version: 1,
};

const LIMITS: Limits = Limits {
    guests: 4,
    patience: Duration::from_secs(3600),
    burst: 8,
};

/// Both ways of a connection, as the door sees them.
#[derive(Default)]
struct Pipe {
    to_door: VecDeque<u8>,
    from_door: Vec<u8>,
    ended: bool,
}

#[derive(Clone, Default)]
struct End(Rc<RefCell<Pipe>>);

impl Read for End {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut pipe = self.0.borrow_mut();
        match (pipe.to_door.is_empty(), pipe.ended) {
            (true, true) => Ok(0),
            (true, false) => Err(ErrorKind::WouldBlock.into()),
            _ => pipe.to_door.read(into),
        }
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().from_door.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl End {
    fn is_held(&self) -> bool {
        Rc::strong_count(&self.0) > 1
    }

    fn say(&self, bytes: &[u8]) {
        self.0.borrow_mut().to_door.extend(bytes);
    }
}

struct Owner;

/// Says "later" so often, and then what the owner says.
struct Slow(usize);

impl Keeper for Slow {
    fn judge(&mut self, hello: &Hello) -> Verdict {
        match self.0.checked_sub(1) {
            Some(rest) => {
                self.0 = rest;
                Verdict::Later
            }
            None => Owner.judge(hello),
        }
    }

    fn other_version(&mut self, version: u16) -> Vec<u8> {
        Owner.other_version(version)
    }
}

fn key() -> Key {
    Key::derive(b"secret", &[])
}

impl Keeper for Owner {
    fn judge(&mut self, hello: &Hello) -> Verdict {
        match hello.purpose {
            1 => Verdict::Answer(1, key()),
            2 => Verdict::Refuse(b"not so".to_vec()),
            _ => Verdict::Drop,
        }
    }

    fn other_version(&mut self, version: u16) -> Vec<u8> {
        format!("version {version}").into_bytes()
    }
}

fn hello(purpose: u8) -> Hello {
    Hello {
        purpose,
        offers: 1,
        id: [0; 16],
        nonce: proof::random().unwrap(),
        body: b"body".to_vec(),
    }
}

/// Accepts from the system's queue, which is made up.
fn queue(of: &mut VecDeque<io::Result<End>>) -> impl FnMut() -> io::Result<End> + '_ {
    || of.pop_front().unwrap_or(Err(ErrorKind::WouldBlock.into()))
}

fn shortage() -> io::Result<End> {
    Err(io::Error::from_raw_os_error(libc::EMFILE))
}

#[test]
fn who_knows_the_secret_enters_and_nothing_is_read_beyond() {
    let mut door = Door::new(PROTOCOL, LIMITS);
    let end = End::default();
    let mut caller = Caller::new(PROTOCOL, &hello(1));
    end.say(&caller.hello()[..50]);
    let mut new = VecDeque::from([Ok(end.clone())]);
    assert!(door.serve(&mut Owner, queue(&mut new)).is_empty());
    end.say(&caller.hello()[50..]);
    assert!(door.serve(&mut Owner, queue(&mut new)).is_empty());
    let answer = std::mem::take(&mut end.0.borrow_mut().from_door);
    assert_eq!(caller.take(&answer[..10]), Event::Nothing);
    assert_eq!(caller.take(&answer[10..]), Event::Answer(1));
    let (confirm, session) = caller.confirm(&key()).unwrap();
    end.say(&confirm);
    end.say(b"and more");
    let mut entered = door.serve(&mut Owner, queue(&mut new));
    let mut entry = entered.pop().unwrap();
    assert_eq!(entry.hello.body, b"body");
    assert_eq!(entry.session.to_host.bytes(), session.to_host.bytes());
    let mut rest = [0; 20];
    assert_eq!(entry.stream.read(&mut rest).unwrap(), 8);
    assert_eq!(door.guests(), 0);
}

/// A keeper that must ask somebody first is asked once each time the door is served, and the door
/// does not sleep until the answer is there.
#[test]
fn a_keeper_may_take_its_time() {
    let mut door = Door::new(PROTOCOL, LIMITS);
    let end = End::default();
    let mut caller = Caller::new(PROTOCOL, &hello(1));
    end.say(caller.hello());
    let mut new = VecDeque::from([Ok(end.clone())]);
    let mut slow = Slow(3);
    for left in [2, 1, 0] {
        assert!(door.serve(&mut slow, queue(&mut new)).is_empty());
        assert_eq!((slow.0, door.guests()), (left, 1));
        assert!(end.0.borrow().from_door.is_empty());
        assert!(door.guests.iter().all(|guest| guest.waits));
    }
    assert!(door.serve(&mut slow, queue(&mut new)).is_empty());
    assert!(door.guests.iter().all(|guest| !guest.waits));
    let answer = std::mem::take(&mut end.0.borrow_mut().from_door);
    assert_eq!(caller.take(&answer), Event::Answer(1));
    let (confirm, _) = caller.confirm(&key()).unwrap();
    end.say(&confirm);
    let entered = door.serve(&mut slow, queue(&mut new));
    assert_eq!(entered[0].hello.body, b"body");
}

#[test]
fn others_hear_why_or_nothing_and_are_gone() {
    let mut door = Door::new(PROTOCOL, LIMITS);
    let newer = Preamble {
        version: 9,
        ..PROTOCOL
    };
    let wrong = Caller::new(PROTOCOL, &hello(1)).hello().to_vec();
    for (said, answer) in [
        (hello(2).encode(PROTOCOL), &b"not so"[..]),
        (hello(3).encode(PROTOCOL), b""),
        (hello(1).encode(newer), b"version 9"),
        (b"GET / HTTP/1.1".to_vec(), b""),
    ] {
        let end = End::default();
        end.say(&said);
        let mut new = VecDeque::from([Ok(end.clone())]);
        assert!(door.serve(&mut Owner, queue(&mut new)).is_empty());
        assert_eq!(end.0.borrow().from_door, answer);
        assert!(!end.is_held() && door.guests() == 0);
    }
    // A confirmation that is none.
    let end = End::default();
    end.say(&[wrong, vec![3; 32]].concat());
    let mut new = VecDeque::from([Ok(end.clone())]);
    assert!(door.serve(&mut Owner, queue(&mut new)).is_empty());
    assert!(!end.is_held());
}

#[test]
fn guests_are_bounded_and_the_larger_crowd_goes_first() {
    let mut door = Door::new(PROTOCOL, LIMITS);
    let ends: Vec<End> = (0..7).map(|_| End::default()).collect();
    // The first one has said hello: it stays longer than the silent ones.
    ends[0].say(&hello(1).encode(PROTOCOL));
    let mut new: VecDeque<_> = ends.iter().map(|end| Ok(end.clone())).collect();
    door.serve(&mut Owner, queue(&mut new));
    let held: Vec<bool> = ends.iter().map(End::is_held).collect();
    assert_eq!(held, [true, false, false, false, true, true, true]);
    // Strangers can have themselves answered, and drive each other out: not those who are silent
    // still, of whom the youngest may be a rank.
    let callers: Vec<End> = (0..20).map(|_| End::default()).collect();
    for few in callers.chunks(4) {
        few.iter()
            .for_each(|end| end.say(&hello(1).encode(PROTOCOL)));
        let mut new: VecDeque<_> = few.iter().map(|end| Ok(end.clone())).collect();
        door.serve(&mut Owner, queue(&mut new));
        assert_eq!(door.guests(), LIMITS.guests);
    }
    assert!(!ends[4].is_held() && ends[5].is_held() && ends[6].is_held());
    assert!(callers[18].is_held() && callers[19].is_held());
    assert_eq!(callers.iter().filter(|end| end.is_held()).count(), 2);
    // Whose time is over goes as well.
    let mut hasty: Door<End> = Door::new(
        PROTOCOL,
        Limits {
            patience: Duration::ZERO,
            ..LIMITS
        },
    );
    let mut new = VecDeque::from([Ok(ends[4].clone())]);
    hasty.serve(&mut Owner, queue(&mut new));
    assert_eq!(hasty.guests(), 0);
}

/// Those whose hellos wait for a judgement, which may be junk, push out their own kind, and those
/// who came first stay until they are judged, however long that takes.
#[test]
fn a_crowd_that_waits_for_its_judgement_pushes_out_nobody_else() {
    let patience = Duration::from_millis(5);
    let limits = Limits { patience, ..LIMITS };
    let mut door = Door::new(PROTOCOL, limits);
    let silent = End::default();
    let crowd: Vec<End> = (0..30).map(|_| End::default()).collect();
    crowd
        .iter()
        .for_each(|end| end.say(&hello(1).encode(PROTOCOL)));
    let mut new = VecDeque::from([Ok(silent.clone())]);
    let mut slow = Slow(usize::MAX);
    for few in crowd.chunks(6) {
        new.extend(few.iter().map(|end| Ok(end.clone())));
        let since = now();
        door.serve(&mut slow, queue(&mut new));
        assert!(silent.is_held() || since.past(patience));
    }
    let held: Vec<usize> = (0..crowd.len()).filter(|&at| crowd[at].is_held()).collect();
    assert_eq!(held[..3], [0, 1, 2]);
    std::thread::sleep(2 * patience);
    door.serve(&mut slow, queue(&mut new));
    assert!(crowd[0].is_held() && crowd[1].is_held() && !silent.is_held());
    // It does not ask without a rest.
    assert!(door.guests.iter().any(|guest| guest.waits));
    // Judged, it has its whole time to confirm.
    let mut now_judged = Slow(0);
    door.serve(&mut now_judged, queue(&mut new));
    assert!(crowd[0].is_held() && !crowd[0].0.borrow().from_door.is_empty());
}

/// Without descriptors a door asks for a connection once and then rests; asked again and again, it
/// would keep its thread busy for as long as the shortage lasts.
#[test]
fn a_shortage_of_descriptors_is_a_pause() {
    let mut door = Door::new(PROTOCOL, LIMITS);
    let mut asked = 0;
    let mut passes = 0;
    let start = now();
    while !start.past(PAUSE / 2) {
        passes += 1;
        door.serve(&mut Owner, || {
            asked += 1;
            shortage()
        });
    }
    assert!(passes > 10, "{passes} passes");
    assert_eq!(asked, 1, "in {passes} passes");
    assert!(door.is_paused());
    // A guest makes room instead, as long as there is one.
    let mut door = Door::new(PROTOCOL, LIMITS);
    let (old, young) = (End::default(), End::default());
    let mut new = VecDeque::from([Ok(old.clone()), shortage(), Ok(young.clone())]);
    door.serve(&mut Owner, queue(&mut new));
    assert!(!old.is_held() && young.is_held() && !door.is_paused());
}
