//! The past of a rank: all that it has called so far, in one number that travels with each of its
//! calls.
//!
//! **Problem.** Two ranks that name different roots of a broadcast may both pass: each hands its
//! data out and returns, and nobody waits for a token that could tell. What is wrong is then known
//! to nobody, and the next calls go on with wrong data.
//!
//! **Idea.** The signature that every token of a collective carries is not only that of the call:
//! it has the *past* in it, a number that depends on the signatures of all collectives before. So
//! whoever differed in an earlier call is found out by the first token that it passes or gets in a
//! later one, at no cost but two instructions. Which call it was the boards tell, which remember
//! the last ones of every rank; a rank that leaves looks at them once more
//! ([`crate::comm::failing::fault`]).
//!
//! A past that differs stays different: from one past to the next leads a bijection, for every
//! signature. It also leads back, so the past of an earlier call needs not be kept. Messages have
//! no past: they concern two ranks only.

/// Odd, so that multiplying by it can be undone.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
const INVERSE: u64 = inverse(FACTOR);
const _: () = assert!(FACTOR.wrapping_mul(INVERSE) == 1);

/// The number by which multiplying with an odd one is undone (Newton's iteration: each step
/// doubles the number of right bits).
const fn inverse(odd: u64) -> u64 {
    let mut found = odd;
    let mut step = 0;
    while step < 5 {
        found = found.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(found)));
        step += 1;
    }
    found
}

/// The past of a communicator as one rank knows it: 0 before the first collective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::comm) struct Past(u64);

impl Past {
    /// The past of the collective that begins now, which becomes a part of it.
    #[inline(always)]
    pub fn before(&mut self, signature: u64) -> u64 {
        let before = self.0;
        self.0 = (before ^ signature).wrapping_mul(FACTOR);
        before
    }

    /// The past of the next collective.
    pub fn now(self) -> u64 {
        self.0
    }

    /// The past as it was before its last collective, which had this signature.
    pub fn without(self, signature: u64) -> Past {
        Past(self.0.wrapping_mul(INVERSE) ^ signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_past_that_differs_stays_different_and_leads_back() {
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..100 {
            let (mut one, mut other) = (Past::default(), Past::default());
            let common = random.u64(..);
            assert_eq!(one.before(common), other.before(common));
            // One bit of difference, wherever it is.
            let bit = 1 << random.u32(..64);
            assert_eq!(
                (one.before(7), other.before(7 ^ bit)),
                (one_past(common), one_past(common))
            );
            let mut way = Vec::new();
            for _ in 0..50 {
                let signature = random.u64(..);
                let (mine, theirs) = (one.before(signature), other.before(signature));
                assert_ne!(mine, theirs, "seed {seed}");
                way.push((signature, mine));
            }
            for (signature, past) in way.into_iter().rev() {
                one = one.without(signature);
                assert_eq!(one.now(), past, "seed {seed}");
            }
        }
    }

    fn one_past(signature: u64) -> u64 {
        let mut past = Past::default();
        past.before(signature);
        past.now()
    }
}
