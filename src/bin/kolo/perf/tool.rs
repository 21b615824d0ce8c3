//! As which program a measurement runs: `kolo perf`, or one of nccl-tests' as people type them
//! (`all_reduce_perf -b 8 -e 128M -f 2 -g 1`), which are links to `kolo`.
//!
//! Such a program takes the same options, looks at the variables of nccl-tests beside them, and
//! prints the table that programs for nccl-tests read. Options that mean something for GPUs alone
//! are taken, and named in one line.

use super::engine::Collective;
use super::operation::Operation;
use super::options::PerfArgs;
use clap::{Args, Command, FromArgMatches};
use kolo::dtype::{DataType, ReduceOp};

const HELP: &str = "\
Variables:
  NCCL_TESTS_SPLIT='MOD 4'   split the processes into groups, each measures for itself: AND, OR,
                             MOD or DIV (&, |, %, /) and a number; NCCL_TESTS_SPLIT_MASK=10, in
                             base 16, is 'AND 0x10', and counts before it
  NCCL_TESTS_DEVICE=N        number the devices of each process from N on
  NCCL_TESTS_MIN_BW=GB/s     fail if the average bus bandwidth is below nine tenths of it

The exit code is 0 if every result is right, 1 if not, 2 for a mistake in the options.
`kolo perf` measures the same and more, and shows algorithms and percentiles.";

/// The options of the program `tool`, which measures `row`; `words` are its arguments.
///
/// # Errors
/// The parser's: help, or what is wrong.
pub fn parse(
    tool: &'static str,
    row: &'static Collective,
    words: impl Iterator<Item = String>,
) -> Result<PerfArgs, clap::Error> {
    let command = PerfArgs::augment_args(Command::new(tool))
        .about(format!("Measure {} and check its results", row.name))
        .override_usage(format!("{tool} [OPTIONS]"))
        .after_help(HELP)
        .infer_long_args(true)
        .mut_args(|arg| {
            let hidden = arg.get_id() == "collective";
            arg.hide(hidden)
        });
    let named = [tool.to_string(), row.name.to_string()];
    let matches = command.try_get_matches_from(named.into_iter().chain(words))?;
    let mut args = PerfArgs::from_arg_matches(&matches)?;
    args.form.tool = Some(tool);
    if args.types.0.len() > 1 {
        args.types.0.retain(|dtype| DataType::NCCL.contains(dtype));
    }
    if args.ops.0.len() > 1 {
        let has = |op: &Operation| ReduceOp::NCCL.map(Operation::Built).contains(op);
        args.ops.0.retain(has);
    }
    Ok(args)
}

