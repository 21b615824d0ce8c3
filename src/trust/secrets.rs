//! Which secret the ranks of a communicator share, and how a rank and the root agree on it.
//!
//! **Problem.** Where MPI, PMIx or PMI hand the unique id over, it holds a random secret, and
//! nothing is left to do. Where the ranks compute where they meet (`KOLO_COMM_ID`, Slurm
//! variables), all that the id follows from can be read by every user of the cluster.
//!
//! **Idea.** Such ranks look for a secret, best first: *munge*, where it runs; the *file* that
//! `KOLO_SECRET_FILE` names; and if there is neither the *text* itself, which is no secret: then
//! one warning is given. The caller offers what it has, the root takes the best that it has too,
//! and the proof ([`crate::trust::proof`]) covers the offer. A text is offered by, and accepted
//! from, those only who have nothing else.
//!
//! With munge the caller puts a new random key, the number that it uses once, its rank and the
//! communicator's public id (a digest of job, step and whatever else the ranks have in common) into
//! a credential that only processes of its own user can open. So the root knows who asks, and by
//! the proof under that key the caller knows who answers.

use super::munge::Munge;
use super::secret::Secret;
use crate::base::descriptors::lifted;
use crate::base::{Error, Result};
use crate::trust::proof::{self, ID_BYTES, KEY_BYTES, Key};
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Kinds of secrets, as bits of an offer, best first.
pub const GIVEN: u8 = 1;
const MUNGE: u8 = 2;
const FILE: u8 = 4;
const TEXT: u8 = 8;

/// The least that is taken for a secret: whoever asks rank 0 gets a tag made with it, and may try
/// words at home until one fits. And the most that is read of a file.
const LEAST_BYTES: usize = 32;
const MOST_BYTES: u64 = 64 << 10;

/// Begins the payload of a credential.
const MAGIC: &[u8] = b"kolo join 1";

static WARNED: AtomicBool = AtomicBool::new(false);

/// Secrets with which this process can prove itself.
pub struct Secrets {
    given: Option<Secret>,
    munge: Option<Munge>,
    file: Option<Secret>,
    text: Option<Secret>,
}

/// Proof that a caller has put into its hello.
pub struct Shown {
    /// For the host's `munged`; empty without.
    pub credential: Vec<u8>,
    key: [u8; KEY_BYTES],
}

impl Secrets {
    /// One that was handed over.
    pub fn given(secret: &Secret) -> Secrets {
        Secrets {
            given: Some(secret.clone()),
            munge: None,
            file: None,
            text: None,
        }
    }

    /// Finds the secrets of this machine: that of the file, and munge, at this socket or the
    /// system's.
    ///
    /// # Errors
    /// `KOLO_SECRET_FILE` names a file that cannot be used.
    pub fn found(file: Option<&Path>, munge_socket: Option<&Path>) -> Result<Secrets> {
        let file = file.map(read).transpose()?;
        let munge = Munge::open(munge_socket);
        let munge = munge.inspect_err(say_once).ok();
        Ok(Secrets {
            given: None,
            munge,
            file,
            text: None,
        })
    }

    /// Takes the text, which is no secret, where nothing was found.
    pub fn or_text(mut self, text: Secret) -> Secrets {
        if self.offers() == 0 {
            self.text = Some(text);
        }
        self
    }

    /// Whether nothing was found that others do not know.
    pub fn is_weak(&self) -> bool {
        self.offers() & !TEXT == 0
    }

    /// Says once in a process that whoever wants to may join.
    pub fn warn(&self, say: &dyn Fn(&str)) {
        if self.is_weak() && !WARNED.swap(true, Ordering::Relaxed) {
            say(
                "kolo: the ranks of this job share no secret, so every user who can reach this \
                 node could join it, pretend to be rank 0, and read and change data between \
                 nodes; only memory of a node is kept from others; start it under PMIx \
                 (`srun --mpi=pmix`), run munge on the nodes, or name in KOLO_SECRET_FILE a file \
                 of random bytes that only this user can read (docs/launch.md)",
            );
        }
    }

