//! Devices and their ports: which there are, and which may be used.
//!
//! Every port of every device is asked. Kept is what is active, is InfiniBand or RoCE and passes
//! the filter. A device that cannot be opened or asked is a warning, and the others go on; one
//! without a usable port is closed again.
//!
//! The crate `ibverbs` reads names from the list of devices and entries of the tables of addresses
//! ([`crate::verbs`]). The list, opening and asking stay with `ibverbs-sys`, for the crate's `open`
//! refuses a device whose first port is not active, though another one may be; what it opens has no
//! way to the raw context, which every further call needs; it asks no port but the first, and tells
//! neither the transport nor what the device can do. Both crates link to the same libibverbs.

use crate::events::Watcher;
use crate::filter;
use crate::health::Health;
use crate::settings::Settings;
use crate::verbs::{self, Context, Domain, RegisterDmabuf};
use ibverbs_sys as ib;
use kolo_plugin::memory::Cache;
use kolo_plugin::report;
use std::ffi::CString;
use std::path::Path;
use std::sync::Arc;

/// Most reads of a queue pair at once: enough for a long line, and few adapters bear more.
const MOST_READS: u32 = 16;

/// An opened device.
pub struct Device {
    /// Its name, such as `mlx5_0`.
    pub name: String,
    /// Number of the whole adapter; functions of one card share it.
    pub guid: u64,
    /// Its place below `/sys/devices`, for real hardware.
    pub pci_path: Option<CString>,
    /// Most queue pairs.
    pub max_queues: u32,
    /// Most work of a queue.
    pub max_work: u32,
    /// Most entries of a completion queue.
    pub max_completions: u32,
    /// Reads that a queue pair may have under way, at most [`MOST_READS`].
    pub reads: u8,
    /// Reads of peers that a queue pair may be answering, at most [`MOST_READS`].
    pub answers: u8,
    /// Registers dmabuf memory, where library and device can.
    pub dmabuf: Option<RegisterDmabuf>,
    /// Registered memory of all connections.
    pub cache: Arc<Cache<verbs::Region>>,
    /// State of the device, as its events have told.
    pub health: Arc<Health>,
    /// The thread that hears of it; stopped before the device is closed.
    pub watcher: Watcher,
    /// Protection domain of all connections.
    pub domain: Arc<Domain>,
}

/// A port that may be used.
pub struct Port {
    pub device: Arc<Device>,
    /// From 1.
    pub number: u8,
    /// RoCE, or else InfiniBand.
    pub ethernet: bool,
    /// Mbit/s.
    pub speed: u32,
    /// Entries of its table of addresses.
    pub gid_count: u32,
    /// Its local number on InfiniBand.
    pub lid: u16,
    /// Largest packet, in libibverbs' code.
    pub mtu: u32,
    /// Largest piece of a message in bytes.
    pub piece: usize,
    /// The device's name for the table.
    pub name: CString,
}

impl Port {
    /// For people: `mlx5_0 port 1`.
    pub fn text(&self) -> String {
        format!("{} port {}", self.device.name, self.number)
    }
}

/// Result of the search for devices: the ports to use, and why others are not used.
pub struct Found {
    pub ports: Vec<Port>,
    pub refused: Vec<String>,
}

/// Opens every device that has a usable port.
pub fn find(settings: &Settings) -> Found {
    let mut found = Found {
        ports: Vec::new(),
        refused: Vec::new(),
    };
    let mut count = 0;
    // SAFETY: `count` is a place for the number.
    let list = unsafe { ib::ibv_get_device_list(&raw mut count) };
    if list.is_null() {
        let error = std::io::Error::last_os_error();
        found
            .refused
            .push(format!("the list of RDMA devices cannot be read: {error}"));
        return found;
    }
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the list has `count` entries and is freed below.
        unsafe { look(*list.add(index), settings, &mut found) };
    }
    // SAFETY: the list is of `ibv_get_device_list`; opened devices do not need it.
    unsafe { ib::ibv_free_device_list(list) };
    // The system's order changes from node to node; `mlx5_2` stands before `mlx5_10`.
    let place = |port: &Port| {
        let name = port.device.name.clone();
        (name.len(), name, port.number)
    };
    found.ports.sort_by_key(place);
    found
}

