//! Greetings that the two ends of a new connection exchange once they have proven that they know
//! the secret of the handle: a greeting of fixed size, and an answer of the same form or the reason
//! why there is none.

use crate::settings::MAX_QUEUES;
use kolo::base::{Code, Error, Result};
use kolo::trust::proof::Preamble;

/// Size of a greeting and of an answer.
pub const HELLO_BYTES: usize = 512;

/// The first bytes of the proof that comes before; the version is that of everything here.
pub const PROTOCOL: Preamble = Preamble {
    magic: *b"KOLOrdma",
    version: 2,
};

const MAGIC: [u8; 4] = *b"KVH2";
const NAME_BYTES: usize = 64;
const REFUSED: u8 = 1;

/// One end of a connection, as the other one needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Number and first packet number of each queue pair.
    pub queues: Vec<(u32, u32)>,
    /// Whether messages are spread over all queue pairs.
    pub split: bool,
    pub ethernet: bool,
    pub mtu: u32,
    pub lid: u16,
    pub gid: [u8; 16],
    /// Where the peer may write: slots in the sender, sizes in the receiver.
    pub area: u64,
    pub area_key: u32,
    /// For people.
    pub host: String,
    pub device: String,
    pub port: u8,
    pub pid: u32,
}

/// Writes fields one after the other.
struct Writer {
    bytes: [u8; HELLO_BYTES],
    at: usize,
}

impl Writer {
    fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    fn name(&mut self, text: &str) {
        let mut field = [0; NAME_BYTES];
        let end = (0..=text.len().min(NAME_BYTES))
            .rev()
            .find(|&end| text.is_char_boundary(end))
            .unwrap_or(0);
        field[..end].copy_from_slice(&text.as_bytes()[..end]);
        self.put(&field);
    }

    fn finish(mut self) -> [u8; HELLO_BYTES] {
        let sum = crc32c::crc32c(&self.bytes[..HELLO_BYTES - 4]);
        self.bytes[HELLO_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        self.bytes
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk::<N>().expect("the size is fixed");
        self.0 = rest;
        *field
    }

    fn name(&mut self) -> String {
        let field = self.take::<NAME_BYTES>();
        let end = field.iter().position(|&b| b == 0).unwrap_or(NAME_BYTES);
        String::from_utf8_lossy(&field[..end]).into_owned()
    }
}

impl Hello {
    pub fn write(&self) -> [u8; HELLO_BYTES] {
        let mut out = start(0);
        out.put(&[u8::from(self.split), u8::from(self.ethernet), self.port]);
        out.put(&[self.queues.len() as u8]);
        out.put(&self.mtu.to_le_bytes());
        out.put(&self.lid.to_le_bytes());
        out.put(&self.gid);
        out.put(&self.area.to_le_bytes());
        out.put(&self.area_key.to_le_bytes());
        out.put(&self.pid.to_le_bytes());
        out.name(&self.host);
        out.name(&self.device);
        for (number, packet) in &self.queues {
            out.put(&number.to_le_bytes());
            out.put(&packet.to_le_bytes());
        }
        out.finish()
    }

    /// Reads a greeting or an answer. `RemoteError` for a refusal, with the other end's words;
    /// `None` for what is neither: a stranger, or another version.
    pub fn read(bytes: &[u8; HELLO_BYTES]) -> Result<Option<Hello>> {
        let sum = crc32c::crc32c(&bytes[..HELLO_BYTES - 4]).to_le_bytes();
        let mut fields = Reader(bytes);
        if fields.take() != MAGIC || bytes[HELLO_BYTES - 4..] != sum {
            return Ok(None);
        }
        if fields.take() == [REFUSED] {
            return Err(read_refusal(fields));
        }
        let [split, ethernet, port, count] = fields.take();
        if !(1..=MAX_QUEUES).contains(&u32::from(count)) {
            return Ok(None);
        }
        let mut hello = Hello {
            queues: Vec::new(),
            split: split != 0,
            ethernet: ethernet != 0,
            mtu: u32::from_le_bytes(fields.take()),
            lid: u16::from_le_bytes(fields.take()),
            gid: fields.take(),
            area: u64::from_le_bytes(fields.take()),
            area_key: u32::from_le_bytes(fields.take()),
            pid: u32::from_le_bytes(fields.take()),
            host: fields.name(),
            device: fields.name(),
            port,
        };
        for _ in 0..count {
            let number = u32::from_le_bytes(fields.take());
            hello
                .queues
                .push((number, u32::from_le_bytes(fields.take())));
        }
        Ok(Some(hello))
    }

