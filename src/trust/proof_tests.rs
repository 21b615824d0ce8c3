//! Tests of the proof: who meets, and what opens nothing.

use super::*;

const PROTOCOL: Preamble = Preamble {
    magic: *b"KOLOtst\xf1",
    version: 3,
};

fn key(text: &str) -> Key {
    Key::derive(text.as_bytes(), &[b"test"])
}

fn hello(body: &[u8]) -> Hello {
    Hello {
        purpose: 1,
        offers: 6,
        id: [4; ID_BYTES],
        nonce: random().unwrap(),
        body: body.to_vec(),
    }
}

/// Both ends by the same key; bytes go over in pieces of `piece`. Host, caller, and what each sent.
fn talk(piece: usize, ours: &Key, theirs: &Key) -> (bool, Vec<Vec<u8>>, Host) {
    let said = hello(b"ranks and so on");
    let mut caller = Caller::new(PROTOCOL, &said);
    let mut host = Host::new(PROTOCOL);
    let mut sent = vec![caller.hello().to_vec()];
    let mut event = Event::Nothing;
    let mut rest = &sent[0][..];
    while !rest.is_empty() {
        let part = rest.split_off(..piece.min(host.wants())).unwrap();
        assert_eq!(event, Event::Nothing);
        event = host.take(part);
    }
    assert_eq!(event, Event::Hello(said));
    sent.push(host.answer(4, ours, random().unwrap()).to_vec());
    assert!(host.has_answered());
    let mut event = Event::Nothing;
    let mut rest = &sent[1][..];
    while !rest.is_empty() {
        let part = rest.split_off(..piece.min(caller.wants())).unwrap();
        event = caller.take(part);
    }
    assert_eq!(event, Event::Answer(4));
    let Some((confirm, session)) = caller.confirm(theirs) else {
        return (false, sent, host);
    };
    sent.push(confirm.to_vec());
    let mut event = Event::Nothing;
    for part in sent[2].chunks(piece) {
        assert_eq!(event, Event::Nothing);
        event = host.take(part);
    }
    let other = host.session().unwrap();
    assert_eq!(other.to_host.bytes(), session.to_host.bytes());
    assert_eq!(other.to_caller.bytes(), session.to_caller.bytes());
    assert_ne!(other.to_host.bytes(), session.to_caller.bytes());
    (event == Event::Confirmed(true), sent, host)
}

#[test]
fn those_who_share_a_key_meet_whatever_the_cutting() {
    for piece in [1, 3, 7, 16, 64, 1000] {
        assert!(talk(piece, &key("a"), &key("a")).0, "pieces of {piece}");
    }
}

#[test]
fn another_key_is_noticed_by_the_caller_and_by_the_host() {
    assert!(!talk(9, &key("a"), &key("b")).0);
    let caller = Caller::new(PROTOCOL, &hello(b""));
    let mut host = Host::new(PROTOCOL);
    host.take(caller.hello());
    host.answer(1, &key("a"), [5; ID_BYTES]);
    assert_eq!(host.take(&[7; CONFIRM_BYTES]), Event::Confirmed(false));
}

#[test]
fn what_was_said_before_opens_nothing() {
    let (met, sent, _) = talk(64, &key("a"), &key("a"));
    assert!(met);
    // The whole of it once more: the host's number is another one.
    let mut host = Host::new(PROTOCOL);
    assert!(matches!(host.take(&sent[0]), Event::Hello(_)));
    host.answer(4, &key("a"), random().unwrap());
    assert_eq!(host.take(&sent[2]), Event::Confirmed(false));
    // The answer once more: the caller's number is another one.
    let mut caller = Caller::new(PROTOCOL, &hello(b"ranks and so on"));
    assert_eq!(caller.take(&sent[1]), Event::Answer(4));
    assert!(caller.confirm(&key("a")).is_none());
}

