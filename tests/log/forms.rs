//! The form of a call: what is asked about it, what its line in the log says, and who carried it
//! out, by the counts of the executors themselves.

use super::waits::message;
use super::{RANKS, job};
use kolo::SharedBuffer;
use kolo::comm::{Blocks, Collective, CommConfig, Communicator, Inspect, RawCalls, RedOp, group};
use kolo::dtype::DataType;
use kolo::exec::host::ran::Executor;

/// The ranks of a case.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Who {
    All,
    /// The ranks 0 and 1.
    Two,
    /// Rank 2.
    One,
}

/// A call, its form, and what of the executors it needs.
struct Case {
    name: &'static str,
    who: Who,
    /// The collective, and its count: what is asked beforehand.
    asked: Option<(Collective, usize)>,
    /// The words that the line ends with.
    form: &'static str,
    ran: &'static [(Executor, u64)],
}

const fn case(
    name: &'static str,
    who: Who,
    asked: Option<(Collective, usize)>,
    form: &'static str,
    ran: &'static [(Executor, u64)],
) -> Case {
    Case {
        name,
        who,
        asked,
        form,
        ran,
    }
}

/// Doubles of a call whose ranks may read each other's buffers, also where they share cores.
const LARGE: usize = 64 << 10;
/// Doubles of a message that is too large to be moved while it is waited for.
const LONG: usize = 300_000;
/// Doubles of a block that is no small message.
const LARGE_BLOCK: usize = 600;

use Collective::{AllReduce, AllToAll, Broadcast, Gather, Reduce, Send};
use Executor::{Bundle, Cast, Copy, Direct, Exchange, Interpreted, Message, OneShot, Rooted};
use Who::{All, One, Two};

#[rustfmt::skip]
const CASES: &[Case] = &[
    case("small", All, Some((AllReduce, 5)), "form one-shot", &[(OneShot, 1)]),
    case("alone", One, Some((AllReduce, 5)), "form copy", &[(Copy, 1)]),
    case("gathered", All, Some((Gather, 8)), "form rooted", &[(Rooted, 1)]),
    case("reduced", Two, Some((Reduce, 4000)), "form rooted", &[(Rooted, 1)]),
    case("cast", All, Some((Broadcast, 4000)), "form cast", &[(Cast, 1)]),
    case("all to all", All, Some((AllToAll, 500)), "form bundle", &[(Bundle, 1)]),
    case("group", All, None, "form bundle", &[(Bundle, 1)]),
    case("to itself", One, Some((Send, 6)), "form interpreted", &[(Interpreted, 2)]),
    case("message", Two, Some((Send, 5)), "form message", &[(Message, 1)]),
    case("long message", Two, Some((Send, LONG)), "form interpreted", &[(Interpreted, 1)]),
    case("blocks", Two, None, "form exchange", &[(Exchange, 1)]),
    case("one block", Two, None, "form message", &[(Message, 1)]),
    case("large blocks", Two, None, "form interpreted", &[(Interpreted, 2)]),
    case("middle", All, Some((AllReduce, 5000)), "form interpreted", &[(Interpreted, 1)]),
    case("queued", All, None, "form interpreted", &[(Interpreted, 1)]),
    case("readable", All, None, "twoshot, protocol simple, form direct",
         &[(Interpreted, 1), (Direct, 1)]),
    case("readable and queued", All, None, "form direct", &[(Interpreted, 1), (Direct, 1)]),
    case("readable in a group", All, None, "form direct", &[(Interpreted, 1), (Direct, 1)]),
    case("private", All, None, "form interpreted", &[(Interpreted, 2)]),
    case("not shown", All, None, "form interpreted", &[(Interpreted, 1)]),
    case("exact", All, None, "exact sum, form one-shot", &[(OneShot, 1)]),
    case("long exact", All, None, "exact sum", &[(Interpreted, 2)]),
];

/// The value of an element before it is sent.
fn value(rank: u32, element: usize) -> f64 {
    (element as f64 % 89.0) * f64::from(rank + 2) + f64::from(rank)
}

fn input(rank: u32, count: usize) -> Vec<f64> {
    (0..count).map(|element| value(rank, element)).collect()
}

/// Whether these are the sums of what so many ranks have.
fn are_sums(result: &[f64], nranks: u32) -> bool {
    let sum = |element| (0..nranks).map(|rank| value(rank, element)).sum::<f64>();
    result.iter().enumerate().all(|(at, &it)| it == sum(at))
}

/// The calls, each between what was asked about it and who ran.
pub fn calls(comm: &Communicator, rank: u32) {
    let part = |color: u32| {
        let part = comm.split(Some(color), 0, &CommConfig::default()).unwrap();
        part.expect("a color")
    };
    let some = part(u32::from(rank == 2));
    eprintln!("begins");
    for case in CASES {
        if !takes_part(case, rank as usize) {
            continue;
        }
        let on = if case.who == All { comm } else { &some };
        if let Some((collective, count)) = case.asked {
            let way = on.way(collective, count, DataType::Float64, RedOp::SUM);
            eprintln!("asked {}", way.unwrap().words);
        }
        let before = on.executors().unwrap();
        run(case.name, on);
        let after = on.executors().unwrap();
        let ran = Executor::ALL.map(|one| (one, after.of(one) - before.of(one)));
        let ran: Vec<_> = ran.into_iter().filter(|&(_, count)| count > 0).collect();
        eprintln!("ran {} {ran:?}", case.name);
    }
    some.destroy().unwrap();
    comm.destroy().unwrap();
}

