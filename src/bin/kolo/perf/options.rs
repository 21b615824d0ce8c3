//! The options of `kolo perf` and of the programs `*_perf`: letters and defaults are those of
//! nccl-tests, so that scripts and habits carry over. [`super::form`] has what the programs differ
//! in, [`super::words`] how values are written.

use super::engine::Collective;
use super::form::Form;
use super::memory::BufferKind;
use super::operation::{Operation, has_kernel};
use super::outcome::TimeOf;
use super::split::{Groups, Split};
pub use super::words::{Choice, Root, size, types};
use super::words::{operations, picture, root};
use crate::names;
use clap::{Args, ValueEnum};
use kolo::base::{Error, Result};
use kolo::dtype::DataType;
use std::path::PathBuf;

/// Which implementation is measured beside kolo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rival {
    /// The MPI that launched this program.
    Mpi,
}

/// Where buffers lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MemoryOf {
    /// Memory of the host
    Host,
    /// Memory of GPUs, one for each rank of a process
    Cuda,
}

/// Options of a measurement. Sizes take K, M, G or T for powers of 1024.
#[derive(Args, Clone, Debug)]
pub struct PerfArgs {
    /// The collective to measure
    #[arg(value_parser = names::collective, help = format!("The collective: {}", names::all()))]
    pub collective: &'static Collective,
    /// Run N ranks as threads of this process, without any launcher
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub ranks: Option<u32>,
    /// Ranks per process, as threads
    #[arg(short = 't', long = "nthreads", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: u32,
    /// Whose memory the buffers are, and who moves the data
    #[arg(long, value_name = "WHERE", value_enum, default_value = "host")]
    pub device: MemoryOf,
    /// Multiplies the ranks per process: GPUs for each of -t; each rank has a thread of its own
    #[arg(short = 'g', long = "ngpus", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub per_thread: u32,
    /// Least size of the data in bytes
    #[arg(short = 'b', long = "minbytes", value_name = "SIZE", default_value = "32M",
          value_parser = size)]
    pub min_bytes: u64,
    /// Greatest size of the data in bytes
    #[arg(short = 'e', long = "maxbytes", value_name = "SIZE", default_value = "32M",
          value_parser = size)]
    pub max_bytes: u64,
    /// Next size: add so many bytes; -f goes before it
    #[arg(short = 'i', long = "stepbytes", value_name = "SIZE", default_value = "1M",
          value_parser = size)]
    pub step_bytes: u64,
    /// Next size: multiply by this; 1 leaves it to -i
    #[arg(short = 'f', long = "stepfactor", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub factor: u64,
    /// Timed iterations
    #[arg(short = 'n', long = "iters", value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub iterations: u32,
    /// Iterations to warm up, at the greatest and at the least size, of each type, operation, root
    #[arg(
        short = 'w',
        long = "warmup_iters",
        value_name = "N",
        default_value_t = 5
    )]
    pub warmup: u32,
    /// Calls that are grouped into one iteration
    #[arg(short = 'm', long = "agg_iters", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub aggregate: u32,
    /// How often the sizes of a type, operation and root are measured; 0 goes on for ever
    #[arg(
        short = 'N',
        long = "run_cycles",
        value_name = "N",
        default_value_t = 1
    )]
    pub cycles: u64,
    /// 1: every thread makes its communicators; 0: one thread makes all of the process, in groups
    #[arg(short = 'p', long = "parallel_init", value_name = "0|1", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=1))]
    pub parallel_init: u8,
    /// How often the result is checked, up to the first wrong one; 0 does not check
    #[arg(short = 'c', long = "check", value_name = "N", default_value_t = 1)]
    pub checks: u32,
    /// Operation: sum, prod, max, min, avg, mulsum (pre-multiplied sum), band, bor, bxor, land,
    /// lor, lxor, minloc, maxloc, exactsum (correctly rounded) or all that there are
    #[arg(short = 'o', long = "op", value_name = "OP", default_value = "sum",
          value_parser = operations)]
    pub ops: Choice<Operation>,
    /// Type: int8, uint8, int32, uint32, int64, uint64, half, float, double, bfloat16, f8e4m3,
    /// f8e5m2, complex64, complex128, logical8, logical16, logical32, logical64, byte, char,
    /// float_int, double_int, int_int, long_int, float_float, double_double or all
    #[arg(short = 'd', long = "datatype", value_name = "TYPE", default_value = "float",
          value_parser = types)]
    pub types: Choice<DataType>,
    /// Root, where there is one; all takes every rank in turn
    #[arg(short = 'r', long = "root", value_name = "RANK|all", default_value = "0",
          value_parser = root, allow_hyphen_values = true)]
    pub root: Root,
    /// 1, 2, 3: calls block, as without a stream (usual in `kolo perf`); 0: iterations are put on a
    /// stream, which is waited for (usual in the programs `*_perf`)
    #[arg(short = 'z', long = "blocking", value_name = "0|1|2|3",
          value_parser = clap::value_parser!(u8).range(0..=3))]
    pub blocking: Option<u8>,
    /// 1: show the time until the calls were issued; bandwidths stay those of completion
    #[arg(short = 'C', long = "report_cputime", value_name = "0|1", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=1))]
    pub cpu_time: u8,
    /// Time of the ranks to show: 0 of rank 0, 1 average, 2 least, 3 greatest
    #[arg(short = 'a', long = "average", value_name = "0|1|2|3", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(0..=3))]
    pub average: u8,
    /// 1, 2: buffers of koloMemAlloc, which ranks of one machine read where they lie
    #[arg(short = 'R', long = "local_register", value_name = "0|1|2", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=2))]
    pub register: u8,
    /// Kind of the buffers; without it the one that -R asks for
    #[arg(long, value_name = "KIND", value_enum, conflicts_with = "register")]
    buffers: Option<BufferKind>,
    /// Seconds that a call may wait for another rank; 0 does not limit
    #[arg(
        short = 'T',
        long = "timeout",
        value_name = "SECONDS",
        default_value_t = 0
    )]
    pub timeout: u32,
    /// 1: add the time of day to every line
    #[arg(short = 'S', long = "report_timestamps", value_name = "0|1", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=1))]
    pub timestamps: u8,
    /// Elements by which the buffers are shifted away from their alignment
    #[arg(short = 'u', long = "unalign", value_name = "N", default_value_t = 0,
          value_parser = clap::value_parser!(u32).range(0..=4096))]
    pub unalign: u32,
    /// 1: show the least, middle and greatest time of single iterations below every line
    #[arg(short = 'I', long = "per_iter_timing", alias = "report_iterations", value_name = "0|1",
          default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=1))]
    pub single_times: u8,
    /// Of the times of single iterations, leave out so many at the beginning
    #[arg(
        short = 'K',
        long = "per_iter_skip",
        alias = "skip_iterations",
        value_name = "N",
        default_value_t = 0
    )]
    pub skipped: u32,
    /// 1: show what memory the processes need, and for what
    #[arg(short = 'M', long = "memory_report", value_name = "0|1", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=1))]
    pub memory_report: u8,
    /// 1: calls go on no stream, and so block
    #[arg(short = 'y', long = "stream_null", alias = "null_stream", value_name = "0|1",
          default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=1), hide = true)]
    pub null_stream: u8,
    /// Capture the iterations into a CUDA graph, and launch it so often; 0: make the calls. Without
    /// meaning on host memory
    #[arg(short = 'G', long = "cudagraph", value_name = "N", default_value_t = 0)]
    pub graph: u32,
    /// Kernels of the device interface: there are none on host memory
    #[arg(
        short = 'D',
        long = "device_implementation",
        value_name = "N",
        default_value_t = 0,
        hide = true
    )]
    pub device_api: u32,
    /// Blocks of such kernels: there are none on host memory
    #[arg(
        short = 'V',
        long = "device_cta_count",
        value_name = "N",
        default_value_t = 0,
        hide = true
    )]
    pub device_blocks: u32,
    /// How a GPU's blocks are shared out: there is no GPU
    #[arg(
        short = 'x',
        long = "cta_policy",
        value_name = "N",
        default_value_t = 0,
        hide = true
    )]
    pub block_policy: u32,
    /// Split the ranks into groups, as `MOD 4`, `DIV 8`, `AND 0x7` or `OR 0x7`; each group measures
    /// for itself
    #[arg(long, value_name = "WORDS", value_parser = Split::parse)]
    pub split: Option<Split>,
    /// Split the ranks as --split 'AND MASK' does
    #[arg(long = "split-mask", value_name = "MASK", value_parser = Split::parse_mask,
          conflicts_with = "split")]
    pub split_mask: Option<Split>,
    /// Write everything that was measured, and where, to this file
    #[arg(
        short = 'J',
        long = "json",
        visible_alias = "output_file",
        value_name = "FILE"
    )]
    pub json: Option<PathBuf>,
    /// Draw time and bandwidth against size into this file; `kolo plot` draws several runs
    #[arg(long, value_name = "FILE.svg", value_parser = picture)]
    pub plot: Option<PathBuf>,
    /// Measure the same calls of another implementation too, in turns
    #[arg(long, value_name = "WHAT")]
    pub compare: Option<Rival>,
    /// Show all columns: percentiles and algorithm, and with --compare bandwidths
    #[arg(long)]
    pub wide: bool,
    /// As which program this runs, and what variables of nccl-tests say to it.
    #[arg(skip)]
    pub form: Form,
}

