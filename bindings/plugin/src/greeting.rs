//! Greetings that the two ends of a new connection exchange once they have proven that they know
//! the secret of the handle: a greeting of fixed size, and an answer of the same form or the reason
//! why there is none. What stands in it is the network's own.

use kolo::base::{Code, Error, Result};

/// Size of a greeting and of an answer.
pub const HELLO_BYTES: usize = 512;

/// Longest name of a host or device in bytes.
pub const NAME_BYTES: usize = 64;

const REFUSED: u8 = 1;

/// Writes fields one after the other.
pub struct Writer {
    bytes: [u8; HELLO_BYTES],
    at: usize,
}

impl Writer {
    /// Begins a greeting of the network with these first bytes.
    pub fn begin(magic: [u8; 4]) -> Writer {
        Writer::of_kind(magic, 0)
    }

    fn of_kind(magic: [u8; 4], kind: u8) -> Writer {
        let mut out = Writer {
            bytes: [0; HELLO_BYTES],
            at: 0,
        };
        out.put(&magic);
        out.put(&[kind]);
        out
    }

    /// Adds a field.
    pub fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    /// Adds a name, of which only the beginning may fit.
    pub fn name(&mut self, text: &str) {
        let mut field = [0; NAME_BYTES];
        let end = (0..=text.len().min(NAME_BYTES))
            .rev()
            .find(|&end| text.is_char_boundary(end))
            .unwrap_or(0);
        field[..end].copy_from_slice(&text.as_bytes()[..end]);
        self.put(&field);
    }

    /// Ends the greeting by its sum.
    pub fn finish(mut self) -> [u8; HELLO_BYTES] {
        let sum = crc32c::crc32c(&self.bytes[..HELLO_BYTES - 4]);
        self.bytes[HELLO_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        self.bytes
    }
}

/// Reads fields one after the other.
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Opens a greeting or an answer of a network, which is called `what` in sentences.
    ///
    /// # Errors
    /// `RemoteError` for a refusal, with the other end's words. `None` is what is neither: a
    /// stranger's, or another version's.
    pub fn open(
        bytes: &'a [u8; HELLO_BYTES],
        magic: [u8; 4],
        what: &str,
    ) -> Result<Option<Reader<'a>>> {
        let sum = crc32c::crc32c(&bytes[..HELLO_BYTES - 4]).to_le_bytes();
        let mut fields = Reader(bytes);
        if fields.take() != magic || bytes[HELLO_BYTES - 4..] != sum {
            return Ok(None);
        }
        if fields.take() == [REFUSED] {
            return Err(read_refusal(fields, what));
        }
        Ok(Some(fields))
    }

    /// The next field. All fields of a greeting together are smaller than it.
    ///
    /// # Panics
    /// There is no more.
    pub fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk::<N>().expect("the size is fixed");
        self.0 = rest;
        *field
    }

    /// The next name.
    pub fn name(&mut self) -> String {
        let field = self.take::<NAME_BYTES>();
        let end = field.iter().position(|&b| b == 0).unwrap_or(NAME_BYTES);
        String::from_utf8_lossy(&field[..end]).into_owned()
    }
}

/// An answer that says why there is no connection.
pub fn refusal(magic: [u8; 4], error: &Error) -> [u8; HELLO_BYTES] {
    let mut out = Writer::of_kind(magic, REFUSED);
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

fn read_refusal(mut fields: Reader, network: &str) -> Error {
    let mut text = || {
        let length = usize::from(u16::from_le_bytes(fields.take()));
        let length = length.min(fields.0.len().saturating_sub(6));
        let (text, rest) = fields.0.split_at(length);
        fields.0 = rest;
        String::from_utf8_lossy(text).into_owned()
    };
    let (what, remedy) = (text(), text());
    let what = format!("the receiving end refused a connection by {network}: {what}");
    Error::new(Code::RemoteError, what, remedy)
}

/// This node's name, for the peer's messages.
pub fn host() -> String {
    let mut name = [0; 256];
    // SAFETY: the place has the size that is given; it stays ended by a zero byte.
    unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(0);
    String::from_utf8_lossy(&name[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: [u8; 4] = *b"TEST";

    fn open(bytes: &[u8; HELLO_BYTES]) -> Result<Option<Reader<'_>>> {
        Reader::open(bytes, MAGIC, "RDMA")
    }

    #[test]
    fn fields_come_back_as_they_were() {
        let mut out = Writer::begin(MAGIC);
        out.put(&[1, 2, 3]);
        out.name(&"é".repeat(40));
        let bytes = out.finish();
        let mut fields = open(&bytes).unwrap().unwrap();
        assert_eq!(fields.take(), [1, 2, 3]);
        assert_eq!(fields.name(), "é".repeat(32));
    }

    #[test]
    fn strangers_and_damage_are_noticed() {
        assert!(open(&[0; HELLO_BYTES]).unwrap().is_none());
        let good = Writer::begin(MAGIC).finish();
        for at in [0, 8, 100, HELLO_BYTES - 1] {
            let mut bytes = good;
            bytes[at] ^= 0x40;
            assert!(open(&bytes).unwrap().is_none(), "byte {at}");
        }
    }

    #[test]
    fn a_refusal_keeps_its_words() {
        let error = Error::usage("one port is Ethernet", "use one kind of port");
        let read = open(&refusal(MAGIC, &error)).err().unwrap();
        assert!(read.what.contains("by RDMA: one port is Ether"), "{read}");
        assert_eq!(read.remedy, "use one kind of port");
        let long = Error::usage("x".repeat(1000), "y".repeat(1000));
        let read = open(&refusal(MAGIC, &long)).err().unwrap();
        assert!(read.what.contains("xxx"));
    }
}
