//! The options of `libkolo_pmpi`, which go behind those of memory. docs/dropin.md says more.

/// Expands to the whole table: the entries that it is given, those of `libkolo_pmpi`, and those of
/// RDMA.
macro_rules! with_pmpi_options {
    ($($others:tt)*) => {
        with_verbs_options! {
            $($others)*

            /// Whether `libkolo_pmpi`, where it is preloaded, takes collectives of an MPI program.
            pmpi -> Dropin {
                kind: Kind::Words(Dropin::WORDS),
                default: "on",
                note: "The settings of world rank 0 hold for all ranks, but this one and \
                       `pmpi_timeout` for the rank that has them.",
            }

            /// Ranks that an MPI communicator must have before `libkolo_pmpi` takes its calls.
            pmpi_min_ranks -> u32 {
                kind: Kind::Int { least: 2, most: 1 << 20, zero: None },
                default: "2",
                unit: "ranks",
            }

            /// Collectives of an MPI communicator that stay with MPI before kolo attaches it;
            /// `earned` attaches it when those before would have taken longer than attaching.
            pmpi_attach -> Option<u32> {
                kind: Kind::Int { least: 0, most: 1 << 30, zero: Some("earned") },
                default: "earned",
                unit: "collectives",
                note: "What calls would have taken is a fixed price for ranks and bytes, so all \
                       ranks decide alike.",
            }

            /// Collectives that kolo takes of an MPI program, and of which sizes: `all`, or words
            /// such as `allreduce`, `bcast:-64K` (less than 64 KiB), `^alltoall:1M-` (all but
            /// those of 1 MiB and more).
            pmpi_collectives -> Option<&str> {
                kind: Kind::MpiCalls,
                default: "all",
                note: "Bounds are powers of 2. A size is that of one rank's block for gather, \
                       scatter, allgather and alltoall, of all blocks together for allgatherv, of \
                       a rank's whole vector for reductions; gatherv, scatterv, alltoallv and \
                       barrier have none.",
            }

            /// Where MPI is faster than kolo, so that it keeps these calls: a file that `kolo tune
            /// --mpi` has written, `built-in` for what is known of some MPIs, or `none`.
            pmpi_table -> Option<&str> {
                kind: Kind::Text,
                default: "built-in",
                note: "The file holds for the collectives, the MPI, the numbers of ranks and the \
                       cores that it names, and what is built in for all others. Collectives and \
                       sizes that `pmpi_collectives` names are kolo's, whoever is faster.",
            }

            /// Memory that the communicators of an MPI program may take of a node before further
            /// ones stay with MPI; `share` is a twentieth of what the node has.
            pmpi_memory -> Option<u64> {
                kind: Kind::Bytes { least: 64 << 10, most: 1 << 50, zero: Some("share") },
                default: "share",
                unit: "bytes",
                note: "Each rank counts its communicators by the formula of docs/memory.md, and \
                       takes as its part that of one rank of the node.",
            }

            /// Whether `libkolo_pmpi` takes calls of an MPI program whose processes can open a GPU,
            /// with an MPI that takes buffers there.
            pmpi_gpu -> DropinDevices {
                kind: Kind::Words(DropinDevices::WORDS),
                default: "mpi",
            }

            /// Who runs collectives of an MPI program's communicators on several nodes: `mpi` runs
            /// them on each node by kolo and between the nodes by MPI.
            pmpi_nodes -> DropinNodes {
                kind: Kind::Words(DropinNodes::WORDS),
                default: "auto",
                note: "By `mpi` kolo takes barrier, bcast, reduce, allreduce and allgather.",
            }

            /// Who runs sums and products of floats of an MPI program: MPI keeps their bits.
            pmpi_float_sums -> FloatSums {
                kind: Kind::Words(FloatSums::WORDS),
                default: "kolo",
            }

            /// How long `libkolo_pmpi` waits in MPI_Init for ranks that do not answer, before all
            /// calls stay with MPI; `none` waits for them without limit.
            pmpi_timeout -> Option<Duration> {
                kind: Kind::Seconds { most: 86_400, zero: "none" },
                default: "60",
                unit: "seconds",
                note: "The time counts once for each level of ranks that a rank hears from.",
            }
        }
    };
}
