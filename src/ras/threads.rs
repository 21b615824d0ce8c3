//! Threads of the program, as the system sees them.

use super::seen::ThreadSeen;
use crate::base::turns;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// Between two looks at how much of the processor a thread has used: two of the system's ticks.
const BETWEEN: Duration = Duration::from_millis(20);
/// Threads that are told of, at most.
const MOST: usize = 64;

/// Threads of this process that are not kolo's own, the first one first.
pub fn own() -> Vec<ThreadSeen> {
    let before: BTreeMap<u32, Stat> = numbers()
        .into_iter()
        .filter_map(|id| Some((id, stat(&format!("/proc/self/task/{id}/stat"))?)))
        .filter(|(_, stat)| !stat.name.starts_with("kolo "))
        .take(MOST)
        .collect();
    turns::sleep(BETWEEN);
    let main = std::process::id();
    let seen = |(&id, before): (&u32, &Stat)| {
        let now = stat(&format!("/proc/self/task/{id}/stat"))?;
        Some(ThreadSeen {
            id,
            busy: now.ticks > before.ticks || (now.state == "R" && before.state == "R"),
            state: now.state,
            within: within(id),
        })
    };
    let mut all: Vec<ThreadSeen> = before.iter().filter_map(seen).collect();
    all.sort_by_key(|thread| (thread.id != main, thread.id));
    all
}

/// The first thread of another process of this machine, if the system tells.
pub fn first_of(pid: u32) -> Option<ThreadSeen> {
    let stat = stat(&format!("/proc/{pid}/stat"))?;
    Some(ThreadSeen {
        id: pid,
        busy: stat.state == "R",
        state: stat.state,
        within: None,
    })
}

