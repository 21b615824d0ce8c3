//! The image of a launch: a program, and behind it the window of each lane.

use crate::plan::{Program, Window};

/// Program and windows, for a place that 16 divides.
#[derive(Clone, Debug)]
pub struct Image {
    bytes: Vec<u8>,
    windows: u32,
}

impl Image {
    /// Puts the windows of all lanes behind a program.
    ///
    /// # Panics
    /// Unless there is a window for each lane.
    pub fn new(program: &Program, windows: &[Window]) -> Image {
        assert_eq!(
            program.lanes().len(),
            windows.len(),
            "a window for each lane"
        );
        let mut bytes = program.image().to_vec();
        let at = bytes.len() as u32;
        for window in windows {
            bytes.extend_from_slice(window.as_bytes());
        }
        Image { bytes, windows: at }
    }

    /// Returns the bytes to copy to where the device reads them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes from the beginning to the first window.
    pub fn windows(&self) -> u32 {
        self.windows
    }
}
