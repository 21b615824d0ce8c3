//! The options of `kolo perf`: letters and defaults are those of nccl-tests, so that scripts and
//! habits carry over.

use super::engine::Collective;
use super::operation::Operation;
use super::rows::{self, COLLECTIVES};
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

/// Which rank's time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeOf {
    RankZero,
    Average,
    Least,
    Most,
}

/// What is measured, and how. Sizes take K, M, G or T for powers of 1024.
#[derive(Args, Clone, Debug)]
pub struct PerfArgs {
    /// The collective to measure
    #[arg(value_parser = collective, help = format!("The collective: {}", names()))]
    pub collective: &'static Collective,
    /// Run N ranks as threads of this process, without any launcher
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub ranks: Option<u32>,
    /// Ranks per process, as threads
    #[arg(short = 't', long = "nthreads", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub threads: u32,
    /// Ranks per thread: 1, because every rank on host memory computes with its own thread
    #[arg(short = 'g', long = "ngpus", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1))]
    pub per_thread: u32,
    /// Least size of the data in bytes
    #[arg(short = 'b', long = "minbytes", value_name = "SIZE", default_value = "32M",
          value_parser = size)]
    pub min_bytes: u64,
    /// Greatest size of the data in bytes
    #[arg(short = 'e', long = "maxbytes", value_name = "SIZE", default_value = "32M",
          value_parser = size)]
    pub max_bytes: u64,
    /// Next size: add so many bytes
    #[arg(short = 'i', long = "stepbytes", value_name = "SIZE", default_value = "1M",
          value_parser = size, conflicts_with = "factor")]
    pub step_bytes: u64,
    /// Next size: multiply by this
    #[arg(short = 'f', long = "stepfactor", value_name = "N",
          value_parser = clap::value_parser!(u64).range(2..))]
    pub factor: Option<u64>,
    /// Timed iterations
    #[arg(short = 'n', long = "iters", value_name = "N", default_value_t = 20,
          value_parser = clap::value_parser!(u32).range(1..))]
    pub iterations: u32,
    /// Iterations to warm up, of the greatest and of the least size
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
    /// How often everything is measured; 0 goes on for ever
    #[arg(
        short = 'N',
        long = "run_cycles",
        value_name = "N",
        default_value_t = 1
    )]
    pub cycles: u64,
    /// 1: every thread makes its communicator itself; 0: one after the other are asked for
    #[arg(short = 'p', long = "parallel_init", value_name = "0|1", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=1))]
    pub parallel_init: u8,
    /// How often the result is checked; 0 does not check
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
    /// 1: calls block, as without a stream; 0: iterations are put on a stream, which is waited for
    #[arg(short = 'z', long = "blocking", value_name = "0|1", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(0..=1))]
    pub blocking: u8,
    /// 1: show the processor time of the calling thread instead of the time that passed
    #[arg(short = 'C', long = "report_cputime", value_name = "0|1", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=1))]
    pub processor_time: u8,
    /// Time of the ranks to show: 0 of rank 0, 1 average, 2 least, 3 greatest
    #[arg(short = 'a', long = "average", value_name = "0|1|2|3", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(0..=3))]
    pub average: u8,
    /// 1, 2: buffers of koloMemAlloc, which ranks of one machine read where they lie
    #[arg(short = 'R', long = "local_register", value_name = "0|1|2", default_value_t = 0,
          value_parser = clap::value_parser!(u8).range(0..=2))]
    pub register: u8,
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
    /// Split the ranks into groups by the bits rank & MASK; each group measures for itself
    #[arg(long = "split-mask", value_name = "MASK", value_parser = mask)]
    pub split_mask: Option<u32>,
    /// Write everything that was measured, and where, to this file
    #[arg(
        short = 'J',
        long = "json",
        visible_alias = "output_file",
        value_name = "FILE"
    )]
    pub json: Option<PathBuf>,
    /// Measure the same calls of another implementation too, in turns
    #[arg(long, value_name = "WHAT")]
    pub compare: Option<Rival>,
}

/// One, or all of them.
#[derive(Clone, Debug)]
pub struct Choice<T>(pub Vec<T>);

/// Which roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// This one.
    One(u32),
    /// All in turn.
    All,
}

fn names() -> String {
    let names: Vec<&str> = COLLECTIVES.iter().map(|row| row.name).collect();
    names.join(", ")
}

/// The collective with this name, however it is spelt.
///
/// # Errors
/// A sentence with the nearest name.
pub fn collective(text: &str) -> std::result::Result<&'static Collective, String> {
    let plain = |text: &str| {
        let text = text.to_lowercase().replace(['_', '-'], "");
        text.replace("neighbour", "neighbor")
    };
    let wanted = plain(text);
    let wanted = wanted.strip_suffix("perf").unwrap_or(&wanted);
    let found = COLLECTIVES.iter().find(|row| plain(row.name) == wanted);
    found.or_else(|| rows::find(text)).ok_or_else(|| {
        let near = COLLECTIVES
            .iter()
            .max_by(|a, b| {
                let near = |row: &Collective| strsim::jaro_winkler(&plain(row.name), wanted);
                near(a).total_cmp(&near(b))
            })
            .map_or("", |row| row.name);
        format!("there are {}; did you mean {near}?", names())
    })
}

