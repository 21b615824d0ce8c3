//! A secret of the ranks of a communicator: made, derived from a text, or read.

use crate::base::Result;
use crate::trust::proof;

/// Length of a secret in bytes.
pub const SECRET_BYTES: usize = 32;

/// Secret that both ends of a connection must know. Never printed, and never sent.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret([u8; SECRET_BYTES]);

impl Secret {
    pub(crate) fn random() -> Result<Secret> {
        let mut bytes = proof::random()?;
        // All zero is what an uninitialised id holds, so it must never be a secret.
        if bytes == [0; SECRET_BYTES] {
            bytes[0] = 1;
        }
        Ok(Secret(bytes))
    }

    /// No secret for whoever knows or guesses the text.
    pub(crate) fn from_text(text: &str) -> Secret {
        Secret(proof::digest(&[b"kolo comm id", text.trim().as_bytes()]))
    }

    /// Takes over what another secret opened.
    pub(crate) fn from_bytes(bytes: [u8; SECRET_BYTES]) -> Secret {
        Secret(bytes)
    }

    /// A name that follows from the secret, and from which the secret does not follow.
    pub fn public(&self) -> [u8; proof::ID_BYTES] {
        let digest = proof::digest(&[b"kolo public id", &self.0]);
        let mut id = [0; proof::ID_BYTES];
        id.copy_from_slice(&digest[..proof::ID_BYTES]);
        id
    }

    /// The bytes, to derive keys from.
    pub fn bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }
}
