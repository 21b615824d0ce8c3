//! Writing to a socket or pipe whose other end may be gone, without the signal SIGPIPE.
//!
//! A program that does nothing about SIGPIPE is ended by it. Rust's own programs ignore the signal,
//! those in C and Fortran do not, and a library may not change that: so every write of kolo to a
//! socket, a pipe or standard error goes through the functions here, or through a `send` with
//! `MSG_NOSIGNAL` of its own. The lost peer then shows as the error EPIPE.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// How long words for people may wait for a pipe that is full, in milliseconds.
const WORDS_LIMIT: i32 = 100;

/// Sends from `parts` in order over a socket; how many bytes the system took.
///
/// # Errors
/// Those of sendmsg(2); ENOTSOCK if it is no socket.
pub fn send(socket: BorrowedFd<'_>, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: all-zero bytes are a valid `msghdr`.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // `IoSlice` has the layout of `iovec`; the system only reads.
    message.msg_iov = parts.as_ptr().cast_mut().cast();
    message.msg_iovlen = parts.len() as _;
    // SAFETY: `message` describes live slices.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &raw const message, libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// A socket that is written to without the signal, for what takes any reader and writer.
#[derive(Debug)]
pub struct Quiet<S>(pub S);

impl<S: Read> Read for Quiet<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl<S: AsFd> Write for Quiet<S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        send(self.0.as_fd(), &[IoSlice::new(bytes)])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<S: AsRawFd> AsRawFd for Quiet<S> {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Writes all of `bytes` to a socket or a pipe, and waits until they are taken.
///
/// # Errors
/// Those of the system; an interruption is none.
pub fn write_all(file: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let sent = match send(file, &[IoSlice::new(bytes)]) {
            Err(error) if error.raw_os_error() == Some(libc::ENOTSOCK) => write(file, bytes),
            result => result,
        };
        match sent {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_writable(file, -1)?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes a line to standard error, as [`put`] does.
pub fn tell(line: &str) {
    let line = format!("{line}\n");
    put(io::stderr().lock().as_fd(), line.as_bytes());
}

/// Writes words for people to a file, a pipe or a socket. Whoever is to read them may have gone,
/// or be slow: what is not taken within [`WORDS_LIMIT`] is lost, and nobody is told.
pub fn put(file: BorrowedFd<'_>, mut bytes: &[u8]) {
    let mut has_waited = false;
    while !bytes.is_empty() {
        let wrote = match send(file, &[IoSlice::new(bytes)]) {
            Err(error) if error.raw_os_error() == Some(libc::ENOTSOCK) => write(file, bytes),
            result => result,
        };
        match wrote {
            Ok(count @ 1..) => bytes = &bytes[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && !has_waited => {
                has_waited = true;
                if wait_writable(file, WORDS_LIMIT).is_err() {
                    return;
                }
            }
            Ok(_) | Err(_) => return,
        }
    }
}

fn wait_writable(file: BorrowedFd<'_>, milliseconds: i32) -> io::Result<()> {
    let mut entry = libc::pollfd {
        fd: file.as_raw_fd(),
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one live entry.
    if unsafe { libc::poll(&raw mut entry, 1, milliseconds) } < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(())
}

/// One write(2), which has no flag for this: the signal is held back on this thread and taken out
/// of the queue, unless one was there before.
fn write(file: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: all-zero bytes are valid sets, which the calls fill or read; the sets and the slice
    // live until the end. The signal came from this thread's write, so it waits on this thread.
    unsafe {
        let mut pipe: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        let mut pending: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut pipe);
        libc::sigaddset(&raw mut pipe, libc::SIGPIPE);
        libc::sigpending(&raw mut pending);
        let had = libc::sigismember(&raw const pending, libc::SIGPIPE) == 1;
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const pipe, &raw mut before);
        let wrote = libc::write(file.as_raw_fd(), bytes.as_ptr().cast(), bytes.len());
        let result = usize::try_from(wrote).map_err(|_| io::Error::last_os_error());
        let broken = |error: &io::Error| error.raw_os_error() == Some(libc::EPIPE);
        if result.as_ref().is_err_and(broken) && !had {
            let at_once: libc::timespec = std::mem::zeroed();
            libc::sigtimedwait(&raw const pipe, std::ptr::null_mut(), &raw const at_once);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use socket2::{Domain, Socket, Type};
    use std::os::fd::AsFd;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    static THREAD: AtomicU32 = AtomicU32::new(0);
    static COUNT: AtomicU32 = AtomicU32::new(0);

    fn thread() -> u32 {
        // SAFETY: plain system call.
        unsafe { libc::gettid() as u32 }
    }

    extern "C" fn note(_: libc::c_int) {
        if thread() == THREAD.load(Ordering::Relaxed) {
            COUNT.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many SIGPIPE this thread gets while `body` runs. The test program ignores the signal;
    /// for the count it has a handler instead.
    pub fn signals_of(body: impl FnOnce()) -> u32 {
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(|error| error.into_inner());
        THREAD.store(thread(), Ordering::Relaxed);
        COUNT.store(0, Ordering::Relaxed);
        // SAFETY: all-zero bytes are a valid action without flags; the handler lives for ever and
        // uses only atomics.
        let before = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let mut before: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note as *const () as usize;
            libc::sigaction(libc::SIGPIPE, &raw const action, &raw mut before);
            before
        };
        body();
        // SAFETY: as it was before.
        unsafe { libc::sigaction(libc::SIGPIPE, &raw const before, std::ptr::null_mut()) };
        COUNT.load(Ordering::Relaxed)
    }

    fn pipe() -> (std::io::PipeReader, std::io::PipeWriter) {
        std::io::pipe().unwrap()
    }

    #[test]
    fn the_count_sees_a_signal() {
        let (near, far) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
        drop(far);
        let (reader, mut writer) = pipe();
        drop(reader);
        let seen = signals_of(|| {
            let error = writer.write(b"x").unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EPIPE));
            // SAFETY: one readable byte. No flag, so the signal comes.
            let sent = unsafe { libc::send(near.as_raw_fd(), b"x".as_ptr().cast(), 1, 0) };
            assert_eq!(sent, -1);
        });
        assert_eq!(seen, 2);
    }

    #[test]
    fn a_lost_peer_is_an_error_and_no_signal() {
        let (near, far) = Socket::pair(Domain::UNIX, Type::STREAM, None).unwrap();
        write_all(near.as_fd(), b"while it lives").unwrap();
        drop(far);
        let (reader, writer) = pipe();
        write_all(writer.as_fd(), b"while it lives").unwrap();
        drop(reader);
        let mut wrapped = Quiet(near.try_clone().unwrap());
        let seen = signals_of(|| {
            let error = wrapped.write(b"nobody reads this").unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EPIPE), "{error}");
            for file in [near.as_fd(), writer.as_fd()] {
                let error = write_all(file, b"nobody reads this").unwrap_err();
                assert_eq!(error.raw_os_error(), Some(libc::EPIPE), "{error}");
            }
        });
        assert_eq!(seen, 0);
    }

    #[test]
    fn much_is_written_in_pieces() {
        let bytes: Vec<u8> = (0..1_000_000_u32).map(|n| (n % 251) as u8).collect();
        let (mut reader, writer) = pipe();
        let sent = bytes.clone();
        let thread = std::thread::spawn(move || write_all(writer.as_fd(), &sent).unwrap());
        let mut got = Vec::new();
        reader.read_to_end(&mut got).unwrap();
        thread.join().unwrap();
        assert_eq!(got, bytes);
    }
}