/// Bytes: a number, with K, M, G or T for powers of 1024.
///
/// # Errors
/// A sentence about what sizes look like.
pub fn size(text: &str) -> std::result::Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_uppercase();
    let shift = match unit.trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("a size is a number, and K, M, G or T for powers of 1024".into()),
    };
    let number: f64 = digits
        .parse()
        .map_err(|_| "a size is a number, as 8, 64K or 1.5M".to_string())?;
    let bytes = number * (1u64 << shift) as f64;
    match (0.0..=(1u64 << 50) as f64).contains(&bytes) {
        true => Ok(bytes as u64),
        false => Err("a size is from 0 to 1024T".into()),
    }
}

fn mask(text: &str) -> std::result::Result<u32, String> {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| "a mask is a number, as 3 or 0x3".into())
}

fn operations(text: &str) -> std::result::Result<Choice<Operation>, String> {
    if text == "all" {
        return Ok(Choice(Operation::all().collect()));
    }
    let op = Operation::from_name(text);
    op.map(|op| Choice(vec![op])).ok_or_else(|| {
        let names: Vec<&str> = Operation::all().map(Operation::name).collect();
        format!("one of {}, all", names.join(", "))
    })
}

/// A type by its name, or all.
///
/// # Errors
/// The names that there are.
pub fn types(text: &str) -> std::result::Result<Choice<DataType>, String> {
    let name = match text {
        "all" => return Ok(Choice(DataType::ALL.to_vec())),
        "int" => "int32",
        "float16" => "half",
        "float32" => "float",
        "float64" => "double",
        "fp8_e4m3" | "float8e4m3" => "f8e4m3",
        "fp8_e5m2" | "float8e5m2" => "f8e5m2",
        other => other,
    };
    DataType::from_name(name)
        .map(|dtype| Choice(vec![dtype]))
        .ok_or_else(|| {
            let names: Vec<&str> = DataType::ALL.iter().map(|dtype| dtype.name()).collect();
            format!("one of {}, all", names.join(", "))
        })
}

fn root(text: &str) -> std::result::Result<Root, String> {
    match text {
        "all" | "-1" => Ok(Root::All),
        _ => text
            .parse()
            .map(Root::One)
            .map_err(|_| "a root is the number of a rank, or all".into()),
    }
}

impl PerfArgs {
    /// What no single option shows, given the number of ranks.
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
        if self.factor.is_none() && self.step_bytes == 0 && self.min_bytes < self.max_bytes {
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
        Error::argument(
            format!("the operation {op} does not combine elements of type {dtype}"),
            format!("{dtype} has {possible}"),
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
                // A size of 0 would stay 0.
                Some(factor) => size.max(1).saturating_mul(factor),
                None => size.saturating_add(self.step_bytes),
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
        let types = match self.collective.sizeless {
            true => &self.types.0[..1],
            false => &self.types.0,
        };
        let Some(takes) = self.collective.reduces else {
            return types.iter().map(|&dtype| (dtype, None)).collect();
        };
        let ops = || self.ops.0.iter().copied().filter(|&op| takes(op));
        let of = |&dtype| {
            let fitting = ops().filter(move |op| op.combines(dtype));
            fitting.map(move |op| (dtype, Some(op)))
        };
        types.iter().flat_map(of).collect()
    }

    /// Roots to measure; one that is none where the collective has no root.
    pub fn roots(&self, nranks: u32) -> Vec<Option<u32>> {
        match (self.collective.rooted, self.root) {
            (false, _) => vec![None],
            (true, Root::One(root)) => vec![Some(root)],
            (true, Root::All) => (0..nranks).map(Some).collect(),
        }
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

    #[test]
    fn sizes_and_their_units() {
        assert_eq!(size("8"), Ok(8));
        assert_eq!(size("64K"), Ok(65536));
        assert_eq!(size("1.5M"), Ok(3 << 19));
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert_eq!(size("0"), Ok(0));
        for bad in ["", "K", "8X", "-8", "8KK", "1e400", "nan"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_forgiving_and_errors_suggest() {
        assert_eq!(collective("AllReduce").unwrap().name, "all_reduce");
        assert_eq!(collective("all-gather").unwrap().name, "all_gather");
        assert_eq!(collective("sendrecv_perf").unwrap().name, "sendrecv");
        assert_eq!(collective("allgatherv").unwrap().name, "all_gather_v");
        assert_eq!(collective("All_to_All_v").unwrap().name, "alltoall_v");
        assert_eq!(
            collective("reduce-scatterv").unwrap().name,
            "reduce_scatter_v"
        );
        let name = collective("neighbour_all_gather").unwrap().name;
        assert_eq!(name, "neighbor_allgather");
        let error = collective("all_reduse").err().unwrap();
        assert!(error.ends_with("did you mean all_reduce?"), "{error}");
    }
}
