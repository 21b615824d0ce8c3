//! Which devices a process sees, without using them: nothing is allocated on any of them.

use super::driver::Driver;
use crate::base::Result;
use cudarc::driver::sys::{CUdevice, CUdevice_attribute as Attribute, CUuuid};
use std::ffi::{CStr, c_char, c_int};

/// Facts about a device that its driver tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedDevice {
    /// Among those that this process sees.
    pub number: u32,
    /// The name of its model.
    pub name: String,
    /// Its UUID, the same in every process.
    pub uuid: [u8; 16],
    /// Where it is plugged in: `0000:3b:00.0`.
    pub pci: String,
    /// Its architecture, 90 for 9.0.
    pub architecture: u32,
    /// The NUMA node near it, where the driver knows.
    pub numa: Option<u32>,
    /// For every device, in their order, whether kernels of this one use its memory.
    pub reaches: Vec<bool>,
}

impl ListedDevice {
    /// `GPU-5c1b0e8f-...`, as `nvidia-smi -L` writes it.
    pub fn uuid_text(&self) -> String {
        let hex = self.uuid.map(|byte| format!("{byte:02x}")).concat();
        let parts = [
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..],
        ];
        format!("GPU-{}", parts.join("-"))
    }
}

/// All devices that this process sees, in the order of their numbers.
///
/// # Errors
/// The driver's.
pub fn list(driver: &Driver) -> Result<Vec<ListedDevice>> {
    let functions = driver.functions();
    let handle = |number: u32| {
        let mut device = 0;
        // SAFETY: the driver writes one number.
        let code = unsafe { (functions.device)(&raw mut device, number as c_int) };
        let of = || format!(" of device {number}");
        driver.check(code, "cuDeviceGet", of).map(|()| device)
    };
    let devices: Vec<CUdevice> = (0..driver.devices()?).map(handle).collect::<Result<_>>()?;
    let listed = devices.iter().zip(0..);
    listed
        .map(|(&device, number)| {
            let major = property(
                driver,
                Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            );
            let minor = property(
                driver,
                Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            );
            let reaches = devices
                .iter()
                .map(|&other| can_reach(driver, device, other));
            Ok(ListedDevice {
                number,
                name: name_of(driver, device)?,
                uuid: uuid_of(driver, device)?,
                pci: pci_of(driver, device)?,
                architecture: (10 * major(device)? + minor(device)?).max(0) as u32,
                numa: numa_of(driver, device),
                reaches: reaches.collect::<Result<_>>()?,
            })
        })
        .collect()
}

/// The name of the device's model.
pub(super) fn name_of(driver: &Driver, device: CUdevice) -> Result<String> {
    text(
        driver,
        driver.functions().device_name,
        "cuDeviceGetName",
        device,
    )
}

/// Where the device is plugged in, in small letters.
pub(super) fn pci_of(driver: &Driver, device: CUdevice) -> Result<String> {
    let text = text(
        driver,
        driver.functions().device_pci,
        "cuDeviceGetPCIBusId",
        device,
    )?;
    Ok(text.to_ascii_lowercase())
}

/// Returns the device's UUID, which is the same for everybody.
pub(super) fn uuid_of(driver: &Driver, device: CUdevice) -> Result<[u8; 16]> {
    let mut uuid = CUuuid { bytes: [0; 16] };
    // SAFETY: the driver writes the 16 bytes.
    let code = unsafe { (driver.functions().device_uuid)(&raw mut uuid, device) };
    let of = || format!(" of device {device}");
    driver.check(code, "cuDeviceGetUuid", of)?;
    Ok(uuid.bytes.map(|byte| byte as u8))
}

fn text(
    driver: &Driver,
    function: unsafe extern "C" fn(*mut c_char, c_int, CUdevice) -> c_int,
    call: &str,
    device: CUdevice,
) -> Result<String> {
    let mut bytes = [0u8; 256];
    // SAFETY: the driver writes a text of at most that many bytes, its end included.
    let code = unsafe { function(bytes.as_mut_ptr().cast(), 256, device) };
    driver.check(code, call, || format!(" of device {device}"))?;
    let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
    Ok(text.to_string_lossy().into_owned())
}

/// Asks devices for a property.
fn property(driver: &Driver, attribute: Attribute) -> impl Fn(CUdevice) -> Result<i32> {
    move |device| {
        let mut value = 0;
        let function = driver.functions().device_attribute;
        // SAFETY: the driver writes one number.
        let code = unsafe { function(&raw mut value, attribute, device) };
        let of = || format!(" of {attribute:?} of device {device}");
        driver.check(code, "cuDeviceGetAttribute", of)?;
        Ok(value)
    }
}

/// Drivers before CUDA 12.2 do not know the property; others say -1 where there is no answer.
fn numa_of(driver: &Driver, device: CUdevice) -> Option<u32> {
    let node = property(driver, Attribute::CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID)(device);
    node.ok().and_then(|node| u32::try_from(node).ok())
}

fn can_reach(driver: &Driver, device: CUdevice, other: CUdevice) -> Result<bool> {
    if device == other {
        return Ok(true);
    }
    let mut can = 0;
    // SAFETY: the driver writes one number.
    let code = unsafe { (driver.functions().can_access_peer)(&raw mut can, device, other) };
    let of = || format!(" of devices {device} and {other}");
    driver.check(code, "cuDeviceCanAccessPeer", of)?;
    Ok(can != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_as_tools_write_it() {
        let mut uuid = [0; 16];
        for (at, byte) in uuid.iter_mut().enumerate() {
            *byte = 16 * (at as u8) + 1;
        }
        let device = ListedDevice {
            number: 0,
            name: String::new(),
            uuid,
            pci: String::new(),
            architecture: 90,
            numa: None,
            reaches: vec![true],
        };
        assert_eq!(
            device.uuid_text(),
            "GPU-01112131-4151-6171-8191-a1b1c1d1e1f1"
        );
    }
}
