//! A plan that is bound, for calls of one size: all of a launch that does not change from call to
//! call.
//!
//! A program makes calls of the same few sizes again and again. What follows from the size
//! (windows, image, steps, scratch memory) is made once, so a call copies a structure and fills in
//! addresses.

use super::DeviceLaunch;
use super::bound::{DeviceBound, LaunchExtents};
use super::shelf::Shelved;
use crate::plan::Window;

/// Tells the sizes of an engine's launches apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SizeKey {
    /// Number of the bound plan.
    pub bound: u64,
    /// Elements and blocks.
    pub extents: LaunchExtents,
    /// Slots of a chunk and of a slice.
    pub slots: (u32, u32),
}

/// Parts that launches of one plan and size have in common.
pub(super) struct SizedLaunch {
    /// Of each lane.
    pub windows: Vec<Window>,
    /// A launch that still lacks the addresses of a call.
    pub launch: DeviceLaunch,
    /// The image, where it does not fit the launch.
    pub image: Option<Shelved>,
    /// Steps of a launch.
    pub steps: u64,
    /// Bytes of scratch memory of a lane.
    pub scratch_bytes: usize,
}

impl SizedLaunch {
    /// For launches of a bound plan with these windows and slices of so many slots. `shelve` puts
    /// an image on the device that does not fit a launch.
    ///
    /// # Errors
    /// Those of `shelve`.
    pub fn new<E>(
        bound: &DeviceBound,
        windows: Vec<Window>,
        slice_slots: u32,
        element_bytes: usize,
        shelve: impl FnOnce(&[u8]) -> Result<Shelved, E>,
    ) -> Result<SizedLaunch, E> {
        let image = bound.image(&windows);
        let mut launch = DeviceLaunch::new(&image, slice_slots);
        let image = match launch.is_inline() {
            true => None,
            false => Some(shelve(image.bytes())?),
        };
        launch.image = image.as_ref().map_or(0, Shelved::address);
        launch.connections = bound.table.as_ref().map_or(0, Shelved::address);
        let scratch = bound.scratch_bytes(&windows, element_bytes);
        Ok(SizedLaunch {
            steps: bound.steps(&windows),
            scratch_bytes: scratch.next_multiple_of(128),
            windows,
            launch,
            image,
        })
    }

    /// Rounds in which a launch passes its data.
    pub fn rounds(&self) -> u64 {
        self.windows.iter().map(Window::rounds).max().unwrap_or(1)
    }
}
