//! Plans by which sums of floats depend on nothing but the number of ranks.
//!
//! **Problem.** A float sum has other bits when its terms are grouped otherwise, and a narrow type
//! also when it is rounded between other terms. Which plan is fastest depends on size, nodes,
//! bindings and measurements, so bits would depend on these.
//!
//! **Idea.** For each collective that folds, and each number of ranks, one grouping and one place
//! of rounding is fixed: only algorithms that have it run ([`folds_of`]). Up to as many ranks as
//! two-shot is meant for, one step folds all contributions in the order of ranks, and rounds once:
//! one-shot, the owner of a slice, and direct reads do. Among more ranks, where nobody has a
//! connection with every other, a chain folds rank by rank and rounds at each. Scans are always
//! chains: one-shot would round a narrow type elsewhere, and has a limit of size.
//!
//! Types do not enter: integers could go any way, but the table knows none.

use super::allowed::Rule;
use super::inputs::Inputs;
use crate::algo::find;
use crate::base::{Error, Result};
use crate::plan::{Algorithm, Collective};

/// Most ranks whose contributions one step folds.
fn most_in_a_step() -> u32 {
    find(Collective::AllReduce, Algorithm::TwoShot).map_or(0, |entry| entry.most_ranks)
}

/// The algorithms that fold in the one way of so many ranks; none for collectives that fold
/// nothing.
fn folds_of(collective: Collective, nranks: u32) -> Option<&'static [Algorithm]> {
    if !collective.reduces() {
        return None;
    }
    Some(if collective.is_scan() {
        &[Algorithm::Chain]
    } else if nranks <= most_in_a_step() {
        &[Algorithm::OneShot, Algorithm::TwoShot]
    } else {
        &[Algorithm::Ordered]
    })
}

/// Whether an algorithm may run, for all that the settings want of bits.
pub(super) fn keeps_bits(inputs: &Inputs, collective: Collective, algorithm: Algorithm) -> bool {
    let folds = folds_of(collective, inputs.nranks).filter(|_| inputs.reproducible);
    folds.is_none_or(|folds| folds.contains(&algorithm))
}

/// The algorithm in place of the usual one for contributions that are scaled when they are read. A
/// rank rounds what it sends, and not what it folds itself: where each rank folds for itself, ranks
/// would get different bits.
pub(super) fn agreeing(collective: Collective, usual: Algorithm) -> Option<Algorithm> {
    let each = matches!(usual, Algorithm::OneShot | Algorithm::RecursiveDoubling);
    (each && collective == Collective::AllReduce).then_some(Algorithm::TwoShot)
}

/// The algorithm for contributions that are scaled when they are read; none where the usual choice
/// keeps bits. A rank rounds what it sends, and not what it folds itself: where the one who folds
/// follows from sizes, a chain has to do. `many`: a fold cannot scale so many sources, so that the
/// own block comes first.
pub(super) fn of_scaled(collective: Collective, many: bool) -> Option<Algorithm> {
    match collective {
        Collective::AllReduce | Collective::Reduce => Some(Algorithm::Ordered),
        Collective::ReduceScatter if many => Some(Algorithm::Bundle),
        _ => None,
    }
}

/// Compares the algorithms that the user names with those that keep bits.
///
/// # Errors
/// A rule for one collective that leaves none of them. Rules for all leave most collectives
/// nothing anyhow, and then all count that are there.
pub fn check_rules(rules: &[Rule<Algorithm>], nranks: u32) -> Result<()> {
    for rule in rules {
        let Some(collective) = rule.collective else {
            continue;
        };
        let Some(folds) = folds_of(collective, nranks).filter(|_| nranks > 1) else {
            continue;
        };
        if folds.iter().any(|&algorithm| rule.leaves(algorithm)) {
            continue;
        }
        let names: Vec<_> = folds.iter().map(|algorithm| algorithm.name()).collect();
        let (what, names) = (collective.name(), names.join(", "));
        return Err(Error::usage(
            format!(
                "the option `algo` leaves {what} no algorithm that `reproducible = placement` takes"
            ),
            format!("{nranks} ranks need one of {names}: name it, or leave {what} out of `algo`"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(collective: Option<Collective>, exclude: bool, names: &[Algorithm]) -> Rule<Algorithm> {
        Rule {
            collective,
            exclude,
            names: names.to_vec(),
        }
    }

    #[test]
    fn a_rule_that_leaves_no_algorithm_which_keeps_bits_is_an_error_that_names_them() {
        let all_reduce = Some(Collective::AllReduce);
        let ring = [rule(all_reduce, false, &[Algorithm::Ring])];
        let text = check_rules(&ring, 4).unwrap_err().to_string();
        assert!(text.contains("oneshot, twoshot"), "{text}");
        let text = check_rules(&ring, 1000).unwrap_err().to_string();
        assert!(text.contains("ordered"), "{text}");
        for (rules, nranks) in [
            (rule(None, false, &[Algorithm::Ring]), 4),
            (rule(all_reduce, true, &[Algorithm::TwoShot]), 4),
            (rule(all_reduce, false, &[Algorithm::Ring]), 1),
            (
                rule(Some(Collective::Broadcast), false, &[Algorithm::Ring]),
                4,
            ),
        ] {
            assert!(check_rules(&[rules], nranks).is_ok());
        }
    }
}
