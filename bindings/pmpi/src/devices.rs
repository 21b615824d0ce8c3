//! Whether the program may hand memory of a GPU to MPI, which kolo would read as the node's.

use crate::sys::kolo_pmpi_device_support;
use std::path::Path;

/// Files that a process opens which uses a GPU: NVIDIA's, AMD's.
const FILES: [&str; 2] = ["dev/nvidiactl", "dev/kfd"];

/// Whether this process can open a GPU, below the folder `root`, and its MPI takes the memory of
/// one, or does not say that it does not.
pub fn are_there(root: &Path) -> bool {
    let opens = |name: &&str| {
        std::fs::File::options()
            .read(true)
            .write(true)
            .open(root.join(name))
            .is_ok()
    };
    // SAFETY: MPI is initialised.
    FILES.iter().any(opens) && unsafe { kolo_pmpi_device_support() } != 0
}
