//! Meeting by the variables of a Slurm step alone (`srun --mpi=none`).
//!
//! Problem: no server hands anything over, so every rank must compute where rank 0 is, and strays
//! or other jobs must not be taken for its ranks.
//!
//! Idea: rank 0 runs on the first node of the step's list. Its port follows from job, step and
//! round by [`ports`]; a few further ports are there in case another job or daemon has the first.
//! The id follows from what the ranks of the step have in common, which others can read; so they
//! look for a secret ([`crate::bootstrap`]: munge, or the file of `KOLO_SECRET_FILE`). If there is
//! none, rank 0 listens at one interface only, not at all of its node.

use super::process::{Launch, Launcher};
use super::variables::{Get, number};
use crate::base::{Error, Rank, Result};
use crate::bootstrap::settings::{Family, NetSettings};
use crate::bootstrap::unique_id::MOST_PORTS;
use crate::bootstrap::{UniqueId, net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};

/// Numbers from here on are no steps of `srun`: batch scripts, interactive shells, containers.
const FIRST_SPECIAL_STEP: u32 = 0xffff_fff0;

/// Communicators that this process has begun.
static ROUND: AtomicU32 = AtomicU32::new(0);

/// A process in its step.
#[derive(Debug, PartialEq, Eq)]
pub struct Step {
    rank: u32,
    nranks: u32,
    /// This node, and all, in the step.
    node: u32,
    nodes: u32,
    /// Name of the first node.
    first: String,
    job: u32,
    step: u32,
    /// Text that only the ranks of this run of this step share.
    common: String,
}

impl Step {
    /// This process in its step; `None` where it is in none.
    pub fn find(get: Get) -> Result<Option<Step>> {
        let step = match number(get, "SLURM_STEP_ID")? {
            Some(step) => Some(step),
            None => number(get, "SLURM_STEPID")?,
        };
        let nranks = number(get, "SLURM_STEP_NUM_TASKS")?;
        let (Some(step), Some(nranks)) = (step, nranks) else {
            return Ok(None);
        };
        if step >= FIRST_SPECIAL_STEP {
            return Ok(None);
        }
        if number(get, "SLURM_HET_SIZE")?.is_some_and(|size| size > 1) {
            return Err(Error::usage(
                "this is a heterogeneous job: the variables of one part do not tell of the others",
                "start it with `srun --mpi=pmix`, or set KOLO_RANK, KOLO_NRANKS and KOLO_COMM_ID",
            ));
        }
        let needed = |name| number(get, name)?.ok_or_else(|| missing(name));
        let (rank, job) = (needed("SLURM_PROCID")?, needed("SLURM_JOB_ID")?);
        let (node, nodes) = (needed("SLURM_NODEID")?, needed("SLURM_STEP_NUM_NODES")?);
        let list = get("SLURM_STEP_NODELIST").ok_or_else(|| missing("SLURM_STEP_NODELIST"))?;
        let first = super::host_list::expand(&list).and_then(|names| names.into_iter().next());
        let first = first.ok_or_else(|| {
            Error::usage(
                format!("SLURM_STEP_NODELIST=\"{list}\" is not a list of nodes that kolo reads"),
                "name the address of rank 0 in KOLO_COMM_ID=host:port",
            )
        })?;
        if rank >= nranks {
            return Err(Error::usage(
                format!("SLURM_PROCID is {rank} and SLURM_STEP_NUM_TASKS is {nranks}"),
                "look into what changes the Slurm variables before the program starts",
            ));
        }
        if rank == 0 && node != 0 {
            return Err(Error::usage(
                format!("rank 0 is on node {node} of the step, not on the first of {list}"),
                "name the address of rank 0 in KOLO_COMM_ID=host:port, or let srun distribute the \
                 ranks by block or cyclic",
            ));
        }
        let also = |name| get(name).unwrap_or_default();
        let common = format!(
            "slurm {} {job}.{step} {} {} {list} {nranks}",
            also("SLURM_CLUSTER_NAME"),
            also("SLURM_RESTART_COUNT"),
            also("SLURM_JOB_UID"),
        );
        Ok(Some(Step {
            rank,
            nranks,
            node,
            nodes,
            first,
            job,
            step,
            common,
        }))
    }

