//! Parsers of foreign bytes in this room, for `tests/fuzz`: none may panic, loop, or allocate far
//! more than it was given.

use super::Measured;
use super::mpi_table::StayTable;

/// A file of measured times.
pub fn tuner_file(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(measured) = Measured::from_toml(text, "fuzz.toml")
    {
        // What was read can be written and read again.
        let again = measured.to_toml();
        assert!(Measured::from_toml(&again, "again").is_ok(), "{again}");
    }
}

/// A table of what MPI does faster.
pub fn mpi_table(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(table) = StayTable::parse(text)
    {
        let again = table.print();
        assert_eq!(StayTable::parse(&again).as_ref(), Ok(&table), "{again}");
    }
}
