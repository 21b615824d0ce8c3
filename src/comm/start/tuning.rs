//! The inputs of the tuner, equal on all ranks: what rank 0 read and saw, and the settings that all
//! ranks have compared.

use super::{device, layout};
use crate::base::{Error, Rank, Result, input_file};
use crate::config::{ChoiceList, Net, Reproducible, Settings};
use crate::plan::{Algorithm, Geometry};
use crate::price::{self, Costs, SeatList};
use crate::topo::{self, Crowding, RankPlace};
use crate::tune::{self, Allowed, Inputs, Measured, ProtocolChoice, Rule, Setting, measured};
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
    let machine = price::Cluster {
        cores: if facts.oversubscribed { facts.cores } else { 0 },
        ..cluster(places)
    };
    Ok(Inputs {
        nranks: places.len() as u32,
        oversubscribed: facts.oversubscribed,
        ..for_machine(settings, &machine, &measured)?
    })
}

/// The nodes with what their ranks share, where all nodes are dealt alike; else every node counts
/// as one cache.
fn cluster(places: &[RankPlace]) -> price::Cluster {
    let nodes = topo::nodes(places).ranks;
    let known = |rank: &Rank| {
        let place = &places[rank.index()];
        // One that may run on several cores has one of them for itself.
        let alone = topo::MAX_CPUS + rank.0;
        price::KnownSeat {
            socket: place.sharing.socket,
            cache: place.sharing.cache,
            core: match place.cores.len() {
                1 => place.cores.first().unwrap_or(alone),
                _ => alone,
            },
        }
    };
    let listed =
        |ranks: &Vec<Rank>| SeatList::of_known(&ranks.iter().map(known).collect::<Vec<_>>());
    let count = nodes.len() as u32;
    let first = nodes.first().and_then(listed);
    match first.filter(|first| {
        nodes
            .iter()
            .all(|ranks| listed(ranks).as_ref() == Some(first))
    }) {
        Some(listed) => price::Cluster::listed(count, listed),
        None => {
            let per_node = nodes.iter().map(Vec::len).max().unwrap_or(1) as u32;
            price::Cluster::uniform(count, per_node)
        }
    }
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
            machine: price::Cluster {
                seen: settings.levels(),
                ..machine.clone()
            },
            costs: measured.factors.costs(&Costs::default()),
            buffer_bytes: layout::slot_bytes(settings) * Geometry::SLOTS as usize,
            eager_bytes: layout::EAGER_BYTES,
        },
        eager_limit: settings.eager_limit().map(|limit| limit as usize),
        allowed: allowed(settings, machine.nranks())?,
        channels: (
            settings.min_nchannels() as u16,
            settings.max_nchannels() as u16,
        ),
        measured: measured.of_arrangement(machine.nodes, machine.per_node),
        direct: settings.direct(),
        compares: settings.check(),
        reproducible: settings.reproducible() == Reproducible::Placement,
        channel_bytes: Inputs::HOST_CHANNEL_BYTES,
    })
}

fn allowed(settings: &Settings, nranks: u32) -> Result<Allowed> {
    let mut allowed = Allowed::default();
    let algorithms = rules(settings.algo(), Algorithm::named);
    allowed.restrict_algorithms(&algorithms)?;
    if settings.reproducible() == Reproducible::Placement {
        tune::check_rules(&algorithms, nranks)?;
    }
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
    use crate::price::{Level, Seating};
    use crate::topo::{CpuSet, Machine, Usable};

    /// Four caches of four cores each, with ranks bound as listed, rank by rank.
    fn places(hosts: &[(&str, &[&str])]) -> Vec<RankPlace> {
        let file =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/topo/amd_l3_clusters.xml");
        let machine = Machine::from_xml_file(&file).unwrap();
        let bindings = hosts
            .iter()
            .flat_map(|(host, lists)| lists.iter().map(move |list| (host, list)));
        let place = |(rank, (host, list)): (u32, (&&str, &&str))| {
            let cpus = CpuSet::parse_list(list).unwrap();
            let usable = Usable::of(&machine, &cpus, None).unwrap();
            RankPlace::new(Rank(rank), host, None, "boot", &machine, usable)
        };
        (0..).zip(bindings).map(place).collect()
    }

    #[test]
    fn ranks_are_priced_by_the_caches_that_they_are_bound_to() {
        let bound = ["0", "4", "1", "5"];
        let one = cluster(&places(&[("a", &bound)]));
        assert_eq!(
            (one.nodes, one.per_node, one.sockets, one.caches),
            (1, 4, 1, 2)
        );
        let levels = [1, 2, 3].map(|rank| one.level(0, rank));
        assert_eq!(levels, [Level::Socket, Level::Cache, Level::Socket]);
        let two = cluster(&places(&[("a", &bound), ("b", &bound)]));
        assert_eq!((two.nodes, two.caches), (2, 2));
        assert_eq!(
            (two.level(4, 6), two.level(4, 7)),
            (Level::Cache, Level::Socket)
        );
        // Other cores of other caches, dealt alike.
        let alike = ["8", "12", "9", "13"];
        assert_eq!(cluster(&places(&[("a", &bound), ("b", &alike)])), two);
    }

    #[test]
    fn what_is_not_known_is_flat() {
        let bound: [&str; 4] = ["0", "4", "1", "5"];
        let flat = |hosts: &[(&str, &[&str])]| {
            let cluster = cluster(&places(hosts));
            let near = cluster.level(0, cluster.per_node - 1);
            cluster.seating == Seating::Block && near == Level::Cache
        };
        assert!(!flat(&[("a", &bound)]));
        assert!(
            flat(&[("a", &["0", "4", "0-31"])]),
            "a rank that is not bound"
        );
        assert!(flat(&[("a", &["0", "1", "2"])]), "one cache");
        assert!(
            flat(&[("a", &bound), ("b", &["0", "1", "4", "5"])]),
            "nodes differ"
        );
        assert!(flat(&[("a", &bound), ("b", &["0", "4"])]), "half a node");
    }
}