    /// The kinds that there are.
    pub fn offers(&self) -> u8 {
        let kinds = [
            (self.given.is_some(), GIVEN),
            (self.munge.is_some(), MUNGE),
            (self.file.is_some(), FILE),
            (self.text.is_some(), TEXT),
        ];
        kinds
            .iter()
            .filter(|(is, _)| *is)
            .map(|(_, kind)| kind)
            .sum()
    }

    /// Makes the proof that the caller of rank `rank` shows beside its offer.
    ///
    /// # Errors
    /// Of munge.
    pub fn show(&self, id: &[u8; ID_BYTES], nonce: &[u8; ID_BYTES], rank: u32) -> Result<Shown> {
        let key = proof::random()?;
        let credential = match &self.munge {
            Some(munge) => munge.encode(&payload(id, nonce, rank, &key))?,
            None => Vec::new(),
        };
        Ok(Shown { credential, key })
    }

    /// At the caller: the key of the kind that the host chose, if it was offered.
    pub fn key(&self, choice: u8, shown: &Shown, id: &[u8; ID_BYTES]) -> Option<Key> {
        match choice {
            MUNGE => self.munge.as_ref().map(|_| derive(&shown.key, MUNGE, id)),
            _ => self.own(choice, id),
        }
    }

    fn own(&self, choice: u8, id: &[u8; ID_BYTES]) -> Option<Key> {
        let secret = match choice {
            GIVEN => &self.given,
            FILE => &self.file,
            TEXT => &self.text,
            _ => &None,
        };
        let secret = secret.as_ref()?;
        Some(derive(secret.bytes(), choice, id))
    }

    /// At the host: whether a credential is to be opened before there is a choice. The daemon that
    /// opens it may be slow.
    pub fn must_open(&self, hello: &proof::Hello) -> bool {
        let both = hello.offers & self.offers();
        both & MUNGE != 0 && both & GIVEN == 0
    }

    /// At the host: the best kind that both have, and its key.
    ///
    /// # Errors
    /// There is none, or the credential is not good; for the caller's eyes.
    pub fn choose(&self, hello: &proof::Hello, rank: u32, credential: &[u8]) -> Result<(u8, Key)> {
        let both = hello.offers & self.offers();
        let mut failure = None;
        for choice in [GIVEN, MUNGE, FILE, TEXT] {
            if both & choice == 0 {
                continue;
            }
            if choice != MUNGE {
                let key = self.own(choice, &hello.id);
                return key
                    .map(|key| (choice, key))
                    .ok_or_else(|| no_common(rank, hello.offers, self.offers()));
            }
            match self.open(hello, rank, credential) {
                Ok(key) => return Ok((MUNGE, key)),
                Err(error) => failure = Some(error),
            }
        }
        Err(failure.unwrap_or_else(|| no_common(rank, hello.offers, self.offers())))
    }

    fn open(&self, hello: &proof::Hello, rank: u32, credential: &[u8]) -> Result<Key> {
        let munge = self.munge.as_ref();
        let munge = munge.ok_or_else(|| no_common(rank, hello.offers, self.offers()))?;
        let opened = munge.decode(credential)?;
        let key = opened.last_chunk::<KEY_BYTES>();
        let key = key.filter(|key| opened == payload(&hello.id, &hello.nonce, rank, key));
        let key = key.ok_or_else(|| {
            Error::usage(
                format!("the credential of rank {rank} was made for something else"),
                "use the same version of kolo on every rank",
            )
        })?;
        Ok(derive(key, MUNGE, &hello.id))
    }
}

fn derive(secret: &[u8; KEY_BYTES], kind: u8, id: &[u8; ID_BYTES]) -> Key {
    Key::derive(secret, &[b"kolo check in", &[kind], id])
}