fn run(name: &str, comm: &Communicator) {
    match name {
        "small" | "alone" | "middle" | "private" | "not shown" | "queued" | "long exact" => {
            reduce(name, comm);
        }
        "readable" | "readable and queued" | "readable in a group" => shared(name, comm),
        "blocks" | "large blocks" => blocks(name, comm),
        "one block" => one_block(comm),
        "message" => send(comm, 5),
        "long message" => send(comm, LONG),
        _ => others(name, comm),
    }
}

fn reduce(name: &str, comm: &Communicator) {
    let (count, op) = match name {
        "middle" => (5000, RedOp::SUM),
        "long exact" => (5000, RedOp::SUM_EXACT),
        "private" | "not shown" => (LARGE, RedOp::SUM),
        _ => (5, RedOp::SUM),
    };
    let (mine, mut sums) = (input(comm.rank(), count), vec![f64::NAN; count]);
    match name {
        "queued" => comm.scope(|scope| scope.all_reduce(&mine, &mut sums, op)),
        _ => comm.all_reduce(&mine, &mut sums, op),
    }
    .unwrap();
    assert!(are_sums(&sums, comm.nranks()), "{name}");
}

fn shared(name: &str, comm: &Communicator) {
    let mut data = SharedBuffer::<f64>::zeroed(LARGE).unwrap();
    data.copy_from_slice(&input(comm.rank(), LARGE));
    match name {
        "readable" => comm.all_reduce_in_place(&mut data, RedOp::SUM),
        "readable in a group" => grouped(comm, &mut data),
        _ => comm.scope(|scope| scope.all_reduce_in_place(&mut data, RedOp::SUM)),
    }
    .unwrap();
    assert!(are_sums(&data, comm.nranks()), "{name}");
}

/// Sums in place, by a call that waits for the end of a group.
fn grouped(comm: &Communicator, data: &mut [f64]) -> kolo::base::Result<()> {
    let call = message(AllReduce, data, 0);
    group::start();
    // SAFETY: the buffer lives until the group has ended, and nobody else has it.
    unsafe { comm.enqueue(&call, None) }?;
    group::end()
}

/// Blocks of different sizes between two ranks.
fn blocks(name: &str, comm: &Communicator) {
    let (me, other) = (comm.rank() as usize, 1 - comm.rank() as usize);
    // What rank 0 gets, and rank 1.
    let counts = match name {
        "blocks" => [3, 4],
        _ => [LARGE_BLOCK, LARGE_BLOCK + 1],
    };
    let mine = input(comm.rank(), 2000);
    let mut theirs = vec![f64::NAN; counts[me]];
    let (mut sent, mut got) = ([0, 0], [0, 0]);
    (sent[other], got[other]) = (counts[other], counts[me]);
    comm.all_to_all_v(
        &mine,
        Blocks::Packed(&sent),
        &mut theirs,
        Blocks::Packed(&got),
    )
    .unwrap();
    assert_eq!(theirs, input(other as u32, counts[me]), "{name}");
}

/// The root of two ranks keeps a block, and sends the other one.
fn one_block(comm: &Communicator) {
    let (sizes, rank) = ([2, 5], comm.rank() as usize);
    let mine = input(0, 7 * usize::from(rank == 0));
    let mut theirs = vec![f64::NAN; sizes[rank]];
    comm.scatter_v(&mine, Blocks::Packed(&sizes), &mut theirs, 0)
        .unwrap();
    assert_eq!(theirs, input(0, 7)[2 * rank..][..sizes[rank]]);
}

fn send(comm: &Communicator, count: usize) {
    if comm.rank() == 0 {
        return comm.send(&input(7, count), 1).unwrap();
    }
    let mut theirs = vec![f64::NAN; count];
    comm.recv(&mut theirs, 0).unwrap();
    assert_eq!(theirs, input(7, count));
}

