//! The interfaces of this machine, as the system tells them.

use super::face::{Interface, Signs};
use crate::base::{Error, Result, hash};
use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// The most entries of the system's list that are read (an interface has one per address).
const MAX_SYSTEM_ENTRIES: usize = 65_536;

/// Where the system tells what an interface is. It may be missing in a container.
const CLASS_NET: &str = "/sys/class/net";

/// A flag that the C library does not name here: the link has a signal.
const IFF_LOWER_UP: libc::c_int = 1 << 16;

/// The hardware type of InfiniBand.
const ARPHRD_INFINIBAND: &str = "32";

/// Facts that the folder of an interface tells.
fn signs(folder: &Path) -> Signs {
    let is_there = |name: &str| folder.join(name).exists();
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    Signs {
        signal: true,
        is_fast: text("type").trim() == ARPHRD_INFINIBAND,
        is_made: !is_there("device")
            && (is_there("tun_flags") || is_there("bridge") && !has_card(&folder.join("brif"))),
    }
}

/// Whether a card of this machine is a port of the bridge with this folder of ports: then the
/// bridge is the way to the network of that card.
fn has_card(ports: &Path) -> bool {
    let entries = std::fs::read_dir(ports).into_iter().flatten().flatten();
    entries
        .into_iter()
        .any(|port| port.path().join("device").exists())
}

/// Stands for this start of the machine, so that ends of one machine know each other; 0: not known.
pub fn machine() -> u64 {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    match id.trim() {
        "" => 0,
        // 32 bits travel in handles.
        id => (hash::fnv1a(id.as_bytes()) & u64::from(u32::MAX)).max(1),
    }
}

/// All interfaces that are up and have an IPv4 or IPv6 address, in the system's order.
pub fn discover() -> Result<Vec<Interface>> {
    let mut head = std::ptr::null_mut();
    // SAFETY: `head` is a valid place for the pointer that the call writes.
    if unsafe { libc::getifaddrs(&mut head) } != 0 {
        return Err(Error::system(
            "cannot list the network interfaces",
            &std::io::Error::last_os_error(),
            "check that the process may open a netlink socket",
        ));
    }
    let mut found = Vec::new();
    let mut entry = head;
    for _ in 0..MAX_SYSTEM_ENTRIES {
        // SAFETY: `entry` is null or a node of the list that getifaddrs made and nobody freed.
        let Some(node) = (unsafe { entry.as_ref() }) else {
            break;
        };
        let up = node.ifa_flags & libc::IFF_UP as u32 != 0;
        // SAFETY: the addresses of a node are null or point to a sockaddr of their family.
        let (address, netmask) = unsafe { (ip(node.ifa_addr), ip(node.ifa_netmask)) };
        if let (true, Some((address, scope))) = (up, address) {
            // SAFETY: the name of a node is a string that ends with a zero byte.
            let name = unsafe { CStr::from_ptr(node.ifa_name) };
            let name = name.to_string_lossy().into_owned();
            let running = (libc::IFF_RUNNING | IFF_LOWER_UP) as u32;
            let before = found.iter().rfind(|one: &&Interface| one.name == name);
            let known = before.map(|one| one.signs);
            found.push(Interface {
                signs: known.unwrap_or_else(|| Signs {
                    signal: node.ifa_flags & running != 0,
                    ..signs(&Path::new(CLASS_NET).join(&name))
                }),
                name,
                address,
                scope,
                netmask: netmask.map(|(mask, _)| mask),
            });
        }
        entry = node.ifa_next;
    }
    // SAFETY: `head` came from getifaddrs and no reference into the list is left.
    unsafe { libc::freeifaddrs(head) };
    Ok(found)
}

/// The address and zone in a system address structure.
///
/// # Safety
/// `address` is null or points to a socket address that is complete for its family.
unsafe fn ip(address: *const libc::sockaddr) -> Option<(IpAddr, u32)> {
    // SAFETY: the caller says that it is null or valid.
    let family = i32::from(unsafe { address.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: the family says that it is an IPv4 address; reads need no alignment.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let octets = v4.sin_addr.s_addr.to_ne_bytes();
            Some((Ipv4Addr::from(octets).into(), 0))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that it is an IPv6 address; reads need no alignment.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let octets = v6.sin6_addr.s6_addr;
            Some((Ipv6Addr::from(octets).into(), v6.sin6_scope_id))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_an_interface_tells_what_it_is() {
        let folder = std::env::temp_dir().join(format!("kolo-signs-{}", std::process::id()));
        let make = |path: &str| std::fs::create_dir_all(folder.join(path)).unwrap();
        make("eth0/device");
        make("tun0/tun_flags");
        make("br0/bridge");
        make("br0/brif/eth0/device");
        make("docker0/bridge");
        make("docker0/brif/veth1");
        make("ib7");
        std::fs::write(folder.join("ib7/type"), "32\n").unwrap();
        let of = |name: &str| {
            let signs = signs(&folder.join(name));
            (signs.is_made, signs.is_fast)
        };
        let told = ["eth0", "tun0", "br0", "docker0", "ib7", "missing"].map(of);
        std::fs::remove_dir_all(&folder).unwrap();
        let plain = (false, false);
        let (made, fast) = ((true, false), (false, true));
        assert_eq!(told, [plain, made, plain, made, fast, plain]);
    }
}