fn payload(
    id: &[u8; ID_BYTES],
    nonce: &[u8; ID_BYTES],
    rank: u32,
    key: &[u8; KEY_BYTES],
) -> Vec<u8> {
    [MAGIC, id, nonce, &rank.to_be_bytes(), key].concat()
}

fn no_common(rank: u32, offered: u8, own: u8) -> Error {
    Error::usage(
        format!(
            "rank {rank} could prove itself by {}, rank 0 by {}",
            names(offered),
            names(own)
        ),
        "let munge run on all nodes of the job or on none, and give all ranks the same \
         KOLO_SECRET_FILE",
    )
}

/// Kinds of secrets, for people.
pub fn names(kinds: u8) -> String {
    let all = [
        (GIVEN, "a unique id that was handed over"),
        (MUNGE, "munge"),
        (FILE, "KOLO_SECRET_FILE"),
        (TEXT, "no secret at all"),
    ];
    let named: Vec<&str> = all
        .iter()
        .filter(|(kind, _)| kinds & kind != 0)
        .map(|(_, name)| *name)
        .collect();
    if named.is_empty() {
        "nothing that is known".into()
    } else {
        named.join(" or ")
    }
}

/// A process looks for munge each time that it meets others, and finds the same.
fn say_once(error: &Error) {
    static SAID: Once = Once::new();
    SAID.call_once(|| tracing::info!("{error}"));
}

/// Whether a file holds a secret by which ranks can prove who they are.
///
/// # Errors
/// Why not: owner, mode, length, kind of file.
pub fn check_file(path: &Path) -> Result<()> {
    read(path).map(drop)
}

/// Reads a secret from a file that is this user's alone.
fn read(path: &Path) -> Result<Secret> {
    let refused = |why: String| {
        Error::argument(
            format!("KOLO_SECRET_FILE={} cannot be used: {why}", path.display()),
            "make it by `(umask 077; head -c 32 /dev/urandom > FILE)` where all nodes of the job \
             can read it",
        )
    };
    let mut options = OpenOptions::new();
    // A link could lead to another user's file, and a pipe would be waited for.
    options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC);
    let file = options
        .open(path)
        .and_then(lifted)
        .map_err(|error| match error.raw_os_error() {
            Some(libc::ELOOP) => refused("it is a symbolic link".into()),
            _ => refused(error.to_string()),
        })?;
    let seen = file
        .metadata()
        .map_err(|error| refused(error.to_string()))?;
    // SAFETY: no arguments.
    let user = unsafe { libc::geteuid() };
    if !seen.is_file() {
        return Err(refused("it is no regular file".into()));
    }
    if seen.uid() != user {
        return Err(refused(format!(
            "it belongs to user {}, not {user}",
            seen.uid()
        )));
    }
    if seen.mode() & 0o7177 != 0 {
        let mode = seen.mode() & 0o7777;
        let why = format!("its mode is {mode:04o}, and must be 0600");
        let remedy = format!("`chmod 600 {}`", path.display());
        let mut error = refused(why);
        error.remedy = remedy.into();
        return Err(error);
    }
    let mut bytes = Vec::new();
    let read = file.take(MOST_BYTES + 1).read_to_end(&mut bytes);
    read.map_err(|error| refused(error.to_string()))?;
    if bytes.len() < LEAST_BYTES || bytes.len() as u64 > MOST_BYTES {
        return Err(refused(format!(
            "it holds {} bytes, and must hold {LEAST_BYTES} to {MOST_BYTES}",
            if bytes.len() as u64 > MOST_BYTES {
                format!("more than {MOST_BYTES}")
            } else {
                bytes.len().to_string()
            }
        )));
    }
    Ok(Secret::from_bytes(proof::digest(&[
        b"kolo secret file",
        &bytes,
    ])))
}

#[cfg(test)]
#[path = "secrets_tests.rs"]
mod tests;