#[test]
fn what_comes_back_as_it_was_sent_opens_nothing() {
    // The host's own tag as the confirmation.
    let caller = Caller::new(PROTOCOL, &hello(b""));
    let mut host = Host::new(PROTOCOL);
    host.take(caller.hello());
    let answer = host.answer(1, &key("a"), random().unwrap());
    assert_eq!(host.take(&answer[32..]), Event::Confirmed(false));
    // The caller's hello as the answer to it: as long as one, and no more.
    let mut caller = Caller::new(PROTOCOL, &hello(&[0; 16]));
    let said = caller.hello().to_vec();
    assert_eq!(said.len(), ANSWER_BYTES);
    assert!(matches!(caller.take(&said), Event::Answer(_)));
    assert!(caller.confirm(&key("a")).is_none());
}

#[test]
fn every_changed_bit_is_noticed() {
    let (said, k) = (hello(b"ranks"), key("a"));
    let bytes = said.encode(PROTOCOL);
    for bit in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let mut host = Host::new(PROTOCOL);
        match host.take(&changed) {
            Event::Foreign | Event::Version(_) | Event::Nothing => continue,
            Event::Hello(_) => {}
            other => panic!("bit {bit}: {other:?}"),
        }
        let answer = host.answer(1, &k, [9; ID_BYTES]);
        let mut caller = Caller::new(PROTOCOL, &said);
        caller.take(&answer);
        assert!(caller.confirm(&k).is_none(), "bit {bit} of the hello");
    }
    let mut host = Host::new(PROTOCOL);
    host.take(&bytes);
    let answer = host.answer(1, &k, [9; ID_BYTES]);
    for bit in 0..ANSWER_BYTES * 8 {
        let mut changed = answer;
        changed[bit / 8] ^= 1 << (bit % 8);
        let mut caller = Caller::new(PROTOCOL, &said);
        if let Event::Answer(_) = caller.take(&changed) {
            assert!(caller.confirm(&k).is_none(), "bit {bit} of the answer");
        }
    }
}

#[test]
fn versions_and_strangers_are_told_apart_by_the_first_bytes() {
    let newer = Preamble {
        version: 4,
        ..PROTOCOL
    };
    let bytes = hello(b"x").encode(newer);
    assert_eq!(Host::new(PROTOCOL).take(&bytes[..9]), Event::Nothing);
    assert_eq!(Host::new(PROTOCOL).take(&bytes[..10]), Event::Version(4));
    let mut caller = Caller::new(PROTOCOL, &hello(b""));
    assert_eq!(caller.take(&bytes[..10]), Event::Version(4));
    assert_eq!(Host::new(PROTOCOL).take(b"G"), Event::Foreign);
    let mut caller = Caller::new(PROTOCOL, &hello(b""));
    assert_eq!(caller.take(b"HTTP/1.1 4"), Event::Foreign);
    assert_eq!(caller.heard(), b"HTTP/1.1 4");
    let mut long = hello(b"").encode(PROTOCOL);
    long[12..14].copy_from_slice(&(MAX_BODY as u16 + 1).to_be_bytes());
    assert_eq!(Host::new(PROTOCOL).take(&long), Event::Foreign);
}

#[test]
fn garbage_never_panics_and_never_opens() {
    let seed = 0x6b6f_6c6f;
    println!("seed {seed:#x}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..5000 {
        let mut host = Host::new(PROTOCOL);
        let mut start = hello(b"abc").encode(PROTOCOL);
        start.truncate(random.usize(..=start.len()));
        let mut event = host.take(&start);
        for _ in 0..8 {
            if !matches!(event, Event::Nothing) {
                break;
            }
            let mut bytes = vec![0; random.usize(1..=host.wants())];
            random.fill(&mut bytes);
            event = host.take(&bytes);
        }
        assert_ne!(event, Event::Confirmed(true));
    }
}

/// RFC 4231, test case 2, over one part without its length would be the plain HMAC; the length in
/// front makes lists of parts differ.
#[test]
fn parts_do_not_run_into_each_other() {
    assert_ne!(key("a").tag(&[b"ab", b"c"]), key("a").tag(&[b"a", b"bc"]));
    assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
    let (a, b) = (Key::derive(b"s", &[b"x"]), Key::derive(b"s", &[b"y"]));
    assert_ne!(a.bytes(), b.bytes());
}
