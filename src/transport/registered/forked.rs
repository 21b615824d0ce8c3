//! Private mappings that children of fork() have instead of registered memory.
//!
//! **Problem.** A child inherits the mapping of the file: what it writes there would be seen by its
//! parent and by the parent's peers.
//!
//! **Idea.** A fork handler maps the same file once more in the child, at the same addresses and
//! privately: what the child writes is its own. A page that it has not written yet shows the file,
//! and so what the parent and its peers write there later. That can be bytes of the buffer only.
//! Pages that no registration holds any more, and that the parent could not take off the file, may
//! hold anything: they are copied at once, and the parent waits for that, up to [`LONGEST_WAIT`].
//!
//! **Limits.** A raw `clone` system call runs no handlers: such a child shares the memory. The C
//! library writes before any handler runs: the locks that it keeps beside its data, in a child. So
//! what may hold such data is off the file long before: only whole pages of buffers are moved, and
//! what is left is taken off it at once ([`super::exchange::settle`]).
//!
//! The handler finds the pages in `/proc/self/maps`, for the program may have unmapped some, and
//! put others there. It allocates nothing.

use super::areas::{self, FileIdentity, Head};
use super::{copies, hooks};
use crate::base::sync::AtomicU32;
use crate::transport::fork::{AroundFork, around};
use crate::transport::futex::SystemFutex;
use crate::transport::room;
use crate::wire::doorbell::Futex;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// How often, and for how long each time, a parent waits for its child's copies.
const LOOKS: u32 = 100;
const LONGEST_WAIT: Duration = Duration::from_millis(10);

/// Facts that a child needs to find the pages.
struct Sought {
    file: FileIdentity,
    /// A descriptor of the file; -1 as long as there is none.
    number: i32,
    /// Pages that no registration holds, and that need the file still.
    left: Vec<Range<usize>>,
    page: usize,
}

static SOUGHT: Mutex<Sought> = Mutex::new(Sought {
    file: FileIdentity {
        device: (0, 0),
        inode: 0,
    },
    number: -1,
    left: Vec::new(),
    page: 1,
});

/// A number that children advance when they have their copies, in memory that they share with their
/// parent.
static COPIED: OnceLock<Option<CopyCount>> = OnceLock::new();

struct CopyCount(NonNull<AtomicU32>);

// SAFETY: it points to an atomic number that is never unmapped.
unsafe impl Send for CopyCount {}
// SAFETY: as above.
unsafe impl Sync for CopyCount {}

impl CopyCount {
    fn new() -> Option<CopyCount> {
        // SAFETY: a new mapping at an address of the system's choice touches no existing memory.
        let place = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<AtomicU32>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        let place = (place != libc::MAP_FAILED).then_some(place);
        place
            .and_then(|place| NonNull::new(place.cast()))
            .map(CopyCount)
    }

    fn get(&self) -> &AtomicU32 {
        // SAFETY: mapped and zero since it was made, and never unmapped.
        unsafe { self.0.as_ref() }
    }
}

type HeldSought = MutexGuard<'static, Sought>;

thread_local! {
    /// The lock that the forking thread holds meanwhile, and the number before.
    static HELD: Cell<Option<(ManuallyDrop<HeldSought>, u32)>> = const { Cell::new(None) };
}

/// As long as what it gives lives, no thread of this process forks.
pub(super) fn hold() -> impl Sized {
    sought()
}

fn sought() -> HeldSought {
    SOUGHT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on children look for this file, and have copies of what is `left`.
pub(super) fn show(file: FileIdentity, number: i32, left: Vec<Range<usize>>) {
    COPIED.get_or_init(CopyCount::new);
    around(AroundFork {
        before,
        in_parent,
        in_child,
    });
    let page = room::page_bytes();
    let shown = Sought {
        file,
        number,
        left,
        page,
    };
    // The old list is freed when nobody waits for the lock any more.
    let _old = std::mem::replace(&mut *sought(), shown);
}

fn copied() -> Option<&'static AtomicU32> {
    COPIED.get()?.as_ref().map(CopyCount::get)
}

