//! Facts that a rank tells the others, so that each can say which way data take to it.

use kolo::base::interfaces;
use kolo::base::interfaces::ways::FaceTable;
use kolo::base::{Error, Rank, Result};
use kolo::bootstrap::NetSettings;
use kolo::comm;
use kolo::config::{Net, Settings};
use kolo::topo::RankPlace;
use kolo::transport::cma::{Mark, MarkCard, wish};
use kolo::transport::net::{self as network, candidates};
use serde::{Deserialize, Serialize};

/// A kind of network, with what one rank finds of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetworkSaid {
    /// Its word in the setting `net`.
    pub kind: String,
    /// The name that ranks compare.
    pub name: String,
    /// Its devices.
    pub devices: Vec<String>,
    /// More about what carries the data, or about the network itself.
    pub about: Option<String>,
    /// Whether data may leave from where they lie.
    pub lends: bool,
    /// Why it is not used; empty where it is.
    pub why_not: String,
    /// Way to use it all the same; may be empty.
    pub fix: String,
}

/// Facts about one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RankWays {
    /// Where it is; `None`: nothing is known, for the reason in `problem`.
    pub place: Option<RankPlace>,
    pub problem: String,
    /// From how many bytes on its private buffers are to be read.
    pub private_from: Option<u64>,
    /// Why they are not, and what would change that.
    pub private_not: Option<(String, String)>,
    /// Whether buffers are to be read where they lie.
    pub is_direct: bool,
    /// By which others know its process.
    pub mark: Option<MarkCard>,
    /// Networks, best first.
    pub networks: Vec<NetworkSaid>,
    /// Interfaces that it may use.
    pub table: FaceTable,
}

/// How a plugin of the site is asked: opened, or only looked for. Its name, or why there is none.
pub type AskPlugin = fn(&Settings) -> Option<std::result::Result<String, String>>;

/// A program that may load what a communicator loads.
pub fn opened(_: &Settings) -> Option<std::result::Result<String, String>> {
    None
}

impl RankWays {
    /// Looks as a communicator would; without settings nothing is known. The mark must live as
    /// long as others may look.
    pub fn look(rank: Rank, settings: Option<&Settings>, plugin: AskPlugin) -> (RankWays, Mark) {
        let seen = match settings {
            Some(settings) => RankWays::seen(rank, settings, plugin),
            None => Err(Error::usage("a setting is wrong", "see its message")),
        };
        let mut seen = seen.unwrap_or_else(|error| RankWays {
            problem: error.into_what(),
            ..RankWays::default()
        });
        let place = seen.place.as_ref();
        let word = place.map_or(0, |place| u128::from(place.process) << 32 | 0x6b6f_6c6f);
        let mark = Mark::new(word);
        seen.mark = Some(mark.card());
        (seen, mark)
    }

    fn seen(rank: Rank, settings: &Settings, plugin: AskPlugin) -> Result<RankWays> {
        wish::admit(settings);
        let net = NetSettings::from(settings);
        let table = interfaces::table(net.socket_family, net.socket_ifname.as_deref());
        let not = wish::refusal(settings);
        Ok(RankWays {
            place: Some(comm::place(rank, settings)?),
            problem: String::new(),
            private_from: wish::from(settings),
            private_not: not.map(|(why, fix)| (why.into(), fix.into())),
            is_direct: settings.direct(),
            mark: None,
            networks: networks(settings, plugin),
            // A node without interfaces has a network all the same, where it is alone.
            table: table.unwrap_or_default().shortened(),
        })
    }

    /// The network that it would use.
    pub fn network(&self) -> Option<&NetworkSaid> {
        self.networks.iter().find(|one| one.why_not.is_empty())
    }

    /// Those that are better than the one that it would use, or all where it has none.
    pub fn better(&self) -> &[NetworkSaid] {
        let taken = self.networks.iter().position(|one| one.why_not.is_empty());
        &self.networks[..taken.unwrap_or(self.networks.len())]
    }
}

