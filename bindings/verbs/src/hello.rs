//! Greetings of the two ends of a new connection ([`kolo_plugin::greeting`]): their queue pairs and
//! addresses.

use crate::settings::MAX_QUEUES;
use kolo::base::Result;
use kolo::trust::proof::Preamble;
use kolo_plugin::fabric::Signs;
use kolo_plugin::greeting::{HELLO_BYTES, Reader, Writer};

/// How this network is told from others.
pub const SIGNS: Signs = Signs {
    what: "RDMA",
    log: "NET/verbs",
    page: "docs/net-verbs.md",
    handle: *b"KVB2",
    label: b"kolo net verbs",
    // The version is that of everything here.
    protocol: Preamble {
        magic: *b"KOLOrdma",
        version: 4,
    },
};

/// One end of a connection, as the other one needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Number and first packet number of each queue pair.
    pub queues: Vec<(u32, u32)>,
    /// Whether messages are spread over all queue pairs.
    pub split: bool,
    pub ethernet: bool,
    /// Reads that a queue pair of it may have under way.
    pub reads: u8,
    /// Reads that a queue pair of it may be answering.
    pub answers: u8,
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

impl Hello {
    pub fn write(&self) -> [u8; HELLO_BYTES] {
        let mut out = Writer::begin(SIGNS.handle);
        out.put(&[u8::from(self.split), u8::from(self.ethernet), self.port]);
        out.put(&[self.queues.len() as u8, self.reads, self.answers]);
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
        let Some(mut fields) = Reader::open(bytes, SIGNS.handle, SIGNS.what)? else {
            return Ok(None);
        };
        let [split, ethernet, port, count, reads, answers] = fields.take();
        if !(1..=MAX_QUEUES).contains(&u32::from(count)) {
            return Ok(None);
        }
        let mut hello = Hello {
            queues: Vec::new(),
            split: split != 0,
            ethernet: ethernet != 0,
            reads,
            answers,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(queues: u32) -> Hello {
        Hello {
            queues: (0..queues).map(|q| (q + 17, q * 1000)).collect(),
            split: true,
            ethernet: true,
            reads: 16,
            answers: 3,
            mtu: 5,
            lid: 9,
            gid: [7; 16],
            area: 0x7fff_1234_5678,
            area_key: 99,
            host: "n".repeat(64),
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
}
