//! stand-in
use crate::base::*;
use crate::bootstrap::Bootstrap;
use std::collections::HashMap;
use std::sync::*;
pub struct LocalGroup {
    pub me: Rank,
    pub ranks: Vec<(Rank, u32)>,
}
pub type OnDeath = Box<dyn Fn(&[Rank], &str) + Send + Sync>;
pub struct Segment {
    base: usize,
    len: usize,
}
impl Segment {
    pub fn base(&self) -> *mut u8 {
        self.base as *mut u8
    }
}
impl Drop for Segment {
    fn drop(&mut self) {
        unsafe {
            libc::munmap(self.base as _, self.len);
        }
    }
}
pub struct Watch;
pub struct Joined {
    pub segment: Arc<Segment>,
    pub watch: Watch,
}
pub fn user_offset(n: usize) -> usize {
    (64 * n).next_multiple_of(4096)
}
static REG: Mutex<Option<HashMap<u128, Weak<Segment>>>> = Mutex::new(None);
pub fn join(
    b: &dyn Bootstrap,
    g: &LocalGroup,
    nonce: u128,
    len: usize,
    _d: OnDeath,
) -> Result<Joined> {
    let len = len + user_offset(g.ranks.len());
    let map = |fd: i32| {
        let p = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                3,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd,
                0,
            )
        };
        assert!(p != libc::MAP_FAILED);
        Arc::new(Segment {
            base: p as usize,
            len,
        })
    };
    let mut data = vec![0u8; 8];
    if g.me == Rank(0) {
        let fd = unsafe { libc::memfd_create(c"kolo".as_ptr(), 0) };
        unsafe { libc::ftruncate(fd, len as i64) };
        data = [
            (std::process::id()).to_le_bytes(),
            (fd as u32).to_le_bytes(),
        ]
        .concat();
    }
    b.broadcast(Rank(0), &mut data)?;
    let pid = u32::from_le_bytes(data[..4].try_into().unwrap());
    let fd = u32::from_le_bytes(data[4..].try_into().unwrap());
    let seg = {
        let mut r = REG.lock().unwrap();
        let r = r.get_or_insert_default();
        match r.get(&nonce).and_then(Weak::upgrade) {
            Some(s) => s,
            None => {
                let f = std::fs::OpenOptions::new()
                    .read(true)
                    .write(true)
                    .open(format!("/proc/{pid}/fd/{fd}"))
                    .unwrap();
                use std::os::fd::AsRawFd;
                let s = map(f.as_raw_fd());
                r.insert(nonce, Arc::downgrade(&s));
                s
            }
        }
    };
    b.barrier()?;
    if g.me == Rank(0) {
        unsafe {
            libc::close(fd as i32);
        }
    }
    Ok(Joined {
        segment: seg,
        watch: Watch,
    })
}