/// # Safety
/// `device` is of a list that has not been freed.
unsafe fn look(device: *mut ib::ibv_device, settings: &Settings, found: &mut Found) {
    let name = ibverbs::Device::from(&device).name();
    let name = name.map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    // SAFETY: the caller's promise.
    let transport = unsafe { (*device).transport_type };
    let list = settings.hca.as_deref().unwrap_or("");
    if !(1..=255).any(|port| filter::selects(list, &name, port)) {
        found.refused.push(format!("{name} is not in KOLO_IB_HCA"));
        return;
    }
    if transport != ib::IBV_TRANSPORT_IB {
        found
            .refused
            .push(format!("{name} is neither InfiniBand nor RoCE"));
        return;
    }
    // SAFETY: the caller's promise.
    let opened = unsafe { Context::open(device) };
    let asked = opened.and_then(|context| Ok((context.attributes()?, context)));
    match asked {
        Ok((attributes, context)) => keep(name, context, &attributes, settings, found),
        Err(error) => bad(found, format!("{name} cannot be used: {error}")),
    }
}

/// Says at once that a device is bad, and remembers it.
fn bad(found: &mut Found, what: String) {
    report::warn(&format!(
        "NET/verbs: {what}; other devices are not affected"
    ));
    found.refused.push(what);
}

fn keep(
    name: String,
    context: Context,
    attributes: &ib::ibv_device_attr,
    settings: &Settings,
    found: &mut Found,
) {
    let list = settings.hca.as_deref().unwrap_or("");
    let mut usable = Vec::new();
    for number in 1..=attributes.phys_port_cnt {
        if !filter::selects(list, &name, number.into()) {
            found
                .refused
                .push(format!("{name} port {number} is not in KOLO_IB_HCA"));
            continue;
        }
        match context.port(number) {
            Err(error) => bad(
                found,
                format!("{name} port {number} cannot be asked: {error}"),
            ),
            Ok(port) => match refusal(&port) {
                Some(why) => found.refused.push(format!("{name} port {number} is {why}")),
                None => usable.push((number, port)),
            },
        }
    }
    if usable.is_empty() {
        return;
    }
    let device = match open(name.clone(), context, attributes) {
        Ok(device) => Arc::new(device),
        Err(error) => return bad(found, format!("{name} cannot be used: {error}")),
    };
    for (number, port) in usable {
        found.ports.push(Port {
            device: device.clone(),
            number,
            ethernet: u32::from(port.link_layer) == ib::IBV_LINK_LAYER_ETHERNET,
            speed: speed(&device.name, number, port.active_speed, port.active_width),
            gid_count: u32::try_from(port.gid_tbl_len).unwrap_or(0),
            lid: port.lid,
            mtu: port.active_mtu,
            piece: (port.max_msg_sz as usize).clamp(4096, 1 << 30) & !4095,
            name: report::plain(&device.name),
        });
    }
}

/// Why a port is not used.
fn refusal(port: &ib::ibv_port_attr) -> Option<&'static str> {
    let link = u32::from(port.link_layer);
    if port.state != ib::ibv_port_state::IBV_PORT_ACTIVE {
        Some("not active")
    } else if link != ib::IBV_LINK_LAYER_INFINIBAND && link != ib::IBV_LINK_LAYER_ETHERNET {
        Some("neither InfiniBand nor Ethernet")
    } else {
        None
    }
}

fn open(
    name: String,
    context: Context,
    attributes: &ib::ibv_device_attr,
) -> std::io::Result<Device> {
    let context = Arc::new(context);
    let domain = Arc::new(Domain::new(&context)?);
    let health = Arc::new(Health::new(attributes.phys_port_cnt));
    let watcher = Watcher::start(&name, &context, &health)?;
    let number = |value: i32| u32::try_from(value).unwrap_or(0);
    Ok(Device {
        guid: u64::from_be(attributes.sys_image_guid),
        pci_path: pci_path(Path::new("/sys/class/infiniband"), &name),
        max_queues: number(attributes.max_qp),
        max_work: number(attributes.max_qp_wr).max(16),
        reads: number(attributes.max_qp_init_rd_atom).min(MOST_READS) as u8,
        answers: number(attributes.max_qp_rd_atom).min(MOST_READS) as u8,
        max_completions: number(attributes.max_cqe).max(64),
        dmabuf: verbs::register_dmabuf().filter(|register| takes_dmabuf(&domain, *register)),
        cache: Arc::default(),
        health,
        watcher,
        domain,
        name,
    })
}

