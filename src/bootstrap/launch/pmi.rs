//! PMI version 1 over an open file: `srun --mpi=pmi2` and MPICH's `mpirun` speak it.
//!
//! The launcher leaves a connected socket in `PMI_FD`. Requests and answers are lines of
//! `key=value` words (Balaji et al., "PMI: A Scalable Parallel Process-Management Interface for
//! Extreme-Scale Systems", EuroMPI 2010, DOI 10.1007/978-3-642-15646-5_4). A process that has said
//! `init` must say `finalize` before it ends, or the launcher takes the end for a crash; so the
//! conversation is opened once a process and closed when the process exits.

use super::exchange::Exchange;
use super::handed::connection;
use super::variables::{Get, number};
use crate::base::clock::{Moment, now};
use crate::base::{Code, Error, Result, quiet};
use crate::bootstrap::net;
use crate::bootstrap::settings::NetSettings;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long the server may take for an answer that needs no other rank.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// The longest line that a server may send.
const LONGEST_LINE: usize = 64 << 10;

/// The server that the variables name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Server {
    file: RawFd,
    rank: u32,
    nranks: u32,
}

impl Server {
    /// The server of this process, if there is one.
    pub fn find(get: Get) -> Result<Option<Server>> {
        let file = number(get, "PMI_FD")?;
        let (rank, nranks) = (number(get, "PMI_RANK")?, number(get, "PMI_SIZE")?);
        let (Some(file), Some(rank), Some(nranks)) = (file, rank, nranks) else {
            return Ok(None);
        };
        if rank >= nranks {
            return Err(Error::usage(
                format!("PMI_RANK is {rank} and PMI_SIZE is {nranks}"),
                "look into what changes the variables of the launcher",
            ));
        }
        let file = RawFd::try_from(file).unwrap_or(-1);
        Ok(Some(Server { file, rank, nranks }))
    }
}

/// The conversation of this process; `None` before the first.
static TALK: Mutex<Option<Talk>> = Mutex::new(None);

fn talk() -> MutexGuard<'static, Option<Talk>> {
    TALK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A use of the conversation.
pub struct Client {
    server: Server,
}

impl Client {
    /// Opens the conversation, unless it is open.
    pub fn start(server: Server) -> Result<Client> {
        if mpi_is_running() {
            return Err(Error::usage(
                "MPI runs in this process and uses the launcher's PMI itself",
                "make the communicator with koloCommInitMPI",
            ));
        }
        let mut talk = talk();
        if talk
            .as_ref()
            .is_some_and(|talk| talk.process != std::process::id())
        {
            return Err(Error::usage(
                "this process was forked from one that speaks to the launcher's PMI server",
                "make communicators in the process that the launcher started, or start the child \
                 with variables of its own",
            ));
        }
        if talk.is_none() {
            let file = connection(server.file)?;
            *talk = Some(Talk::open(file, &server.rank.to_string())?);
            // SAFETY: the function may run at exit: it takes no lock that a dying thread may hold
            // (see `say_farewell`) and touches nothing that is gone by then.
            unsafe { libc::atexit(say_farewell) };
        }
        Ok(Client { server })
    }
}

impl Exchange for Client {
    fn rank(&self) -> u32 {
        self.server.rank
    }

    fn nranks(&self) -> u32 {
        self.server.nranks
    }

    fn share(&mut self, key: &str, mine: Option<&[u8]>, settings: &NetSettings) -> Result<Vec<u8>> {
        let mut talk = talk();
        let talk = talk
            .as_mut()
            .ok_or_else(|| Error::internal("PMI was not opened"))?;
        if let Some(mine) = mine {
            talk.put(key, &hex(mine))?;
        }
        talk.barrier(settings)?;
        let value = talk.get(key)?;
        unhex(&value).ok_or_else(|| unexpected("get", &value))
    }
}