impl PerfArgs {
    /// Kind of the buffers that the options ask for.
    pub fn buffers(&self) -> BufferKind {
        let mapped = if self.register > 0 {
            BufferKind::Mapped
        } else {
            BufferKind::Private
        };
        self.buffers.unwrap_or(mapped)
    }

    /// Checks the options together, given the number of ranks.
    ///
    /// # Errors
    /// Options that contradict each other.
    pub fn check(&self, nranks: u32) -> Result<()> {
        let refuse = |what: String, remedy: &'static str| Err(Error::argument(what, remedy));
        let name = self.collective.name;
        if self.min_bytes > self.max_bytes {
            let (least, most) = (self.min_bytes, self.max_bytes);
            let what = format!("the least size, {least}, exceeds the greatest, {most}");
            return refuse(what, "give both -b and -e, as -b 8 -e 64M -f 2");
        }
        if self.factor == 1 && self.step_bytes == 0 && self.min_bytes < self.max_bytes {
            return refuse("a step of 0 bytes never ends".into(), "use -i SIZE or -f N");
        }
        if let Root::One(root) = self.root
            && root >= nranks
        {
            let what = format!("root {root} is none of the {nranks} ranks");
            return refuse(what, "give -r a rank, or all");
        }
        if self.combinations().is_empty() {
            return Err(self.no_combination());
        }
        if self.collective.power_of_two && !nranks.is_power_of_two() {
            let what = format!("{name} among {nranks} ranks");
            return refuse(what, "use 1, 2, 4, 8, ... ranks for it");
        }
        if self.collective.power_of_two && self.aggregate > 1 {
            let what = format!("the rounds of {name} follow each other and cannot be grouped");
            return refuse(what, "leave out -m");
        }
        if self.compare.is_some() && self.aggregate > 1 {
            let what = "MPI has no groups of calls".to_string();
            return refuse(what, "use --compare without -m");
        }
        Ok(())
    }

