//! Messages between the lookouts of nodes.

use crate::trust::proof::Key;
use crate::wire::abort::Abort;
use crate::wire::board::BOARD_WORDS;

/// The longest message: the boards of a hundred ranks.
pub(super) const MOST_BYTES: usize = 16 << 10;
/// Boards in one message.
pub(super) const MOST_BOARDS: usize = 100;
const HEADER_BYTES: usize = 16;

/// Content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// "I am the lookout of your neighbour, in the communicator whose nonce I know" ([`token`]).
    Hello(u128),
    /// "My rank has left the communicator in good order."
    Bye,
    /// "This rank stopped the communicator."
    Abort(Abort),
    /// "Nothing is heard from this rank and its node any more."
    Lost(u32, String),
    /// "What do your ranks do?"
    Ask,
    /// The boards of these ranks.
    Boards(Vec<(u32, [u64; BOARD_WORDS])>),
    /// "What do the processes of your nodes do?": number of the question among its asker's.
    Look(u64),
    /// Part of the answer to such a question.
    Seen(SeenPart),
}

/// Part of what is seen on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SeenPart {
    /// Who has asked.
    pub asker: u32,
    /// The question's number.
    pub question: u64,
    /// Which part it is, of so many.
    pub at: u32,
    pub all: u32,
    pub bytes: Vec<u8>,
}

/// Bytes of a part.
pub(super) const SEEN_BYTES: usize = 12 << 10;

/// Proof that a lookout knows the nonce of the communicator.
pub(super) fn token(nonce: u128, origin: u32) -> u128 {
    let key = Key::derive(&nonce.to_le_bytes(), &[b"kolo lookout"]);
    let tag = key.tag(&[&origin.to_le_bytes()]);
    tag[..16]
        .iter()
        .fold(0, |token, &byte| token << 8 | u128::from(byte))
}

/// A message: who said it first, the number among what that lookout said, and the news.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub origin: u32,
    pub number: u64,
    pub news: News,
}

impl Message {
    /// Whether these bytes say what is known better a moment later.
    pub fn is_of_the_moment(bytes: &[u8]) -> bool {
        matches!(bytes.first(), Some(5..=8))
    }

    pub fn encode(&self) -> Vec<u8> {
        let kind: u32 = match &self.news {
            News::Hello(_) => 1,
            News::Bye => 2,
            News::Abort(_) => 3,
            News::Lost(..) => 4,
            News::Ask => 5,
            News::Boards(_) => 6,
            News::Look(_) => 7,
            News::Seen(_) => 8,
        };
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend(self.origin.to_le_bytes());
        bytes.extend(self.number.to_le_bytes());
        match &self.news {
            News::Hello(nonce) => bytes.extend(nonce.to_le_bytes()),
            News::Bye | News::Ask => {}
            News::Abort(abort) => {
                let peer = abort.peer.map_or(0, |peer| peer + 1);
                for word in [abort.code, abort.rank, peer] {
                    bytes.extend(word.to_le_bytes());
                }
                bytes.extend(abort.text.as_bytes());
            }
            News::Lost(rank, text) => {
                bytes.extend(rank.to_le_bytes());
                bytes.extend(text.as_bytes());
            }
            News::Boards(boards) => {
                for (rank, words) in boards {
                    bytes.extend(rank.to_le_bytes());
                    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
                }
            }
            News::Look(question) => bytes.extend(question.to_le_bytes()),
            News::Seen(part) => {
                bytes.extend(part.question.to_le_bytes());
                for word in [part.asker, part.at, part.all] {
                    bytes.extend(word.to_le_bytes());
                }
                bytes.extend(&part.bytes);
            }
        }
        bytes
    }

