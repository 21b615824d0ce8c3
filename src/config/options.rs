//! The table of options: one entry makes the TOML key, the environment variable, the default, the
//! typed getter, the documentation and the help text. To add an option, add one entry to
//! [`OPTIONS`] below, and `Settings` has a getter of that name. Then run
//! `KOLO_BLESS=1 cargo test --lib config::` once to write the two generated files.

use super::kind::Kind;
use super::nccl::{nccl_algo, nccl_index, nccl_level, nccl_proto, nccl_signal};
use super::option::{Alias, BASE, Opt, Tag};
use super::words::{
    Affinity, Algo, Cma, CmaPtracer, CrossNic, DebugLevel, Dropin, DropinDevices, DropinNodes,
    Errors, FloatSums, GdrLevel, HoldIn, Net, OnSignal, Progress, Proto, Pxn, Reproducible,
    SocketFamily, Stores, Wait,
};

/// The option with this key.
pub fn find(key: &str) -> Option<&'static Opt> {
    OPTIONS.iter().find(|option| option.key == key)
}

const fn same(name: &'static str) -> Alias {
    Alias {
        name,
        translate: str::to_string,
    }
}

with_planning_options! {
    /// File with the kernels for GPUs, if not `lib/kolo/kolo_kernels.fatbin` of the installation.
    kernels_file -> Option<&Path> {
        kind: Kind::Path,
        tag: Tag::Site,
    }

    /// Beginnings of the names of the network interfaces that may be used, such as `eth,ib`;
    /// `^eth1` excludes, on top of what is never taken first, and `=eth1` compares whole names.
    socket_ifname -> Option<&PrefixList> {
        kind: Kind::Prefixes,
        tag: Tag::Site,
        aliases: &[same("NCCL_SOCKET_IFNAME")],
    }

    /// Address family of the sockets that ranks use, to meet and for data.
    socket_family -> SocketFamily {
        kind: Kind::Words(SocketFamily::WORDS),
        default: "any",
        tag: Tag::Site,
        aliases: &[same("NCCL_SOCKET_FAMILY")],
    }

    /// Network that carries data between nodes.
    net -> Net {
        kind: Kind::Words(Net::WORDS),
        default: "auto",
        tag: Tag::Site,
        shapes: true,
        aliases: &[same("NCCL_NET")],
    }

    /// Library with the network between nodes: a path, a file name, a word X that means
    /// `libnccl-net-X.so`, or `none`. Not set, `libnccl-net.so` is used where there is one.
    net_plugin -> Option<&Path> {
        kind: Kind::Path,
        tag: Tag::Site,
        aliases: &[same("NCCL_NET_PLUGIN")],
        note: "The library exports a table `ncclNetPlugin_v8` to `ncclNetPlugin_v11`, as the \
               field's plugins do.",
    }

    /// TCP sockets of one connection for data between nodes; large messages are spread over them.
    net_sockets -> u32 {
        kind: Kind::Int { least: 1, most: 64, zero: None },
        default: "1",
        unit: "sockets",
        tag: Tag::Site,
        aliases: &[same("NCCL_NSOCKS_PERTHREAD"), same("NCCL_SOCKET_NTHREADS")],
        note: "More than one helps where the network limits each flow. The thread that drives a \
               connection drives all its sockets, so the two aliases mean the same and are not \
               multiplied.",
    }

    /// Protect every message between nodes by a checksum (CRC32C) of its own, besides that of TCP.
    net_checksum -> bool {
        kind: Kind::Bool,
        default: "false",
        tag: Tag::Site,
    }

    /// How long a link between nodes may be silent before it counts as lost; `none` leaves it to
    /// the system, which may wait for a quarter of an hour.
    net_link_timeout -> Option<Duration> {
        kind: Kind::Seconds { most: 86_400, zero: "none" },
        default: "30",
        unit: "seconds",
        tag: Tag::Site,
        note: "A link that comes back sooner loses nothing. A live rank that is busy elsewhere is \
               not a silent link: its system answers for it.",
    }

    /// File that describes the machine in place of what hwloc detects: XML that hwloc wrote, or the
    /// XML form of GPU libraries, which begins with `<system>`.
    topo_file -> Option<&Path> {
        kind: Kind::Path,
        tag: Tag::Site,
        aliases: &[same("NCCL_TOPO_FILE")],
        note: "A `<system>` file says nothing of cores: those are detected.",
    }

    /// File with the rings and trees of a node, to be used in place of a search; docs/topology.md
    /// shows its form.
    graph_file -> Option<&Path> {
        kind: Kind::Path,
        tag: Tag::Site,
        note: "Its contents must be the same on every rank. Communicators made by a split search.",
    }

    /// File that takes the rings and trees of the node of rank 0, in the form that `graph_file`
    /// reads.
    graph_dump_file -> Option<&Path> {
        kind: Kind::Path,
    }

    /// Whether a ring may leave a node by another network port than it came in by.
    cross_nic -> CrossNic {
        kind: Kind::Words(CrossNic::WORDS),
        default: "auto",
        tag: Tag::Site,
        shapes: true,
        aliases: &[same("NCCL_CROSS_NIC")],
    }

    /// Do not send through the proxy of another rank, even where its GPU is nearer to the NIC.
    pxn_disable -> bool {
        kind: Kind::Bool,
        default: "false",
        tag: Tag::Site,
        shapes: true,
        aliases: &[same("NCCL_PXN_DISABLE")],
    }

    /// Farthest way over which a NIC reads and writes the memory of a GPU itself; without effect on
    /// host memory.
    net_gdr_level -> GdrLevel {
        kind: Kind::Words(GdrLevel::WORDS),
        default: "auto",
        tag: Tag::Site,
        aliases: &[Alias { name: "NCCL_NET_GDR_LEVEL", translate: nccl_level }],
    }

    /// Whether ranks send host memory through the proxy of another rank of their node (PXN).
    pxn -> Pxn {
        kind: Kind::Words(Pxn::WORDS),
        default: "never",
        tag: Tag::Site,
    }

    /// Where the threads that kolo starts may run; the program's own threads are never moved.
    affinity -> Affinity {
        kind: Kind::Words(Affinity::WORDS),
        default: "auto",
        tag: Tag::Site,
    }

    /// Ranks with the same word are on one node, whatever their hosts are called: for containers
    /// whose names repeat, and to try several nodes on one machine.
    hostid -> Option<&str> {
        kind: Kind::Text,
        tag: Tag::Site,
        aliases: &[same("NCCL_HOSTID")],
    }

    /// Switches above this node from the top down, divided by periods, such as `spine.leaf3`. Nodes
    /// below one switch follow each other in rings and trees. Not set, Slurm's words count
    /// (`SLURM_TOPOLOGY_ADDR`); `ignore` keeps the order of the ranks.
    topo_address -> Option<&str> {
        kind: Kind::Text,
        tag: Tag::Site,
        note: "Where the nodes of a job are listed switch by switch already, nothing changes. \
               Elsewhere sums are folded in another order (docs/numerics.md).",
    }

    /// Do not use memory shared between processes, even where ranks are on one machine: processes
    /// reach each other over the network.
    shm_disable -> bool {
        kind: Kind::Bool,
        default: "false",
        tag: Tag::Site,
        shapes: true,
        aliases: &[same("NCCL_SHM_DISABLE")],
    }

    /// Let ranks of one machine read each other's buffers where they lie, without a copy into
    /// slots: buffers of `koloMemAlloc`, and all where the ranks are threads of one process.
    /// Between nodes, let RDMA read such buffers, and registered ones, where they lie.
    direct -> bool {
        kind: Kind::Bool,
        default: "true",
        shapes: true,
    }

    /// Whether ranks of one machine read each other's private buffers by a system call
    /// (`process_vm_readv`) where the system lets every one of them; `direct` must be on too.
    cma -> Cma {
        kind: Kind::Words(Cma::WORDS),
        default: "auto",
        tag: Tag::Site,
        shapes: true,
        note: "The line of the log that begins with CMA says at `KOLO_DEBUG=info` whether it is in \
               use, or why not. It reads all-reduce, reduce-scatter, all-gather and broadcast \
               from 64 KiB on, on 2 to 256 ranks. docs/performance.md has measured ratios.",
    }

    /// Smallest contribution of a rank from which private buffers are read so; `none` leaves it to
    /// `cma`.
    cma_from -> Option<u64> {
        kind: Kind::Bytes { least: 1, most: 1 << 50, zero: Some("none") },
        default: "none",
        unit: "bytes",
        tag: Tag::Site,
        shapes: true,
    }

    /// Whom a process admits to its memory, for life, where `kernel.yama.ptrace_scope` is 1.
    cma_ptracer -> CmaPtracer {
        kind: Kind::Words(CmaPtracer::WORDS),
        default: "none",
        tag: Tag::Site,
        note: "It replaces what another library of the process has admitted, such as an MPI that \
               reads buffers itself. Where each rank is started by a script of its own, use `any`.",
    }

    /// How ranks write the slots by which data reach other ranks of a machine (that of the lowest
    /// rank of each node counts), results from 2 MiB on, and those that others reach in place.
    stores -> Stores {
        kind: Kind::Words(Stores::WORDS),
        default: "auto",
        tag: Tag::Site,
        note: "Speed only; results try both kinds. `kolo info` shows what was measured: once a \
               boot (in a virtual machine, whose cores may move: once a minute), kept in \
               `$XDG_RUNTIME_DIR/kolo`, or else `/tmp/kolo-UID`. Without it, crowded ranks cache.",
    }

    /// Let a rank that falls asleep have the others pass a memory barrier (`membarrier`), which
    /// else is in each call. Off, or impossible, for one process of a machine it is so for all.
    membarrier -> bool {
        kind: Kind::Bool,
        default: "true",
        tag: Tag::Site,
    }

    /// How much kolo writes about what it does.
    debug -> DebugLevel {
        kind: Kind::Words(DebugLevel::WORDS),
        default: "warn",
        aliases: &[same("NCCL_DEBUG")],
    }

    /// File that takes these messages in place of standard error; `%h` in its name becomes the
    /// host name and `%p` the process id.
    debug_file -> Option<&Path> {
        kind: Kind::Path,
        aliases: &[same("NCCL_DEBUG_FILE")],
    }

    /// Effect of a call that fails; in Rust an error is returned in any case. The first failure of
    /// each kind on a communicator is a line of the log in any case, unless `debug` is `none`.
    errors -> Errors {
        kind: Kind::Words(Errors::WORDS),
        default: "return",
        note: "The others of the kind are counted: a line when the communicator ends. Lines of \
               files need debug information (`-g`). A Fortran call without `ierror` ends the job.",
    }

    /// Compare collective, count, type, operation and root between all ranks at every call, and
    /// name the rank that differs. A send waits for its receive, however short the message is.
    check -> bool {
        kind: Kind::Bool,
        default: "false",
        shapes: true,
    }

    /// Let the network fold what `collnet` all-reduces, where the library that `net_plugin` names
    /// has the table `ncclCollNet` and folds the type; elsewhere ranks of the nodes do.
    collnet_enable -> bool {
        kind: Kind::Bool,
        default: "false",
        tag: Tag::Site,
        shapes: true,
        aliases: &[same("NCCL_COLLNET_ENABLE")],
        note: "It says who folds, not when: `KOLO_ALGO=allreduce:collnet` chooses the algorithm.",
    }

    /// Signal at which a process writes to its log what is under way between nodes, operation by
    /// operation: peer, slots, and how many of them were posted, filled, transmitted and are done.
    dump_signal -> Option<u32> {
        kind: Kind::Int { least: 1, most: 64, zero: Some("none") },
        default: "none",
        tag: Tag::Debug,
        aliases: &[Alias { name: "NCCL_PROXY_DUMP_SIGNAL", translate: nccl_signal }],
        note: "For a job that hangs: with 12 in all ranks, `kill -12 PID` shows it (10 and 12 are \
               SIGUSR1 and SIGUSR2). A signal that the program handles is left alone. At \
               `KOLO_DEBUG=trace` the warning that names a late rank shows the same.",
    }

    /// Whether a rank writes where it is before SIGTERM or SIGUSR1 ends it: the collective and its
    /// number, its route, the phase, and which rank it waits for.
    on_signal -> OnSignal {
        kind: Kind::Words(OnSignal::WORDS),
        default: "none",
        note: "For a job that hangs until its time limit: Slurm ends it by SIGTERM, or sends \
               SIGUSR1 before (`--signal=USR1@60`). The signal then ends the process as it does \
               without kolo. One that the program or its MPI handles or ignores is left alone. \
               Each call takes about 0.1 us longer.",
    }

    /// Let rank 0 write a table when its process ends: its calls of each kind and size, their bytes
    /// and way, how long they and other waits blocked, and which rank has waited least and most.
    report -> bool {
        kind: Kind::Bool,
        default: "false",
        note: "The table goes where the log goes. Each call takes about 0.1 us longer.",
    }

    /// Longest wait for a live rank that has not made its call yet, after which the call fails;
    /// `none` waits without limit.
    timeout -> Option<Duration> {
        kind: Kind::Seconds { most: 31_536_000, zero: "none" },
        default: "none",
        unit: "seconds",
    }

    /// Wait after which one warning names the ranks that have not made their call yet; `none` never
    /// warns.
    warn_after -> Option<Duration> {
        kind: Kind::Seconds { most: 31_536_000, zero: "none" },
        default: "60",
        unit: "seconds",
    }

    /// Way in which a thread waits for another rank.
    wait -> Wait {
        kind: Kind::Words(Wait::WORDS),
        default: "auto",
    }

    /// Who moves asynchronous calls forward while no call waits for them. Calls with an operation
    /// of the program's own, and those over the network `mpi` below `MPI_THREAD_MULTIPLE`, move
    /// only inside calls of kolo in any case.
    progress -> Progress {
        kind: Kind::Words(Progress::WORDS),
        default: "auto",
    }

    /// Most calls that may be in flight on a communicator: one more on a stream waits until the
    /// oldest have ended, and a group of more is an error. With `check` each call counts twice.
    calls_in_flight -> u32 {
        kind: Kind::Int { least: 1, most: 1 << 20, zero: None },
        default: "2048",
        unit: "calls",
        shapes: true,
        note: "It bounds the memory that a rank far ahead of the others takes. All sends and \
               receives of a group count as one call.",
    }

    /// How many passes the engine of connections between nodes makes over what is under way before
    /// it looks for new operations; without anything under way it always looks.
    proxy_append_every -> u32 {
        kind: Kind::Int { least: 1, most: 1 << 20, zero: None },
        default: "8",
        unit: "passes",
        tag: Tag::Debug,
        aliases: &[same("NCCL_PROGRESS_APPENDOP_FREQ")],
    }

    /// How many new operations it takes over at most when it looks.
    proxy_append_batch -> u32 {
        kind: Kind::Int { least: 1, most: 1 << 20, zero: None },
        default: "16",
        unit: "operations",
        tag: Tag::Debug,
        aliases: &[same("NCCL_PROXY_APPEND_BATCH_SIZE")],
    }

    /// Memory of one connection of the Simple protocol, all its slots together.
    buffsize -> u64 {
        kind: Kind::Bytes { least: 64 << 10, most: 64 << 20, zero: None },
        default: "1M",
        unit: "bytes",
        shapes: true,
        aliases: &[same("NCCL_BUFFSIZE")],
    }

    /// Least number of channels of a communicator; a larger value than the built-in
    /// `max_nchannels` raises that too.
    min_nchannels -> u32 {
        kind: Kind::Int { least: 1, most: 32, zero: None },
        default: "1",
        unit: "channels",
        shapes: true,
        aliases: &[same("NCCL_MIN_NCHANNELS"), same("NCCL_MIN_CTAS")],
    }

    /// Largest number of channels of a communicator.
    max_nchannels -> u32 {
        kind: Kind::Int { least: 1, most: 32, zero: None },
        default: "2",
        unit: "channels",
        shapes: true,
        aliases: &[same("NCCL_MAX_NCHANNELS"), same("NCCL_MAX_CTAS")],
    }

    /// Threads of a block of a kernel on a GPU, rounded up to a multiple of 32. The first 32 lead,
    /// the others move data.
    nthreads -> u32 {
        kind: Kind::Int { least: 64, most: 640, zero: None },
        default: "544",
        unit: "threads",
        aliases: &[same("NCCL_NTHREADS")],
    }

    /// Algorithms that kolo may choose from; where none of them computes a collective, it chooses
    /// from all.
    algo -> &ChoiceList {
        kind: Kind::Lists(Algo::WORDS),
        default: "auto",
        shapes: true,
        aliases: &[Alias { name: "NCCL_ALGO", translate: nccl_algo }],
        note: "In `NCCL_ALGO`, `CollnetDirect` and `CollnetChain` mean `collnet`.",
    }

    /// Protocols that kolo may choose from; where none of them can carry a call, it chooses from
    /// all.
    proto -> &ChoiceList {
        kind: Kind::Lists(Proto::WORDS),
        default: "auto",
        shapes: true,
        aliases: &[Alias { name: "NCCL_PROTO", translate: nccl_proto }],
        note: "An `NCCL_PROTO` that lists `LL`, `LL128` and `Simple` means `auto`.",
    }

    /// File of measured times, as `kolo tune` writes it, from which kolo chooses algorithms; that
    /// of rank 0 counts.
    tuner_file -> Option<&Path> {
        kind: Kind::Path,
        tag: Tag::Site,
    }

    /// Largest message that takes the one-shot path over eager lines; `auto` is the limit that is
    /// built in for the number of ranks.
    eager_limit -> Option<u64> {
        kind: Kind::Bytes { least: 1, most: 1 << 20, zero: Some("auto") },
        default: "auto",
        unit: "bytes",
        shapes: true,
    }

    /// How often a waiting thread polls before it first gives the core away.
    spin_count -> Option<u32> {
        kind: Kind::Int { least: 1, most: 1 << 30, zero: Some("auto") },
        default: "auto",
        unit: "polls",
        tag: Tag::Debug,
    }

    /// How often a waiting thread gives the core away before it sleeps.
    yield_count -> Option<u32> {
        kind: Kind::Int { least: 1, most: 1 << 30, zero: Some("auto") },
        default: "auto",
        unit: "yields",
        tag: Tag::Debug,
    }

    /// Flip one bit in one slot, written `call:rank:slot` and counted from 0, to show that a wrong
    /// result is noticed.
    fault_flip -> Option<FaultFlip> {
        kind: Kind::Fault,
        tag: Tag::Debug,
    }

    /// Have this rank stay in one phase of its start until somebody calls the start off, to show
    /// what the others then say and how a start is given up.
    fault_hold -> HoldIn {
        kind: Kind::Words(HoldIn::WORDS),
        default: "none",
        tag: Tag::Debug,
    }
}