    /// Why nothing is left to measure.
    fn no_combination(&self) -> Error {
        let (op, dtype, name) = (self.ops.0[0], self.types.0[0], self.collective.name);
        let takes = self.collective.reduces.unwrap_or(|_| true);
        let list = |ops: &mut dyn Iterator<Item = Operation>| {
            let names: Vec<&str> = ops.map(Operation::name).collect();
            names.join(", ")
        };
        if !takes(op) {
            return Error::argument(
                format!("{name} has no operation {op}"),
                format!(
                    "use {}",
                    list(&mut Operation::all().filter(|&op| takes(op)))
                ),
            );
        }
        let possible = list(&mut Operation::all().filter(|&op| op.combines(dtype) && takes(op)));
        let remedy = match possible.as_str() {
            "" => format!("no operation of {name} combines {dtype}: choose another type"),
            _ => format!("for {dtype} use {possible}"),
        };
        Error::argument(
            format!("the operation {op} does not combine elements of type {dtype}"),
            remedy,
        )
    }

    /// Sizes in bytes up to `most`, each once.
    pub fn sizes(&self, most: u64) -> Vec<u64> {
        if self.collective.sizeless {
            return vec![0];
        }
        let mut sizes = Vec::new();
        let mut size = self.min_bytes;
        while size <= most.min(self.max_bytes) {
            sizes.push(size);
            let next = match self.factor {
                1 => size.saturating_add(self.step_bytes),
                // A size of 0 would stay 0.
                factor => size.max(1).saturating_mul(factor),
            };
            if next <= size {
                break;
            }
            size = next;
        }
        sizes
    }

