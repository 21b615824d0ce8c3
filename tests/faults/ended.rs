//! Processes end in every way without destroying their communicator: with status 0 and nothing in
//! flight the ranks have ended, which is no error by itself; all else is a death. And what a rank
//! has handed out before it left or ended arrives, however late the others come.

use super::job::{Context, Job, say};
use fastrand::Rng;
use kolo::base::{Error, Result};
use kolo::comm::RawCalls;
use kolo::comm::{Call, Collective, CommConfig, Communicator, RedOp, Stream};
use kolo::dtype::DataType;
use std::time::{Duration, Instant};

/// How the last process ends, and what the others do meanwhile.
const ENDS: &str = "KOLO_TEST_ENDS";
/// Every second process is on another node, as far as kolo knows.
const NODES: &str = "KOLO_TEST_NODES";
/// No wait is longer.
const PATIENCE: Duration = Duration::from_secs(20);

const ENDINGS: [&str; 6] = ["return", "exit0", "inside", "exit1", "_exit", "kill"];
const MEANWHILE: [&str; 4] = ["idle", "needs", "needless", "asks"];

/// The processes of a job, the node of each, and whether it sends through another rank there.
type Place = (&'static [usize], Option<&'static str>, bool);

fn word(key: &str, at: usize) -> String {
    let words = std::env::var(key).expect("it is set");
    words.split(' ').nth(at).expect("so many words").to_owned()
}

fn number(key: &str, at: usize) -> u32 {
    word(key, at).parse().expect("a number")
}

fn join(context: &Context) -> Communicator {
    let mut config = CommConfig::default();
    if let Ok(nodes) = std::env::var(NODES) {
        let node = nodes.as_bytes()[context.rank as usize];
        let node = format!("node{}", char::from(node));
        config.overrides.push(("hostid".to_string(), node));
    }
    Communicator::init_rank(context.nranks, &context.id, context.rank, &config).expect("init")
}

/// The process of a rank is no more, or all that is left is its number.
fn is_over(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    matches!(state, None | Some('Z' | 'X'))
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < PATIENCE, "{what} takes too long");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The process of each rank.
fn pids(comm: &Communicator) -> Vec<u32> {
    let mut pids = vec![0; comm.nranks() as usize];
    comm.all_gather(&[std::process::id()], &mut pids)
        .expect("a call");
    pids
}

/// Ends the process of this rank, the last of those in it.
fn end(comm: Communicator, how: &str) {
    // Dropping it would be to leave it.
    let comm: &'static Communicator = Box::leak(Box::new(comm));
    match how {
        "return" => {}
        "exit0" => std::process::exit(0),
        "exit1" => std::process::exit(1),
        // SAFETY: plain system calls.
        "_exit" => unsafe { libc::_exit(0) },
        // SAFETY: as above.
        "kill" => unsafe {
            libc::raise(libc::SIGKILL);
        },
        _ => {
            std::thread::spawn(|| comm.recv(&mut [0_u8], 0));
            // Time for the call to begin.
            std::thread::sleep(Duration::from_millis(100));
            std::process::exit(0);
        }
    }
}

/// Part of each rank.
pub fn ends(context: &Context) {
    let (first, how, meanwhile) = (number(ENDS, 0), word(ENDS, 1), word(ENDS, 2));
    let comm = join(context);
    let pids = pids(&comm);
    let ends = comm.rank() >= first;
    let part = comm
        .split(Some(u32::from(ends)), 0, &CommConfig::default())
        .expect("split")
        .expect("a part");
    comm.barrier().expect("all are there");
    if ends {
        part.destroy().expect("destroy");
        if comm.rank() + 1 < comm.nranks() {
            // Of the ranks of a process the last one ends it; this one is idle.
            std::mem::forget(comm);
            match how.as_str() {
                "return" => return,
                _ => std::thread::sleep(PATIENCE),
            }
            return;
        }
        // The others are where they are to be.
        std::thread::sleep(Duration::from_millis(50));
        return end(comm, &how);
    }
    let victim = pids[comm.nranks() as usize - 1];
    let outcome = match meanwhile.as_str() {
        "needs" => comm.barrier(),
        "asks" if comm.rank() + 1 < first => {
            until("news of another's error", || comm.async_error().is_err());
            comm.async_error()
        }
        "asks" => asks(&comm),
        "needless" => {
            let mut is_over_everywhere = [0_u8];
            while is_over_everywhere == [0] {
                is_over_everywhere = [u8::from(is_over(victim))];
                part.all_reduce_in_place(&mut is_over_everywhere, RedOp::MIN)
                    .expect("a call that does not need it");
            }
            after(&comm, &part, &how)
        }
        _ => {
            until("the end", || is_over(victim));
            after(&comm, &part, &how)
        }
    };
    say(&told(&comm, &outcome));
    part.barrier().expect("the others go on");
    let _ = comm.destroy();
}

/// One rank asks again and again whether a message of the last rank is there, and waits in no call.
fn asks(comm: &Communicator) -> Result<()> {
    let mut byte = [0_u8];
    let call = Call {
        collective: Collective::Recv,
        send: std::ptr::null(),
        recv: byte.as_mut_ptr(),
        count: 1,
        dtype: DataType::Uint8,
        op: RedOp::SUM,
        peer: comm.nranks() - 1,
    };
    let stream = Stream::for_one_call()?;
    // SAFETY: the byte stays until the call has ended.
    unsafe { comm.enqueue(&call, Some(&stream))? };
    let mut result = Ok(());
    until("news of a missing message", || match stream.query() {
        Ok(is_over) => is_over,
        Err(error) => {
            result = Err(error);
            true
        }
    });
    result
}