/// Whether the device knows dmabuf memory: it then complains of a bad descriptor, and not of the
/// call.
fn takes_dmabuf(domain: &Arc<Domain>, register: RegisterDmabuf) -> bool {
    match verbs::Region::of_dmabuf(domain, register, (0, 4096, 0, -1)) {
        Ok(_) => true,
        Err(error) => error.raw_os_error() == Some(libc::EBADF),
    }
}

/// Where the adapter is on the PCI bus; virtual ones are nowhere.
fn pci_path(class: &Path, name: &str) -> Option<CString> {
    let real = std::fs::canonicalize(class.join(name).join("device")).ok()?;
    CString::new(real.to_str()?).ok()
}

/// Mbit/s from libibverbs' codes, or as the system says where they are newer than this table.
fn speed(name: &str, port: u8, speed: u8, width: u8) -> u32 {
    let lane = match speed {
        1 => 2_500,
        2 => 5_000,
        4 | 8 => 10_000,
        16 => 14_000,
        32 => 25_000,
        64 => 50_000,
        128 => 100_000,
        _ => 0,
    };
    let lanes = match width {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 0,
    };
    if lane * lanes != 0 {
        return lane * lanes;
    }
    let path = format!("/sys/class/infiniband/{name}/ports/{port}/rate");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    rate(&text).unwrap_or(10_000)
}

/// The speed in a text such as `800 Gb/sec (4X XDR)`.
fn rate(text: &str) -> Option<u32> {
    let (number, unit) = text.trim().split_once(' ')?;
    let number: f64 = number.parse().ok()?;
    unit.starts_with("Gb/sec")
        .then_some((number * 1000.0) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds() {
        assert_eq!(speed("none", 1, 32, 2), 100_000);
        assert_eq!(speed("none", 1, 128, 2), 400_000);
        assert_eq!(speed("none", 1, 1, 1), 2_500);
        assert_eq!(speed("no such device", 1, 0, 2), 10_000);
        assert_eq!(rate("800 Gb/sec (4X XDR)\n"), Some(800_000));
        assert_eq!(rate("2.5 Gb/sec (1X SDR)"), Some(2_500));
        assert_eq!(rate("fast"), None);
    }

    #[test]
    fn ports_that_are_not_used_say_why() {
        let mut port = ib::ibv_port_attr {
            state: ib::ibv_port_state::IBV_PORT_ACTIVE,
            link_layer: ib::IBV_LINK_LAYER_ETHERNET as u8,
            ..Default::default()
        };
        assert_eq!(refusal(&port), None);
        port.link_layer = ib::IBV_LINK_LAYER_INFINIBAND as u8;
        assert_eq!(refusal(&port), None);
        port.link_layer = 0;
        assert!(refusal(&port).unwrap().contains("neither"));
        port.state = ib::ibv_port_state::IBV_PORT_DOWN;
        assert_eq!(refusal(&port), Some("not active"));
    }

    #[test]
    fn places_on_the_bus_are_real_paths() {
        let class = std::env::temp_dir().join(format!("kolo-verbs-{}", std::process::id()));
        let real = class.join("pci0000:00/0000:00:02.0");
        std::fs::create_dir_all(&real).unwrap();
        std::fs::create_dir_all(class.join("mlx5_0")).unwrap();
        std::os::unix::fs::symlink(&real, class.join("mlx5_0/device")).unwrap();
        let path = pci_path(&class, "mlx5_0").unwrap();
        assert!(path.to_str().unwrap().ends_with("pci0000:00/0000:00:02.0"));
        assert_eq!(pci_path(&class, "rxe0"), None);
        std::fs::remove_dir_all(&class).unwrap();
    }
}
