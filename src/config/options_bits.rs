//! The option of the bits that sums have, which goes behind those of memory. docs/numerics.md says
//! more.

/// Expands to the whole table: the entries that it is given, that of bits, and those of the files
/// that follow.
macro_rules! with_bits_options {
    ($($others:tt)*) => {
        with_pmpi_options! {
            $($others)*

            /// On what the bits of a sum of floats may depend.
            reproducible -> Reproducible {
                kind: Kind::Words(Reproducible::WORDS),
                default: "job",
                shapes: true,
                note: "`placement` leaves only plans that fold in the order of ranks, also of \
                       integers, and is slower for it: docs/numerics.md says how much, and what it \
                       holds for.",
            }
        }
    };
}