fn before() {
    let sought = sought();
    let number = copied().map_or(0, |word| word.load(Ordering::Acquire));
    HELD.set(Some((ManuallyDrop::new(sought), number)));
}

fn in_parent() {
    let Some((held, number)) = HELD.take() else {
        return;
    };
    if let (false, Some(word)) = (held.left.is_empty(), copied()) {
        for _ in 0..LOOKS {
            if word.load(Ordering::Acquire) != number {
                break;
            }
            SystemFutex.wait(word, number, LONGEST_WAIT);
        }
    }
    drop(ManuallyDrop::into_inner(held));
}

fn in_child() {
    let Some((mut held, _)) = HELD.take() else {
        return;
    };
    if held.number >= 0 {
        each_mapping(&mut |head| make_private(&held, head));
        if let Some(word) = copied() {
            word.fetch_add(1, Ordering::Release);
            SystemFutex.wake(word);
        }
    }
    // Its own children have nothing to copy, and must not end the wait of their grandparent.
    held.number = -1;
    held.left.clear();
    drop(ManuallyDrop::into_inner(held));
}

/// Replaces one mapping of the child, if it is one of the file in place, and copies what was left.
fn make_private(sought: &Sought, head: &Head) {
    if !head.is_in_place(sought.file) {
        return;
    }
    let protection = areas::protection(head.rights);
    if head.is_shared() {
        let how = (protection, libc::MAP_PRIVATE | libc::MAP_NORESERVE);
        // SAFETY: these pages show the file at this offset; the new ones show the same bytes. The
        // child has one thread, which runs here.
        let outcome = unsafe { hooks::show_file(&head.pages, how, (sought.number, head.offset)) };
        if outcome.is_err() {
            let nothing = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // A child that dies by touching it is better than one that writes into its parent's
            // data.
            // SAFETY: pages of the child, which loses them.
            let gone =
                unsafe { hooks::show_file(&head.pages, (libc::PROT_NONE, nothing), (-1, 0)) };
            if gone.is_err() {
                // Nothing takes the place, but the whole mapping goes, for which no memory is
                // needed.
                let (start, bytes) = (head.pages.start, head.pages.len());
                // SAFETY: as above.
                unsafe { libc::syscall(libc::SYS_munmap, start, bytes) };
            }
            return;
        }
    }
    if protection & libc::PROT_WRITE == 0 {
        return;
    }
    for left in &sought.left {
        let part = left.start.max(head.pages.start)..left.end.min(head.pages.end);
        if !part.is_empty() && copies::populate(&part).is_err() {
            // SAFETY: private pages of the child, which can be written.
            unsafe { copies::touch(&part, sought.page) };
        }
    }
}

/// Calls `act` with each mapping of this process. Allocates nothing.
fn each_mapping(act: &mut dyn FnMut(&Head)) {
    let path = c"/proc/self/maps".as_ptr();
    let how = libc::O_RDONLY | libc::O_CLOEXEC;
    // Bare system calls: what a library puts before them may want a lock that nobody gives back.
    // SAFETY: a constant path; plain system call.
    let file = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, how) };
    if file < 0 {
        return;
    }
    let (mut text, mut line, mut length) = ([0_u8; 4096], [0_u8; 160], 0);
    loop {
        // SAFETY: `text` is writable for its length.
        let count = unsafe { libc::syscall(libc::SYS_read, file, text.as_mut_ptr(), text.len()) };
        let Some(got) = usize::try_from(count).ok().filter(|&got| got > 0) else {
            break;
        };
        for &byte in &text[..got] {
            if byte != b'\n' {
                // What is too long is the end of a path.
                if let Some(place) = line.get_mut(length) {
                    (*place, length) = (byte, length + 1);
                }
                continue;
            }
            // A path may be cut inside a letter.
            let whole = line[..length].utf8_chunks().next();
            if let Some((head, _)) = whole.and_then(|chunk| Head::read(chunk.valid())) {
                act(&head);
            }
            length = 0;
        }
    }
    // SAFETY: opened above.
    unsafe { libc::syscall(libc::SYS_close, file) };
}
