//! Devices: which there are, what they are called, what they can do.

use crate::abi::Uuid;
use crate::error::{Answer, Code};
use crate::places::Place;
use crate::settings::Settings;

/// One device that this process sees.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its number on the machine, whatever `CUDA_VISIBLE_DEVICES` says.
    pub number: u32,
    pub uuid: Uuid,
    pub place: Place,
    pub default_pool: u64,
    /// Pool that `cuDeviceSetMemPool` chose.
    pub pool: u64,
}

pub const NAME: &str = "kolo software GPU";
/// Most threads of a block, as the kernels are compiled.
pub const MOST_THREADS: u32 = 640;
/// The machine's shared memory.
pub const SHARED_BYTES: i32 = 48 * 1024;

impl Device {
    fn new(number: u32, places: &[Place]) -> Device {
        let place = places.get(number as usize).cloned();
        Device {
            number,
            uuid: uuid(number),
            place: place.unwrap_or_else(|| Place::without_file(number)),
            default_pool: 0,
            pool: 0,
        }
    }

    pub fn bus_id(&self) -> String {
        self.place.bus_id()
    }
}

/// Different for each device, and for each time that a host has started.
fn uuid(number: u32) -> Uuid {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut bytes = [0; 16];
    for (half, to) in bytes.chunks_mut(8).enumerate() {
        // FNV-1a over the boot's number, the device's and the half's.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let last = [number as u8, half as u8];
        for byte in boot.trim().bytes().chain(last) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
        to.copy_from_slice(&hash.to_le_bytes());
    }
    Uuid(bytes)
}

/// As `nvidia-smi` prints it.
pub fn uuid_text(uuid: &Uuid) -> String {
    let hex: String = uuid.0.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [
        &hex[..8],
        &hex[8..12],
        &hex[12..16],
        &hex[16..20],
        &hex[20..],
    ];
    format!("GPU-{}", parts.join("-"))
}

/// The devices that this process sees, in its order.
pub fn visible(settings: &Settings) -> Vec<Device> {
    let all: Vec<Device> = (0..settings.devices)
        .map(|number| Device::new(number, &settings.places))
        .collect();
    let Some(list) = &settings.visible else {
        return all;
    };
    let mut seen: Vec<Device> = Vec::new();
    for name in list.split(',').map(str::trim) {
        let found = match name.strip_prefix("GPU-") {
            Some(_) => {
                let mut named = all
                    .iter()
                    .filter(|one| uuid_text(&one.uuid).starts_with(name));
                // The beginning is enough where it means one device only.
                named.next().filter(|_| named.next().is_none())
            }
            None => name.parse().ok().and_then(|number: usize| all.get(number)),
        };
        match found {
            // What follows a name that means nothing is not seen either.
            None => break,
            Some(twice) if seen.iter().any(|one| one.number == twice.number) => return Vec::new(),
            Some(found) => seen.push(found.clone()),
        }
    }
    seen
}

/// The device with a bus id: "0000:10:00.0", or without the domain.
pub fn by_bus_id(devices: &[Device], text: &str) -> Answer<usize> {
    let text = text.to_ascii_lowercase();
    let is_it = |device: &Device| {
        let id = device.bus_id();
        id == text || id.strip_prefix("0000:") == Some(&text) || format!("0000{id}") == text
    };
    devices.iter().position(is_it).ok_or(Code::INVALID_DEVICE)
}

/// `CU_DEVICE_ATTRIBUTE_*`; what is not listed is 0.
pub fn attribute(device: &Device, settings: &Settings, attribute: i32) -> i32 {
    let since = |version: i32, value: i32| if settings.driver >= version { value } else { 0 };
    match attribute {
        // Threads of a block, in all and by x, y, z.
        1 | 2 => MOST_THREADS as i32,
        3 | 4 => 1,
        // Blocks of a grid.
        5 => i32::MAX,
        6 | 7 => 1,
        // Shared memory of a block, and what it may ask for.
        8 | 81 | 97 => SHARED_BYTES,
        // The warp.
        10 => 32,
        // Registers.
        12 | 82 => 65_536,
        // kHz of the clock and of the memory, width of its bus: numbers that mean nothing here.
        13 | 36 => 1_000_000,
        37 => 64,
        // Multiprocessors: each has one block.
        16 => settings.blocks as i32,
        106 => 1,
        39 => MOST_THREADS as i32,
        // Copies beside kernels; kernels beside each other.
        15 | 31 => 1,
        40 => 1,
        // Memory of the host: mapped, registered, by its own address; read-only.
        19 | 91 | 99 => 1,
        113 => since(11_010, 1),
        33 => device.place.bus,
        34 => device.place.slot,
        50 => device.place.domain,
        38 => 1 << 20,
        41 => 1,
        // The compute capability.
        75 => 9,
        76 => 0,
        // Priorities of streams, managed memory, pre-emption.
        78 | 83 | 90 => 1,
        95 => 1,
        // Virtual memory, its handles as descriptors, pools and theirs.
        102 => since(10_020, 1),
        103 => since(10_020, 1),
        115 => since(11_020, 1),
        // The NUMA node that is near.
        134 if settings.driver >= 12_020 => device.place.numa,
        134 => -1,
        _ => 0,
    }
}