/// Closes the conversation of a process that exits.
extern "C" fn say_farewell() {
    // A thread that waits for other ranks holds the lock: then this is no orderly end anyway.
    let Ok(mut talk) = TALK.try_lock() else {
        return;
    };
    if let Some(mut talk) = talk.take()
        && talk.process == std::process::id()
    {
        // Nobody is left to hear of a failure.
        let _ = talk.ask("cmd=finalize", "finalize_ack", Some(Duration::from_secs(2)));
    }
}

/// The file and what was read of it but not used.
struct Talk {
    file: File,
    unread: Vec<u8>,
    /// Name of the server's store.
    store: String,
    /// A forked child must not speak for its parent.
    process: u32,
}

impl Talk {
    fn open(file: File, rank: &str) -> Result<Talk> {
        let mut talk = Talk {
            file,
            unread: Vec::new(),
            store: String::new(),
            process: std::process::id(),
        };
        let limit = Some(ANSWER_LIMIT);
        let answer = talk.ask(
            "cmd=init pmi_version=1 pmi_subversion=1",
            "response_to_init",
            limit,
        )?;
        if word(&answer, "rc") != Some("0") {
            return Err(unexpected("init", &answer));
        }
        let answer = talk.ask("cmd=get_my_kvsname", "my_kvsname", limit)?;
        let store =
            word(&answer, "kvsname").ok_or_else(|| unexpected("get_my_kvsname", &answer))?;
        talk.store = store.to_string();
        tracing::debug!("PMI: rank {rank} in store {store}");
        Ok(talk)
    }

    fn put(&mut self, key: &str, value: &str) -> Result<()> {
        let request = format!("cmd=put kvsname={} key={key} value={value}", self.store);
        let answer = self.ask(&request, "put_result", Some(ANSWER_LIMIT))?;
        match word(&answer, "rc") {
            Some("0") => Ok(()),
            _ => Err(unexpected("put", &answer)),
        }
    }

    fn get(&mut self, key: &str) -> Result<String> {
        let request = format!("cmd=get kvsname={} key={key}", self.store);
        let answer = self.ask(&request, "get_result", Some(ANSWER_LIMIT))?;
        match (word(&answer, "rc"), word(&answer, "value")) {
            (Some("0"), Some(value)) => Ok(value.to_string()),
            _ => Err(unexpected("get", &answer)),
        }
    }

    /// Waits for all ranks, as long as the settings allow, and warns once.
    fn barrier(&mut self, settings: &NetSettings) -> Result<()> {
        self.say("cmd=barrier_in")?;
        let start = now();
        let warn_after = settings.warn_after;
        let limit = settings.meeting_limit();
        let early = limit.is_none_or(|(limit, _)| warn_after < limit);
        if early && !self.has_line_within(start, Some(warn_after))? {
            (settings.warn)(&format!(
                "kolo: has waited {} s for the other ranks of the job to make their communicator",
                warn_after.as_secs()
            ));
        }
        if !self.has_line_within(start, limit.map(|(limit, _)| limit))? {
            return Err(super::exchange::too_late(settings));
        }
        let answer = self.line(Some(Duration::ZERO))?;
        match word(&answer, "cmd") {
            Some("barrier_out") => Ok(()),
            _ => Err(unexpected("barrier_in", &answer)),
        }
    }

    fn ask(&mut self, request: &str, answer: &str, limit: Option<Duration>) -> Result<String> {
        self.say(request)?;
        let line = self.line(limit)?;
        match word(&line, "cmd") {
            Some(cmd) if cmd == answer => Ok(line),
            _ => Err(unexpected(request, &line)),
        }
    }

    fn say(&mut self, request: &str) -> Result<()> {
        let line = format!("{request}\n");
        quiet::write_all(self.file.as_fd(), line.as_bytes()).map_err(|e| broken(&e))
    }

    fn line(&mut self, limit: Option<Duration>) -> Result<String> {
        if !self.has_line_within(now(), limit)? {
            return Err(Error::new(
                Code::Timeout,
                "the launcher's PMI server does not answer",
                "start the program with `srun --mpi=pmix`, or set KOLO_RANK, KOLO_NRANKS and \
                 KOLO_COMM_ID",
            ));
        }
        let end = self.unread.iter().position(|&byte| byte == b'\n');
        let line: Vec<u8> = self.unread.drain(..=end.unwrap_or(0)).collect();
        Ok(String::from_utf8_lossy(&line).trim_end().to_string())
    }

