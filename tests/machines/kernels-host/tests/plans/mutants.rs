//! Kernels with one fault each: the tests of plans must notice every one of them.
//!
//! `mutants.txt` lists the faults. Each is made in a copy of the kernels, compiled by itself and
//! run by the same machine on calls like those of the other tests, with one seed after the other
//! until one of them fails. The kernels as they are must pass all of these seeds.

use super::call::{Call, Draft, Sizes};
use super::devices::World;
use super::draw;
use super::drawn;
use super::run::{self, Kernels, Run};
use kolo::algo::Entry;
use kolo::dtype::{DataType, ReduceOp};
use kolo::exec::cuda::launch::LAUNCH_BYTES;
use kolo::plan::{Algorithm, Collective, Protocol};
use kolo::wire::gpu::WIPE_EVERY;
use kolo_kernels_host::{Kernel, KernelFunction};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

/// Of each protocol and scenario, so many faults are drawn: `make test-full` takes all.
const DRAWN: usize = 2;
/// Seeds that the kernels as they are must pass.
const SEEDS: u64 = 120;
/// Seeds that a fault may stay hidden for: most show at once, and some once in a hundred runs.
const PATIENCE: u64 = 2000;
/// A run that is longer has failed: many faults have somebody wait for ever.
const MOST_SWITCHES: u64 = 2_000_000;
/// Kernel that is compiled of each copy.
const KERNEL: &str = "KOLO_EACH(Float, Sum)\n";

/// One row of the list.
struct Mutant {
    name: String,
    protocol: Protocol,
    scenario: String,
    /// The file, what it has and what it gets; none for the kernels as they are.
    change: Option<(String, String, String)>,
}

fn rows() -> Vec<Mutant> {
    let text = include_str!("mutants.txt");
    let rows = text.split("\n\n").filter(|row| !row.starts_with('#'));
    rows.map(|row| {
        let lines: Vec<&str> = row.trim().lines().collect();
        let [head, from, to] = lines[..] else {
            panic!("three lines a row: {row}");
        };
        let head: Vec<&str> = head.split('|').map(str::trim).collect();
        let [name, protocol, scenario, file] = head[..] else {
            panic!("four columns: {row}");
        };
        let protocol = match protocol {
            "Simple" => Protocol::Simple,
            "Ll" => Protocol::Ll,
            _ => Protocol::Ll128,
        };
        let text = |line: &str, sign| {
            line.strip_prefix(sign)
                .expect("its sign")
                .trim()
                .to_string()
        };
        Mutant {
            name: name.to_string(),
            protocol,
            scenario: scenario.to_string(),
            change: Some((file.to_string(), text(from, "-"), text(to, "+"))),
        }
    })
    .collect()
}

impl Mutant {
    /// Compiles it into a library of its own.
    fn compile(&self, number: usize) -> PathBuf {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mutant{number}"));
        std::fs::create_dir_all(&copy).expect("a folder");
        for entry in std::fs::read_dir(here.join("../../../kernels")).expect("the kernels") {
            let path = entry.expect("a file").path();
            if path.is_file() {
                std::fs::copy(&path, copy.join(path.file_name().expect("a name"))).expect("a copy");
            }
        }
        std::fs::copy(here.join("machine.h"), copy.join("machine.h")).expect("a copy");
        std::fs::write(copy.join("kernels.def"), KERNEL).expect("the table");
        if let Some((file, from, to)) = &self.change {
            let path = copy.join(file);
            let text = std::fs::read_to_string(&path).expect("a file of the kernels");
            assert_eq!(
                text.matches(from.as_str()).count(),
                1,
                "{}: {from}",
                self.name
            );
            std::fs::write(&path, text.replace(from, to)).expect("the change");
        }
        let library = copy.join("mutant.so");
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
        let output = Command::new(compiler)
            .args(["-std=c++17", "-O1", "-shared", "-fPIC", "-ffp-contract=off"])
            .args(["-fno-strict-aliasing", "-fno-exceptions", "-w", "-x", "c++"])
            .arg(format!("-DKOLO_PROTOCOL={}", self.protocol_name()))
            .arg(copy.join("kernels.cu"))
            .arg("-o")
            .arg(&library)
            .output()
            .expect("a compiler");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", self.name);
        library
    }