    /// Where the ranks of the step meet next.
    pub fn launch(&self, settings: &NetSettings) -> Result<Launch> {
        let round = ROUND.fetch_add(1, Ordering::Relaxed);
        if self.nranks == 1 {
            return Ok(Launch::alone(Launcher::Slurm));
        }
        let id = match settings.comm_id {
            Some(_) => UniqueId::create(settings),
            None => self.id(round, settings),
        };
        Ok(Launch {
            rank: self.rank,
            nranks: self.nranks,
            by: Launcher::Slurm,
            id: Some(id.map_err(|error| error.at(Rank(self.rank)))?),
        })
    }

    fn id(&self, round: u32, settings: &NetSettings) -> Result<UniqueId> {
        let ports = ports(self.job, self.step, round, settings.slurm_ports)?;
        let is_weak = self.nodes > 1 && settings.secrets()?.is_weak();
        let host = match self.node {
            0 if is_weak => self.one_interface(settings)?,
            0 if settings.socket_family == Family::V6 => Ipv6Addr::LOCALHOST.into(),
            0 => Ipv4Addr::LOCALHOST.into(),
            _ => self.resolve(settings.socket_family)?,
        };
        let text = format!("{} {round}", self.common);
        let name = format!("{}, Slurm step {}.{}", self.first, self.job, self.step);
        Ok(UniqueId::by_slurm(
            &text,
            host,
            &ports,
            self.nodes > 1 && !is_weak,
            &name,
        ))
    }

    /// The address of this node that the others will find by its name, if it is one of the usable
    /// interfaces; else that of the first.
    fn one_interface(&self, settings: &NetSettings) -> Result<IpAddr> {
        let first = settings.interfaces(None)?[0].address;
        let named = net::addresses_of(&self.first, settings.socket_family).unwrap_or_default();
        let named = best(&named).filter(|ip| !ip.is_loopback());
        let known = named.filter(|ip| settings.uses(*ip));
        Ok(known.unwrap_or(first))
    }

    /// The address of the first node, as this one knows it.
    fn resolve(&self, family: Family) -> Result<IpAddr> {
        let addresses = net::addresses_of(&self.first, family);
        let failed = |why: String| {
            Error::usage(
                format!("the first node of the step, {}, {why}", self.first),
                "name the address of rank 0 in KOLO_COMM_ID=host:port, or add the node to \
                 /etc/hosts or the name service of all nodes",
            )
        };
        let addresses = addresses.map_err(|error| failed(format!("has no address: {error}")))?;
        best(&addresses).ok_or_else(|| failed("has no address of the family in use".into()))
    }
}

/// Many systems give a node's own name a loopback address, and some do so on every node.
fn best(addresses: &[IpAddr]) -> Option<IpAddr> {
    let rank = |address: &&IpAddr| (address.is_loopback(), address.is_ipv6());
    addresses.iter().min_by_key(rank).copied()
}

/// The ports at which rank 0 may listen, best first: port number
/// `first + (61 job + 7 step + round + 1009 k) mod count` for k = 0, 1, 2, 3, each once.
pub fn ports(job: u32, step: u32, round: u32, (first, count): (u32, u32)) -> Result<Vec<u16>> {
    let last = u64::from(first) + u64::from(count) - 1;
    if last > u64::from(u16::MAX) {
        return Err(Error::argument(
            format!("slurm_port {first} and slurm_port_count {count} reach to port {last}"),
            "the last port is 65535: lower KOLO_SLURM_PORT or KOLO_SLURM_PORT_COUNT",
        ));
    }
    let begin = 61 * u64::from(job) + 7 * u64::from(step) + u64::from(round);
    let mut ports = Vec::with_capacity(MOST_PORTS);
    for k in 0..MOST_PORTS as u64 {
        let port = u64::from(first) + (begin + 1009 * k) % u64::from(count);
        if !ports.contains(&(port as u16)) {
            ports.push(port as u16);
        }
    }
    Ok(ports)
}

/// Whether a PMI server speaks of the same ranks as the step: Slurm's own does, an mpirun's not.
pub fn agrees_with_pmi(get: Get) -> bool {
    get("OMPI_COMM_WORLD_SIZE").is_none() && get("PMI_SIZE") == get("SLURM_STEP_NUM_TASKS")
}

