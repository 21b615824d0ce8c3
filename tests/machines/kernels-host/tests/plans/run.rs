//! Runs calls on all devices at once, and holds what comes out against the host's engine.

use super::call::Call;
use super::devices::{Block, Prepared, World};
use super::host;
use kolo::exec::cuda::names;
use kolo_kernels_host::{Access, Grid, Kernel, Machine, Memory, Options, State, kernel};

/// How a sequence of calls runs.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub seed: u64,
    pub resident_blocks: u32,
    pub is_weak: bool,
    pub most_switches: u64,
    /// After so many turns the abort flag is set; the last rank never comes then.
    pub abort: Option<u32>,
}

/// Switches between two looks at what has ended.
const TURN: u64 = 500;
/// Turns in vain after which nothing will come any more.
const MOST_VAIN: u32 = 40;

/// Which kernel a call runs with.
pub type Kernels<'a> = &'a dyn Fn(&Call) -> Kernel;

/// The kernels as they are.
pub fn ours(call: &Call) -> Kernel {
    let name = names::kernel(call.protocol, call.dtype, call.op).expect("a type of NCCL");
    kernel(&name).unwrap_or_else(|| panic!("there is no kernel {name}"))
}

/// A machine with all memory of a world and of what is to run.
struct Bench {
    machine: Machine,
    /// Launches that each rank still has to make, the next one last, and those that run.
    queues: Vec<Vec<usize>>,
    running: Vec<Option<Grid>>,
}

impl Bench {
    fn register<'a>(&mut self, blocks: impl Iterator<Item = &'a Block>) {
        for block in blocks.filter(|block| block.len() > 0) {
            let home = block.address() as *mut u8;
            let (base, bytes) = (block.address(), block.len());
            let access = block.access();
            // SAFETY: blocks outlive the machine, and the test looks at them after the run.
            let range = unsafe { self.machine.register(block.name, base, home, bytes, access) };
            range.expect("blocks do not overlap");
        }
    }
}

/// Runs the calls, each rank's in order on its device. The text of a failure names its seed.
///
/// # Errors
/// What went wrong first: in the machine, or with a result.
pub fn run(calls: &[Call], world: &mut World, how: Run, kernels: Kernels) -> Result<(), String> {
    let ranks = calls[0].ranks();
    let options = Options {
        devices: ranks as u32,
        resident_blocks: how.resident_blocks,
        is_weak: how.is_weak,
        most_switches: how.most_switches,
        ..Options::new(how.seed)
    };
    let mut machine = Machine::new(options);
    let abort = machine.allocate("the abort flag", 8, 0, Access::READ_ONLY);
    let prepared: Vec<Vec<Prepared>> = calls
        .iter()
        .map(|call| {
            let prepare = |rank| world.prepare(call, rank, abort.at());
            (0..ranks).map(prepare).collect()
        })
        .collect();
    let mut bench = Bench {
        machine,
        queues: vec![(0..calls.len()).rev().collect(); ranks],
        running: vec![None; ranks],
    };
    bench.register(world.blocks());
    bench.register(prepared.iter().flatten().flat_map(Prepared::blocks));
    if how.abort.is_some() {
        bench.queues[ranks - 1].clear();
    }
    let text = |failure: &dyn std::fmt::Display| {
        let all: Vec<String> = calls.iter().map(Call::text).collect();
        format!("{failure}\n{how:?}\n{}", all.join("\n"))
    };
    let abort = how.abort.map(|turn| (turn, abort));
    play(&mut bench, calls, (&prepared, abort), kernels).map_err(|failure| text(&failure))?;
    if how.abort.is_none() {
        world.is_quiet().map_err(|wrong| text(&wrong))?;
    }
    for (call, prepared) in calls.iter().zip(&prepared) {
        let judged = match how.abort {
            None => judge(call, prepared),
            Some(_) => judge_aborted(call, prepared),
        };
        judged.map_err(|wrong| text(&wrong))?;
    }
    Ok(())
}

/// Launches and runs until all is done.
fn play(
    bench: &mut Bench,
    calls: &[Call],
    (prepared, abort): (&[Vec<Prepared>], Option<(u32, Memory)>),
    kernels: Kernels,
) -> Result<(), kolo_kernels_host::Failure> {
    let mut vain = 0;
    for turn in 0.. {
        if let Some((_, flag)) = abort.filter(|&(when, _)| when == turn) {
            bench.machine.write(flag, 0, &1u32.to_le_bytes());
        }
        let mut launched = false;
        let Bench {
            machine,
            queues,
            running,
        } = &mut *bench;
        for (rank, (queue, runs)) in queues.iter_mut().zip(running).enumerate() {
            if !runs.is_none_or(|grid| machine.is_over(grid)) {
                continue;
            }
            let Some(number) = queue.pop() else {
                continue;
            };
            let call = &calls[number];
            let (blocks, threads) = call.sizes.grid;
            let bytes = prepared[number][rank].launch.as_bytes();
            let kernel = kernels(call);
            *runs = Some(machine.launch(rank as u32, &kernel, blocks, threads, bytes)?);
            launched = true;
        }
        match bench.machine.run_some(TURN)? {
            State::Over if bench.queues.iter().all(Vec::is_empty) => return Ok(()),
            State::Waiting if !launched && abort.is_none_or(|(when, _)| turn > when) => vain += 1,
            _ => vain = 0,
        }
        if vain == MOST_VAIN {
            // Says who waits for what.
            return bench.machine.run().map(|_| ());
        }
    }
    unreachable!("turns are not counted to the end")
}

/// After an abort, what was written of the output is right.
fn judge_aborted(call: &Call, prepared: &[Prepared]) -> Result<(), String> {
    let bytes = call.element_bytes();
    let nothing = vec![host::POISON; bytes];
    let wanted = host::outputs(call);
    for (rank, (wanted, prepared)) in wanted.iter().zip(prepared).enumerate() {
        let got = prepared.received(call);
        let elements = got.chunks(bytes).zip(wanted.chunks(bytes)).enumerate();
        for (element, (got, wanted)) in elements {
            if got != wanted && got != nothing {
                return Err(format!("rank {rank}, element {element} is {got:02x?}"));
            }
        }
    }
    Ok(())
}

/// Holds the results of a call against the host's.
fn judge(call: &Call, prepared: &[Prepared]) -> Result<(), String> {
    let wanted = host::outputs(call);
    for (rank, (wanted, prepared)) in wanted.iter().zip(prepared).enumerate() {
        let got = prepared.received(call);
        if let Some(at) = (0..wanted.len()).find(|&at| got[at] != wanted[at]) {
            let element = at / call.element_bytes();
            let bytes = element * call.element_bytes()..(element + 1) * call.element_bytes();
            return Err(format!(
                "rank {rank}, element {element} of {}: {:02x?}, and the host has {:02x?}",
                wanted.len() / call.element_bytes(),
                &got[bytes.clone()],
                &wanted[bytes],
            ));
        }
        if !prepared.has_kept(call, rank) {
            return Err(format!("rank {rank} has stored where it must not"));
        }
        let (steps, planned) = (prepared.steps(), call.steps(rank));
        if steps != planned {
            return Err(format!("rank {rank} did {steps} steps of {planned}"));
        }
    }
    Ok(())
}

impl Block {
    /// Who may use it: its device; of a connection also the other end's.
    fn access(&self) -> Access {
        let devices = self.also | 1 << self.device;
        Access {
            loads: devices,
            stores: devices,
        }
    }
}
