//! Contributions of all ranks to an exchange, held once for all threads of a process.
//!
//! **Problem.** Many ranks may be threads of one process, and each wants to know of all others.
//! Were each to hold and to read its own copy, memory and time of a process would grow with the
//! product of its ranks and all ranks.
//!
//! **Idea.** The threads hold one list, and the first of them that makes something of it makes it
//! for all ([`ContributionList::once`]).

use std::any::Any;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};

/// One part for each rank, in order of ranks. A clone is the same list.
#[derive(Clone)]
pub struct ContributionList(Arc<SharedContributions>);

struct SharedContributions {
    parts: Vec<Vec<u8>>,
    made: Mutex<Option<Arc<dyn Any + Send + Sync>>>,
}

impl ContributionList {
    /// Returns what `make` makes of the parts. It runs once for all who hold the list; they must
    /// want the same of it. Where it fails everybody tries himself.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn once<T: Send + Sync + 'static, E>(
        &self,
        make: impl FnOnce(&[Vec<u8>]) -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let mut made = self.0.made.lock().unwrap_or_else(PoisonError::into_inner);
        let known = made.as_ref().and_then(|it| Arc::clone(it).downcast().ok());
        if let Some(known) = known {
            return Ok(known);
        }
        let new = Arc::new(make(self)?);
        *made = Some(new.clone());
        Ok(new)
    }
}

impl Deref for ContributionList {
    type Target = [Vec<u8>];

    fn deref(&self) -> &[Vec<u8>] {
        &self.0.parts
    }
}

impl From<Vec<Vec<u8>>> for ContributionList {
    fn from(parts: Vec<Vec<u8>>) -> ContributionList {
        ContributionList(Arc::new(SharedContributions {
            parts,
            made: Mutex::new(None),
        }))
    }
}

impl std::fmt::Debug for ContributionList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.parts.fmt(f)
    }
}

impl PartialEq for ContributionList {
    fn eq(&self, other: &ContributionList) -> bool {
        self.0.parts == other.0.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_all_who_hold_the_list_makes_something_of_it() {
        let mine = ContributionList::from(vec![vec![1], vec![2, 3]]);
        let theirs = mine.clone();
        let failed: Result<Arc<usize>, &str> = mine.once(|_| Err("no"));
        assert_eq!(failed, Err("no"));
        let sum = |parts: &[Vec<u8>]| Ok::<usize, ()>(parts.iter().map(Vec::len).sum());
        let one = mine.once(sum).unwrap();
        let other = theirs
            .once(|_| -> Result<usize, ()> { panic!("it was made already") })
            .unwrap();
        assert!(*one == 3 && Arc::ptr_eq(&one, &other));
        // Whoever wants something else gets it.
        assert_eq!(*theirs.once(|_| Ok::<_, ()>('x')).unwrap(), 'x');
    }
}
