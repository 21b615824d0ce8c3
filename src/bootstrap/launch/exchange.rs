//! Handing the unique id of rank 0 to all ranks through the server of a launcher.

use super::process::{Launch, Launcher};
use crate::base::record::{self, Record};
use crate::base::{Code, Error, Rank, Result};
use crate::bootstrap::UniqueId;
use crate::bootstrap::report::Reported;
use crate::bootstrap::settings::NetSettings;
use crate::bootstrap::unique_id::ID_BYTES;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};

/// The most bytes that rank 0 shares; PMI carries half of its shortest value, written as hex.
const MOST_BYTES: usize = 400;
/// Of these, the most for the words of an error; numbers and lengths take the rest.
const MOST_WORDS: usize = MOST_BYTES - 16;

/// Invitation that rank 0 shares.
#[derive(PartialEq, Serialize, Deserialize)]
enum Invitation {
    /// The bytes of an id.
    Id(Vec<u8>),
    /// Why there is none.
    NoId(Reported),
}

impl Record for Invitation {
    const NAME: &'static str = "what rank 0 shared, which should be a unique id,";
    const MOST_BYTES: usize = MOST_BYTES;
}

/// Communicators that were begun in this process; each has a key of its own at the server.
static ROUND: AtomicU64 = AtomicU64::new(0);

/// A server that all ranks can reach.
pub trait Exchange {
    /// This rank.
    fn rank(&self) -> u32;

    /// All ranks.
    fn nranks(&self) -> u32;

    /// Puts `mine` of rank 0 under `key`, waits for all ranks, and returns what rank 0 put.
    fn share(&mut self, key: &str, mine: Option<&[u8]>, settings: &NetSettings) -> Result<Vec<u8>>;
}

/// Rank 0 makes an id and all ranks get it. Every rank calls it.
pub fn meet(mut server: impl Exchange, by: Launcher, settings: &NetSettings) -> Result<Launch> {
    let (rank, nranks) = (server.rank(), server.nranks());
    let round = ROUND.fetch_add(1, Ordering::Relaxed);
    if nranks == 1 {
        return Ok(Launch::alone(by));
    }
    let made = (rank == 0).then(|| UniqueId::create_to_share(settings));
    let words = made.as_ref().map(encode);
    let told = server.share(&format!("kolo-id-{round}"), words.as_deref(), settings);
    // Its own error says more to rank 0 than that of the exchange.
    let own = made.transpose()?;
    let id = match own {
        Some(id) => told.map(|_| id)?,
        None => decode(&told?)?,
    };
    Ok(Launch {
        rank,
        nranks,
        by,
        id: Some(id),
    })
}

fn encode(made: &Result<UniqueId>) -> Vec<u8> {
    record::encode(&match made {
        Ok(id) => Invitation::Id(id.as_bytes().to_vec()),
        Err(error) => Invitation::NoId(Reported::short(error, MOST_WORDS)),
    })
}

fn decode(told: &[u8]) -> Result<UniqueId> {
    match record::decode(told)? {
        Invitation::Id(id) => match <[u8; ID_BYTES]>::try_from(id) {
            Ok(id) => UniqueId::from_bytes(id),
            Err(id) => Err(Error::usage(
                format!("rank 0 shared {} bytes that are no unique id", id.len()),
                "use the same version of kolo on every rank",
            )),
        },
        Invitation::NoId(why) => Err(why.by(Rank(0), "")),
    }
}

/// Decodes `told` as an invitation, for `tests/fuzz`.
pub fn fuzz(told: &[u8]) -> (&'static str, bool) {
    let _ = decode(told);
    record::fuzz::<Invitation>(told)
}

/// Not all ranks have come to an exchange within the limit. A server of a launcher does not say who
/// has.
pub fn too_late(settings: &NetSettings) -> Error {
    let (limit, name) = settings.meeting_limit().unwrap_or_default();
    Error::new(
        Code::Timeout,
        format!(
            "not all ranks of the job have made their communicator within {:.1} s; the launcher \
             does not say which",
            limit.as_secs_f64()
        ),
        format!(
            "every rank must call koloCommInitEnv: look for one whose output ends before, or \
             raise {name}"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::sync::{Arc, Barrier, Mutex};

    #[derive(Clone)]
    struct Board {
        rank: u32,
        nranks: u32,
        barrier: Arc<Barrier>,
        notes: Arc<Mutex<HashMap<String, Vec<u8>>>>,
    }

    impl Exchange for Board {
        fn rank(&self) -> u32 {
            self.rank
        }

        fn nranks(&self) -> u32 {
            self.nranks
        }

        fn share(&mut self, key: &str, mine: Option<&[u8]>, _: &NetSettings) -> Result<Vec<u8>> {
            if let Some(mine) = mine {
                assert!(mine.len() <= MOST_BYTES);
                self.notes
                    .lock()
                    .unwrap()
                    .insert("note".into(), mine.to_vec());
            }
            assert!(key.starts_with("kolo-id-"));
            self.barrier.wait();
            Ok(self.notes.lock().unwrap()["note"].clone())
        }
    }

    fn run(settings: &NetSettings) -> Vec<Result<Launch>> {
        let board = Board {
            rank: 0,
            nranks: 3,
            barrier: Arc::new(Barrier::new(3)),
            notes: Arc::default(),
        };
        let threads: Vec<_> = (0..3)
            .map(|rank| {
                let (settings, board) = (
                    settings.clone(),
                    Board {
                        rank,
                        ..board.clone()
                    },
                );
                std::thread::spawn(move || meet(board, Launcher::Pmi, &settings))
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    }

    #[test]
    fn all_ranks_get_the_id_of_rank_zero() {
        let settings = NetSettings {
            socket_ifname: Some("=lo".into()),
            ..NetSettings::default()
        };
        let launches: Vec<Launch> = run(&settings).into_iter().map(Result::unwrap).collect();
        for (rank, launch) in (0..).zip(&launches) {
            assert_eq!((launch.rank, launch.nranks), (rank, 3));
            assert!(launch.id == launches[0].id && launch.id.is_some());
        }
    }

    #[test]
    fn a_rank_zero_without_id_tells_why() {
        let settings = NetSettings {
            socket_ifname: Some("=no_such_interface".into()),
            ..NetSettings::default()
        };
        let mut errors = run(&settings).into_iter().map(Result::unwrap_err);
        let own = errors.next().unwrap();
        for error in errors {
            assert_eq!(error.peer, Some(Rank(0)));
            assert!(error.what.contains(own.what.as_str()), "{error}");
        }
    }

    #[test]
    fn what_is_no_id_is_refused() {
        let short = record::encode(&Invitation::Id(vec![7; 12]));
        assert!(decode(&short).unwrap_err().what.contains("no unique id"));
        for bytes in [&[][..], &[7; 129]] {
            let error = decode(bytes).unwrap_err();
            assert!(error.what.contains("should be a unique id"), "{error}");
        }
    }
}
