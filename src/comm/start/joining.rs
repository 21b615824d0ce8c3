//! The ways in which the ranks of a new communicator find each other: by unique id, by what a
//! launcher says, over a bootstrap of the caller's, as threads of this process.

use super::adopted;
use super::init::{Means, begin, with_settings};
use crate::base::birth::{Birth, StartPhase};
use crate::base::float_env::FloatEnv;
use crate::base::starts::{self, Start};
use crate::base::{Error, Rank, Result, turns};
use crate::bootstrap::{Bootstrap, Launch, NetSettings, TcpRing, ThreadsBootstrap, UniqueId};
use crate::comm::calling::tally;
use crate::comm::failing::report;
use crate::comm::flight::turn::{self, IdleHook};
use crate::comm::logging::{self, Acting};
use crate::comm::queue::Queue;
use crate::comm::{CommConfig, CommDevice};
use crate::config::Settings;
use std::sync::Arc;

/// Makes the id of a communicator, and its root in this process.
///
/// # Errors
/// A bad setting; no usable network interface.
pub(in crate::comm) fn unique_id() -> Result<UniqueId> {
    // The first parts of a process, if nothing has started them: the root is the second one.
    logging::ensure();
    starts::note(Start::Bootstrap);
    UniqueId::create(&NetSettings::from(&Settings::load(&[])?))
}

/// The settings of a new communicator, unless the caller has failed to say what it wants.
pub(in crate::comm) fn settings(config: &CommConfig) -> Result<Settings> {
    if let Some(error) = &config.refused {
        return Err(error.clone());
    }
    config.device.check()?;
    Settings::load(&caller_layer(config))
}

/// The caller's layer of the settings.
fn caller_layer(config: &CommConfig) -> Vec<(String, String)> {
    let mut layer = config.overrides.clone();
    let numbers = [
        ("min_nchannels", config.min_channels),
        ("max_nchannels", config.max_channels),
    ];
    for (key, value) in numbers {
        layer.extend(value.map(|value| (key.to_string(), value.to_string())));
    }
    layer
}

/// Joins by unique id, for the caller's call.
pub(in crate::comm) fn over_tcp(
    call: &'static str,
    nranks: u32,
    id: &UniqueId,
    rank: u32,
    config: &CommConfig,
) -> Result<Arc<Queue>> {
    let settings = settings(config);
    let birth = Arc::new(Birth::awaited(Rank(rank), nranks, held(&settings)));
    over_tcp_as(call, (nranks, id), settings, config, &birth)
}

/// The phase that the settings let a start stay in.
pub(in crate::comm) fn held(settings: &Result<Settings>) -> Option<StartPhase> {
    let settings = settings.as_ref().ok()?;
    StartPhase::named(settings.fault_hold().text())
}

/// Joins by unique id, as the start that `birth` knows, with settings that have been read.
pub(in crate::comm) fn over_tcp_as(
    call: &'static str,
    (nranks, id): (u32, &UniqueId),
    settings: Result<Settings>,
    config: &CommConfig,
    birth: &Arc<Birth>,
) -> Result<Arc<Queue>> {
    // Estimating times is not the program's arithmetic.
    let _program = FloatEnv::hold();
    let rank = birth.rank();
    let _acting = Acting::rank(rank);
    // The settings were wrong before any phase began.
    let settings = settings.map_err(|error| error.during(call));
    // What the ranks wait for while they meet is told too.
    begin(&settings, rank);
    if let Ok(settings) = &settings {
        report::show_start(birth, settings);
    }
    let join = || {
        birth.enter(StartPhase::Meeting)?;
        // Without settings of its own the rank joins with those that are built in, to tell the
        // others; its own error counts whatever comes of that.
        let mut net = match &settings {
            Ok(settings) => NetSettings::from(settings),
            Err(error) if nranks == 1 => return Err(error.clone()),
            Err(_) => NetSettings::default(),
        };
        name_phase(&mut net, birth);
        match (TcpRing::connect(id, rank.0, nranks, &net), settings) {
            (Ok(bootstrap), settings) => {
                with_settings(&bootstrap, settings, config, Means::default(), birth)
            }
            (Err(_), Err(error)) | (Err(error), Ok(_)) => Err(error),
        }
    };
    join().map_err(|error| birth.explain(call, error))
}

/// Adds the phase of the start to warnings of the bootstrap, and lets its waits hear that the start
/// has ended.
fn name_phase(net: &mut NetSettings, birth: &Arc<Birth>) {
    let (warn, known) = (Arc::clone(&net.warn), Arc::clone(birth));
    net.warn = Arc::new(move |text| {
        warn(&format!(
            "{text} (phase `{}` of its start)",
            known.phase().name()
        ));
    });
    net.birth = Some(Arc::clone(birth));
}

