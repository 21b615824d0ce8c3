//! Random traffic over a connection, every byte of which is checked.
//!
//! Messages lie at random places of one buffer and arrive at random places of another, between
//! poison. Each has contents of its own. The receiver posts them in groups; the sender takes them
//! in an order that differs between tags and keeps that of each tag.

use crate::plugin::{Comm, Memory, Request, Result, until};

const POISON: u8 = 0xee;
const GAP: usize = 32;

/// Sizes and numbers of a run of traffic.
pub struct Shape {
    pub seed: u64,
    pub messages: usize,
    /// Largest message.
    pub largest: usize,
    /// Most buffers of one request.
    pub group: usize,
    /// Tags that are used.
    pub tags: i32,
    /// All messages of the largest size, not random ones.
    pub full: bool,
}

struct Message {
    bytes: usize,
    capacity: usize,
    tag: i32,
    from: usize,
    to: usize,
    sent: Option<Request>,
    done: bool,
}

struct Group {
    first: usize,
    count: usize,
    request: Option<Request>,
    done: bool,
}

/// Memory of a test, registered on a connection.
pub struct Buffer {
    pub bytes: Vec<u8>,
    pub memory: Memory,
}

impl Buffer {
    pub fn new(comm: &Comm, bytes: usize, fill: u8) -> Result<Buffer> {
        let mut bytes = vec![fill; bytes.max(1)];
        let memory = comm.register(bytes.as_mut_ptr(), bytes.len(), 1)?;
        Ok(Buffer { bytes, memory })
    }
}

fn size(random: &mut fastrand::Rng, shape: &Shape) -> usize {
    let largest = shape.largest;
    match random.u32(0..8) {
        _ if shape.full => largest,
        0 => 0,
        1 => random.usize(1..9).min(largest),
        2 => (4096 + random.usize(0..3)).saturating_sub(1).min(largest),
        3 => largest,
        4 | 5 => random.usize(0..=largest.min(5000)),
        _ => random.usize(0..=largest),
    }
}

fn contents(seed: u64, index: usize, room: &mut [u8]) {
    fastrand::Rng::with_seed(seed ^ (index as u64) << 20).fill(room);
}

fn layout(random: &mut fastrand::Rng, shape: &Shape) -> (Vec<Message>, Vec<Group>, usize, usize) {
    let (mut from, mut to) = (GAP, GAP);
    let mut messages = Vec::new();
    for _ in 0..shape.messages {
        let bytes = size(random, shape);
        let capacity = bytes + random.usize(0..3) * random.usize(0..100);
        messages.push(Message {
            bytes,
            capacity,
            tag: random.i32(0..shape.tags),
            from,
            to,
            sent: None,
            done: false,
        });
        from += bytes + GAP + random.usize(0..70);
        to += capacity + GAP + random.usize(0..70);
    }
    let (mut groups, mut first) = (Vec::new(), 0);
    while first < messages.len() {
        let count = random.usize(1..=shape.group).min(messages.len() - first);
        groups.push(Group {
            first,
            count,
            request: None,
            done: false,
        });
        first += count;
    }
    (messages, groups, from, to)
}

/// Carries random messages; the number of bytes. Panics on a wrong byte.
pub fn carry(sender: &Comm, receiver: &Comm, shape: &Shape) -> Result<u64> {
    println!("    seed {}", shape.seed);
    let mut random = fastrand::Rng::with_seed(shape.seed);
    let (mut messages, mut groups, from, to) = layout(&mut random, shape);
    let mut source = Buffer::new(sender, from, 0)?;
    let mut target = Buffer::new(receiver, to, POISON)?;
    for (index, message) in messages.iter().enumerate() {
        let room = &mut source.bytes[message.from..message.from + message.bytes];
        contents(shape.seed, index, room);
    }
    until(300, || {
        let mut open = false;
        for group in groups.iter_mut().filter(|group| !group.done) {
            open = true;
            if !receive(receiver, &mut target, &messages, group)? {
                break;
            }
        }
        open |= send(sender, &mut source, &mut messages, &mut random)?;
        Ok((!open).then_some(()))
    })?;
    sender.deregister(source.memory);
    receiver.deregister(target.memory);
    check(shape, &messages, &target.bytes);
    Ok(messages.iter().map(|message| message.bytes as u64).sum())
}