    /// Types and operations to measure: those that fit each other and the collective, of all that
    /// were asked for. The operation is none where the collective does not reduce.
    pub fn combinations(&self) -> Vec<(DataType, Option<Operation>)> {
        let types = if self.collective.sizeless {
            &self.types.0[..1]
        } else {
            &self.types.0
        };
        // What is asked for by name is measured, or refused with a sentence; of all, what there is.
        let is_offered = |dtype, op: Option<Operation>| {
            let of_all = types.len() * self.ops.0.len() > 1;
            !(self.on_gpus() && of_all) || has_kernel(dtype, op)
        };
        let Some(takes) = self.collective.reduces else {
            let offered = types.iter().filter(|&&dtype| is_offered(dtype, None));
            return offered.map(|&dtype| (dtype, None)).collect();
        };
        let ops = || self.ops.0.iter().copied().filter(|&op| takes(op));
        let of = |&dtype| {
            let fitting = ops().filter(move |op| op.combines(dtype));
            fitting.map(move |op| (dtype, Some(op)))
        };
        let fitting = types.iter().flat_map(of);
        fitting
            .filter(|&(dtype, op)| is_offered(dtype, op))
            .collect()
    }

    /// Roots to measure; one that is none where the collective has no root.
    pub fn roots(&self, nranks: u32) -> Vec<Option<u32>> {
        match (self.collective.rooted(), self.root) {
            (false, _) => vec![None],
            (true, Root::One(root)) => vec![Some(root)],
            (true, Root::All) => (0..nranks).map(Some).collect(),
        }
    }

    /// The groups that are measured beside each other.
    pub fn groups(&self) -> Option<Groups> {
        let of_ranks = |split| Groups {
            split,
            by_process: false,
        };
        let asked = self.split.or(self.split_mask).map(of_ranks);
        asked.or(self.form.groups)
    }

    /// Ranks of each process.
    pub fn per_process(&self) -> u32 {
        self.ranks.unwrap_or(self.threads * self.per_thread)
    }

    /// Whether buffers lie on GPUs.
    pub fn on_gpus(&self) -> bool {
        self.device == MemoryOf::Cuda
    }

    /// How often a graph of the iterations is launched; 0 without a graph.
    pub fn replays(&self) -> u32 {
        self.graph * u32::from(self.on_gpus())
    }

    /// Whether calls are put on a stream.
    pub fn on_stream(&self) -> bool {
        let blocks = self.blocking.unwrap_or(u8::from(!self.form.is_tool()));
        blocks == 0 && self.null_stream == 0
    }

    /// Whether each iteration is waited for, and all ranks for each other, as nccl-tests blocks.
    pub fn waits_for_each(&self) -> bool {
        self.form.is_tool() && self.blocking.is_some_and(|way| way > 0)
    }