    fn protocol_name(&self) -> &'static str {
        match self.protocol {
            Protocol::Simple => "Simple",
            Protocol::Ll => "Ll",
            Protocol::Ll128 => "Ll128",
        }
    }

    /// The first seed that fails, with what it says.
    fn noticed(&self, number: usize) -> Option<(u64, String)> {
        let path = self.compile(number);
        // SAFETY: the library has kernels only, which run nothing when it is loaded.
        let library = unsafe { libloading::Library::new(&path) }.expect("a library");
        let name = format!("kolo2_{}_Float_Sum", self.protocol_name());
        // SAFETY: KOLO_KERNEL defines it so.
        let function = unsafe { library.get::<KernelFunction>(name.as_bytes()) };
        let function = *function.expect("the kernel");
        // SAFETY: its structure is `Launch` of plan.h. What a fault may do goes through device.h,
        // where the machine looks at it.
        let kernel = unsafe { Kernel::new(c"a mutant", function, LAUNCH_BYTES) };
        let kernels: Kernels = &|_: &Call| kernel;
        let seeds = if self.change.is_some() {
            PATIENCE
        } else {
            SEEDS
        };
        (0..seeds).find_map(|seed| Some((seed, self.play(seed, kernels).err()?)))
    }

    fn play(&self, seed: u64, kernels: Kernels) -> Result<(), String> {
        let mut random = fastrand::Rng::with_seed(seed);
        let ranks = random.u32(2..=4);
        let slot_bytes = 512 * random.usize(1..=2);
        let (calls, mut world) = match self.scenario.as_str() {
            "calls" => {
                let calls = (0..5).map(|_| self.call(ranks, slot_bytes, &mut random));
                (calls.collect(), World::new(0))
            }
            "nodes" => {
                let calls = (0..5).map(|_| self.call(ranks, slot_bytes, &mut random));
                (calls.collect(), World::new(0).with_nodes_of(1))
            }
            "stale" => {
                // A small call ends just before or at the border, two more leave most lines behind
                // it as they were, and a long one uses them all.
                let first = random.u64(4..9) * WIPE_EVERY - random.u64(1..=3);
                let calls = [((1, 1), 1), ((4, 4), 1), ((4, 4), 1), ((1, 1), 1500)];
                let calls = calls.map(|(steps, count)| self.broadcast(steps, count, &mut random));
                (calls.into(), World::new(first).with_stale_lines())
            }
            "abort" => (vec![self.sum(&mut random)], World::new(0)),
            "lanes" => (vec![self.many_lanes(&mut random)], World::new(0)),
            "ends" => (vec![self.many_ends(&mut random)], World::new(0)),
            other => panic!("no scenario {other}"),
        };
        let how = Run {
            resident_blocks: 4,
            most_switches: MOST_SWITCHES,
            abort: (self.scenario == "abort").then(|| random.u32(0..12)),
            ..draw::how(&calls[0], &mut random)
        };
        run::run(&calls, &mut world, how, kernels)
    }

    /// A call of floats, summed where anything is.
    fn call(&self, ranks: u32, slot_bytes: usize, random: &mut fastrand::Rng) -> Call {
        let entries: Vec<&'static Entry> = draw::entries().collect();
        let entry = entries[random.usize(0..entries.len())];
        let fixed = |sizes: Sizes| Sizes {
            slot_bytes,
            ..sizes
        };
        loop {
            let mut draft = draw::draft(entry, ranks, self.protocol, random);
            draft.sizes = fixed(draft.sizes);
            draft.dtype = DataType::Float32;
            draft.op = draft.op.map(|_| ReduceOp::Sum);
            if let Some(call) = draft.call() {
                return call;
            }
        }
    }

    /// All-reduce in a ring: nothing but results is written to the output.
    fn sum(&self, random: &mut fastrand::Rng) -> Call {
        draw::sum(self.protocol, random)
    }

    /// Between two ranks, in slots of 512 bytes.
    fn broadcast(&self, steps: (u32, u32), count: usize, random: &mut fastrand::Rng) -> Call {
        let ring = draw::entry(Collective::Broadcast, Algorithm::Ring);
        let draft = Draft {
            root: 0,
            channels: 1,
            dtype: DataType::Float32,
            sizes: Sizes {
                slot_bytes: 512,
                steps,
                grid: (1, 64),
                count,
            },
            ..draw::draft(ring, 2, self.protocol, random)
        };
        draft.call().expect("one piece fits")
    }

    fn many_lanes(&self, random: &mut fastrand::Rng) -> Call {
        let draft = Draft {
            dtype: DataType::Float32,
            sizes: Sizes {
                slot_bytes: 512,
                steps: (1, 1),
                grid: (1, 64),
                count: 2000,
            },
            ..draw::draft(&draw::RECEIVE_FIRST, 3, self.protocol, random)
        };
        draft.call().expect("one piece fits")
    }

    /// One block has more ends of connections than places for them in its shared memory.
    fn many_ends(&self, random: &mut fastrand::Rng) -> Call {
        let two_shot = draw::entry(Collective::ReduceScatter, Algorithm::TwoShot);
        let channels = random.u16(11..=16);
        let draft = Draft {
            channels,
            dtype: DataType::Float32,
            op: Some(ReduceOp::Sum),
            sizes: Sizes {
                slot_bytes: 512,
                steps: (1, 1),
                grid: (1, 64),
                count: random.usize(1..=70) * usize::from(channels),
            },
            ..draw::draft(two_shot, 4, self.protocol, random)
        };
        let call = draft.call().expect("one piece fits");
        let places = kept_ends();
        assert!(
            call.pairs
                .iter()
                .all(|plan| plan.connections.len() > places)
        );
        call
    }
}

