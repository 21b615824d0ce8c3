//! Which provider of libfabric is used, and which of its devices.
//!
//! libfabric offers ways, the best first: provider, device, address. A provider that drives a
//! fabric of its own goes before those that do what kolo's other networks do as well; one that
//! stays on the node is taken by name only. All devices of one provider are used, each once.

use crate::libfabric::{Facts, Failure, Way};
use crate::settings::Settings;
use crate::tags;
use kolo::base::interfaces::Interface;
use kolo::base::{Code, Error, Result};
use std::ffi::CString;
use std::path::Path;

/// Providers for which kolo has a network of its own.
const ORDINARY: [&str; 6] = ["tcp", "net", "sockets", "udp", "usnic", "verbs"];

/// Providers that reach processes of the same node only.
const OF_THE_NODE: [&str; 2] = ["shm", "sm2"];

/// Parts of a provider's name that drive nothing by themselves.
const UTILITY: &str = "ofi_";

/// A device that may be used.
pub struct Device {
    /// How to open it.
    pub way: Way,
    /// Facts about it.
    pub facts: Facts,
    /// Its name for the table.
    pub name: CString,
    /// Its place below `/sys/devices`, for real hardware.
    pub pci_path: Option<CString>,
}

/// The part of a provider's name that drives something: `tcp` of `tcp;ofi_rxm`.
pub fn core(provider: &str) -> Option<&str> {
    provider
        .split(';')
        .find(|part| !part.is_empty() && !part.starts_with(UTILITY))
}

/// All devices of the provider that is taken.
///
/// # Errors
/// `SystemError` with the reasons when there is none.
pub fn find(settings: &Settings, interfaces: &[Interface]) -> Result<Vec<Device>> {
    let ways = Way::all(settings.provider.as_deref());
    let ways = ways.map_err(|failure| nothing(&unknown(settings, &failure)))?;
    let facts: Vec<Facts> = ways.iter().map(Way::facts).collect();
    let chosen = choose(&facts, settings, interfaces).map_err(|why| nothing(&why))?;
    let mut devices: Vec<Device> = ways
        .into_iter()
        .zip(facts)
        .enumerate()
        .filter(|(index, _)| chosen.contains(index))
        .map(|(_, (way, facts))| Device {
            name: kolo_plugin::report::plain(&facts.domain),
            pci_path: place(&facts),
            way,
            facts,
        })
        .collect();
    // The system's order changes from node to node; `cxi2` stands before `cxi10`.
    devices.sort_by_key(|device| (device.facts.domain.len(), device.facts.domain.clone()));
    Ok(devices)
}

fn unknown(settings: &Settings, failure: &Failure) -> String {
    match &settings.provider {
        Some(name) => format!(
            "its provider {name} offers no reliable datagrams with tags on this node ({})",
            failure.text
        ),
        None => format!(
            "it offers no reliable datagrams with tags on this node ({})",
            failure.text
        ),
    }
}

fn nothing(why: &str) -> Error {
    Error::new(
        Code::SystemError,
        format!("libfabric has no device to use: {why}"),
        "`fi_info` lists what libfabric offers; KOLO_OFI_PROVIDER names a provider, and \
         docs/net-ofi.md says what each needs",
    )
}

/// Places of the ways to use; the error says why there is none.
fn choose(
    all: &[Facts],
    settings: &Settings,
    interfaces: &[Interface],
) -> std::result::Result<Vec<usize>, String> {
    let mut refused = Vec::new();
    let mut rank_of = |facts: &Facts| match refusal(facts, interfaces) {
        Some(why) => {
            refused.push(why);
            None
        }
        None => class(facts, settings),
    };
    let ranks: Vec<Option<u32>> = all.iter().map(&mut rank_of).collect();
    let Some(best) = ranks.iter().flatten().min() else {
        return Err(none(refused));
    };
    let first = ranks.iter().position(|rank| rank.as_ref() == Some(best));
    let provider = first.map_or("", |first| &all[first].provider);
    let mut taken: Vec<usize> = Vec::new();
    for (index, facts) in all.iter().enumerate() {
        let known = taken.iter().any(|&one| all[one].domain == facts.domain);
        if ranks[index].is_some() && facts.provider == provider && !known {
            taken.push(index);
        }
    }
    Ok(taken)
}

