//! A program that was started, or that goes on, without some of its standard streams: none of
//! kolo's files gets the number of one, so that a line to standard error harms no connection.

use crate::ports::Port;
use kolo::comm::{CommConfig, Communicator, RedOp};
use std::os::fd::RawFd;
use std::process::{Child, Command, Stdio};

const CLOSED: &str = "TEST_CLOSED_STREAMS";
const SAYS: &str = "TEST_CLOSED_SAYS";

fn is_open(number: RawFd) -> bool {
    // SAFETY: reads a flag of a number that need not be open.
    unsafe { libc::fcntl(number, libc::F_GETFD) >= 0 }
}

/// The numbers of standard streams that are closed by this mask.
fn closed(mask: i32) -> impl Iterator<Item = RawFd> {
    (0..3).filter(move |number| mask & (1 << number) != 0)
}

/// A file that is read and closed in one step, or is on its way to another number, is there for a
/// moment; what stays open is there at every look.
fn check(mask: i32, when: &str) -> Result<(), String> {
    for number in closed(mask) {
        let mut looks = 0..1000;
        while is_open(number) {
            let file = std::fs::read_link(format!("/proc/self/fd/{number}"));
            if looks.next().is_none() {
                return Err(format!("{when} number {number} is {file:?}"));
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    Ok(())
}

fn rank_without_streams(mask: i32) -> Result<(), String> {
    closed(mask).for_each(|number| {
        // SAFETY: this process is this test's own, and uses these streams for nothing else.
        unsafe { libc::close(number) };
    });
    let failed = |error: kolo::base::Error| error.to_string();
    let comm = Communicator::init_env(&CommConfig::default()).map_err(failed)?;
    check(mask, "after the start")?;
    for count in [1_usize, 100, 10_000, 300_000] {
        for _ in 0..50 {
            let line = b"a line of the program\n";
            // SAFETY: the bytes live; a closed stream refuses them.
            unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
        }
        let sent: Vec<i64> = (0..count as i64)
            .map(|at| at + i64::from(comm.rank()))
            .collect();
        let mut sum = vec![0; count];
        comm.all_reduce(&sent, &mut sum, RedOp::SUM)
            .map_err(failed)?;
        if let Some(at) = (0..count).find(|&at| sum[at] != 2 * at as i64 + 1) {
            return Err(format!("element {at} of {count} is {}", sum[at]));
        }
        check(mask, "after a call")?;
    }
    comm.destroy().map_err(failed)?;
    check(mask, "at the end")
}

#[test]
#[ignore = "started by the test below"]
fn rank_of_a_job_without_streams() {
    let mask = std::env::var(CLOSED).unwrap().parse().unwrap();
    // The streams were those of the test program, which says nothing any more.
    let words = match rank_without_streams(mask) {
        Ok(()) => "good".to_string(),
        Err(what) => what,
    };
    std::fs::write(std::env::var(SAYS).unwrap(), words).unwrap();
    // SAFETY: nothing of the test program is left to do, and its streams are gone.
    unsafe { libc::_exit(0) };
}

struct Job {
    ranks: Vec<Child>,
    says: Vec<std::path::PathBuf>,
    name: String,
    _port: Port,
}

fn start(mask: i32, nodes: bool) -> Job {
    let port = Port::take([127, 0, 0, 1]);
    let name = format!("{mask}-{nodes}");
    let place = |rank: u32| {
        let file = format!("kolo-closed-{}-{name}-{rank}", std::process::id());
        std::env::temp_dir().join(file)
    };
    let says: Vec<_> = (0..2).map(place).collect();
    let rank = |rank: u32| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([
                "streams::rank_of_a_job_without_streams",
                "--exact",
                "--ignored",
            ])
            .arg("--nocapture")
            .env(CLOSED, mask.to_string())
            .env(SAYS, &says[rank as usize])
            .env("KOLO_RANK", rank.to_string())
            .env("KOLO_NRANKS", "2")
            .env("KOLO_COMM_ID", format!("127.0.0.1:{}", port.number()))
            .env("KOLO_SOCKET_IFNAME", "=lo")
            .env("KOLO_TIMEOUT", "60")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if nodes {
            command.env("KOLO_HOSTID", format!("node{rank}"));
            command.env("KOLO_NET", "socket");
        }
        command.spawn().unwrap()
    };
    Job {
        ranks: (0..2).map(rank).collect(),
        says,
        name,
        _port: port,
    }
}

#[test]
fn closed_standard_streams_stay_closed_in_every_combination() {
    let jobs: Vec<Job> = (0..8)
        .flat_map(|mask| [false, true].map(|nodes| start(mask, nodes)))
        .collect();
    for job in jobs {
        for (mut rank, says) in job.ranks.into_iter().zip(job.says) {
            let status = rank.wait().unwrap();
            let words = std::fs::read_to_string(&says).unwrap_or_default();
            let _ = std::fs::remove_file(says);
            assert_eq!(words, "good", "{}: {status}", job.name);
        }
    }
}
