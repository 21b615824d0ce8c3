//! Which algorithms and protocols the user lets kolo choose from.

use super::ProtocolChoice;
use crate::algo::REGISTRY;
use crate::base::{Error, Result};
use crate::plan::{Algorithm, Collective};

/// Collectives are numbered below this.
pub(super) const COLLECTIVES: usize = Collective::NUMBERS;
/// Algorithms are bits of a word.
const _: () = assert!(Algorithm::ALL.len() <= u64::BITS as usize);

/// Algorithms and protocols that may be chosen, by collective. Allows everything by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Bit a: the algorithm with number a.
    algorithms: [u64; COLLECTIVES],
    /// Bit p: the protocol with number p.
    protocols: [u8; COLLECTIVES],
}

impl Default for Allowed {
    fn default() -> Allowed {
        Allowed {
            algorithms: [u64::MAX; COLLECTIVES],
            protocols: [u8::MAX; COLLECTIVES],
        }
    }
}

/// One part of a setting: `allreduce:^ring` or `ring,tree`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule<T> {
    /// The collective it is about; `None` for all.
    pub collective: Option<Collective>,
    /// Whether the listed ones are what is *not* taken.
    pub exclude: bool,
    /// The listed ones.
    pub names: Vec<T>,
}

impl<T> Rule<T> {
    fn mask(&self, number: impl Fn(&T) -> u32) -> u64 {
        let listed = self
            .names
            .iter()
            .fold(0, |mask, name| mask | 1 << number(name));
        if self.exclude { !listed } else { listed }
    }

    /// Whether a listed algorithm, or protocol, may be taken.
    pub fn leaves(&self, one: T) -> bool
    where
        T: PartialEq,
    {
        self.names.contains(&one) != self.exclude
    }

    fn concerns(&self, collective: Collective) -> bool {
        self.collective.is_none_or(|only| only == collective)
    }
}

impl Allowed {
    /// Restricts algorithms; a rule for one collective replaces one for all.
    ///
    /// # Errors
    /// A rule for one collective that leaves no algorithm for it, with those that there are.
    pub fn restrict_algorithms(&mut self, rules: &[Rule<Algorithm>]) -> Result<()> {
        for rule in in_order(rules) {
            for collective in Collective::ALL.into_iter().filter(|&c| rule.concerns(c)) {
                let mask = rule.mask(|algorithm| *algorithm as u32);
                self.algorithms[collective as usize] = mask;
                if rule.collective.is_some() && !self.leaves(collective) {
                    return Err(nothing_left(collective, rule));
                }
            }
        }
        Ok(())
    }

    /// Restricts protocols; a rule for one collective replaces one for all.
    pub fn restrict_protocols(&mut self, rules: &[Rule<ProtocolChoice>]) {
        for rule in in_order(rules) {
            for collective in Collective::ALL.into_iter().filter(|&c| rule.concerns(c)) {
                let mask = rule.mask(|protocol| *protocol as u32);
                self.protocols[collective as usize] = mask as u8;
            }
        }
    }

    /// Whether the user lets this algorithm run over this protocol.
    pub fn allows(
        &self,
        collective: Collective,
        algorithm: Algorithm,
        over: ProtocolChoice,
    ) -> bool {
        self.algorithms[collective as usize] & 1 << algorithm as u32 != 0
            && self.allows_protocol(collective, over)
    }

    /// Whether the user lets tokens of this collective go over this protocol.
    pub fn allows_protocol(&self, collective: Collective, protocol: ProtocolChoice) -> bool {
        self.protocols[collective as usize] & 1 << protocol as u32 != 0
    }

    /// Whether the user has narrowed the choice for this collective.
    pub fn is_restricted(&self, collective: Collective) -> bool {
        let index = collective as usize;
        self.algorithms[index] != u64::MAX || self.protocols[index] != u8::MAX
    }

    fn leaves(&self, collective: Collective) -> bool {
        let of = REGISTRY
            .iter()
            .filter(|entry| entry.collective == collective);
        let mask = self.algorithms[collective as usize];
        of.into_iter()
            .any(|entry| mask & 1 << entry.algorithm as u32 != 0)
    }
}

/// Rules for all collectives first, so that those for one come out on top.
fn in_order<T>(rules: &[Rule<T>]) -> impl Iterator<Item = &Rule<T>> {
    let general = rules.iter().filter(|rule| rule.collective.is_none());
    general.chain(rules.iter().filter(|rule| rule.collective.is_some()))
}

fn nothing_left(collective: Collective, rule: &Rule<Algorithm>) -> Error {
    let text = |names: &mut dyn Iterator<Item = &'static str>| names.collect::<Vec<_>>().join(", ");
    let known = REGISTRY
        .iter()
        .filter(|entry| entry.collective == collective);
    let known = text(&mut known.map(|entry| entry.algorithm.name()));
    let listed = text(&mut rule.names.iter().map(|algorithm| algorithm.name()));
    let mark = if rule.exclude { "^" } else { "" };
    Error::usage(
        format!(
            "the option `algo` leaves no algorithm for {}: {mark}{listed}",
            collective.name()
        ),
        format!(
            "choose from {known}, or leave {} out of it",
            collective.name()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule<T>(collective: Option<Collective>, exclude: bool, names: Vec<T>) -> Rule<T> {
        Rule {
            collective,
            exclude,
            names,
        }
    }

    #[test]
    fn rules_for_one_collective_replace_those_for_all() {
        let mut allowed = Allowed::default();
        assert!(!allowed.is_restricted(Collective::AllReduce));
        let rules = [
            rule(Some(Collective::Broadcast), true, vec![Algorithm::Ring]),
            rule(None, false, vec![Algorithm::Ring]),
        ];
        allowed.restrict_algorithms(&rules).unwrap();
        let allows = |collective, algorithm| {
            allowed.allows(
                collective,
                algorithm,
                ProtocolChoice::of(collective, algorithm),
            )
        };
        assert!(allows(Collective::AllReduce, Algorithm::Ring));
        assert!(!allows(Collective::AllReduce, Algorithm::OneShot));
        assert!(!allows(Collective::Broadcast, Algorithm::Ring));
        assert!(allows(Collective::Broadcast, Algorithm::OneShot));
        assert!(allowed.is_restricted(Collective::AllReduce));
    }

    #[test]
    fn protocols_restrict_too() {
        let mut allowed = Allowed::default();
        allowed.restrict_protocols(&[rule(None, true, vec![ProtocolChoice::Eager])]);
        let allows =
            |collective, algorithm, protocol| allowed.allows(collective, algorithm, protocol);
        let (all_reduce, ring) = (Collective::AllReduce, Algorithm::Ring);
        assert!(!allows(
            all_reduce,
            Algorithm::OneShot,
            ProtocolChoice::Eager
        ));
        assert!(allows(all_reduce, ring, ProtocolChoice::Simple));
        assert!(allows(all_reduce, ring, ProtocolChoice::Ll));
        // One-shot reduce goes over pairs.
        assert!(allows(
            Collective::Reduce,
            Algorithm::OneShot,
            ProtocolChoice::Simple
        ));
    }

    #[test]
    fn a_rule_that_leaves_nothing_is_an_error_with_the_names_that_there_are() {
        let rules = [rule(
            Some(Collective::Barrier),
            false,
            vec![Algorithm::Ring],
        )];
        let error = Allowed::default().restrict_algorithms(&rules).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("Barrier") && text.contains("oneshot"),
            "{text}"
        );
        let plain = [rule(None, false, vec![Algorithm::Ring])];
        assert!(Allowed::default().restrict_algorithms(&plain).is_ok());
    }
}
