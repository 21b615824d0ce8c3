//! Notices: what a receiver tells its sender about the buffers of a request that it has posted.

use kolo_plugin::fabric::GROUP;

/// Size of a notice.
pub const NOTICE_BYTES: usize = 16 + 16 * GROUP;

/// A notice as it travels.
pub type Bytes = [u8; NOTICE_BYTES];

/// Facts about a request: its buffers are posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The number of the sending end that it is for.
    pub to: u32,
    /// Number of the request, from 1.
    pub sequence: u64,
    /// Buffers of the request.
    pub count: usize,
    /// Tag and size of each.
    pub buffers: [(u32, u64); GROUP],
}

impl Notice {
    /// Writes it.
    pub fn write(&self) -> Bytes {
        let mut bytes = [0; NOTICE_BYTES];
        bytes[..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.to.to_le_bytes());
        bytes[12..16].copy_from_slice(&(self.count as u32).to_le_bytes());
        for (room, (tag, capacity)) in bytes[16..].chunks_mut(16).zip(self.buffers) {
            room[..8].copy_from_slice(&u64::from(tag).to_le_bytes());
            room[8..].copy_from_slice(&capacity.to_le_bytes());
        }
        bytes
    }

    /// Reads it; `None` where it is none.
    pub fn read(bytes: &Bytes) -> Option<Notice> {
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        let count = (word(8) >> 32) as usize;
        let buffer = |index: usize| (word(16 + 16 * index) as u32, word(24 + 16 * index));
        (1..=GROUP).contains(&count).then(|| Notice {
            to: word(8) as u32,
            sequence: word(0),
            count,
            buffers: std::array::from_fn(buffer),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_come_back_as_they_were() {
        let mut buffers = [(0, 0); GROUP];
        buffers[0] = (u32::MAX, 1 << 40);
        buffers[7] = (7, 8);
        let notice = Notice {
            to: u32::MAX - 1,
            sequence: 1 << 50,
            count: 8,
            buffers,
        };
        assert_eq!(Notice::read(&notice.write()), Some(notice));
        assert_eq!(Notice::read(&[0; NOTICE_BYTES]), None);
        assert_eq!(Notice::read(&[0xff; NOTICE_BYTES]), None);
    }
}
