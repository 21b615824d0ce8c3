//! Notes: the small messages by which ranks connect, post buffers and close.

use crate::base::{Code, Error, Result};

/// Bytes of a note.
pub const NOTE_BYTES: usize = 44;
/// MPI's tag of all notes; data have the tags above it.
pub const NOTE_TAG: i32 = 0;

/// Kind of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// Sender to listener: connect me. `from` is the sender's end.
    Connect = 1,
    /// Receiver to sender: connected. `from` is the receiver's end.
    Accept = 2,
    /// To a sender: nobody listens there.
    Refuse = 3,
    /// Receiver to sender: a buffer of `bytes` bytes for `tag` waits under MPI's tag `number`.
    Credit = 4,
    /// Sender to receiver: closed after `number` messages.
    SenderClosed = 5,
    /// Receiver to sender: closed.
    ReceiverClosed = 6,
    /// Sender to receiver: the message of `bytes` bytes for the buffer `number` does not fit.
    TooLarge = 7,
    /// To a process: this was the last note. `to` and `from` are 0.
    Goodbye = 8,
}

const KINDS: [NoteKind; 8] = [
    NoteKind::Connect,
    NoteKind::Accept,
    NoteKind::Refuse,
    NoteKind::Credit,
    NoteKind::SenderClosed,
    NoteKind::ReceiverClosed,
    NoteKind::TooLarge,
    NoteKind::Goodbye,
];

/// A note from one end to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    pub kind: NoteKind,
    /// Tag of the caller.
    pub tag: u32,
    /// The end or listener that it is for.
    pub to: u64,
    /// The end that wrote it.
    pub from: u64,
    pub number: u64,
    pub bytes: u64,
}

impl Note {
    /// A note with neither tag nor numbers.
    pub fn new(kind: NoteKind, to: u64, from: u64) -> Note {
        Note {
            kind,
            tag: 0,
            to,
            from,
            number: 0,
            bytes: 0,
        }
    }

    /// The bytes on the wire; numbers begin with their highest byte.
    pub fn encode(&self) -> [u8; NOTE_BYTES] {
        let mut bytes = [0; NOTE_BYTES];
        bytes[..4].copy_from_slice(b"kolo");
        bytes[4..8].copy_from_slice(&(self.kind as u32).to_be_bytes());
        bytes[8..12].copy_from_slice(&self.tag.to_be_bytes());
        let words = [self.to, self.from, self.number, self.bytes];
        for (place, word) in bytes[12..].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes
    }

    /// `RemoteError` for anything that `encode` does not make.
    pub fn decode(bytes: &[u8; NOTE_BYTES]) -> Result<Note> {
        let half = |at: usize| {
            bytes[at..at + 4]
                .iter()
                .fold(0, |n, b| n << 8 | u32::from(*b))
        };
        let word = |at: usize| {
            bytes[at..at + 8]
                .iter()
                .fold(0, |n, b| n << 8 | u64::from(*b))
        };
        let kind = KINDS.into_iter().find(|kind| *kind as u32 == half(4));
        let (b"kolo", Some(kind)) = (&bytes[..4], kind) else {
            return Err(Error::new(
                Code::RemoteError,
                "a message of MPI came that no kolo of this version sends",
                "let all ranks use the same kolo",
            ));
        };
        Ok(Note {
            kind,
            tag: half(8),
            to: word(12),
            from: word(20),
            number: word(28),
            bytes: word(36),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_as_they_were_written() {
        for kind in KINDS {
            let note = Note {
                kind,
                tag: 0xfedc_ba98,
                to: u64::MAX - 1,
                from: 1 << 63,
                number: 77,
                bytes: 1 << 40,
            };
            assert_eq!(Note::decode(&note.encode()).unwrap(), note);
        }
        let mut bytes = Note::new(NoteKind::Accept, 1, 2).encode();
        bytes[7] = 9;
        assert!(Note::decode(&bytes).is_err());
        assert!(Note::decode(&[0; NOTE_BYTES]).is_err());
    }
}
