//! Who reads a cast: all other ranks, or a group of them at regular distances.
//!
//! The problem: ranks of one cache take a result from their leader, and nobody else is to wait for
//! it or to give it back. A list of ranks in every connection would make plans as large as the
//! groups. The idea: launchers deal ranks to caches and sockets in order or in turn, so the ranks
//! of a part, and the leaders of parts, lie at equal distances, and three numbers name them. Where
//! they do not, a plan uses pairs.

/// Levels of a node that may have casts of their own.
pub const CAST_LEVELS: usize = 3;
/// Numbers of ranks in a group are below this.
const MOST: u32 = 1 << 10;
const BITS: u32 = 10;
const MASK: u32 = MOST - 1;

/// The ranks that read a cast, but for its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Readers {
    /// 0 for all ranks; else one more than the level of the group: casts of a writer at two levels
    /// are two connections.
    place: u8,
    first: u16,
    stride: u16,
    count: u16,
}

impl Readers {
    /// All ranks.
    pub const ALL: Readers = Readers {
        place: 0,
        first: 0,
        stride: 1,
        count: u16::MAX,
    };

    /// These ranks, ascending, as a group of a level of the node, counted from 0. `None` where they
    /// are not at equal distances, fewer than two, or too many.
    pub fn group(level: usize, members: &[u32]) -> Option<Readers> {
        let (&first, &second) = (members.first()?, members.get(1)?);
        let stride = second.checked_sub(first).filter(|&stride| stride > 0)?;
        let even = members.windows(2).all(|two| two[0] + stride == two[1]);
        let fits = members[members.len() - 1] < MASK && level < CAST_LEVELS;
        (even && fits).then_some(Readers {
            place: level as u8 + 1,
            first: first as u16,
            stride: stride as u16,
            count: members.len() as u16,
        })
    }

    /// The number of this cast among those of its writer: 0 where all ranks read.
    pub fn place(self) -> usize {
        usize::from(self.place)
    }

    /// Whether a rank is among them.
    pub fn contains(self, rank: u32) -> bool {
        self.position(rank).is_some()
    }

    /// The position of a rank among them.
    fn position(self, rank: u32) -> Option<u32> {
        let distance = rank.checked_sub(u32::from(self.first))?;
        let position = distance / u32::from(self.stride);
        let here = distance.is_multiple_of(u32::from(self.stride));
        (here && (self.place == 0 || position < u32::from(self.count))).then_some(position)
    }

    /// All of them among `nranks` ranks, ascending.
    pub fn ranks(self, nranks: u32) -> impl Iterator<Item = u32> {
        let count = match self.place {
            0 => nranks,
            _ => u32::from(self.count),
        };
        (0..count).map(move |position| u32::from(self.first) + position * u32::from(self.stride))
    }

    /// How many of `nranks` ranks read what `writer` writes.
    pub(super) fn beside(self, writer: u32, nranks: u32) -> u32 {
        let count = match self.place {
            0 => nranks,
            _ => u32::from(self.count),
        };
        count - u32::from(self.contains(writer))
    }

    /// The number of a reader among those of `writer`.
    pub(super) fn number(self, reader: u32, writer: u32) -> u32 {
        let position = self.position(reader).unwrap_or(0);
        let before = self.position(writer).is_some_and(|own| own < position);
        position - u32::from(before)
    }

    /// One number for programs that are data.
    pub fn pack(self) -> u32 {
        let [place, first, stride, count] =
            [u16::from(self.place), self.first, self.stride, self.count].map(u32::from);
        match place {
            0 => u32::MAX,
            _ => place << (3 * BITS) | first << (2 * BITS) | stride << BITS | count,
        }
    }

    /// The readers of such a number.
    pub fn unpack(number: u32) -> Readers {
        if number == u32::MAX {
            return Readers::ALL;
        }
        let part = |shift: u32| (number >> (shift * BITS) & MASK) as u16;
        Readers {
            place: (number >> (3 * BITS)) as u8,
            first: part(2),
            stride: part(1).max(1),
            count: part(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_at_equal_distances_are_three_numbers() {
        for (level, members) in [
            (0, vec![8, 9, 10, 11]),
            (1, vec![5, 21, 37]),
            (2, vec![0, 127]),
        ] {
            let readers = Readers::group(level, &members).expect("a group");
            assert_eq!(Readers::unpack(readers.pack()), readers);
            assert_eq!(readers.ranks(128).collect::<Vec<_>>(), members);
            let inside: Vec<u32> = (0..128).filter(|&rank| readers.contains(rank)).collect();
            assert_eq!(inside, members);
            for &writer in &members {
                let others: Vec<u32> = members.iter().copied().filter(|&r| r != writer).collect();
                let numbers = others.iter().map(|&reader| readers.number(reader, writer));
                assert!(numbers.eq(0..others.len() as u32));
                assert_eq!(readers.beside(writer, 128), others.len() as u32);
            }
            assert_eq!(readers.beside(500, 128), members.len() as u32);
            assert_ne!(readers.pack(), u32::MAX);
        }
        assert_eq!(Readers::unpack(Readers::ALL.pack()), Readers::ALL);
        assert!(Readers::ALL.contains(70_000) && Readers::ALL.beside(3, 5) == 4);
        assert_eq!(Readers::ALL.number(4, 3), 3);
    }

    #[test]
    fn others_are_not_groups() {
        for members in [&[][..], &[4], &[1, 2, 4], &[3, 2, 1], &[1, 1], &[5, 5000]] {
            assert_eq!(Readers::group(0, members), None, "{members:?}");
        }
        assert_eq!(Readers::group(CAST_LEVELS, &[1, 2]), None);
    }
}
