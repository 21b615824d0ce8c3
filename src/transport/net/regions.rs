//! Numbers of registrations where the network itself has no use for them.

use super::Region;
use crate::base::{Error, Result};

/// Registrations: some networks need none, but a wrong one is noticed here as on any network.
#[derive(Debug, Default)]
pub struct Regions {
    next: u64,
    open: Vec<u64>,
}

impl Regions {
    /// A new one.
    pub fn open(&mut self) -> Region {
        let number = self.next;
        self.next += 1;
        self.open.push(number);
        Region(number)
    }

    /// Ends one; `InvalidArgument` when there is none of that number.
    pub fn close(&mut self, region: Region) -> Result<()> {
        let at = self.open.iter().position(|&number| number == region.0);
        let Some(at) = at else {
            return Err(Error::argument(
                format!("region {} is not registered on this connection", region.0),
                "deregister what register gave, once",
            ));
        };
        self.open.swap_remove(at);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_are_closed_once() {
        let mut regions = Regions::default();
        let (a, b) = (regions.open(), regions.open());
        regions.close(a).unwrap();
        assert!(regions.close(a).is_err());
        regions.close(b).unwrap();
    }
}