    /// `None` for what no lookout says.
    pub fn decode(bytes: &[u8]) -> Option<Message> {
        let (header, rest) = bytes.split_at_checked(HEADER_BYTES)?;
        let word = |bytes: &[u8], at: usize| {
            let word = bytes.get(4 * at..4 * at + 4)?;
            Some(u32::from_le_bytes(word.try_into().ok()?))
        };
        let long =
            |at: usize| Some(u64::from(word(rest, at)?) | u64::from(word(rest, at + 1)?) << 32);
        let text = |from: usize| String::from_utf8(rest.get(from..)?.to_vec()).ok();
        let news = match (word(header, 0)?, rest.len()) {
            (1, 16) => News::Hello(u128::from_le_bytes(rest.try_into().ok()?)),
            (2, 0) => News::Bye,
            (3, _) => News::Abort(Abort {
                code: word(rest, 0)?,
                rank: word(rest, 1)?,
                peer: word(rest, 2)?.checked_sub(1),
                text: text(12)?,
            }),
            (4, _) => News::Lost(word(rest, 0)?, text(4)?),
            (5, 0) => News::Ask,
            (6, length) if length % (4 + 8 * BOARD_WORDS) == 0 => {
                let board = |bytes: &[u8]| {
                    let words = bytes[4..].chunks_exact(8);
                    let words = words.map(|word| u64::from_le_bytes(word.try_into().expect("8")));
                    let words: Vec<u64> = words.collect();
                    Some((word(bytes, 0)?, words.try_into().ok()?))
                };
                let boards = rest.chunks_exact(4 + 8 * BOARD_WORDS).map(board);
                News::Boards(boards.collect::<Option<_>>()?)
            }
            (7, 8) => News::Look(long(0)?),
            (8, _) => News::Seen(SeenPart {
                question: long(0)?,
                asker: word(rest, 2)?,
                at: word(rest, 3)?,
                all: word(rest, 4)?,
                bytes: rest.get(20..)?.to_vec(),
            }),
            _ => return None,
        };
        Some(Message {
            origin: word(header, 1)?,
            number: u64::from(word(header, 2)?) | u64::from(word(header, 3)?) << 32,
            news,
        })
    }
}

/// Bytes of another lookout, for `tests/fuzz`.
pub fn fuzz(bytes: &[u8]) {
    if let Some(message) = Message::decode(bytes) {
        let again = message.encode();
        assert_eq!(again, bytes, "a message has one form");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<News> {
        let abort = Abort {
            code: 6,
            rank: 3,
            peer: Some(0),
            text: "n\u{f6}".into(),
        };
        let alone = Abort {
            peer: None,
            ..abort.clone()
        };
        vec![
            News::Hello(u128::MAX - 5),
            News::Bye,
            News::Abort(abort),
            News::Abort(alone),
            News::Lost(7, "gone".into()),
            News::Ask,
            News::Boards(vec![(1, [9; BOARD_WORDS]), (2, [u64::MAX; BOARD_WORDS])]),
            News::Boards(Vec::new()),
            News::Look(u64::MAX - 3),
            News::Seen(SeenPart {
                asker: 3,
                question: 1 << 40 | 7,
                at: 2,
                all: 9,
                bytes: vec![1, 2, 3],
            }),
        ]
    }

    #[test]
    fn messages_round_trip() {
        for news in all() {
            let message = Message {
                origin: 5,
                number: 1 << 40 | 3,
                news,
            };
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
        let full = News::Boards(vec![(1, [9; BOARD_WORDS]); MOST_BOARDS]);
        let full = Message {
            origin: 0,
            number: 0,
            news: full,
        };
        assert!(full.encode().len() <= MOST_BYTES);
    }

    #[test]
    fn tokens_differ_and_do_not_show_the_nonce() {
        assert_eq!(token(7, 1), token(7, 1));
        assert_ne!(token(7, 1), token(7, 2));
        assert_ne!(token(7, 1), token(8, 1));
        assert_ne!(token(7, 1), 7);
    }

    #[test]
    fn damaged_messages_never_panic() {
        let mut random = fastrand::Rng::with_seed(5);
        for news in all() {
            let message = Message {
                origin: 5,
                number: 3,
                news,
            };
            let good = message.encode();
            for _ in 0..1000 {
                let mut bad = good.clone();
                bad.truncate(random.usize(..=good.len()));
                if !bad.is_empty() {
                    let at = random.usize(..bad.len());
                    bad[at] = random.u8(..);
                }
                let _ = Message::decode(&bad);
            }
        }
        assert_eq!(Message::decode(&[]), None);
    }
}
