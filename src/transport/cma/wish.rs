//! Wishes for private buffers to be read: those of the settings, and where they can be granted.

use super::yama;
use crate::config::{Cma, CmaPtracer, Settings};

/// From how many bytes on the settings want private buffers to be read; `None` for never. Slots
/// are what runs where nobody has said: with pages of 4 KiB the system needs longer to find the
/// pages than slots take for one copy more (`benches/results/buffers.md`).
pub fn from(settings: &Settings) -> Option<u64> {
    if !settings.direct() {
        return None;
    }
    match settings.cma() {
        Cma::Off => None,
        Cma::Auto => settings.cma_from(),
        Cma::On => settings.cma_from().or(Some(0)),
    }
}

/// Reason for which the settings do not want it, and what would change that; `None` where they do.
pub fn refusal(settings: &Settings) -> Option<(&'static str, &'static str)> {
    match settings.cma() {
        _ if from(settings).is_some() => None,
        _ if !settings.direct() => Some(("KOLO_DIRECT is off", "unset KOLO_DIRECT")),
        Cma::Off => Some(("KOLO_CMA is off", "unset KOLO_CMA")),
        Cma::Auto | Cma::On => Some((
            "no size is set from which it would be used, as slots are faster where pages are small",
            "KOLO_CMA_FROM=SIZE, from that size on",
        )),
    }
}

/// Whether a communicator of so many ranks, `mates` of them on this node, reads private buffers
/// where all want it and may: with ranks on other nodes it does not.
pub fn serves(mates: usize, ranks: usize) -> bool {
    mates == ranks
}

/// Lets peers read this process where the settings say so and the system wants to be told.
pub fn admit(settings: &Settings) {
    if from(settings).is_none() {
        return;
    }
    yama::admit(match settings.cma_ptracer() {
        CmaPtracer::None => yama::Tracer::Nobody,
        CmaPtracer::Launcher => yama::Tracer::Launcher,
        CmaPtracer::Any => yama::Tracer::Any,
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(direct: &str, cma: &str, size: &str) -> Settings {
        let pairs = [("direct", direct), ("cma", cma), ("cma_from", size)];
        let layer = pairs.map(|(key, value)| (key.to_string(), value.to_string()));
        Settings::load(&layer).expect("settings")
    }

    #[test]
    fn whoever_says_from_when_is_obeyed() {
        let of = |direct, cma, size| from(&said(direct, cma, size));
        assert_eq!(of("on", "on", "none"), Some(0));
        assert_eq!(of("on", "on", "1M"), Some(1 << 20));
        assert_eq!(of("on", "auto", "1M"), Some(1 << 20));
        assert_eq!(of("on", "auto", "none"), None);
        assert_eq!(of("on", "off", "1M"), None);
        assert_eq!(of("off", "on", "1M"), None);
    }

    #[test]
    fn a_reason_stands_where_nobody_wants_it() {
        let of = |direct, cma, size| refusal(&said(direct, cma, size)).map(|(why, _)| why);
        assert_eq!(of("on", "on", "none"), None);
        assert_eq!(of("on", "auto", "1M"), None);
        assert_eq!(of("off", "on", "1M"), Some("KOLO_DIRECT is off"));
        assert_eq!(of("on", "off", "1M"), Some("KOLO_CMA is off"));
        assert!(of("on", "auto", "none").is_some_and(|why| why.starts_with("no size is set")));
        assert!(serves(4, 4) && !serves(4, 8));
    }
}