fn missing(name: &str) -> Error {
    Error::usage(
        format!("this process is in a Slurm step, but {name} is not set"),
        "let srun start the program in the environment that it makes, or set KOLO_RANK, \
         KOLO_NRANKS and KOLO_COMM_ID",
    )
}

#[cfg(test)]
mod tests {
    use super::super::variables::fixed;
    use super::*;

    const STEP: [(&str, &str); 8] = [
        ("SLURM_STEP_ID", "3"),
        ("SLURM_STEP_NUM_TASKS", "4"),
        ("SLURM_PROCID", "2"),
        ("SLURM_JOB_ID", "77"),
        ("SLURM_NODEID", "1"),
        ("SLURM_STEP_NUM_NODES", "2"),
        ("SLURM_STEP_NODELIST", "node[09-11]"),
        ("SLURM_JOB_UID", "1000"),
    ];

    fn with(changes: &[(&'static str, &'static str)]) -> Result<Option<Step>> {
        let mut set: Vec<_> = STEP.to_vec();
        for (name, value) in changes {
            set.retain(|(known, _)| known != name);
            if !value.is_empty() {
                set.push((name, value));
            }
        }
        Step::find(&fixed(&set))
    }

    #[test]
    fn a_step_is_read() {
        let step = with(&[]).unwrap().unwrap();
        assert_eq!((step.rank, step.nranks, step.job, step.step), (2, 4, 77, 3));
        assert_eq!(step.first, "node09");
        // The older name of the same variable.
        let older = with(&[("SLURM_STEP_ID", ""), ("SLURM_STEPID", "3")]);
        assert_eq!(older.unwrap().unwrap(), step);
    }

    #[test]
    fn what_is_no_step_of_srun_is_none() {
        assert_eq!(with(&[("SLURM_STEP_ID", "")]).unwrap(), None);
        assert_eq!(with(&[("SLURM_STEP_NUM_TASKS", "")]).unwrap(), None);
        // A batch script's own processes.
        assert_eq!(with(&[("SLURM_STEP_ID", "4294967291")]).unwrap(), None);
    }

    #[test]
    fn what_cannot_be_used_names_the_variable() {
        for (name, value, word) in [
            ("SLURM_PROCID", "", "SLURM_PROCID is not set"),
            ("SLURM_PROCID", "4", "SLURM_PROCID is 4"),
            ("SLURM_PROCID", "two", "\"two\""),
            ("SLURM_STEP_NODELIST", "", "SLURM_STEP_NODELIST is not set"),
            ("SLURM_STEP_NODELIST", "node[", "not a list"),
            ("SLURM_HET_SIZE", "2", "heterogeneous"),
            ("SLURM_NODEID", "", "SLURM_NODEID"),
        ] {
            let error = with(&[(name, value)]).unwrap_err();
            assert!(error.what.contains(word), "{name}={value}: {error}");
        }
        let elsewhere = with(&[("SLURM_PROCID", "0")]).unwrap_err();
        assert!(elsewhere.what.contains("node 1 of the step"), "{elsewhere}");
    }

