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
    let seg = {
        let mut r = REG.lock().unwrap();
        let r = r.get_or_insert_default();
        match r.get(&nonce).and_then(Weak::upgrade) {
            Some(s) => s,
            None => {
                let p = unsafe {
                    libc::mmap(
                        std::ptr::null_mut(),
                        len,
                        3,
                        libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                        -1,
                        0,
                    )
                };
                assert!(p != libc::MAP_FAILED);
                let s = Arc::new(Segment {
                    base: p as usize,
                    len,
                });
                r.insert(nonce, Arc::downgrade(&s));
                s
            }
        }
    };
    b.barrier()?;
    Ok(Joined {
        segment: seg,
        watch: Watch,
    })
}
