//! The neighbours of a process in the ring, and who is let in as one.

use super::frame::{self, Frame, FrameKind, Hello, Purpose};
use crate::base::{Error, Rank};
use crate::trust::door::{Keeper, Verdict};
use crate::trust::proof::{self, Key};
use crate::trust::secret::Secret;
use crate::trust::secrets::GIVEN;

/// The lowest ranks of this process and of its neighbours.
#[derive(Clone, Copy)]
pub(super) struct RingPlace {
    pub lead: Rank,
    pub next: Rank,
    pub prev: Rank,
}

/// Judges who wants to be this rank's prev.
pub(super) struct Neighbour {
    pub secret: Secret,
    pub around: RingPlace,
    pub nranks: u32,
}

impl Neighbour {
    /// By which the links of the ring are proven.
    pub fn key(secret: &Secret) -> Key {
        Key::derive(secret.bytes(), &[b"kolo ring"])
    }
}

impl Keeper for Neighbour {
    fn judge(&mut self, hello: &proof::Hello) -> Verdict {
        let refusal = |error: &Error| {
            let frame = Frame::error(FrameKind::Refused, error);
            Verdict::Refuse(frame.encode())
        };
        if hello.id != self.secret.public() {
            return refusal(&frame::unknown_id());
        }
        let Some(said) = Hello::decode(hello, Purpose::Ring) else {
            return refusal(&frame::wrong_purpose());
        };
        // Before the answer: it would serve to be taken for another rank.
        let RingPlace { lead, prev, .. } = self.around;
        if (said.rank, said.target, said.nranks) == (prev.0, lead.0, self.nranks) {
            return Verdict::Answer(GIVEN, Neighbour::key(&self.secret));
        }
        refusal(&Error::usage(
            format!(
                "rank {} of {} wants to link to rank {}, but this is rank {lead}'s port and its \
                 predecessor is rank {prev}",
                said.rank, said.nranks, said.target
            ),
            "give every communicator an id of its own",
        ))
    }

    fn other_version(&mut self, version: u16) -> Vec<u8> {
        Frame::error(FrameKind::Refused, &frame::other_version(version)).encode()
    }
}