    /// Whether a whole line is there before `limit` has passed since `start`.
    fn has_line_within(&mut self, start: Moment, limit: Option<Duration>) -> Result<bool> {
        while !self.unread.contains(&b'\n') {
            if self.unread.len() > LONGEST_LINE {
                return Err(unexpected("", "an endless line"));
            }
            let left = limit.map(|limit| net::left(start, limit));
            let mut set = [net::watch(&self.file, false)];
            net::poll(&mut set, left).map_err(|error| broken(&error))?;
            if set[0].revents == 0 {
                if limit.is_some_and(|limit| start.past(limit)) {
                    return Ok(false);
                }
                continue;
            }
            let mut piece = [0; 4096];
            match self.file.read(&mut piece) {
                Ok(0) => return Err(broken(&std::io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => self.unread.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(broken(&error)),
            }
        }
        Ok(true)
    }
}

/// A server's side of a conversation, for `tests/fuzz`: it has said all of it already, and is gone.
pub fn fuzz(said: &[u8]) {
    let Ok((ours, theirs)) = std::os::unix::net::UnixStream::pair() else {
        return;
    };
    // So much fits between the two without anybody reading.
    let said = &said[..said.len().min(16 << 10)];
    if quiet::write_all(theirs.as_fd(), said).is_err()
        || theirs.shutdown(std::net::Shutdown::Write).is_err()
    {
        return;
    }
    if let Ok(mut talk) = Talk::open(OwnedFd::from(ours).into(), "0") {
        let told = talk.get("id").ok().and_then(|text| unhex(&text));
        if let Some(told) = told {
            let _ = super::exchange::fuzz(&told);
        }
    }
}

/// The value of `key` in a line of `key=value` words.
fn word<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.split_ascii_whitespace()
        .filter_map(|word| word.split_once('='))
        .find_map(|(name, value)| (name == key).then_some(value))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

/// Whether an MPI library of this process has been started and not ended.
fn mpi_is_running() -> bool {
    type Asks = unsafe extern "C" fn(*mut libc::c_int) -> libc::c_int;
    let program = libloading::os::unix::Library::this();
    let ask = |name: &[u8]| {
        // SAFETY: MPI's standard gives both functions this type, and both may be called at any
        // time.
        let function = unsafe { program.get::<Asks>(name) }.ok()?;
        let mut flag = 0;
        // SAFETY: as above; there is room for the answer.
        (unsafe { function(&mut flag) } == 0).then_some(flag != 0)
    };
    ask(b"MPI_Initialized\0") == Some(true) && ask(b"MPI_Finalized\0") == Some(false)
}

fn unexpected(request: &str, answer: &str) -> Error {
    Error::usage(
        format!("the launcher's PMI server answers \"{request}\" with \"{answer}\""),
        "start the program with `srun --mpi=pmix`, or set KOLO_RANK, KOLO_NRANKS and KOLO_COMM_ID",
    )
}

fn broken(error: &std::io::Error) -> Error {
    Error::system(
        "the connection to the launcher's PMI server (PMI_FD) does not work",
        error,
        "look into what closes the files that the launcher leaves open; an MPI that was finalised \
         closes this one too",
    )
}

#[cfg(test)]
mod tests {
    use super::super::variables::fixed;
    use super::*;
    use crate::base::quiet::tests::signals_of;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixStream;

    #[test]
    fn the_variables_are_read() {
        let find = |set: &[(&str, &str)]| Server::find(&fixed(set));
        let good = [("PMI_FD", "9"), ("PMI_RANK", "1"), ("PMI_SIZE", "2")];
        let server = Server {
            file: 9,
            rank: 1,
            nranks: 2,
        };
        assert_eq!(find(&good).unwrap(), Some(server));
        assert_eq!(find(&good[..2]).unwrap(), None);
        let bad = [("PMI_FD", "9"), ("PMI_RANK", "2"), ("PMI_SIZE", "2")];
        assert!(find(&bad).unwrap_err().what.contains("PMI_RANK is 2"));
        assert!(find(&[("PMI_FD", "x")]).is_err());
    }

    /// A server that gives these answers, one a request, and returns the requests.
    fn server(answers: Vec<&'static str>) -> (Talk, std::thread::JoinHandle<Vec<String>>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let thread = std::thread::spawn(move || {
            let mut lines = BufReader::new(theirs.try_clone().unwrap()).lines();
            let mut seen = Vec::new();
            for answer in answers {
                seen.extend(lines.next().and_then(|line| line.ok()));
                for piece in answer.as_bytes().chunks(7) {
                    (&theirs).write_all(piece).unwrap();
                }
            }
            seen
        });
        let talk = Talk {
            file: OwnedFd::from(ours).into(),
            unread: Vec::new(),
            store: "kvs_1".into(),
            process: 0,
        };
        (talk, thread)
    }