    #[test]
    fn ports_stay_in_their_range_and_differ() {
        assert_eq!(
            ports(1, 0, 0, (23_000, 5000)).unwrap(),
            [23_061, 24_070, 25_079, 26_088]
        );
        assert_eq!(ports(1, 1, 1, (23_000, 5000)).unwrap()[0], 23_069);
        let mut random = fastrand::Rng::with_seed(9);
        for _ in 0..1000 {
            let (job, step, round) = (random.u32(..), random.u32(..), random.u32(..));
            let first = random.u32(1..65_000);
            let count = random.u32(1..65_536 - first);
            let ports = ports(job, step, round, (first, count)).unwrap();
            let inside = |&port: &u16| (first..first + count).contains(&u32::from(port));
            assert!(ports.iter().all(inside), "{ports:?}");
            let mut sorted = ports.clone();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), ports.len());
            assert!(count < 4 || ports.len() > 1 || 1009 % count == 0);
        }
        assert!(ports(1, 0, 0, (65_000, 1000)).is_err());
        assert_eq!(ports(9, 9, 9, (65_535, 1)).unwrap(), [65_535]);
    }

    /// Without a secret the root is not at every address of its node, and not at the loopback.
    #[test]
    fn a_step_without_a_secret_listens_at_one_interface() {
        let settings = NetSettings {
            socket_family: Family::V4,
            munge_socket: Some("/nonexistent/munge".into()),
            socket_ifname: Some("=lo".into()),
            ..NetSettings::default()
        };
        let step = with(&[("SLURM_NODEID", "0"), ("SLURM_PROCID", "0")]);
        let step = step.unwrap().unwrap();
        let id = step.id(0, &settings).unwrap();
        assert!(!id.is_everywhere() && id.is_public());
        // The one usable interface.
        assert_eq!(id.address().ip(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        let usable = NetSettings {
            socket_ifname: None,
            ..settings
        };
        let first = usable.interfaces(None).unwrap()[0].address;
        assert_eq!(step.id(0, &usable).unwrap().address().ip(), first);
    }

    #[test]
    fn ranks_of_a_step_compute_one_secret_and_others_another() {
        let place = std::env::temp_dir().join(format!("kolo-slurm-{}", std::process::id()));
        std::fs::write(&place, [7; 32]).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(&place, mode).unwrap();
        let settings = NetSettings {
            socket_family: Family::V4,
            secret_file: Some(place.clone()),
            ..NetSettings::default()
        };
        let near = [("SLURM_NODEID", "0"), ("SLURM_PROCID", "0")];
        let id = |changes: &[(&'static str, &'static str)], round| {
            let all = [&near[..], changes].concat();
            with(&all).unwrap().unwrap().id(round, &settings).unwrap()
        };
        let (zero, one) = (id(&[], 0), id(&[("SLURM_PROCID", "1")], 0));
        assert!(zero.secret() == one.secret() && zero.addresses() == one.addresses());
        assert!(zero.is_everywhere() && zero.address().ip().is_loopback());
        assert!(!id(&[("SLURM_STEP_NUM_NODES", "1")], 0).is_everywhere());
        for other in [
            id(&[], 1),
            id(&[("SLURM_JOB_ID", "78")], 0),
            id(&[("SLURM_STEP_ID", "4")], 0),
            id(&[("SLURM_JOB_UID", "1001")], 0),
            id(&[("SLURM_RESTART_COUNT", "1")], 0),
            id(&[("SLURM_STEP_NUM_TASKS", "5")], 0),
        ] {
            assert!(zero.secret() != other.secret());
        }
        std::fs::remove_file(place).unwrap();
    }

    #[test]
    fn addresses_that_other_nodes_can_reach_come_first() {
        let all = |texts: &[&str]| -> Vec<IpAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let of = |texts: &[&str]| best(&all(texts)).map(|address| address.to_string());
        assert_eq!(
            of(&["127.0.1.1", "fd00::1", "10.0.0.1"]).unwrap(),
            "10.0.0.1"
        );
        assert_eq!(of(&["127.0.1.1", "fd00::1"]).unwrap(), "fd00::1");
        assert_eq!(of(&["::1", "127.0.1.1"]).unwrap(), "127.0.1.1");
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn an_unknown_node_is_named() {
        let step = with(&[("SLURM_STEP_NODELIST", "no-such-host.invalid")]);
        let error = step.unwrap().unwrap().id(0, &NetSettings::default());
        let error = error.unwrap_err();
        assert!(error.what.contains("no-such-host.invalid"), "{error}");
        assert!(error.remedy.contains("KOLO_COMM_ID"), "{error}");
    }

    #[test]
    fn an_mpirun_inside_the_step_is_noticed() {
        let of = |set: &[(&str, &str)]| agrees_with_pmi(&fixed(set));
        assert!(of(&[("PMI_SIZE", "4"), ("SLURM_STEP_NUM_TASKS", "4")]));
        assert!(!of(&[("PMI_SIZE", "3"), ("SLURM_STEP_NUM_TASKS", "2")]));
        assert!(!of(&[("OMPI_COMM_WORLD_SIZE", "3")]));
    }
}
