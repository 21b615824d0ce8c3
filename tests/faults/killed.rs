//! A process is killed at a random moment while the ranks begin: the others are told which rank it
//! was, whatever they were doing, and nobody waits for ever.

use super::job::{Context, Job, say};
use crate::ports::Port;
use fastrand::Rng;
use kolo::base::Result;
use kolo::bootstrap::{NetSettings, UniqueId};
use kolo::comm::{CommConfig, Communicator};
use kolo::config::Settings;
use std::time::{Duration, Instant};

/// The rank that dies, and when: in microseconds after it has begun.
const DEATH: &str = "KOLO_TEST_DEATH";
/// Every second rank is on another node, as far as kolo knows.
const NODES: &str = "KOLO_TEST_NODES";
const RANKS: u32 = 4;
const ROUNDS: u32 = 8;

/// Runs each process.
pub fn begins(context: &Context) {
    let death = std::env::var(DEATH).ok().map(|words| {
        let (rank, moment) = words.split_once(' ').expect("two words");
        let rank: u32 = rank.parse().expect("a rank");
        (rank, moment.parse().expect("a number"))
    });
    let dies = death.filter(|(rank, _)| *rank == context.rank);
    if let Some((_, moment)) = dies {
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(moment));
            // SAFETY: a plain system call.
            unsafe { libc::raise(libc::SIGKILL) };
        });
    }
    let start = Instant::now();
    let made = join(context);
    if death.is_none() {
        let comm = made.expect("init");
        say(&format!("took {}", start.elapsed().as_micros()));
        comm.barrier().expect("a barrier");
        return comm.destroy().expect("destroy");
    }
    let phase = if made.is_ok() { "after" } else { "during" };
    let error = made.and_then(|comm| barriers(&comm)).unwrap_err();
    if dies.is_some() {
        // What it hears before its time has come is nobody's concern.
        std::thread::sleep(Duration::from_secs(60));
    }
    say(&format!("{phase} init: {error}"));
}

fn join(context: &Context) -> Result<Communicator> {
    let settings = NetSettings::from(&Settings::load(&[])?);
    let id = match settings.comm_id {
        Some(_) => UniqueId::create(&settings)?,
        None => context.id,
    };
    let mut config = CommConfig::default();
    if std::env::var_os(NODES).is_some() {
        let node = format!("node{}", context.rank % 2);
        config.overrides.push(("hostid".to_string(), node));
    }
    Communicator::init_rank(context.nranks, &id, context.rank, &config)
}

/// Calls until one fails.
fn barriers(comm: &Communicator) -> Result<()> {
    loop {
        comm.barrier()?;
    }
}

/// Whether a sentence says it of this rank: as the peer, as the only one that is missing, or,
/// before ranks know each other, of the process that was to call the roll.
fn names(text: &str, rank: u32) -> bool {
    let missing = format!("still missing: {rank}");
    let alone = |at: usize| !text[at + missing.len()..].starts_with(',');
    let peer = format!("[peer {rank}]");
    text.find(&missing).is_some_and(alone)
        || text.contains(&peer) && text.contains(&format!("rank {rank} "))
        || rank == 0 && (is_nobody_there(text) || text.contains("the process that calls the roll"))
}

/// Whether all that a rank knows is that rank 0 is not at its address.
fn is_nobody_there(text: &str) -> bool {
    text.contains("cannot reach rank 0 at ")
}

/// The port is theirs for as long as it is held.
fn start(port: &Port, settings: &[(&str, &str)], death: Option<&str>) -> Job {
    let address = format!("127.0.0.1:{}", port.number());
    // One who has not come yet is waited for until this limit.
    let mut settings = [settings, &[("KOLO_START_TIMEOUT", "15")]].concat();
    for (key, value) in &mut settings {
        if *key == "KOLO_COMM_ID" {
            *value = &address;
        }
    }
    settings.extend(death.map(|death| (DEATH, death)));
    Job::start("begins", &[1; RANKS as usize], &settings)
}

/// Kills one of four at random moments of the time that a beginning takes, and a little more.
/// Another seed than the usual one comes from the environment.
fn rounds(usual: u64, settings: &[(&str, &str)]) {
    let seed = std::env::var("KOLO_TEST_SEED").ok();
    let seed = seed.map_or(usual, |seed| seed.parse().expect("a number"));
    let mut rng = Rng::with_seed(seed);
    println!("KOLO_TEST_SEED={seed}");
    let port = Port::take([127, 0, 0, 1]);
    let mut job = start(&port, settings, None);
    let took = (0..RANKS).map(|_| job.hear("took ").parse::<u64>().expect("a number"));
    let time = took.max().expect("ranks");
    job.finish();
    for round in 0..ROUNDS {
        let (victim, moment) = (rng.u32(..RANKS), rng.u64(..time * 5 / 4));
        let port = Port::take([127, 0, 0, 1]);
        let mut job = start(&port, settings, Some(&format!("{victim} {moment}")));
        let said: Vec<String> = (1..RANKS).map(|_| job.hear("")).collect();
        // Who comes when rank 0 has heard of it, and has ended, finds nobody at its address.
        let zero_knows = said.iter().any(|text| text.contains(" kolo: rank 0: "));
        for text in &said {
            println!("round {round}, rank {victim} dies {moment} of {time} us: {text}");
            let is_late = zero_knows && is_nobody_there(text);
            assert!(names(text, victim) || is_late, "seed {seed}: {text}");
            assert!(text.contains("Remedy: "), "seed {seed}: {text}");
        }
        job.finish_but(victim as usize);
    }
}

#[test]
fn a_rank_that_is_killed_while_all_begin_is_named() {
    rounds(1, &[]);
}

#[test]
fn a_rank_that_is_killed_while_all_begin_on_nodes_is_named() {
    rounds(2, &[(NODES, "1")]);
}

/// Rank 0 is where all meet, and may be the one that dies.
#[test]
fn a_rank_that_is_killed_while_all_begin_at_an_address_is_named() {
    rounds(3, &[("KOLO_COMM_ID", "")]);
    rounds(4, &[("KOLO_COMM_ID", ""), (NODES, "1")]);
}