    #[test]
    fn values_travel_as_hex() {
        let (mut talk, thread) = server(vec![
            "cmd=put_result rc=0 msg=success\n",
            "cmd=barrier_out\n",
            "cmd=get_result rc=0 msg=success value=00ff10\n",
            "cmd=finalize_ack rc=0\n",
        ]);
        talk.put("k", &hex(&[0, 255, 16])).unwrap();
        talk.barrier(&NetSettings::default()).unwrap();
        assert_eq!(unhex(&talk.get("k").unwrap()).unwrap(), [0, 255, 16]);
        talk.ask("cmd=finalize", "finalize_ack", Some(ANSWER_LIMIT))
            .unwrap();
        assert_eq!(
            thread.join().unwrap(),
            [
                "cmd=put kvsname=kvs_1 key=k value=00ff10",
                "cmd=barrier_in",
                "cmd=get kvsname=kvs_1 key=k",
                "cmd=finalize"
            ]
        );
    }

    #[test]
    fn refusals_silence_and_an_end_are_told_apart() {
        let (mut talk, _thread) = server(vec!["cmd=get_result rc=-1 msg=key_not_found\n"]);
        let error = talk.get("k").unwrap_err();
        assert!(error.what.contains("key_not_found"), "{error}");

        let (mut talk, _thread) = server(vec![]);
        let error = talk.barrier(&NetSettings::default()).unwrap_err();
        assert!(error.what.contains("PMI_FD"), "{error}");

        let (mut talk, thread) = server(vec!["cmd=something_else\n", ""]);
        assert!(talk.get("k").unwrap_err().what.contains("something_else"));
        let patience = NetSettings {
            timeout: Some(Duration::from_millis(30)),
            ..NetSettings::default()
        };
        // The second answer is empty, and the server lives on until it has read a third line.
        let error = talk.barrier(&patience).unwrap_err();
        let closed = error.what.contains("PMI_FD");
        assert!(error.code == Code::Timeout || closed, "{error}");
        drop(thread);
    }

    #[test]
    fn a_lost_server_raises_no_signal() {
        let (mut talk, thread) = server(vec![]);
        thread.join().unwrap();
        let seen = signals_of(|| {
            let error = talk.put("k", "v").unwrap_err();
            assert!(error.what.contains("PMI_FD"), "{error}");
        });
        assert_eq!(seen, 0);
    }

    #[test]
    fn words_of_a_line() {
        assert_eq!(word("cmd=a rc=0 msg=", "rc"), Some("0"));
        assert_eq!(word("cmd=a rc=0 msg=", "msg"), Some(""));
        assert_eq!(word("cmd=a rc=0", "value"), None);
        assert_eq!(unhex("0g"), None);
        assert_eq!(unhex("0"), Some(vec![0]));
    }

    #[test]
    fn no_mpi_runs_in_these_tests() {
        assert!(!mpi_is_running());
    }
}
