//! The one argument of every kernel.

use super::image::Image;

/// Bytes of a launch: what every driver takes as parameters of a kernel.
pub const LAUNCH_BYTES: usize = 4096;
/// Images up to here travel in the launch.
pub const INLINE_BYTES: usize = LAUNCH_BYTES - 128;
/// Lanes that one block passes at most.
pub const MAX_LANES: usize = 256;
/// Threads of a warp: the first warp of a block leads, the others work.
pub const WARP: u32 = 32;
/// Threads of a block.
pub const MAX_THREADS: u32 = 640;
/// Sources and destinations of one step, together.
pub const MAX_OPERANDS: usize = 64;

/// Parameters of a kernel. Addresses are the device's.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
pub struct DeviceLaunch {
    /// Program and windows in device memory; 0 if they follow inline.
    pub image: u64,
    /// Addresses (`u64`) of [`crate::wire::gpu::DeviceEnd`]s, as the program numbers its
    /// connections.
    pub connections: u64,
    /// The caller's send buffer.
    pub input: u64,
    /// The caller's receive buffer.
    pub output: u64,
    /// The scratch memory of lane 0.
    pub scratch: u64,
    /// From the scratch memory of one lane to that of the next.
    pub scratch_bytes: u64,
    /// A `u32` in memory of the host: not 0 ends the launch.
    pub abort: u64,
    /// A `u64` for each block, to which it adds the steps that it did; 0 if nobody asks.
    pub steps: u64,
    /// The factor of a pre-multiplied sum: one element in the first bytes.
    pub scalar: u64,
    /// The divisor of an average; 0 for none.
    pub divisor: u32,
    /// Not 0: inputs are multiplied by the scalar.
    pub pre_scaled: u32,
    /// Slots that a slice takes.
    pub slice_slots: u32,
    /// Bytes from the beginning of the image to the windows.
    pub windows: u32,
    /// Bytes of the image.
    pub bytes: u32,
    /// 0.
    pub reserved: [u32; 9],
    /// The image, if it fits.
    pub inlined: [u8; INLINE_BYTES],
}

const _: () = assert!(size_of::<DeviceLaunch>() == LAUNCH_BYTES);

impl DeviceLaunch {
    /// A launch of this image, which still lacks all addresses. A large image must be copied to the
    /// device: see [`DeviceLaunch::is_inline`].
    pub fn new(image: &Image, slice_slots: u32) -> DeviceLaunch {
        let mut inlined = [0; INLINE_BYTES];
        let bytes = image.bytes();
        if bytes.len() <= INLINE_BYTES {
            inlined[..bytes.len()].copy_from_slice(bytes);
        }
        DeviceLaunch {
            image: 0,
            connections: 0,
            input: 0,
            output: 0,
            scratch: 0,
            scratch_bytes: 0,
            abort: 0,
            steps: 0,
            scalar: 0,
            divisor: 0,
            pre_scaled: 0,
            slice_slots,
            windows: image.windows(),
            bytes: bytes.len() as u32,
            reserved: [0; 9],
            inlined,
        }
    }

    /// Whether the image travels in the launch.
    pub fn is_inline(&self) -> bool {
        self.bytes as usize <= INLINE_BYTES
    }

    /// Returns the bytes that are handed to the driver.
    pub fn as_bytes(&self) -> &[u8] {
        // SAFETY: the fields fill the structure (92 bytes of numbers, 36 reserved, the image), so
        // no byte is unwritten.
        unsafe { std::slice::from_raw_parts((&raw const *self).cast(), LAUNCH_BYTES) }
    }
}
