//! The inputs of the tuner, equal on all ranks: what rank 0 read and saw, and the settings that all
//! ranks have compared.

use super::layout;
use super::net::Network;
use crate::base::{Error, Rank, Result, input_file};
use crate::config::{ChoiceList, Net, Settings};
use crate::plan::{Algorithm, Geometry};
use crate::price::{self, Costs};
use crate::topo::{self, Crowding, RankPlace};
use crate::tune::{Allowed, Inputs, Measured, ProtocolChoice, Rule, Setting, measured};
use std::path::Path;

/// What rank 0 tells the others.
struct Facts {
    oversubscribed: bool,
    cores: u32,
    /// The text of the file of measured times and its name, or why there is none.
    file: Option<std::result::Result<(String, String), String>>,
}

impl Facts {
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.oversubscribed)];
        bytes.extend(self.cores.to_le_bytes());
        let (kind, name, text) = match &self.file {
            None => (0, "", ""),
            Some(Ok((name, text))) => (1, name.as_str(), text.as_str()),
            Some(Err(fault)) => (2, fault.as_str(), ""),
        };
        bytes.push(kind);
        bytes.extend((name.len() as u32).to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend(text.as_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Facts> {
        let (&oversubscribed, rest) = bytes.split_first()?;
        let (cores, rest) = rest.split_first_chunk::<4>()?;
        let (&kind, rest) = rest.split_first()?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let (name, text) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let name = String::from_utf8(name.to_vec()).ok()?;
        let text = String::from_utf8(text.to_vec()).ok()?;
        Some(Facts {
            oversubscribed: oversubscribed != 0,
            cores: u32::from_le_bytes(*cores),
            file: match kind {
                0 => None,
                1 => Some(Ok((name, text))),
                _ => Some(Err(name)),
            },
        })
    }
}

fn read(path: &Path) -> std::result::Result<(String, String), String> {
    let name = path.display().to_string();
    match input_file::text(path, measured::MOST_BYTES as u64) {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(format!("{name} cannot be read: {error}")),
    }
}

/// What this rank says about the inputs: nothing, unless it is rank 0.
pub(in crate::comm) fn say(me: Rank, settings: &Settings, crowding: Crowding) -> Vec<u8> {
    if me != Rank(0) {
        return Vec::new();
    }
    let facts = Facts {
        oversubscribed: crowding.oversubscribed,
        cores: crowding.cores,
        file: settings.tuner_file().map(read),
    };
    facts.to_bytes()
}

/// The inputs that follow from what rank 0 said.
///
/// # Errors
/// On every rank, where rank 0 cannot read its file of measured times or `algo` leaves nothing for
/// a collective that it names.
pub(in crate::comm) fn heard(
    said: &[u8],
    settings: &Settings,
    places: &[RankPlace],
) -> Result<Inputs> {
    let facts = Facts::from_bytes(said)
        .ok_or_else(|| Error::internal("what rank 0 told about the tuner cannot be read"))?;
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

impl crate::comm::Communicator {
    /// What kolo assumes of this communicator's connections where nobody has measured.
    #[doc(hidden)]
    pub fn assumed_costs(&self) -> Costs {
        let costs = Costs::default();
        match self.inner.network.as_ref().is_some_and(Network::is_socket) {
            true => costs.over_sockets(),
            false => costs,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rank_zero_tells_arrives() {
        for file in [
            None,
            Some(Ok(("/a/b".to_string(), "format = 1\n".to_string()))),
            Some(Err("/a/b cannot be read".to_string())),
        ] {
            let facts = Facts {
                oversubscribed: true,
                cores: 7,
                file: file.clone(),
            };
            let bytes = facts.to_bytes();
            let back = Facts::from_bytes(&bytes).unwrap();
            assert_eq!((back.oversubscribed, back.cores), (true, 7));
            assert_eq!(back.file, file);
            assert!((0..10).all(|length| Facts::from_bytes(&bytes[..length]).is_none()));
        }
    }
}