/// A call when the process has ended: without it nobody has heard an error, if it is no death.
fn after(comm: &Communicator, part: &Communicator, how: &str) -> Result<()> {
    if is_death(how) {
        until("news of a death", || comm.async_error().is_err());
    } else {
        std::thread::sleep(Duration::from_millis(100));
        comm.async_error().expect("it has ended, and that is all");
    }
    // All have looked.
    part.barrier().expect("the others go on");
    comm.barrier()
}

fn told(comm: &Communicator, outcome: &std::result::Result<(), Error>) -> String {
    match outcome {
        Ok(()) => format!("rank {} heard nothing", comm.rank()),
        Err(error) => format!("rank {} heard {error}", comm.rank()),
    }
}

fn is_death(how: &str) -> bool {
    !matches!(how, "return" | "exit0")
}

/// One job, of which the last process ends.
fn play(seed: u64, place: Place, (how, meanwhile): (&str, &str)) {
    let (processes, nodes, through) = place;
    let nranks: usize = processes.iter().sum();
    let last = processes[processes.len() - 1];
    let first = nranks - last;
    let case = format!("KOLO_TEST_SEED={seed}: {place:?}: {how}, {meanwhile}");
    println!("{case}");
    let ends = format!("{first} {how} {meanwhile}");
    let mut settings = vec![(ENDS, ends.as_str())];
    settings.extend(nodes.map(|nodes| (NODES, nodes)));
    settings.extend(through.then_some(("KOLO_PXN", "always")));
    let mut job = Job::start("ends", processes, &settings);
    for _ in 0..first {
        let text = job.hear("");
        let ended = "has ended with status 0 without taking part in this call";
        let names_one = (first..nranks).any(|rank| text.contains(&format!("rank {rank} ")))
            || text.contains(&format!("ranks {first}, "));
        assert!(names_one && text.contains("Remedy: "), "{case}: {text}");
        // Of several ranks in a process those that are idle end well.
        let may_end = !is_death(how) || (how == "inside" && last > 1);
        assert!(may_end || !text.contains(ended), "{case}: {text}");
        let must_end = !is_death(how);
        assert!(!must_end || text.contains(ended), "{case}: {text}");
    }
    match how {
        "exit1" | "kill" => drop(job.finish_but(processes.len() - 1)),
        _ => drop(job.finish()),
    }
}

fn seed() -> u64 {
    let seed = std::env::var("KOLO_TEST_SEED").ok();
    seed.map_or_else(|| fastrand::u64(..), |seed| seed.parse().expect("a number"))
}

/// Each way to end, on places and with others that are drawn.
#[test]
fn a_process_that_ends_well_has_ended_and_any_other_has_died() {
    let seed = seed();
    let mut rng = Rng::with_seed(seed);
    let places: [Place; 7] = [
        (&[1, 1, 1], None, false),
        (&[2, 1], None, false),
        (&[1, 2], None, false),
        (&[1, 1, 1], Some("001"), false),
        (&[1, 1, 1, 1], Some("0101"), false),
        (&[1, 1, 1], Some("011"), true),
        (&[1, 1, 1, 1], Some("0101"), true),
    ];
    for how in ENDINGS {
        for _ in 0..2 {
            let place = places[rng.usize(..places.len())];
            play(seed, place, (how, MEANWHILE[rng.usize(..MEANWHILE.len())]));
        }
    }
}

/// Whoever only asks hears of the end of a rank on another node too.
#[test]
fn whoever_only_asks_hears_of_an_end_on_another_node() {
    for how in ["exit0", "kill"] {
        // Rank 2 has no connection with rank 5.
        play(0, (&[3, 2, 1], Some("000111"), false), (how, "asks"));
    }
}

/// A rank that sends through another one of its node ends as any other does.
#[test]
fn a_rank_that_sends_through_another_one_ends_well() {
    play(0, (&[1, 1, 1], Some("011"), true), ("exit0", "idle"));
}

/// The root hands data out, and leaves or ends before the other rank comes.
pub fn late(context: &Context) {
    let comm = join(context);
    let pids = pids(&comm);
    let parts = [(); 3].map(|()| {
        let part = comm.split(Some(0), 0, &CommConfig::default());
        part.expect("split").expect("all ranks")
    });
    comm.barrier().expect("all are there");
    if comm.rank() == 0 {
        for part in &parts {
            part.broadcast(&mut [7_u32; 5], 0).expect("a call");
        }
        let start = Instant::now();
        if word(ENDS, 0) == "destroys" {
            parts
                .iter()
                .for_each(|part| part.destroy().expect("destroy"));
        }
        say(&format!("took {}", start.elapsed().as_millis()));
        std::mem::forget((comm, parts));
        std::process::exit(0);
    }
    until("the end of the root", || is_over(pids[0]));
    for part in &parts {
        let mut data = [0_u32; 5];
        part.broadcast(&mut data, 0).expect("it was handed out");
        assert_eq!(data, [7; 5]);
        let error = part.barrier().expect_err("the root is no more").to_string();
        let left = match word(ENDS, 0).as_str() {
            "destroys" => "has let go of the communicator",
            _ => "rank 0 on ",
        };
        assert!(error.contains(left), "{error}");
    }
    say("got all");
}

#[test]
fn what_was_handed_out_arrives_and_nobody_waits_for_who_is_behind() {
    for nodes in [None, Some("01")] {
        for how in ["destroys", "ends"] {
            let mut settings = vec![(ENDS, how)];
            settings.extend(nodes.map(|nodes| (NODES, nodes)));
            let mut job = Job::start("late", &[1, 1], &settings);
            let took: u64 = job.hear("took ").parse().expect("a number");
            assert!(took < 300, "{nodes:?}, {how}: three ends took {took} ms");
            assert_eq!(job.hear("got"), " all");
            job.finish();
        }
    }
}
