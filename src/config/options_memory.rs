//! The options of memory that is kept, which go behind those of the start.

/// Expands to the whole table: the entries that it is given, those of memory, and those of the
/// files that follow.
macro_rules! with_memory_options {
    ($($others:tt)*) => {
        with_bits_options! {
            $($others)*

            /// Memory of slots above which a process has empty connections give theirs back,
            /// counted for each of its ranks.
            slot_memory -> u64 {
                kind: Kind::Bytes { least: 64 << 10, most: 1 << 50, zero: None },
                default: "64M",
                unit: "bytes",
                note: "Those go first that have not been used for longest; a connection that is \
                       used again takes its memory anew. Where none is empty, calls take more all \
                       the same. docs/memory.md says what slots take.",
            }
        }
    };
}