/// Joins the ranks that `find` finds this process among.
pub(in crate::comm) fn launched(
    call: &'static str,
    find: impl FnOnce(&NetSettings) -> Result<Launch>,
    config: &CommConfig,
) -> Result<Arc<Queue>> {
    // With settings that are wrong here, this rank meets the others all the same, to tell them.
    let net = settings(config).map_or_else(|_| NetSettings::default(), |s| NetSettings::from(&s));
    let launch = find(&net).map_err(|error| error.during(call))?;
    match &launch.id {
        Some(id) => over_tcp(call, launch.nranks, id, launch.rank, config),
        None => over(&*launch.connect(&net)?, config, Means::default()),
    }
}

/// Joins over the program's MPI, which makes progress too while callers wait: they call `idle` now
/// and then.
pub(in crate::comm) fn over_program(
    bootstrap: &dyn Bootstrap,
    config: &CommConfig,
    idle: Option<IdleHook>,
) -> Result<Arc<Queue>> {
    if let Some(idle) = &idle {
        turn::offer(idle);
    }
    let means = Means {
        idle,
        net: None,
        adopts: true,
    };
    over(bootstrap, config, means)
}

/// Joins over a bootstrap.
pub(in crate::comm) fn over(
    bootstrap: &dyn Bootstrap,
    config: &CommConfig,
    means: Means,
) -> Result<Arc<Queue>> {
    let _program = FloatEnv::hold();
    let settings = settings(config).map_err(|error| error.during("CommInit"));
    let birth = Arc::new(Birth::awaited(
        bootstrap.rank(),
        bootstrap.nranks(),
        held(&settings),
    ));
    if let Ok(settings) = &settings {
        report::show_start(&birth, settings);
    }
    let make = || {
        if means.adopts
            && let Some(made) = of_another(bootstrap, (&settings, config), &means, &birth)?
        {
            return Ok(made);
        }
        with_settings(bootstrap, settings, config, means, &birth)
    };
    make().map_err(|error| birth.explain("CommInit", error))
}

/// Made of what another communicator has, where all ranks have one in common.
fn of_another(
    bootstrap: &dyn Bootstrap,
    (settings, config): (&Result<Settings>, &CommConfig),
    means: &Means,
    birth: &Birth,
) -> Result<Option<Arc<Queue>>> {
    let rank = bootstrap.rank();
    let (_timed, _acting) = (tally::waiting("CommInit"), Acting::rank(rank));
    begin(settings, rank);
    birth.enter(StartPhase::Comparing)?;
    let made = adopted::adopt(bootstrap, (settings, config), means.idle.as_ref())?;
    if made.is_some() {
        birth.end();
    }
    Ok(made)
}

/// All ranks as threads of this process.
pub(in crate::comm) fn all_threads(
    devices: &[CommDevice],
    config: &CommConfig,
) -> Result<Vec<Arc<Queue>>> {
    let nranks = devices.len() as u32;
    if nranks == 0 {
        return Err(Error::argument(
            "a communicator of 0 ranks",
            "ask for at least one rank",
        ));
    }
    let members = ThreadsBootstrap::group(nranks);
    let start = |(member, &device): (ThreadsBootstrap, &CommDevice)| {
        let config = CommConfig {
            device,
            ..config.clone()
        };
        let builder = std::thread::Builder::new();
        builder.spawn(move || {
            turns::none_here();
            tally::counts_elsewhere();
            over(&member, &config, Means::default())
        })
    };
    let mut threads = Vec::new();
    // Ranks that cannot start let go of their places, which the others hear of.
    let started = members
        .into_iter()
        .zip(devices)
        .try_for_each(|member| start(member).map(|thread| threads.push(thread)));
    let panicked = |_| Err(Error::internal("initialising panicked"));
    let ends = threads.into_iter().map(turns::join);
    let made: Vec<_> = ends.map(|end| end.unwrap_or_else(panicked)).collect();
    started.map_err(|error| {
        let what = format!("could not start a thread for each of {nranks} ranks");
        Error::system(what, &error, crate::proxy::service::THREADS_SHORT).during("CommInitAll")
    })?;
    made.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::HoldIn;

    #[test]
    fn a_start_can_be_held_in_every_phase() {
        let words: Vec<_> = HoldIn::WORDS.iter().map(|word| word.text).collect();
        let mut expected = vec!["none"];
        expected.extend(StartPhase::ALL.map(StartPhase::name));
        assert_eq!(words, expected);
    }
}