/// Moves a group on; false when it could not be posted, so that later ones need not be tried.
fn receive(
    comm: &Comm,
    target: &mut Buffer,
    messages: &[Message],
    group: &mut Group,
) -> Result<bool> {
    let mine = &messages[group.first..group.first + group.count];
    match group.request {
        None => {
            let base = target.bytes.as_mut_ptr();
            // The places lie inside the buffer.
            let place = |m: &Message| (base.wrapping_add(m.to), m.capacity, m.tag, target.memory);
            let places: Vec<_> = mine.iter().map(place).collect();
            group.request = comm.irecv(&places)?;
            Ok(group.request.is_some())
        }
        Some(request) => {
            if let Some(sizes) = comm.test(request)? {
                for (message, size) in mine.iter().zip(sizes) {
                    assert_eq!(message.bytes as i32, size);
                }
                group.done = true;
            }
            Ok(true)
        }
    }
}

/// Tries one of the first messages that are not sent, and tests those that are; whether any is
/// left.
fn send(
    comm: &Comm,
    source: &mut Buffer,
    messages: &mut [Message],
    random: &mut fastrand::Rng,
) -> Result<bool> {
    const AHEAD: usize = 6;
    let waiting: Vec<usize> = (0..messages.len())
        .filter(|&index| messages[index].sent.is_none())
        .take(AHEAD)
        .collect();
    if !waiting.is_empty() {
        let chosen = waiting[random.usize(0..waiting.len())];
        let tag = messages[chosen].tag;
        // The first of its tag goes first.
        let index = waiting
            .into_iter()
            .find(|&index| messages[index].tag == tag)
            .unwrap();
        let message = &mut messages[index];
        let data = source.bytes.as_mut_ptr().wrapping_add(message.from);
        message.sent = comm.isend((data, message.bytes, tag, source.memory))?;
    }
    for message in messages.iter_mut().filter(|message| !message.done) {
        if let Some(request) = message.sent
            && let Some(sizes) = comm.test(request)?
        {
            assert_eq!(sizes[0], message.bytes as i32);
            message.done = true;
        }
    }
    Ok(messages.iter().any(|message| !message.done))
}

fn check(shape: &Shape, messages: &[Message], target: &[u8]) {
    let mut expected = vec![POISON; target.len()];
    for (index, message) in messages.iter().enumerate() {
        let room = &mut expected[message.to..message.to + message.bytes];
        contents(shape.seed, index, room);
    }
    if let Some(at) = (0..target.len()).find(|&at| target[at] != expected[at]) {
        let index = messages.iter().rposition(|m| m.to <= at + GAP);
        panic!(
            "wrong byte {at}, near message {index:?} of seed {}",
            shape.seed
        );
    }
}

/// One message of contents `fill`, there and checked.
pub fn one(sender: &Comm, receiver: &Comm, bytes: usize, fill: u8) -> Result<()> {
    let mut source = Buffer::new(sender, bytes, fill)?;
    let mut target = Buffer::new(receiver, bytes, POISON)?;
    let place = (target.bytes.as_mut_ptr(), bytes, 3, target.memory);
    let posted = until(10, || receiver.irecv(&[place]))?;
    let place = (source.bytes.as_mut_ptr(), bytes, 3, source.memory);
    let sent = until(10, || {
        // The receiver notices what has happened to it, too.
        receiver.test(posted)?;
        sender.isend(place)
    })?;
    let mut sent = Some(sent);
    let sizes = until(60, || {
        if let Some(request) = sent
            && sender.test(request)?.is_some()
        {
            sent = None;
        }
        receiver.test(posted)
    })?;
    if let Some(request) = sent {
        sender.wait(request)?;
    }
    assert_eq!(sizes[0] as usize, bytes);
    assert!(target.bytes[..bytes].iter().all(|&byte| byte == fill));
    sender.deregister(source.memory);
    receiver.deregister(target.memory);
    Ok(())
}