fn numbers() -> Vec<u32> {
    let folder = fs::read_dir("/proc/self/task").into_iter().flatten();
    let names = folder.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut numbers: Vec<u32> = names.filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// A thread's line of the system.
#[derive(Debug, PartialEq)]
struct Stat {
    name: String,
    state: String,
    /// Time of the processor, in ticks.
    ticks: u64,
}

fn stat(path: &str) -> Option<Stat> {
    parse(&fs::read_to_string(path).ok()?)
}

/// The name may hold blanks and brackets: the last bracket ends it.
fn parse(line: &str) -> Option<Stat> {
    let (begin, rest) = line.rsplit_once(')')?;
    let (_, name) = begin.split_once('(')?;
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let ticks = |at: usize| words.get(at)?.parse::<u64>().ok();
    Some(Stat {
        name: name.to_owned(),
        state: (*words.first()?).to_owned(),
        ticks: ticks(11)? + ticks(12)?,
    })
}

/// The system call that a thread of this process is in.
fn within(id: u32) -> Option<String> {
    let line = fs::read_to_string(format!("/proc/self/task/{id}/syscall")).ok()?;
    let file = |number: u64| {
        let link = fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
        Some(link.to_string_lossy().into_owned())
    };
    call_words(&line, file)
}

/// A system call in words: its number and arguments as the system writes them, and what a
/// descriptor stands for.
fn call_words(line: &str, file: impl Fn(u64) -> Option<String>) -> Option<String> {
    let mut words = line.split_ascii_whitespace();
    let number: i64 = words.next()?.parse().ok()?;
    let first = words.next()?.strip_prefix("0x")?;
    let first = u64::from_str_radix(first, 16).ok()?;
    let of_file = |name: &str| {
        let what = file(first).unwrap_or_else(|| "?".into());
        format!("in {name}() of {what} (descriptor {first})")
    };
    Some(match number {
        libc::SYS_read | libc::SYS_readv | libc::SYS_pread64 => of_file("read"),
        libc::SYS_write | libc::SYS_writev | libc::SYS_pwrite64 => of_file("write"),
        libc::SYS_recvfrom | libc::SYS_recvmsg => of_file("recv"),
        libc::SYS_sendto | libc::SYS_sendmsg => of_file("send"),
        libc::SYS_flock | libc::SYS_fcntl => of_file("flock"),
        libc::SYS_fsync | libc::SYS_fdatasync => of_file("fsync"),
        libc::SYS_close => of_file("close"),
        libc::SYS_ppoll | libc::SYS_pselect6 | libc::SYS_epoll_pwait => {
            "waiting for descriptors, in poll()".into()
        }
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll | libc::SYS_select | libc::SYS_epoll_wait => {
            "waiting for descriptors, in poll()".into()
        }
        libc::SYS_futex => "waiting for a lock or another thread, in futex()".into(),
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => "asleep, in nanosleep()".into(),
        libc::SYS_wait4 | libc::SYS_waitid => "waiting for a child process, in wait()".into(),
        libc::SYS_rt_sigsuspend | libc::SYS_rt_sigtimedwait => {
            "waiting for a signal, in sigsuspend()".into()
        }
        libc::SYS_openat => "opening a file, in open()".into(),
        libc::SYS_sched_yield => "giving the processor away, in sched_yield()".into(),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_pause => "waiting for a signal, in pause()".into(),
        -1 => return None,
        other => format!("in system call {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use std::sync::mpsc;

    #[test]
    fn names_with_brackets_are_read() {
        let line = "17 (a) (b) c) S 1 2 3 4 5 6 7 8 9 10 100 23 7 8";
        let wanted = Stat {
            name: "a) (b) c".into(),
            state: "S".into(),
            ticks: 123,
        };
        assert_eq!(parse(line), Some(wanted));
        for cut in 0..line.len() {
            let _ = parse(&line[..cut]);
        }
    }

    #[test]
    fn a_system_call_is_told_with_its_file() {
        let file = |number| (number == 5).then(|| "pipe:[4711]".to_owned());
        let words = |line: &str| call_words(line, file);
        let write = format!(
            "{} 0x5 0x7f 0x10 0x0 0x0 0x0 0x7ffe 0x7f01\n",
            libc::SYS_write
        );
        let told = "in write() of pipe:[4711] (descriptor 5)";
        assert_eq!(words(&write).as_deref(), Some(told));
        assert_eq!(words("running\n"), None);
        assert_eq!(words("-1 0x7ffe 0x7f01\n"), None);
        assert_eq!(words(""), None);
    }

    /// A thread of this test sleeps in a read, another one computes; kolo's own are not told of.
    #[test]
    fn threads_of_this_process_are_seen() {
        let mut ends = [0; 2];
        // SAFETY: the array has room for two descriptors.
        assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
        // SAFETY: both are new and owned by nobody else.
        let [read, write] = ends.map(|fd| unsafe {
            use std::os::fd::FromRawFd;
            std::fs::File::from_raw_fd(fd)
        });
        let (say, hear) = mpsc::channel();
        // SAFETY: takes nothing.
        let number = || unsafe { libc::gettid() } as u32;
        let sayer = say.clone();
        let sleeper = std::thread::spawn(move || {
            use std::io::Read;
            sayer.send(number()).unwrap();
            let _ = (&read).read(&mut [0]);
        });
        let sleeping = hear.recv().unwrap();
        let own = std::thread::Builder::new().name("kolo test".into());
        let (end, ended) = mpsc::channel::<()>();
        let own = own.spawn(move || {
            say.send(number()).unwrap();
            let _ = ended.recv();
        });
        let kolos = hear.recv().unwrap();
        // It may need a moment to get there.
        let found = (0..500).find_map(|_| {
            let all = super::own();
            assert!(all.iter().all(|thread| thread.id != kolos));
            let thread = all.into_iter().find(|thread| thread.id == sleeping)?;
            let within = thread.within.clone().unwrap_or_default();
            (within.contains("read() of pipe:[") && !thread.busy).then_some(thread)
        });
        assert!(found.is_some_and(|it| it.state == "S"));
        assert!(write.as_raw_fd() >= 0);
        drop(write);
        sleeper.join().unwrap();
        drop(end);
        own.unwrap().join().unwrap();
    }
}
