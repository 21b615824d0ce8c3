//! Options whose value is one word of a short list: each list is one enum here.
//!
//! The word, other spellings, and the sentence that documents it stand beside the variant, so that
//! the parser, the error messages and the documentation cannot disagree.

use super::value::{FromValue, Value, wrong_kind};
use super::word::Word;

macro_rules! words {
    ($(
        $(#[doc = $about:literal])+
        $name:ident {
            $( #[doc = $doc:literal] $variant:ident = $text:literal $(| $also:literal)*, )+
        }
    )+) => { $(
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( #[doc = $doc] $variant, )+
        }

        impl $name {
            /// The words in the order of the variants.
            pub const WORDS: &'static [Word] = &[
                $( Word { text: $text, also: &[$($also),*], doc: $doc }, )+
            ];

            /// The word of this variant.
            pub fn text(self) -> &'static str {
                match self { $( $name::$variant => $text, )+ }
            }
        }

        impl FromValue<'_> for $name {
            fn from_value(value: &Value) -> Self {
                match value {
                    $( Value::Word($text) => $name::$variant, )+
                    other => wrong_kind(other),
                }
            }
        }
    )+ };
}

words! {
    /// How much kolo says. Levels are ordered: a message is written when its level is at most this.
    DebugLevel {
        /// nothing
        None = "none",
        /// the version, once
        Version = "version",
        /// failures and suspicious states, such as a rank that others have waited for
        Warn = "warn",
        /// what was found and chosen at init, told by rank 0
        Info = "info",
        /// every call, on all ranks
        Trace = "trace",
    }

    /// Answers to a failed call of the C or Fortran interface.
    Errors {
        /// the call returns a code
        Return = "return",
        /// the same, and the error names the place in the program
        Backtrace = "backtrace",
        /// the process prints why and aborts, with which a launcher ends the job
        Abort = "abort",
    }

    /// Answers to a signal that ends the process.
    OnSignal {
        /// the process ends without a word
        None = "none",
        /// each rank writes first where it is
        Report = "report",
    }

    /// Whether a preloaded `libkolo_pmpi` takes calls.
    Dropin {
        /// all calls stay with MPI
        Off = "off",
        /// kolo takes the collectives of docs/dropin.md
        On = "on",
        /// MPI runs them again, its results count, and a line tells where kolo's differ
        Verify = "verify",
    }

    /// Whether a preloaded `libkolo_pmpi` takes calls where there are GPUs.
    DropinDevices {
        /// all calls stay with MPI
        Mpi = "mpi",
        /// kolo takes calls: the program has no collectives on buffers of a GPU
        Host = "host",
    }

    /// Who runs collectives of MPI communicators on several nodes, between the nodes.
    DropinNodes {
        /// kolo, unless a node has a network that kolo does not use; then MPI
        Auto = "auto",
        /// kolo
        Kolo = "kolo",
        /// MPI, with kolo on each node
        Mpi = "mpi",
        /// MPI, and on the nodes too
        Off = "off",
    }

    /// Who runs sums and products of floats.
    FloatSums {
        /// kolo, whose order of summing is not MPI's
        Kolo = "kolo",
        /// MPI
        Mpi = "mpi",
    }

    /// On what the bits of sums of floats may depend.
    Reproducible {
        /// on the job and the machine: each run of the same job has the same bits
        Job = "job",
        /// on nothing but the number of ranks, wherever these are
        Placement = "placement",
    }

    /// The phase of a start that a rank does not leave.
    HoldIn {
        /// none
        None = "none",
        /// the ranks find each other
        Meeting = "meeting",
        /// they show who they are and what was asked of them, and compare it
        Comparing = "comparing",
        /// they agree on orders and choices
        Agreeing = "agreeing",
        /// those of a node map the memory that they share
        Sharing = "sharing",
        /// they find out how buffers are reached
        Reaching = "reaching",
        /// those of several nodes open the network
        Connecting = "connecting",
        /// tables, connections and threads are bound to the communicator
        Binding = "binding",
        /// everybody waits until all are ready
        Ending = "ending",
    }

    /// The address family of sockets.
    SocketFamily {
        /// both
        Any = "any",
        /// IPv4 only
        Ipv4 = "ipv4" | "AF_INET" | "inet",
        /// IPv6 only
        Ipv6 = "ipv6" | "AF_INET6" | "inet6",
    }

    /// The network between nodes.
    Net {
        /// the first of the others, in their order here, that this machine has
        Auto = "auto",
        /// a library named by the site
        Plugin = "plugin",
        /// InfiniBand and RoCE
        Verbs = "verbs" | "IB",
        /// Slingshot, EFA, Omni-Path by libfabric; only when asked for, here or by `ofi_provider`
        Ofi = "ofi" | "libfabric",
        /// TCP
        Socket = "socket" | "tcp",
        /// point-to-point messages of the MPI that started the job; only when asked for
        Mpi = "mpi",
    }

    /// The protocol of connections.
    Proto {
        /// by size
        Auto = "auto",
        /// slots with a head and a tail count
        Simple = "simple",
        /// data, sequence and acknowledgement in one cache line
        Eager = "eager",
        /// words of 4 bytes of payload and a flag of 4
        Ll = "ll",
        /// lines of 120 bytes of payload and a flag of 8
        Ll128 = "ll128",
    }

    /// Whether rings change network ports.
    CrossNic {
        /// where that gives more bandwidth
        Auto = "auto" | "2",
        /// a ring stays on one port, as networks with a rail for each port want it
        Never = "never" | "0",
        /// wherever another port is nearer, as the network joins all ports alike
        Always = "always" | "1",
    }

    /// How far a NIC may be from a GPU whose memory it reads and writes itself.
    GdrLevel {
        /// as the machine was found to be
        Auto = "auto",
        /// never
        Loc = "loc" | "0",
        /// behind one PCI switch
        Pix = "pix" | "1",
        /// behind several PCI switches
        Pxb = "pxb" | "2",
        /// on the same NUMA node
        Phb = "phb" | "3",
        /// anywhere
        Sys = "sys" | "4",
    }

    /// Whether ranks send through other ranks of their node.
    Pxn {
        /// each rank moves what it sends itself, without waking another one
        Never = "never" | "0",
        /// where another rank is beside the network port and the rank itself is not
        Nearer = "nearer" | "1",
        /// all ranks of a node send through one rank for each port, also while they compute
        Always = "always" | "2",
    }

    /// Whether private buffers are read by system calls.
    Cma {
        /// from the size of `cma_from` on if that is set: where pages are small, slots are faster
        Auto = "auto",
        /// wherever buffers may be read where they lie
        On = "on" | "true" | "1",
        /// never
        Off = "off" | "false" | "0",
    }

    /// Whom a process admits to its memory.
    CmaPtracer {
        /// whom the system lets anyway
        None = "none",
        /// the process that started the rank (an agent of mpirun or Slurm), with all that it starts
        Launcher = "launcher",
        /// all processes of the user
        Any = "any",
    }

    /// How slots are written.
    Stores {
        /// as was measured to be faster on this machine, and if nothing was, past the cache
        Auto = "auto",
        /// in the ordinary way: the data stay in a cache, for readers that share it
        Cached = "cached",
        /// past the cache from 8 KiB on, or from 32 KiB on where ranks outnumber cores
        Streamed = "streamed",
    }

    /// Ways in which a thread waits for a peer.
    Wait {
        /// by the cores that the ranks really have
        Auto = "auto",
        /// poll, and never sleep; the core is given away between polls after the first ones
        Spin = "spin",
        /// poll, and never sleep; the core is given away between polls
        Yield = "yield",
        /// poll briefly, then sleep until the peer rings
        Sleep = "sleep",
    }

    /// Who moves asynchronous calls forward while no call waits for them.
    Progress {
        /// the same as `thread`
        Auto = "auto",
        /// nobody: they move only while the program is inside a call of kolo
        Inline = "inline",
        /// a thread of kolo, which sleeps until something can move
        Thread = "thread",
    }

    /// Where the threads that kolo starts may run.
    Affinity {
        /// on cores of this rank or free ones, near its network device and its memory
        Auto = "auto",
        /// wherever the operating system puts them
        None = "none",
        /// on one core of this rank: the first; ranks that share cores take different ones
        Compact = "compact",
    }
}

macro_rules! algorithm_words {
    (
        named {
            $( #[doc = $doc:literal] $variant:ident = $text:literal { $($entries:tt)* } )*
        }
        $($unnamed:tt)*
    ) => {
        words! {
            /// The algorithm of collectives that have a choice: those that the table in `algo`
            /// lets users name.
            Algo {
                /// by size and shape
                Auto = "auto",
                $( #[doc = $doc] $variant = $text, )*
            }
        }
    };
}

algorithms!(algorithm_words);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_map_to_their_variants() {
        assert_eq!(Algo::from_value(&Value::Word("oneshot")), Algo::OneShot);
        assert_eq!(Algo::OneShot.text(), "oneshot");
        assert_eq!(Wait::WORDS.len(), 4);
        assert_eq!(Wait::WORDS[3].text, Wait::Sleep.text());
        assert!(DebugLevel::Warn < DebugLevel::Info);
        assert_eq!(SocketFamily::WORDS[1].also, ["AF_INET", "inet"]);
    }
}