    /// For people: host, process, device, port and address.
    pub fn text(&self) -> String {
        format!(
            "{} port {} ({}) of process {} on {}",
            self.device,
            self.port,
            crate::gid::text(&self.gid),
            self.pid,
            self.host
        )
    }
}

fn start(kind: u8) -> Writer {
    let mut out = Writer {
        bytes: [0; HELLO_BYTES],
        at: 0,
    };
    out.put(&MAGIC);
    out.put(&[kind]);
    out
}

/// An answer that says why there is no connection.
pub fn refusal(error: &Error) -> [u8; HELLO_BYTES] {
    let mut out = start(REFUSED);
    let mut room = HELLO_BYTES - 4 - out.at - 4;
    let cut = |text: &str, room: usize| -> Vec<u8> {
        let end = (0..=text.len().min(room))
            .rev()
            .find(|&end| text.is_char_boundary(end));
        text.as_bytes()[..end.unwrap_or(0)].to_vec()
    };
    let what = cut(&error.what, room);
    room -= what.len();
    let remedy = cut(&error.remedy, room);
    for text in [what, remedy] {
        out.put(&(text.len() as u16).to_le_bytes());
        out.put(&text);
    }
    out.finish()
}

fn read_refusal(mut fields: Reader) -> Error {
    let mut text = || {
        let length = usize::from(u16::from_le_bytes(fields.take()));
        let length = length.min(fields.0.len().saturating_sub(6));
        let (text, rest) = fields.0.split_at(length);
        fields.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    };
    let (what, remedy) = (text(), text());
    let what = format!("the receiving end refused an RDMA connection: {what}");
    Error::new(Code::RemoteError, what, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(queues: u32) -> Hello {
        Hello {
            queues: (0..queues).map(|q| (q + 17, q * 1000)).collect(),
            split: true,
            ethernet: true,
            mtu: 5,
            lid: 9,
            gid: [7; 16],
            area: 0x7fff_1234_5678,
            area_key: 99,
            host: "n".repeat(NAME_BYTES),
            device: "mlx5_0".into(),
            port: 2,
            pid: 4711,
        }
    }

    #[test]
    fn greetings_come_back_as_they_were() {
        for queues in [1, 2, MAX_QUEUES] {
            let sent = hello(queues);
            assert_eq!(Hello::read(&sent.write()).unwrap(), Some(sent));
        }
        let mut long = hello(1);
        long.host = "é".repeat(40);
        let read = Hello::read(&long.write()).unwrap().unwrap();
        assert_eq!(read.host, "é".repeat(32));
        assert!(read.text().contains("mlx5_0 port 2") && read.text().contains("4711"));
    }

    #[test]
    fn strangers_and_damage_are_noticed() {
        assert_eq!(Hello::read(&[0; HELLO_BYTES]).unwrap(), None);
        let good = hello(2).write();
        for at in [0, 8, 100, HELLO_BYTES - 1] {
            let mut bytes = good;
            bytes[at] ^= 0x40;
            assert_eq!(Hello::read(&bytes).unwrap(), None, "byte {at}");
        }
    }

    #[test]
    fn a_refusal_keeps_its_words() {
        let error = Error::usage("one port is Ethernet", "use one kind of port");
        let read = Hello::read(&refusal(&error)).unwrap_err();
        assert!(read.what.ends_with("one port is Ethernet"), "{read}");
        assert_eq!(read.remedy, "use one kind of port");
        let long = Error::usage("x".repeat(1000), "y".repeat(1000));
        assert!(
            Hello::read(&refusal(&long))
                .unwrap_err()
                .what
                .contains("xxx")
        );
    }
}