fn others(name: &str, comm: &Communicator) {
    let (rank, n) = (comm.rank(), comm.nranks());
    let of_root = if rank == 1 { n as usize } else { 0 };
    match name {
        "gathered" => {
            let mut all = vec![f64::NAN; 8 * of_root];
            comm.gather(&input(rank, 8), &mut all, 1).unwrap();
            let is_right = |(at, block): (usize, &[f64])| block == input(at as u32, 8);
            assert!(all.chunks(8).enumerate().all(is_right));
        }
        "reduced" => {
            let mut sums = vec![f64::NAN; 4000 * usize::from(rank == 1)];
            comm.reduce(&input(rank, 4000), &mut sums, RedOp::SUM, 1)
                .unwrap();
            assert!(are_sums(&sums, n));
        }
        "cast" => {
            let mut data = match rank {
                1 => input(5, 4000),
                _ => vec![f64::NAN; 4000],
            };
            comm.broadcast(&mut data, 1).unwrap();
            assert_eq!(data, input(5, 4000));
        }
        "all to all" => {
            let mut all = vec![f64::NAN; 500 * n as usize];
            comm.all_to_all(&input(rank, all.len()), &mut all).unwrap();
            for (from, block) in all.chunks(500).enumerate() {
                let sent = input(from as u32, 500 * n as usize);
                assert_eq!(block, &sent[500 * rank as usize..][..500], "from {from}");
            }
        }
        "group" | "to itself" => {
            let (mut mine, mut theirs) = (input(rank, 6), vec![f64::NAN; 6]);
            let (to, from) = ((rank + 1) % n, (rank + n - 1) % n);
            group::start();
            // SAFETY: both buffers live until the group has ended, and are two.
            unsafe {
                comm.enqueue(&message(Collective::Send, &mut mine, to), None)
                    .unwrap();
                comm.enqueue(&message(Collective::Recv, &mut theirs, from), None)
                    .unwrap();
            }
            group::end().unwrap();
            assert_eq!(theirs, input(from, 6));
        }
        "exact" => {
            let sum = comm.sum_exact(&[value(rank, 9)]).unwrap();
            assert!((0..n).map(|rank| value(rank, 9)).sum::<f64>() == sum);
        }
        other => panic!("no case {other}"),
    }
}

/// Whether a rank takes part in a case.
fn takes_part(case: &Case, rank: usize) -> bool {
    match case.who {
        All => true,
        Two => rank < 2,
        One => rank == 2,
    }
}

/// The words behind the arguments of a call.
fn words(line: &str) -> &str {
    let (line, _time) = line.rsplit_once("; ").expect(line);
    line.rsplit_once("; ").expect(line).1
}

#[test]
fn what_is_told_of_a_form_is_what_ran() {
    let settings = [
        ("KOLO_DEBUG", "trace"),
        ("KOLO_REPORT", "1"),
        ("KOLO_CMA", "off"),
        (
            "KOLO_ALGO",
            "broadcast:nvls;alltoall:^pairwise,oneshot,bruck",
        ),
    ];
    let said = job("forms", &settings, false);
    assert_eq!(said.len(), RANKS as usize);
    let mut faults = Vec::new();
    for (rank, lines) in said.iter().enumerate() {
        let begins = lines.iter().position(|line| line == "begins");
        let mut lines = lines[begins.expect("it begins") + 1..].iter();
        for case in CASES.iter().filter(|case| takes_part(case, rank)) {
            let mut of_it = Vec::new();
            let ran = loop {
                let line = lines
                    .next()
                    .unwrap_or_else(|| panic!("{} did not run", case.name));
                match line.strip_prefix("ran ") {
                    Some(ran) => break ran,
                    None => of_it.push(line.as_str()),
                }
            };
            let found = faults_of(case, ran, &of_it);
            faults.extend(found.iter().map(|fault| format!("rank {rank}: {fault}")));
        }
    }
    in_the_report(&said[0], &mut faults);
    assert!(faults.is_empty(), "{faults:#?}");
}

/// The faults in what is said of a case: who ran, and the lines before that.
fn faults_of(case: &Case, ran: &str, lines: &[&str]) -> Vec<String> {
    let (name, mut faults) = (case.name, Vec::new());
    let mut hold = |holds: bool, what: String| {
        if !holds {
            faults.push(what);
        }
    };
    let wanted = format!("{name} {:?}", case.ran);
    hold(ran == wanted, format!("{wanted} should run, not {ran}"));
    let asked = lines.iter().find_map(|line| line.strip_prefix("asked "));
    let is_asked = asked.is_some() == case.asked.is_some();
    hold(is_asked, format!("{name}: the answer is {asked:?}"));
    let told = lines.iter().filter(|line| line.contains(" TRACE kolo "));
    let told: Vec<&str> = told.map(|line| words(line)).collect();
    // A message and its other half.
    let lines = 1 + usize::from(["group", "to itself"].contains(&name));
    hold(told.len() == lines, format!("{name}: {told:?} is told"));
    for told in told {
        let ends = told.ends_with(case.form);
        hold(ends, format!("{name}: {told:?} is not {}", case.form));
        let alike = asked.is_none_or(|asked| asked == told);
        hold(
            alike,
            format!("{name}: {told:?} is told, and {asked:?} answered"),
        );
    }
    faults
}

/// The table names the way of the first call of a row by its form, too.
fn in_the_report(lines: &[String], faults: &mut Vec<String>) {
    for (row, form) in [
        (["Gather", "64", "B"], "rooted"),
        (["Broadcast", "32", "KiB"], "cast"),
        (["AllReduce", "512", "KiB"], "direct"),
        (["AllReduce", "64", "KiB"], "interpreted"),
    ] {
        let is_it = |line: &&String| line.split_whitespace().take(3).eq(row);
        let line = lines.iter().find(is_it);
        if !line.is_some_and(|line| line.ends_with(&format!(", form {form}"))) {
            faults.push(format!(
                "the row of {row:?} does not end with {form}: {line:?}"
            ));
        }
    }
}
