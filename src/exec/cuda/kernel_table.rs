//! All kernels of a device, each at the place of its number: a call finds its own without a name.

use super::names;
use crate::base::Result;
use crate::cuda::{DeviceKernels, Function};

/// Kernels by [`names::number`].
pub(super) struct KernelTable(Vec<Function>);

impl KernelTable {
    /// Of the kernels that a file has.
    ///
    /// # Errors
    /// One was not loaded.
    pub fn new(kernels: &DeviceKernels) -> Result<KernelTable> {
        let named = names::numbered().into_iter();
        let found = named.map(|name| kernels.get(&name).cloned());
        found.collect::<Result<_>>().map(KernelTable)
    }

    /// The kernel of a number below [`names::KERNELS`].
    pub fn get(&self, number: usize) -> &Function {
        &self.0[number]
    }
}
