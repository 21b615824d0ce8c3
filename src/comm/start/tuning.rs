//! The inputs of the tuner, equal on all ranks: what rank 0 read and saw, and the settings that all
//! ranks have compared.

use super::{device, layout};
use crate::base::{Error, Result, input_file};
use crate::config::{ChoiceList, Net, Settings};
use crate::plan::{Algorithm, Geometry};
use crate::price::{self, Costs};
use crate::topo::{self, Crowding, RankPlace};
use crate::tune::{Allowed, Inputs, Measured, ProtocolChoice, Rule, Setting, measured};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Facts for the tuner that rank 0 tells the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::comm) struct Facts {
    oversubscribed: bool,
    cores: u32,
    /// The text of the file of measured times and its name, or why there is none.
    file: Option<std::result::Result<(String, String), String>>,
}

fn read(path: &Path) -> std::result::Result<(String, String), String> {
    let name = path.display().to_string();
    match input_file::text(path, measured::MOST_BYTES as u64) {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(format!("{name} cannot be read: {error}")),
    }
}

/// Collects the facts that this rank sees. All ranks use those of rank 0.
pub(in crate::comm) fn seen(settings: &Settings, crowding: Crowding) -> Facts {
    Facts {
        oversubscribed: crowding.oversubscribed,
        cores: crowding.cores,
        file: settings.tuner_file().map(read),
    }
}

/// The inputs that follow from what rank 0 said.
///
/// # Errors
/// On every rank, where rank 0 cannot read its file of measured times or `algo` leaves nothing for
/// a collective that it names.
pub(in crate::comm) fn heard(
    facts: &Facts,
    settings: &Settings,
    places: &[RankPlace],
) -> Result<Inputs> {
    let measured = match &facts.file {
        None => Measured::default(),
        Some(Ok((name, text))) => Measured::from_toml(text, name)?,
        Some(Err(fault)) => return Err(unusable(fault)),
    };
    let nodes = topo::nodes(places);
    let count = nodes.ranks.len() as u32;
    let per_node = nodes.ranks.iter().map(Vec::len).max().unwrap_or(1) as u32;
    let machine = price::Cluster {
        cores: if facts.oversubscribed { facts.cores } else { 0 },
        ..price::Cluster::uniform(count, per_node)
    };
    Ok(Inputs {
        nranks: places.len() as u32,
        oversubscribed: facts.oversubscribed,
        ..for_machine(settings, &machine, &measured)?
    })
}

/// Between nodes sockets carry the data, as all ranks have found.
pub(in crate::comm) fn over_sockets(inputs: &mut Inputs) {
    let costs = Costs::default().over_sockets();
    inputs.setting.costs = inputs.measured.factors.costs(&costs);
}

/// The inputs on a machine that need not be there, for `kolo explain` and `kolo sim`, with the
/// measured times that the settings of this process name.
///
/// # Errors
/// A file of measured times that cannot be used; `algo` leaves nothing for a collective that it
/// names.
pub fn imagined(settings: &Settings, machine: &price::Cluster) -> Result<Inputs> {
    let measured = match settings.tuner_file().map(read) {
        None => Measured::default(),
        Some(Ok((name, text))) => Measured::from_toml(&text, &name)?,
        Some(Err(fault)) => return Err(unusable(&fault)),
    };
    let mut inputs = for_machine(settings, machine, &measured)?;
    if settings.net() == Net::Socket {
        over_sockets(&mut inputs);
    }
    Ok(inputs)
}

/// Imagines the inputs of ranks on devices. The array has the bytes of a slot by protocol.
///
/// # Errors
/// Those of [`imagined`].
pub fn imagined_on_devices(
    settings: &Settings,
    machine: &price::Cluster,
) -> Result<(Inputs, [usize; 3])> {
    Ok(device::imagined(settings, &imagined(settings, machine)?))
}

fn unusable(fault: &str) -> Error {
    Error::usage(
        format!("the measured times of rank 0 cannot be used: {fault}"),
        "let KOLO_TUNER_FILE name a file that `kolo tune` wrote, or unset it",
    )
}

fn for_machine(
    settings: &Settings,
    machine: &price::Cluster,
    measured: &Measured,
) -> Result<Inputs> {
    Ok(Inputs {
        nranks: machine.nranks(),
        oversubscribed: machine.crowded(),
        setting: Setting {
            machine: *machine,
            costs: measured.factors.costs(&Costs::default()),
            buffer_bytes: layout::slot_bytes(settings) * Geometry::SLOTS as usize,
            eager_bytes: layout::EAGER_BYTES,
        },
        eager_limit: settings.eager_limit().map(|limit| limit as usize),
        allowed: allowed(settings)?,
        channels: (
            settings.min_nchannels() as u16,
            settings.max_nchannels() as u16,
        ),
        measured: measured.of_arrangement(machine.nodes, machine.per_node),
        direct: settings.direct(),
        compares: settings.check(),
        channel_bytes: Inputs::HOST_CHANNEL_BYTES,
    })
}

fn allowed(settings: &Settings) -> Result<Allowed> {
    let mut allowed = Allowed::default();
    let algorithms = rules(settings.algo(), Algorithm::named);
    allowed.restrict_algorithms(&algorithms)?;
    let protocols = rules(settings.proto(), |name| {
        ProtocolChoice::ALL
            .into_iter()
            .find(|protocol| protocol.name() == name)
    });
    allowed.restrict_protocols(&protocols);
    Ok(allowed)
}

/// The rules of a setting. Names that no plan goes by are left out: they allow nothing.
fn rules<T>(list: &ChoiceList, named: impl Fn(&str) -> Option<T>) -> Vec<Rule<T>> {
    let rule = |rule: &crate::config::ChoiceRule| Rule {
        collective: rule.collective,
        exclude: rule.exclude,
        names: rule.names.iter().filter_map(|name| named(name)).collect(),
    };
    list.rules.iter().map(rule).collect()
}
