//! The ways in which the ranks of a new communicator find each other: by unique id, by what a
//! launcher says, over a bootstrap of the caller's, as threads of this process.

use super::init::{Means, begin, with_settings};
use crate::base::float_env::FloatEnv;
use crate::base::{Error, Rank, Result};
use crate::bootstrap::{Bootstrap, Launch, NetSettings, TcpRing, ThreadsBootstrap, UniqueId};
use crate::comm::{CommConfig, Communicator};
use crate::config::Settings;

/// The settings of a new communicator, unless the caller has failed to say what it wants.
pub(in crate::comm) fn settings(config: &CommConfig) -> Result<Settings> {
    if let Some(error) = &config.refused {
        return Err(error.clone());
    }
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
) -> Result<Communicator> {
    // Estimating times is not the program's combine.
    let _program = FloatEnv::hold();
    let settings = settings(config);
    // What the ranks wait for while they meet is told too.
    begin(&settings, Rank(rank));
    let join = || {
        // Without settings of its own the rank joins with those that are built in, to tell the
        // others; its own error counts whatever comes of that.
        let net = match &settings {
            Ok(settings) => NetSettings::from(settings),
            Err(error) if nranks == 1 => return Err(error.clone()),
            Err(_) => NetSettings::default(),
        };
        match (TcpRing::connect(id, rank, nranks, &net), settings) {
            (Ok(bootstrap), settings) => {
                with_settings(&bootstrap, settings, config, Means::default())
            }
            (Err(_), Err(error)) | (Err(error), Ok(_)) => Err(error),
        }
    };
    join().map_err(|error| error.at(Rank(rank)).during(call))
}

/// Joins the ranks that `find` finds this process among.
pub(in crate::comm) fn launched(
    call: &'static str,
    find: impl FnOnce(&NetSettings) -> Result<Launch>,
    config: &CommConfig,
) -> Result<Communicator> {
    // With settings that are wrong here, this rank meets the others all the same, to tell them.
    let net = settings(config).map_or_else(|_| NetSettings::default(), |s| NetSettings::from(&s));
    let launch = find(&net).map_err(|error| error.during(call))?;
    match &launch.id {
        Some(id) => over_tcp(call, launch.nranks, id, launch.rank, config),
        None => over(&*launch.connect(&net)?, config, Means::default()),
    }
}

/// Joins over a bootstrap.
pub(in crate::comm) fn over(
    bootstrap: &dyn Bootstrap,
    config: &CommConfig,
    means: Means,
) -> Result<Communicator> {
    let _program = FloatEnv::hold();
    let made = with_settings(bootstrap, settings(config), config, means);
    made.map_err(|error| error.at(bootstrap.rank()).during("CommInit"))
}

/// All ranks as threads of this process.
pub(in crate::comm) fn all_threads(nranks: u32, config: &CommConfig) -> Result<Vec<Communicator>> {
    if nranks == 0 {
        return Err(Error::argument(
            "a communicator of 0 ranks",
            "ask for at least one rank",
        ));
    }
    let members = ThreadsBootstrap::group(nranks);
    let start = |member: ThreadsBootstrap| {
        let config = config.clone();
        let builder = std::thread::Builder::new();
        builder.spawn(move || over(&member, &config, Means::default()))
    };
    let mut threads = Vec::new();
    // Ranks that cannot start let go of their places, which the others hear of.
    let started = members
        .into_iter()
        .try_for_each(|member| start(member).map(|thread| threads.push(thread)));
    let panicked = |_| Err(Error::internal("initialising panicked"));
    let ends = threads.into_iter().map(|thread| thread.join());
    let made: Vec<_> = ends.map(|end| end.unwrap_or_else(panicked)).collect();
    started.map_err(|error| {
        let what = format!("could not start a thread for each of {nranks} ranks");
        Error::system(what, &error, crate::proxy::service::THREADS_SHORT).during("CommInitAll")
    })?;
    made.into_iter().collect()
}