/// Networks of this process, best first, as a communicator asks for them.
pub fn networks(settings: &Settings, plugin: AskPlugin) -> Vec<NetworkSaid> {
    let of_net = |net: std::sync::Arc<dyn network::Net>| NetworkSaid {
        name: net.name().to_owned(),
        devices: net.devices().iter().map(|one| one.name.clone()).collect(),
        about: net.about(),
        lends: net.takes_parts(),
        ..NetworkSaid::default()
    };
    let outcomes = candidates::asked(settings, |kind| {
        let looked = (kind == Net::Plugin).then(|| plugin(settings)).flatten();
        match (kind, looked) {
            (_, Some(looked)) => looked.map(|library| NetworkSaid {
                about: Some(format!("{library}, which is not loaded here")),
                name: format!("plugin {library}"),
                ..NetworkSaid::default()
            }),
            (Net::Mpi, _) => of_mpi(),
            _ => candidates::open(settings, kind).map(of_net),
        }
    });
    let said = |(kind, outcome): (Net, std::result::Result<NetworkSaid, String>)| {
        let said = outcome.unwrap_or_else(|why| NetworkSaid {
            fix: candidates::remedy(kind, &why).into(),
            why_not: why,
            ..NetworkSaid::default()
        });
        let kind = kind.text().into();
        NetworkSaid { kind, ..said }
    };
    outcomes.into_iter().map(said).collect()
}

/// The program's MPI, which is not started here.
fn of_mpi() -> std::result::Result<NetworkSaid, String> {
    let families = crate::launcher::of_variables();
    let Some(family) = families
        .into_iter()
        .find(|one| crate::launcher::find(*one).is_some())
    else {
        return Err("no launcher of an MPI that kolo is installed for has started this".into());
    };
    Ok(NetworkSaid {
        name: "mpi".into(),
        about: Some(format!("that of {}, by koloCommInitMPI", family.name())),
        ..NetworkSaid::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kolo::config::Sources;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let pairs = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string()));
        let sources = Sources {
            caller: pairs.collect(),
            ..Sources::default()
        };
        Settings::load_from(&sources).unwrap()
    }

    #[test]
    fn a_plugin_that_is_only_looked_for_is_taken_before_all() {
        let all = settings(&[("socket_ifname", "=lo")]);
        let there: AskPlugin = |_| Some(Ok("libnccl-net.so".into()));
        let said = networks(&all, there);
        let kinds: Vec<&str> = said.iter().map(|one| one.kind.as_str()).collect();
        assert_eq!(kinds, ["plugin", "verbs", "ofi", "socket", "mpi"]);
        assert_eq!(said[0].name, "plugin libnccl-net.so");
        assert!(
            said[1..4]
                .iter()
                .all(|one| one.why_not == "a better one was found")
        );
        let not: AskPlugin = |_| Some(Err("there is no libnccl-net.so".into()));
        let said = networks(&all, not);
        assert_eq!(said[0].why_not, "there is no libnccl-net.so");
        assert!(said[0].fix.contains("KOLO_NET_PLUGIN"), "{:?}", said[0]);
    }

    #[test]
    fn a_rank_tells_its_way_and_the_better_ones() {
        let all = settings(&[("net", "socket"), ("socket_ifname", "=lo"), ("cma", "off")]);
        let (said, _mark) = RankWays::look(Rank(3), Some(&all), opened);
        assert_eq!(said.network().map(|one| one.name.as_str()), Some("socket"));
        let better: Vec<&str> = said.better().iter().map(|one| one.kind.as_str()).collect();
        assert_eq!(better, ["plugin", "verbs", "ofi"]);
        assert!(said.better().iter().all(|one| one.fix.contains("KOLO_NET")));
        assert_eq!(
            said.private_not,
            Some(("KOLO_CMA is off".into(), "unset KOLO_CMA".into()))
        );
        let bytes = serde_json::to_vec(&said).unwrap();
        assert_eq!(serde_json::from_slice::<RankWays>(&bytes).unwrap(), said);
        let (lost, _mark) = RankWays::look(Rank(3), None, opened);
        assert_eq!(
            (lost.place, lost.problem.as_str()),
            (None, "a setting is wrong")
        );
    }
}