    /// Which rank's time counts.
    pub fn time_of(&self) -> TimeOf {
        match self.average {
            0 => TimeOf::RankZero,
            1 => TimeOf::Average,
            2 => TimeOf::Least,
            _ => TimeOf::Most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use kolo::dtype::ReduceOp;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: PerfArgs,
    }

    fn args(words: &str) -> PerfArgs {
        let words = format!("perf all_reduce {words}");
        Program::try_parse_from(words.split_whitespace())
            .unwrap_or_else(|error| panic!("{words}: {error}"))
            .args
    }

    #[test]
    fn sizes_go_by_factor_or_by_step() {
        assert_eq!(args("-b 8 -e 64 -f 2").sizes(u64::MAX), [8, 16, 32, 64]);
        assert_eq!(args("-b 8 -e 64 -i 28").sizes(u64::MAX), [8, 36, 64]);
        // A factor goes before a step, and 1 is none.
        assert_eq!(args("-b 8 -e 64 -i 1 -f 4").sizes(u64::MAX), [8, 32]);
        assert_eq!(args("-b 8 -e 64 -i 56 -f 1").sizes(u64::MAX), [8, 64]);
        assert_eq!(args("-b 0 -e 4 -f 2").sizes(u64::MAX), [0, 2, 4]);
        assert_eq!(args("-b 8 -e 64 -f 2").sizes(20), [8, 16]);
    }

    #[test]
    fn long_names_and_defaults_are_those_of_nccl_tests() {
        let plain = args("");
        assert_eq!((plain.min_bytes, plain.max_bytes), (32 << 20, 32 << 20));
        assert_eq!((plain.step_bytes, plain.factor), (1 << 20, 1));
        let counts = (plain.iterations, plain.warmup, plain.aggregate);
        assert_eq!((counts, plain.cycles), ((20, 5, 1), 1));
        assert_eq!((plain.checks, plain.time_of()), (1, TimeOf::Average));
        assert_eq!(plain.per_process(), 1);
        let long = args(
            "--nthreads 2 --ngpus 3 --minbytes 8 --maxbytes 1K --stepbytes 8 --stepfactor 2 \
             --op max --datatype int32 --root 1 --iters 7 --warmup_iters 6 --agg_iters 5 \
             --run_cycles 4 --average 3 --parallel_init 1 --check 2 --blocking 0 --cudagraph 1 \
             --report_cputime 1 --local_register 1 --timeout 9 --report_timestamps 1 \
             --output_file x.json --memory_report 1 --device_implementation 1 --cta_policy 1 \
             --device_cta_count 1 --unalign 1",
        );
        assert_eq!((long.per_process(), long.cycles, long.timeout), (6, 4, 9));
        assert_eq!(long.time_of(), TimeOf::Most);
        assert_eq!(
            (plain.buffers(), long.buffers()),
            (BufferKind::Private, BufferKind::Mapped)
        );
        assert_eq!(
            args("--buffers registered").buffers(),
            BufferKind::Registered
        );
    }

    #[test]
    fn all_on_gpus_is_what_has_kernels() {
        let pairs = args("-d all -o all --device cuda").combinations();
        let has = |dtype, op| pairs.contains(&(dtype, Some(Operation::Built(op))));
        assert!(has(DataType::Float8e4m3, ReduceOp::Max) && has(DataType::Float32, ReduceOp::Avg));
        assert!(!has(DataType::Int32, ReduceOp::Band) && !has(DataType::Complex64, ReduceOp::Sum));
        let of = |op| pairs.iter().filter(|(_, one)| *one == Some(op)).count();
        assert_eq!(of(Operation::Built(ReduceOp::Sum)), 12);
        assert_eq!(of(Operation::ExactSum), 0);
        // By name it is asked for, and whoever runs it says why it cannot be.
        let one = args("-d complex64 --device cuda").combinations();
        assert_eq!(one[0].0, DataType::Complex64);
        assert_eq!(
            (args("-G 3").replays(), args("-G 3 --device cuda").replays()),
            (0, 3)
        );
    }
}