/// Lines about options that stand before the table.
pub fn notes(args: &PerfArgs) -> Vec<String> {
    let mut notes = Vec::new();
    let of_gpus = [
        ("-G", args.graph - args.replays(), "CUDA graphs"),
        ("-D", args.device_api, "device interface"),
        ("-V", args.device_blocks, "its blocks"),
        ("-x", args.block_policy, "policy for blocks"),
    ];
    let given: Vec<String> = of_gpus
        .iter()
        .filter(|(_, value, _)| *value > 0)
        .map(|(letter, value, what)| format!("{letter} {value} ({what})"))
        .collect();
    if !given.is_empty() {
        notes.push(format!(
            "Without meaning {}, and ignored: {}",
            if args.on_gpus() {
                "to kolo"
            } else {
                "on host memory"
            },
            given.join(", ")
        ));
    }
    if args.per_thread > 1 {
        let place = if args.on_gpus() {
            ""
        } else {
            "on host memory "
        };
        notes.push(format!(
            "-g {}: {place}each rank has a thread of its own",
            args.per_thread
        ));
    }
    if args.replays() > 0 {
        notes.push(format!(
            "The iterations are a CUDA graph, which is launched {} times",
            args.replays()
        ));
    }
    if args.register > 0 && args.on_gpus() {
        notes.push(format!(
            "-R {}: buffers on GPUs are always such that peers can map them",
            args.register
        ));
    }
    if args.form.device.is_some() && !args.on_gpus() {
        notes.push(
            "NCCL_TESTS_DEVICE numbers the devices; on host memory it chooses none".to_string(),
        );
    }
    if args.null_stream == 1 && !args.on_gpus() {
        notes.push("-y 1: on host memory calls without a stream block".to_string());
    }
    if args.waits_for_each() {
        notes.push(
            "Blocking Enabled: wait for completion and barrier after each collective".to_string(),
        );
    }
    if !args.form.is_tool() && args.on_stream() {
        notes.push("Calls are put on a stream, which is waited for after the last one".to_string());
    }
    if args.parallel_init == 1 {
        notes
            .push("Parallel Init Enabled: every thread makes its communicators itself".to_string());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names;

    fn tool(words: &str) -> PerfArgs {
        let row = names::collective("all_reduce").unwrap();
        let words = words.split_whitespace().map(str::to_string);
        parse("all_reduce_perf", row, words).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn the_tools_differ_in_streams_and_in_what_all_means() {
        let plain = tool("");
        assert_eq!(plain.collective.name, "all_reduce");
        assert!(plain.form.is_tool() && plain.on_stream());
        assert!(!tool("-z 1").on_stream() && !tool("-y 1").on_stream());
        for way in [1, 2, 3] {
            let args = tool(&format!("-z {way}"));
            assert!(args.waits_for_each() && !args.on_stream());
        }
        assert!(!tool("-z 0").waits_for_each() && !plain.waits_for_each());
        assert_eq!(tool("--stream_null 1").null_stream, 1);
        let single = tool("--per_iter_timing 1 --per_iter_skip 3");
        assert_eq!((single.single_times, single.skipped), (1, 3));
        let all = tool("-d all -o all");
        assert_eq!((all.types.0.len(), all.ops.0.len()), (12, 6));
        assert_eq!(tool("-d float_int").types.0, [DataType::FloatInt]);
        // Options may be cut short, as everywhere where GNU's parser is used.
        assert_eq!(tool("--minb 8 --warm 3").warmup, 3);
    }

    #[test]
    fn arguments_that_are_none_are_refused() {
        let row = names::collective("reduce").unwrap();
        for wrong in ["reduce", "-b", "--frobnicate", "-q 1"] {
            let words = wrong.split_whitespace().map(str::to_string);
            let error = parse("reduce_perf", row, words).map(|_| ()).unwrap_err();
            assert!(error.use_stderr(), "{wrong}");
        }
    }

    #[test]
    fn what_means_nothing_is_one_line() {
        assert!(notes(&tool("")).is_empty());
        let all = notes(&tool("-G 3 -D 1 -V 4 -x 2"));
        assert_eq!(all.len(), 1);
        for letter in ["-G 3", "-D 1", "-V 4", "-x 2"] {
            assert!(all[0].contains(letter), "{}", all[0]);
        }
        let on_gpus = notes(&tool("--device cuda -G 3 -D 1 -R 2 -g 2 -y 1"));
        let beginnings = [
            "Without meaning to kolo, and ignored: -D 1 (",
            "-g 2: each rank has",
            "The iterations are a CUDA graph, which is launched 3 times",
            "-R 2: buffers on GPUs",
        ];
        assert_eq!(on_gpus.len(), beginnings.len(), "{on_gpus:?}");
        for (note, beginning) in on_gpus.iter().zip(beginnings) {
            assert!(note.starts_with(beginning), "{note}");
        }
        assert!(notes(&tool("-R 2")).is_empty());
        assert!(notes(&tool("-z 1"))[0].starts_with("Blocking Enabled"));
        assert!(notes(&tool("-p 1"))[0].starts_with("Parallel Init Enabled"));
    }
}
