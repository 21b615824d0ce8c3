//! Greetings of the two ends of a new connection ([`kolo_plugin::greeting`]): their endpoints, and
//! the numbers that their tags begin with.

use crate::libfabric::NAME_BYTES;
use kolo::base::Result;
use kolo::trust::proof::Preamble;
use kolo_plugin::fabric::Signs;
use kolo_plugin::greeting::{HELLO_BYTES, Reader, Writer};

/// How this network is told from others.
pub const SIGNS: Signs = Signs {
    what: "libfabric",
    log: "NET/ofi",
    page: "docs/net-ofi.md",
    handle: *b"KOF1",
    label: b"kolo net ofi",
    // The version is that of everything here.
    protocol: Preamble {
        magic: *b"KOLO-ofi",
        version: 1,
    },
};

/// One end of a connection, as the other one needs to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The name of its endpoint.
    pub name: Vec<u8>,
    /// Its number on that endpoint.
    pub number: u32,
    /// The part of the provider that both ends must have in common.
    pub provider: String,
    /// For people.
    pub device: String,
    /// For people.
    pub host: String,
    /// For people.
    pub pid: u32,
}

impl Hello {
    /// Writes it.
    pub fn write(&self) -> [u8; HELLO_BYTES] {
        let mut out = Writer::begin(SIGNS.handle);
        let mut name = [0; NAME_BYTES];
        let bytes = self.name.len().min(NAME_BYTES);
        name[..bytes].copy_from_slice(&self.name[..bytes]);
        out.put(&(bytes as u16).to_le_bytes());
        out.put(&name);
        out.put(&self.number.to_le_bytes());
        out.put(&self.pid.to_le_bytes());
        out.name(&self.provider);
        out.name(&self.device);
        out.name(&self.host);
        out.finish()
    }

    /// Reads a greeting or an answer. `RemoteError` for a refusal, with the other end's words;
    /// `None` for what is neither: a stranger, or another version.
    pub fn read(bytes: &[u8; HELLO_BYTES]) -> Result<Option<Hello>> {
        let Some(mut fields) = Reader::open(bytes, SIGNS.handle, SIGNS.what)? else {
            return Ok(None);
        };
        let bytes = usize::from(u16::from_le_bytes(fields.take()));
        let name: [u8; NAME_BYTES] = fields.take();
        let Some(name) = name.get(..bytes) else {
            return Ok(None);
        };
        Ok(Some(Hello {
            name: name.to_vec(),
            number: u32::from_le_bytes(fields.take()),
            pid: u32::from_le_bytes(fields.take()),
            provider: fields.name(),
            device: fields.name(),
            host: fields.name(),
        }))
    }

    /// For people: device, process and node.
    pub fn text(&self) -> String {
        format!("{} of process {} on {}", self.device, self.pid, self.host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_come_back_as_they_were() {
        for bytes in [0, 16, NAME_BYTES] {
            let sent = Hello {
                name: vec![7; bytes],
                number: 0xdead_beef,
                provider: "tcp".into(),
                device: "eth0".into(),
                host: "node1".into(),
                pid: 4711,
            };
            assert_eq!(Hello::read(&sent.write()).unwrap(), Some(sent.clone()));
            assert!(sent.text().contains("eth0 of process 4711 on node1"));
        }
        assert_eq!(Hello::read(&[0; HELLO_BYTES]).unwrap(), None);
    }
}
