//! A word that an option may take.

/// One word that an option may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// The spelling that kolo prints.
    pub text: &'static str,
    /// Other spellings that are understood, such as those of an alias.
    pub also: &'static [&'static str],
    /// Its meaning, in one phrase.
    pub doc: &'static str,
}
