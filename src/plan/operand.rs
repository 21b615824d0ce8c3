//! Operands: where a step reads and writes, in interned *ordered* lists.
//!
//! Order matters: a fold follows its list, own input included, so that a plan can keep rank order.

/// Where an operand lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Space {
    /// The caller's send buffer.
    Input = 0,
    /// The caller's receive buffer.
    Output = 1,
    /// Memory of the communicator that only this lane sees: [`super::Plan::scratch`] chunks, whose
    /// content lasts for one round. What was stored as a chunk of a split must be read as the same
    /// chunk, wherever it was put, because chunks differ in length.
    Scratch = 2,
    /// A connection of the plan, see [`super::ConnectionUse`].
    Connection = 3,
}

/// One source or destination of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(C)]
pub struct Operand {
    /// Where it lives.
    pub space: Space,
    /// Keep the token of a connection source for a later step instead of releasing it.
    pub keep: bool,
    /// Index of the connection in the plan (0 for the other spaces).
    pub index: u16,
    /// Added to the step's chunk number before it is reduced modulo the chunks of the space (for
    /// scratch: modulo those of the scratch memory).
    pub offset: i32,
}

impl Operand {
    /// The chunk of the send buffer.
    pub const INPUT: Operand = Operand::of(Space::Input, 0);
    /// The chunk of the receive buffer.
    pub const OUTPUT: Operand = Operand::of(Space::Output, 0);

    /// The chunk of scratch memory.
    pub const SCRATCH: Operand = Operand::of(Space::Scratch, 0);

    /// The chunk `offset` behind that of the step (before it, if negative). It means nothing for a
    /// connection, and in a split it may be used on scratch only, because chunks differ in length.
    pub const fn at(self, offset: i32) -> Operand {
        Operand { offset, ..self }
    }

    /// Connection number `index` of the plan.
    pub const fn connection(index: u16) -> Operand {
        Operand::of(Space::Connection, index)
    }

    const fn of(space: Space, index: u16) -> Operand {
        Operand {
            space,
            keep: false,
            index,
            offset: 0,
        }
    }

    /// The chunk that is meant where the step's own is number `chunk`, of `chunks` in all.
    #[inline]
    pub fn chunk(&self, chunk: u32, chunks: u32) -> u32 {
        let chunks = chunks.max(1);
        match self.offset {
            0 => chunk % chunks,
            offset => {
                let shifted = i64::from(chunk) + i64::from(offset);
                shifted.rem_euclid(i64::from(chunks)) as u32
            }
        }
    }

    /// The connection index, if the operand is a connection.
    #[inline]
    pub fn as_connection(&self) -> Option<usize> {
        (self.space == Space::Connection).then_some(usize::from(self.index))
    }
}

/// Number of an interned list in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct ListId(pub u16);

/// All operand lists of a plan; each distinct list is stored once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lists {
    lists: Vec<Box<[Operand]>>,
}

impl Lists {
    /// The number of this list, new or known.
    ///
    /// # Panics
    /// With more than 65,535 distinct lists: an algorithm has a handful.
    pub fn intern(&mut self, list: &[Operand]) -> ListId {
        let known = self.lists.iter().rposition(|known| &**known == list);
        let index = known.unwrap_or_else(|| {
            self.lists.push(list.into());
            self.lists.len() - 1
        });
        ListId(u16::try_from(index).expect("a plan has few distinct operand lists"))
    }

    /// The operands of a list, in order.
    #[inline]
    pub fn get(&self, id: ListId) -> &[Operand] {
        &self.lists[usize::from(id.0)]
    }

    /// How many distinct lists there are.
    pub fn len(&self) -> usize {
        self.lists.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lists_are_stored_once_and_order_matters() {
        let mut lists = Lists::default();
        let a = lists.intern(&[Operand::INPUT, Operand::connection(0)]);
        let b = lists.intern(&[Operand::connection(0), Operand::INPUT]);
        assert_ne!(a, b);
        assert_eq!(a, lists.intern(&[Operand::INPUT, Operand::connection(0)]));
        assert_eq!(lists.len(), 2);
        assert_eq!(lists.get(b)[1], Operand::INPUT);
    }
}
