//! The options of how ranks find each other, which go behind those of the table.

/// Expands to the whole table: the entries that it is given, those of the start, and those of the
/// files that follow.
macro_rules! with_start_options {
    ($($others:tt)*) => {
        with_memory_options! {
            $($others)*

            /// Address at which rank 0 listens while the ranks meet, where no unique id is handed
            /// over.
            comm_id -> Option<&HostPort> {
                kind: Kind::Address,
                aliases: &[same("NCCL_COMM_ID")],
            }

            /// File whose content the ranks prove to each other that they know, where nobody hands
            /// them a unique id and munge does not run.
            secret_file -> Option<&Path> {
                kind: Kind::Path,
                note: "`(umask 077; head -c 32 /dev/urandom > FILE)` makes one. It must be a \
                       regular file of this user with mode 0600, the same for all ranks, of 32 \
                       bytes or more. The bytes must be random and not a phrase: other users can \
                       try phrases until one fits.",
            }

            /// Socket of the `munged` by which ranks without a unique id prove whose they are,
            /// where it is not the one that libmunge knows (`AuthInfo` in `slurm.conf` names it).
            munge_socket -> Option<&Path> {
                kind: Kind::Path,
                tag: Tag::Site,
            }

            /// How long the ranks of a new communicator may take to meet where they meet by a
            /// unique id, `comm_id`, Slurm variables, PMIx or PMI (MPI waits as MPI does), after
            /// which making it fails with an error that names those that are missing, if the
            /// launcher tells; `none` waits for them without limit.
            start_timeout -> Option<Duration> {
                kind: Kind::Seconds { most: 86_400, zero: "none" },
                default: "none",
                unit: "seconds",
                note: "A rank 0 whose address is known beforehand (`comm_id`, Slurm variables) \
                       and that is not there yet is looked for as long, and with `none` for 120 \
                       seconds; one warning says so after 10 seconds, or after `warn_after` if \
                       that is less. Less than a second counts as one.",
            }

            /// Number of ranks above which they reach rank 0 one after the other, to spare it,
            /// while they meet.
            uid_stagger_threshold -> u32 {
                kind: Kind::Int { least: 1, most: 1 << 30, zero: None },
                default: "256",
                unit: "ranks",
                tag: Tag::Site,
                aliases: &[same("NCCL_UID_STAGGER_THRESHOLD")],
            }

            /// How many ranks then reach it in a second.
            uid_stagger_rate -> u32 {
                kind: Kind::Int { least: 1, most: 1 << 30, zero: None },
                default: "7000",
                unit: "ranks per second",
                tag: Tag::Site,
                aliases: &[same("NCCL_UID_STAGGER_RATE")],
            }

            /// First of the ports at which rank 0 may listen where the ranks meet by Slurm
            /// variables.
            slurm_port -> u32 {
                kind: Kind::Int { least: 1, most: 65_535, zero: None },
                default: "23000",
                tag: Tag::Site,
                note: "docs/launch.md says which of the ports a job takes. They must be free of \
                       daemons and open between the nodes, and the same on every rank.",
            }

            /// How many ports there are from `slurm_port` on.
            slurm_port_count -> u32 {
                kind: Kind::Int { least: 1, most: 65_535, zero: None },
                default: "5000",
                unit: "ports",
                tag: Tag::Site,
            }

            /// Let a process go on alone though Slurm started several and its MPI knows only of
            /// this one, which is what an MPI under the wrong `srun --mpi` looks like.
            allow_singletons -> bool {
                kind: Kind::Bool,
                default: "false",
            }
        }
    };
}