/// `KEPT_ENDS` of the kernels.
fn kept_ends() -> usize {
    let text = include_str!("../../../../../kernels/ends.h");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("constexpr u32 KEPT_ENDS = "));
    let number = line.and_then(|line| line.strip_suffix(';'));
    number
        .and_then(|number| number.parse().ok())
        .expect("how many places there are")
}

#[test]
fn every_fault_is_noticed() {
    let rows = rows();
    assert!(rows.len() >= 20, "{} faults", rows.len());
    let mut groups: BTreeMap<_, Vec<Mutant>> = BTreeMap::new();
    for row in rows {
        let group = groups.entry((row.protocol as u8, row.scenario.clone()));
        group.or_default().push(row);
    }
    let as_they_are = groups.values().map(|group| Mutant {
        name: format!("none, {}", group[0].scenario),
        protocol: group[0].protocol,
        scenario: group[0].scenario.clone(),
        change: None,
    });
    let as_they_are: Vec<Mutant> = as_they_are.collect();
    let mut rows = drawn::of_each("faults", groups.into_values(), DRAWN);
    rows.extend(as_they_are);
    let rows = Mutex::new(rows.into_iter().enumerate().collect::<Vec<_>>());
    let wrong = Mutex::new(Vec::new());
    let next = || rows.lock().expect("no panic").pop();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(|| {
                while let Some((number, mutant)) = next() {
                    let noticed = mutant.noticed(number);
                    let is_right = noticed.is_some() == mutant.change.is_some();
                    let how = match &noticed {
                        None => "not noticed".to_string(),
                        Some((seed, text)) => {
                            format!("seed {seed}: {}", text.lines().next().unwrap_or_default())
                        }
                    };
                    let line = format!("{} ({}): {how}", mutant.name, mutant.protocol_name());
                    println!("{line}");

                    if !is_right {
                        wrong.lock().expect("no panic").push(line);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
