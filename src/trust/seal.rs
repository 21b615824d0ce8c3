//! Frames that only the other end of a link can read, and nobody can change.
//!
//! What ranks tell each other while they start opens their other doors: the handles of listeners
//! hold secrets. So every frame after the proof is sealed by ChaCha20-Poly1305 (RFC 8439) under a
//! key of this link and direction; the number of the frame is the cipher's nonce, so a frame that
//! is left out, repeated or moved is noticed.

use crate::trust::proof::Key;
use chacha20poly1305::aead::AeadInPlace;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, Nonce, Tag};

/// Bytes that a seal adds to a frame.
pub const SEAL_BYTES: usize = 16;

/// One direction of a link.
pub struct Seal {
    cipher: ChaCha20Poly1305,
    frames: u64,
}

impl Seal {
    /// Nothing sealed yet. The key belongs to this direction of this link alone.
    pub fn new(key: &Key) -> Seal {
        Seal {
            cipher: ChaCha20Poly1305::new(key.bytes().into()),
            frames: 0,
        }
    }

    fn nonce(&mut self) -> Nonce {
        let mut nonce = Nonce::default();
        nonce[4..].copy_from_slice(&self.frames.to_be_bytes());
        self.frames += 1;
        nonce
    }

    /// Seals a frame, of which the first bytes stay readable, but not changeable.
    pub fn close(&mut self, mut frame: Vec<u8>, readable: usize) -> Vec<u8> {
        let nonce = self.nonce();
        let (header, body) = frame.split_at_mut(readable);
        let tag = self.cipher.encrypt_in_place_detached(&nonce, header, body);
        let tag = tag.expect("the cipher takes 256 GiB, a frame has at most 64 MiB");
        frame.extend_from_slice(&tag);
        frame
    }

    /// Opens a body with its seal; `None` if it was changed, or is not the next frame.
    pub fn open(&mut self, header: &[u8], mut sealed: Vec<u8>) -> Option<Vec<u8>> {
        let nonce = self.nonce();
        let length = sealed.len().checked_sub(SEAL_BYTES)?;
        let (body, tag) = sealed.split_at_mut(length);
        let tag = Tag::clone_from_slice(tag);
        let opened = self
            .cipher
            .decrypt_in_place_detached(&nonce, header, body, &tag);
        opened.ok()?;
        sealed.truncate(length);
        Some(sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER_BYTES: usize = 32;

    fn pair() -> (Seal, Seal) {
        let key = Key::derive(b"x", &[]);
        (Seal::new(&key), Seal::new(&key))
    }

    /// A header, and `n` bytes behind it.
    fn frame(n: usize) -> Vec<u8> {
        let header = (0..HEADER_BYTES).map(|at| (at * 7 + n) as u8);
        header.chain(std::iter::repeat_n(n as u8, n)).collect()
    }

    #[test]
    fn frames_open_in_order_and_unchanged() {
        let (mut near, mut far) = pair();
        for n in [0, 1, 16, 500] {
            let sealed = near.close(frame(n), HEADER_BYTES);
            assert_eq!(sealed.len(), HEADER_BYTES + n + SEAL_BYTES);
            let (header, body) = sealed.split_at(HEADER_BYTES);
            assert_eq!(far.open(header, body.to_vec()), Some(vec![n as u8; n]));
            assert!(n < 16 || !sealed.windows(8).any(|w| w == [n as u8; 8]));
        }
    }

    #[test]
    fn every_change_is_noticed() {
        let sealed = pair().0.close(frame(20), HEADER_BYTES);
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            let (header, body) = changed.split_at(HEADER_BYTES);
            assert_eq!(pair().1.open(header, body.to_vec()), None, "byte {at}");
        }
        assert_eq!(pair().1.open(&sealed[..HEADER_BYTES], vec![1; 3]), None);
        // The same frame again.
        let (_, mut far) = pair();
        let (header, body) = sealed.split_at(HEADER_BYTES);
        assert!(far.open(header, body.to_vec()).is_some());
        assert_eq!(far.open(header, body.to_vec()), None);
    }
}