/// How good a way is, 0 the best; `None`: it is not to be used.
fn class(facts: &Facts, settings: &Settings) -> Option<u32> {
    let core = core(&facts.provider)?;
    if settings.provider.is_some() {
        return Some(0);
    }
    if OF_THE_NODE.contains(&core) {
        return None;
    }
    Some(u32::from(ORDINARY.contains(&core)))
}

/// Why a way cannot be used, whatever was asked for.
fn refusal(facts: &Facts, interfaces: &[Interface]) -> Option<String> {
    let Facts {
        provider, domain, ..
    } = facts;
    let bits = u64::BITS - facts.tag_format.leading_zeros();
    if bits < tags::BITS {
        return Some(format!("{provider} compares {bits} bits of a tag only"));
    }
    if !facts.is_internet {
        return None;
    }
    let known = |face: &&Interface| face.name == *domain && Some(face.address) == facts.address;
    match interfaces.iter().find(known) {
        Some(_) => None,
        None => Some(format!(
            "{provider} on {domain} has no address of a chosen interface"
        )),
    }
}

fn none(mut refused: Vec<String>) -> String {
    refused.dedup();
    if refused.is_empty() {
        return "it offers nothing between nodes".into();
    }
    refused.join(", ")
}

/// Where the device is on the PCI bus; virtual ones are nowhere.
fn place(facts: &Facts) -> Option<CString> {
    let path = match &facts.pci {
        Some(pci) => Path::new("/sys/bus/pci/devices").join(pci),
        None => Path::new("/sys/class/net")
            .join(&facts.domain)
            .join("device"),
    };
    let real = std::fs::canonicalize(path).ok()?;
    CString::new(real.to_str()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kolo::base::interfaces::Family;

    fn way(provider: &str, domain: &str, address: Option<&str>) -> Facts {
        Facts {
            provider: provider.into(),
            domain: domain.into(),
            address: address.map(|text| text.parse().unwrap()),
            is_internet: address.is_some(),
            tag_format: u64::MAX >> 1,
            ..Facts::default()
        }
    }

    fn settings(provider: Option<&str>) -> Settings {
        Settings {
            provider: provider.map(str::to_owned),
            ifname: None,
            family: Family::Any,
            link_timeout: None,
        }
    }

    fn names(all: &[Facts], settings: &Settings) -> std::result::Result<Vec<String>, String> {
        let text = |index: usize| format!("{} {}", all[index].provider, all[index].domain);
        Ok(choose(all, settings, &[])?.into_iter().map(text).collect())
    }

    #[test]
    fn the_part_that_drives_something_is_told_from_utilities() {
        assert_eq!(core("tcp;ofi_rxm"), Some("tcp"));
        assert_eq!(core("cxi"), Some("cxi"));
        assert_eq!(core("ofi_rxd"), None);
        assert_eq!(core(""), None);
    }

    #[test]
    fn a_fabric_goes_before_what_others_do_as_well() {
        let all = [
            way("verbs;ofi_rxm", "mlx5_0", None),
            way("cxi", "cxi0", None),
            way("cxi", "cxi1", None),
            way("cxi", "cxi0", None),
            way("shm", "shm", None),
        ];
        let taken = names(&all, &settings(None)).unwrap();
        assert_eq!(taken, ["cxi cxi0", "cxi cxi1"]);
        let ordinary = [all[0].clone(), all[4].clone()];
        let taken = names(&ordinary, &settings(None)).unwrap();
        assert_eq!(taken, ["verbs;ofi_rxm mlx5_0"]);
        let why = names(&all[4..], &settings(None)).unwrap_err();
        assert!(why.contains("nothing between nodes"), "{why}");
        let named = names(&all[4..], &settings(Some("shm"))).unwrap();
        assert_eq!(named, ["shm shm"]);
    }

    #[test]
    fn what_cannot_be_used_says_why() {
        let mut short = way("old", "old0", None);
        short.tag_format = u64::MAX >> 32;
        let all = [short, way("tcp;ofi_rxm", "eth7", Some("10.9.9.9"))];
        let why = names(&all, &settings(None)).unwrap_err();
        assert!(why.contains("old compares 32 bits"), "{why}");
        assert!(why.contains("tcp;ofi_rxm on eth7 has no address"), "{why}");
        let error = nothing(&why);
        assert!(error.remedy.contains("KOLO_OFI_PROVIDER"), "{error}");
    }
}
