//! Cores: how doubling works for any number of members.
//!
//! Exchanges at doubling distances want a power of two. With c the largest one and n = c + r, the
//! first 2r members form pairs of neighbours. The first of a pair, the *guest*, hands in what it
//! has and takes out its result; the second one, its *host*, takes part for both. Pairs are
//! neighbours, so runs of cores stand for runs of members, and rank order can be kept.

/// Who takes part in the exchanges, and for whom.
pub struct Cores {
    /// A power of two.
    pub count: u32,
    /// Members that another one takes part for.
    pub extra: u32,
}

/// Role of a member.
pub enum Role {
    /// Hands in to the next member, takes the result from it.
    Guest,
    /// Takes part with this number, for the member before it too if `host`.
    Core {
        /// Among the cores.
        number: u32,
        /// Whether the member before it is its guest.
        host: bool,
    },
}

impl Cores {
    /// The cores of n members, at least 1.
    pub fn of(n: u32) -> Cores {
        let count = 1 << n.ilog2();
        let extra = n - count;
        Cores { count, extra }
    }

    /// Returns the role of a member.
    pub fn role(&self, member: u32) -> Role {
        let (number, host) = match member < 2 * self.extra {
            true if member.is_multiple_of(2) => return Role::Guest,
            true => (member / 2, true),
            false => (member - self.extra, false),
        };
        Role::Core { number, host }
    }

    /// The member that takes part with this number.
    pub fn member(&self, number: u32) -> u32 {
        match number < self.extra {
            true => 2 * number + 1,
            false => number + self.extra,
        }
    }

    /// The first member that cores from this number on stand for; n for the end.
    pub fn first(&self, number: u32) -> u32 {
        number + number.min(self.extra)
    }

    /// How many exchanges there are.
    pub fn exchanges(&self) -> u32 {
        self.count.ilog2()
    }

    /// The members of the cores whose numbers agree with `number` in the lowest `bits` bits.
    pub fn agreeing(&self, number: u32, bits: u32) -> Vec<i64> {
        let step = 1usize << bits;
        let numbers = (number & (step as u32 - 1)..self.count).step_by(step);
        let of = |core| i64::from(self.first(core))..i64::from(self.first(core + 1));
        numbers.flat_map(of).collect()
    }
}
