//! Where kolo's own threads of a rank run.

use super::meet::machine;
use super::net::{Network, Party};
use crate::base::Result;
use crate::config;
use crate::topo::{self, PinSetting, Pinning, RankPlace};

/// The decision for a rank among the `local` ones, near the network devices that it uses.
///
/// # Errors
/// Those of the machine.
pub(super) fn decide(
    party: &Party,
    local: &[&RankPlace],
    network: Option<&Network>,
) -> Result<Pinning> {
    let setting = match party.settings.affinity() {
        config::Affinity::None => PinSetting::Off,
        config::Affinity::Auto => PinSetting::Auto,
        config::Affinity::Compact => PinSetting::Compact,
    };
    let machine = machine(party.settings)?;
    let me = &party.places[party.bootstrap.rank().index()];
    let channels = party.node.layout().channels;
    let rails = network.map_or(&[][..], |network| network.rails(channels));
    let paths = rails.iter().filter_map(|rail| rail.pci_path.as_deref());
    let paths: Vec<&str> = paths.collect();
    let device = topo::near_devices(machine, me, &paths, &|path| machine.told_near(path));
    let device = device.as_ref();
    Ok(Pinning::decide(machine, me, local, device, &setting))
}
