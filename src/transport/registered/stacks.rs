//! Memory that threads write merely by running: their stacks and what lies beside them.
//!
//! The system does not say which anonymous memory is the stack of a thread. But every thread has a
//! list of robust locks, whose head lies in the thread's own structure, and the C library puts that
//! structure at the top of the stack that it made (get_robust_list(2); nptl(7)). So a mapping that
//! holds such a head is a stack up to there. A stack that the program made itself is not seen so,
//! unless it is the one of the caller.

use super::areas::Area;
use std::ops::Range;

/// Why one of these mappings, or a part of it in `pages`, is in use by a running thread; a phrase
/// that follows "it".
pub(super) fn in_use(areas: &[Area], pages: &Range<usize>, page: usize) -> Option<String> {
    let here = 0_u8;
    // SAFETY: gives the address of this thread's own variable.
    let errno = unsafe { libc::__errno_location() } as usize;
    if pages.contains(&(&raw const here as usize)) || pages.contains(&errno) {
        return Some("is in use by the calling thread itself, as its stack or beside it".into());
    }
    let own = own_stack();
    if overlaps(&own, pages) {
        return Some("is the stack of the calling thread".into());
    }
    heads().into_iter().find_map(|(thread, head)| {
        let top = head / page * page + page;
        let area = areas.iter().find(|area| area.pages.contains(&head));
        // The first thread's structure lies beside other memory, and its stack elsewhere.
        let start = match area {
            Some(area) if thread != std::process::id() => area.pages.start,
            _ => top - page,
        };
        overlaps(&(start..top), pages).then(|| format!("is the stack of thread {thread}"))
    })
}

fn overlaps(one: &Range<usize>, other: &Range<usize>) -> bool {
    one.start < other.end && other.start < one.end
}

/// The stack that this thread runs on, as the C library knows it; empty if it does not.
fn own_stack() -> Range<usize> {
    // SAFETY: all-zero bytes are storage for the attributes, which the call fills.
    let mut attributes: libc::pthread_attr_t = unsafe { std::mem::zeroed() };
    // SAFETY: this thread lives; `attributes` is writable.
    if unsafe { libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) } != 0 {
        return 0..0;
    }
    let (mut start, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes were filled; they are given back once, and not used afterwards.
    let code = unsafe {
        let code = libc::pthread_attr_getstack(&raw const attributes, &mut start, &mut bytes);
        libc::pthread_attr_destroy(&raw mut attributes);
        code
    };
    match code {
        0 => start as usize..start as usize + bytes,
        _ => 0..0,
    }
}

/// The threads of this process that have such a list, and where its head is.
fn heads() -> Vec<(u32, usize)> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else {
        return Vec::new();
    };
    let number = |name: std::ffi::OsString| name.to_str()?.parse::<u32>().ok();
    let threads = tasks.flatten().filter_map(|task| number(task.file_name()));
    threads
        .filter_map(|thread| {
            let (mut head, mut bytes) = (0_usize, 0_usize);
            // SAFETY: both places are writable; a thread that has ended meanwhile is an error.
            let code = unsafe {
                libc::syscall(
                    libc::SYS_get_robust_list,
                    thread,
                    &raw mut head,
                    &raw mut bytes,
                )
            };
            (code == 0 && head != 0).then_some((thread, head))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::registered::areas;
    use std::sync::mpsc::channel;

    fn reason(address: usize) -> Option<String> {
        let pages = address / 4096 * 4096..address / 4096 * 4096 + 4096;
        in_use(&areas::with_flags(&pages).unwrap(), &pages, 4096)
    }

    #[test]
    fn stacks_of_this_thread_and_of_others_are_known() {
        let here = 1_u8;
        assert!(reason(&raw const here as usize).is_some());
        assert!(reason(own_stack().start + 4096).is_some());
        let ((tell, told), (finish, finished)) = (channel(), channel::<()>());
        let thread = std::thread::spawn(move || {
            let here = 2_u8;
            tell.send((&raw const here as usize, own_stack())).unwrap();
            let _ = finished.recv();
        });
        let (address, stack) = told.recv().unwrap();
        for inside in [address, stack.start, stack.end - 1, address - 65536] {
            let why = reason(inside).unwrap_or_default();
            assert!(why.contains("stack of thread"), "{inside:#x}: {why}");
        }
        drop(finish);
        thread.join().unwrap();
        let large = vec![0_u8; 1 << 20];
        assert_eq!(reason(large.as_ptr() as usize + 4096), None);
    }
}
