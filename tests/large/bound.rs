//! Threads that are bound to cores which do not exist, as far as the C library says.

use std::cell::Cell;
use std::mem::transmute;

thread_local! {
    static CORE: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Runs `body` as if this thread were bound to this processor.
pub fn bound<T>(cpu: u32, body: impl FnOnce() -> T) -> T {
    CORE.set(Some(cpu));
    let result = body();
    CORE.set(None);
    result
}

type Getaffinity = unsafe extern "C" fn(libc::pthread_t, usize, *mut u64) -> libc::c_int;

/// The binding of a thread: this one's may be pretended, all else is as the system says.
#[unsafe(no_mangle)]
extern "C" fn pthread_getaffinity_np(
    thread: libc::pthread_t,
    bytes: usize,
    words: *mut u64,
) -> libc::c_int {
    // SAFETY: takes nothing.
    let me = unsafe { libc::pthread_self() };
    let Some(cpu) = CORE.get().filter(|_| thread == me) else {
        // SAFETY: the C library has this function, of this type; the arguments are the caller's.
        return unsafe {
            let next = libc::dlsym(libc::RTLD_NEXT, c"pthread_getaffinity_np".as_ptr());
            transmute::<*mut libc::c_void, Getaffinity>(next)(thread, bytes, words)
        };
    };
    // SAFETY: the caller's buffer has so many bytes, and the alignment of words.
    let set = unsafe { std::slice::from_raw_parts_mut(words, bytes / 8) };
    set.fill(0);
    set[cpu as usize / 64] |= 1 << (cpu % 64);
    0
}
