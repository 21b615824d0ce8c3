//! `cuMemAlloc` and managed memory.

use super::backing::Backing;
use super::{Arena, Home, Keeper, Kind, Memory, NewRange, Part, Trouble};
use crate::error::{Answer, Code};
use crate::progress::Failed;
use kolo_kernels_host::{Access, Machine};

const ALIGNMENT: u64 = 256;

impl Memory {
    /// Memory of a device: its address.
    ///
    /// # Errors
    /// The device has not so much.
    pub fn allocate(
        &mut self,
        machine: &mut Machine,
        (device, context): (u32, u64),
        bytes: u64,
        kind: Kind,
    ) -> Answer<u64> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let whole = bytes
            .checked_next_multiple_of(ALIGNMENT)
            .ok_or(Code::OUT_OF_MEMORY)?;
        let taken = self.used[device as usize].take(whole, self.total)?;
        let (home, offset) = self.take_of_arena(device, whole)?;
        let Some(base) = self.space.take(whole, ALIGNMENT, 0) else {
            self.give_to_arena(device, offset);
            return Err(Code::OUT_OF_MEMORY);
        };
        let (name, access) = match kind {
            Kind::Pooled(pool) => ("memory of a pool", self.pools.get(pool)?.access),
            _ => ("memory", self.access_with_peers(device)),
        };
        let part = Part {
            offset,
            _taken: taken,
        };
        self.enter(
            machine,
            NewRange {
                name,
                base,
                bytes,
                home,
                kind,
                device,
                context,
                access,
                keeper: Keeper::Arena(part),
            },
        )?;
        Ok(base)
    }

    fn take_of_arena(&mut self, device: u32, bytes: u64) -> Answer<(Home, u64)> {
        let arena = &mut self.arenas[device as usize];
        let arena = match arena {
            Some(arena) => arena,
            None => {
                let backing = Backing::shared(self.total as usize)?;
                let gaps = super::Gaps::new(0, self.total);
                arena.insert(Arena { backing, gaps })
            }
        };
        let offset = arena
            .gaps
            .take(bytes, ALIGNMENT, 0)
            .ok_or(Code::OUT_OF_MEMORY)?;
        let home = Home(arena.backing.at().wrapping_add(offset as usize));
        Ok((home, offset))
    }

    fn give_to_arena(&mut self, device: u32, offset: u64) {
        if let Some(arena) = &mut self.arenas[device as usize] {
            let bytes = arena.gaps.give(offset).unwrap_or(0);
            arena.backing.forget(offset as usize, bytes as usize);
        }
    }

    /// Memory of the host for devices: managed or pinned.
    ///
    /// # Errors
    /// The system has not so much.
    pub fn allocate_of_host(
        &mut self,
        machine: &mut Machine,
        (device, context): (u32, u64),
        bytes: u64,
        kind: Kind,
    ) -> Answer<u64> {
        if bytes == 0 {
            return Err(Code::INVALID_VALUE);
        }
        let whole = bytes
            .checked_next_multiple_of(4096)
            .ok_or(Code::OUT_OF_MEMORY)?;
        let backing = Backing::private(usize::try_from(whole).map_err(|_| Code::OUT_OF_MEMORY)?)?;
        let home = Home(backing.at());
        let base = home.0.expose_provenance() as u64;
        let name = match kind {
            Kind::Managed => "managed memory",
            _ => "pinned memory",
        };
        self.enter(
            machine,
            NewRange {
                name,
                base,
                bytes,
                home,
                kind,
                device,
                context,
                access: Access::ALL,
                keeper: Keeper::Mapping(backing),
            },
        )?;
        Ok(base)
    }

    /// Gives an allocation back that begins at `base`, if it is of a kind that `is_good` takes.
    ///
    /// # Errors
    /// There is none, or a kernel stores to it.
    pub fn free(
        &mut self,
        machine: &mut Machine,
        base: u64,
        is_good: fn(Kind) -> bool,
    ) -> Result<(), Trouble> {
        let known = self.at(base).filter(|known| is_good(known.kind));
        known.ok_or(Code::INVALID_VALUE)?;
        let gone = self.leave(machine, base)?;
        if !gone.kind.is_of_host() {
            self.space.give(base);
        }
        if let Keeper::Arena(part) = &gone.keeper {
            self.give_to_arena(gone.device, part.offset);
        }
        Ok(())
    }

    /// Frees everything that was allocated in a context.
    ///
    /// # Errors
    /// A kernel stores to some of it.
    pub fn drop_context(&mut self, machine: &mut Machine, context: u64) -> Result<(), Failed> {
        let all = self.allocations.values();
        let of = all.filter(|allocation| allocation.context == context && context != 0);
        let bases: Vec<u64> = of.map(|allocation| allocation.base).collect();
        for base in bases {
            match self.free(machine, base, |_| true) {
                Err(Trouble::Failure(failure)) => return Err(failure.into()),
                Ok(()) | Err(Trouble::Code(_)) => {}
            }
        }
        self.forget_opened(context);
        Ok(())
    }
}
