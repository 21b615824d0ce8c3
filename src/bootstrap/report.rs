//! How a rank tells the others why it cannot go on: its words stand in the place of what it should
//! have contributed. So nobody waits for a rank that has given up.

use crate::base::record::Record;
use crate::base::{Code, Error, Rank};
use serde::{Deserialize, Serialize};

/// The most bytes of words that travel, and that are taken over from another rank.
const MOST_WORDS: usize = 4096;

/// An error as other ranks are told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    code: i32,
    peer: Option<Rank>,
    what: String,
    remedy: String,
}

impl Record for Reported {
    const NAME: &'static str = "why a rank could not go on";
    const MOST_BYTES: usize = 64 << 10;
}

impl Reported {
    /// The error, in at most a few thousand bytes.
    pub fn of(error: &Error) -> Reported {
        Reported::short(error, MOST_WORDS)
    }

    /// Reports an error with at most `most` bytes of words; longer accounts of what happened are
    /// cut, so that the remedy still fits.
    pub fn short(error: &Error, most: usize) -> Reported {
        let what = cut(&error.what, most / 4 * 3);
        Reported {
            code: error.code as i32,
            peer: error.peer,
            what: what.to_owned(),
            remedy: cut(&error.remedy, most - what.len()).to_owned(),
        }
    }

    /// The error as that rank has it; `None` where the code is none.
    pub fn error(self) -> Option<Error> {
        let code = Code::from_number(self.code)?;
        let mut error = Error::new(code, shown(&self.what), shown(&self.remedy));
        error.peer = self.peer;
        Some(error)
    }

    /// The error of rank `rank` as this one reports it; `place`, such as ` on node7`, follows the
    /// number of the rank.
    pub fn by(&self, rank: Rank, place: &str) -> Error {
        let what = format!("rank {rank}{place} could not join: {}", shown(&self.what));
        Error::remote(rank, what, shown(&self.remedy))
    }
}

/// At most `most` bytes, cut at a character boundary.
fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

fn shown(text: &str) -> String {
    printable(text.as_bytes())
}

/// Text from another process, fit for a terminal.
pub fn printable(text: &[u8]) -> String {
    let text = &text[..text.len().min(MOST_WORDS)];
    let shown = |c: char| if c.is_control() { '?' } else { c };
    String::from_utf8_lossy(text).chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_keep_the_sentence() {
        let long = Error::usage("\u{f6}".repeat(3000), "remedy");
        for most in [100, MOST_WORDS] {
            let told = Reported::short(&long, most);
            assert!(told.what.len() + told.remedy.len() <= most);
            let error = told.by(Rank(2), "");
            assert!(
                error
                    .what
                    .starts_with("rank 2 could not join: \u{f6}\u{f6}")
            );
            assert_eq!(error.remedy, "remedy", "what happened does not push it out");
        }
        let error = Error::usage("what \u{e4}", "remedy");
        let told = Reported::of(&error).by(Rank(3), " on node7");
        assert_eq!(told.what, "rank 3 on node7 could not join: what \u{e4}");
        assert_eq!((told.remedy.as_ref(), told.peer), ("remedy", Some(Rank(3))));
    }

    #[test]
    fn errors_come_back_fit_for_a_terminal() {
        let error = Error::remote(Rank(7), "it ended\u{1b}[31m", "restart");
        let told = Reported::of(&error).error().unwrap();
        assert_eq!((told.code, told.peer), (error.code, Some(Rank(7))));
        assert_eq!(told.what, "it ended?[31m");
        let unknown = Reported {
            code: 99,
            ..Reported::of(&error)
        };
        assert_eq!(unknown.error(), None);
    }
}
