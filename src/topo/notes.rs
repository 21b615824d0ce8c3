//! Notes of a reader of foreign files: what it passed over, and whether it may.
//!
//! **Problem.** Topology files come from many libraries and versions. A reader that refuses what it
//! does not know refuses most of them; one that passes it over in silence hides mistakes.
//!
//! **Idea.** What is unknown is skipped, and what cannot be true (a part that stands twice) is
//! dropped, each with one warning that names file, line and element. Strict reading makes an error
//! of the first one.

use super::CpuSet;
use super::xml_tree::XmlNode;
use crate::base::{Error, Result};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fmt::Write;
use std::sync::Mutex;

/// So many warnings of one file are kept; the others are counted.
const MOST: usize = 20;
/// So many different warnings are given in one process.
const MOST_GIVEN: usize = 1000;

/// Notes of what was passed over in one file.
#[derive(Debug, Default)]
pub struct Notes {
    strict: bool,
    kept: RefCell<Vec<String>>,
    more: Cell<usize>,
}

impl Notes {
    /// Notes for a reader that passes over what it cannot use.
    pub fn lenient() -> Notes {
        Notes::default()
    }

    /// Notes for a reader that makes an error of the first thing that it cannot use.
    pub fn strict() -> Notes {
        Notes {
            strict: true,
            ..Notes::default()
        }
    }

    /// The warnings, one line each, in the order of the file.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = self.kept.borrow().clone();
        match self.more.get() {
            0 => {}
            more => lines.push(format!("and {more} further places of this kind")),
        }
        lines
    }

    /// Gives each warning once in this process.
    pub(super) fn warn(&self) {
        static GIVEN: Mutex<Option<HashSet<String>>> = Mutex::new(None);
        let mut given = GIVEN
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let given = given.get_or_insert_default();
        for line in self.lines() {
            if given.len() < MOST_GIVEN && given.insert(line.clone()) {
                tracing::warn!("{line}");
            }
        }
    }

    /// Tells whoever looks for a fault, where nobody else need hear it.
    pub(super) fn mention(&self) {
        for line in self.lines() {
            tracing::debug!("{line}");
        }
    }
}

/// The name of a file and what a person can do about it: what is needed to say where something is.
pub(super) struct Reader<'a> {
    pub(super) source: &'a str,
    pub(super) remedy: &'static str,
    pub(super) notes: &'a Notes,
}

impl Reader<'_> {
    /// An error about this element.
    pub(super) fn bad(&self, node: XmlNode, why: &str) -> Error {
        Error::argument(self.sentence(node, why), self.remedy)
    }

    fn sentence(&self, node: XmlNode, why: &str) -> String {
        // The attribute by which a person finds the element.
        let mut known = ["type", "busid", "name", "target", "numaid", "dev"].iter();
        let shown = known.find_map(|name| Some((name, node.attribute(name)?)));
        let mut text = format!("{}, line {}, <{}", self.source, node.line(), node.name());
        if let Some((name, value)) = shown {
            let _ = write!(text, " {name}={value:?}");
        }
        text + ">: " + why
    }

    /// Passes something over; `why` says what is wrong, and what is done if that is not to leave
    /// the element out. Errors: reading is strict.
    pub(super) fn note(&self, node: XmlNode, why: &str) -> Result<()> {
        if self.notes.strict {
            return Err(self.bad(node, why));
        }
        let mut kept = self.notes.kept.borrow_mut();
        match kept.len() {
            MOST.. => self.notes.more.set(self.notes.more.get() + 1),
            _ => kept.push(self.sentence(node, why)),
        }
        Ok(())
    }

    /// The attribute as text; one that is missing is noted.
    pub(super) fn text<'d>(&self, node: XmlNode<'d, '_>, name: &str) -> Result<Option<&'d str>> {
        let found = node.attribute(name);
        if found.is_none() {
            self.note(node, &format!("attribute {name} is missing"))?;
        }
        Ok(found)
    }

    /// The attribute as a set of PUs, where it is there; one that cannot be read is noted.
    pub(super) fn optional_cpuset(&self, node: XmlNode, name: &str) -> Result<Option<CpuSet>> {
        let Some(text) = node.attribute(name) else {
            return Ok(None);
        };
        match CpuSet::parse_mask(text) {
            Ok(set) => Ok(Some(set)),
            Err(error) => {
                self.note(node, &format!("{name}: {}", error.what))?;
                Ok(None)
            }
        }
    }

    /// The attribute as a number; one that is missing or cannot be read is noted.
    pub(super) fn number<T: std::str::FromStr>(
        &self,
        node: XmlNode,
        name: &str,
    ) -> Result<Option<T>> {
        match self.text(node, name)? {
            Some(_) => self.optional_number(node, name),
            None => Ok(None),
        }
    }

    /// The attribute as a number, where it is there; one that cannot be read is noted.
    pub(super) fn optional_number<T: std::str::FromStr>(
        &self,
        node: XmlNode,
        name: &str,
    ) -> Result<Option<T>> {
        let Some(text) = node.attribute(name) else {
            return Ok(None);
        };
        let number = text.parse().ok();
        if number.is_none() {
            let why = format!("{name}={text:?} is not a number in its range");
            self.note(node, &why)?;
        }
        Ok(number)
    }
}
