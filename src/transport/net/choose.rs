//! Which network carries the data: a pure function from what was tried to what is taken.
//!
//! The order is plugin, verbs, ofi, socket; a network by name goes before all, and MPI is taken
//! only by name (libfabric too, or by that of its provider). Whoever starts networks hands in every
//! one with its outcome, so that one line can say what was chosen and why the others were not.

use super::Net;
use crate::base::{Error, Result};
use crate::config::Net as Wish;
use std::sync::Arc;

/// One network that was tried.
pub struct Candidate {
    /// Which one.
    pub kind: Wish,
    /// The network, or why it cannot be used: the end of the sentence "it is not used because".
    pub outcome: std::result::Result<Arc<dyn Net>, String>,
}

/// The network that is taken.
pub struct Choice {
    /// Which one.
    pub kind: Wish,
    /// The network.
    pub net: Arc<dyn Net>,
    /// One line for the log: what was chosen, its devices, and why others were not.
    pub line: String,
}

/// Best first.
pub(super) const ORDER: [Wish; 4] = [Wish::Plugin, Wish::Verbs, Wish::Ofi, Wish::Socket];

/// Chooses by `wish` (setting `net`) among the candidates, at most one a kind. All ranks must
/// come to the same kind; the caller compares.
///
/// Errors: `InvalidUsage` that names every candidate and its reason, when none is left.
pub fn choose(wish: Wish, candidates: Vec<Candidate>) -> Result<Choice> {
    let order = match wish {
        Wish::Auto => ORDER.to_vec(),
        named => vec![named],
    };
    let taken = order.iter().find_map(|kind| {
        let mut found = candidates.iter().filter(|c| c.kind == *kind);
        found.find_map(|c| Some((c.kind, c.outcome.as_ref().ok()?.clone())))
    });
    let others = reasons(&candidates, &order, taken.as_ref().map(|(kind, _)| *kind));
    let Some((kind, net)) = taken else {
        return Err(Error::usage(
            format!(
                "no network between nodes can be used with KOLO_NET={}: {others}",
                wish.text()
            ),
            "set KOLO_NET to one that this machine has, such as socket, or unset it",
        ));
    };
    let devices: Vec<String> = net
        .devices()
        .iter()
        .map(|d| match d.address {
            Some(address) => format!("{} {address}", d.name),
            None => format!("{} port {}", d.name, d.port),
        })
        .collect();
    let about = net.about().map(|about| format!(" by {about}"));
    let line = format!(
        "NET {}: {}{}, KOLO_NET={}; {others}",
        net.name(),
        devices.join(", "),
        about.unwrap_or_default(),
        wish.text()
    );
    Ok(Choice { kind, net, line })
}

/// Why each kind that was not taken was not, in the order of choice.
fn reasons(candidates: &[Candidate], order: &[Wish], taken: Option<Wish>) -> String {
    let kinds = ORDER.into_iter().chain([Wish::Mpi]);
    let place = |kind| order.iter().position(|k| *k == kind);
    let reason = |kind: Wish| {
        let candidate = candidates.iter().find(|c| c.kind == kind);
        match candidate.map(|c| &c.outcome) {
            None => "it is not part of this kolo".to_string(),
            Some(Err(why)) => why.clone(),
            Some(Ok(_)) if place(kind).is_none() => "it was not asked for".to_string(),
            Some(Ok(_)) => "a better one was found".to_string(),
        }
    };
    let lines = kinds
        .filter(|kind| Some(*kind) != taken)
        .map(|kind| format!("not {}: {}", kind.text(), reason(kind)));
    lines.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::super::{Connecting, Handle, Listener, MemoryKinds, Properties};
    use super::*;

    struct Named(&'static str, Vec<Properties>);

    impl Net for Named {
        fn name(&self) -> &str {
            self.0
        }

        fn devices(&self) -> &[Properties] {
            &self.1
        }

        fn listen(&self, _: usize) -> Result<(Handle, Box<dyn Listener>)> {
            Err(Error::internal("never called"))
        }

        fn connect(&self, _: usize, _: &Handle) -> Result<Box<dyn Connecting>> {
            Err(Error::internal("never called"))
        }
    }

    fn there(kind: Wish) -> Candidate {
        let device = Properties {
            name: "dev0".into(),
            address: "10.0.0.1".parse().ok(),
            pci_path: None,
            speed_mbits: 1,
            port: 1,
            max_connections: 1,
            max_receives: 1,
            latency_ns: 1,
            memory: MemoryKinds::default(),
        };
        Candidate {
            kind,
            outcome: Ok(Arc::new(Named(kind.text(), vec![device]))),
        }
    }

    fn missing(kind: Wish, why: &str) -> Candidate {
        Candidate {
            kind,
            outcome: Err(why.into()),
        }
    }

    #[test]
    fn best_first_and_the_line_says_why() {
        let all = || vec![there(Wish::Socket), there(Wish::Verbs), there(Wish::Plugin)];
        assert_eq!(choose(Wish::Auto, all()).unwrap().kind, Wish::Plugin);
        let ofi = vec![there(Wish::Socket), there(Wish::Ofi)];
        assert_eq!(choose(Wish::Auto, ofi).unwrap().kind, Wish::Ofi);
        let candidates = vec![
            there(Wish::Socket),
            missing(Wish::Verbs, "libibverbs.so.1 is not installed"),
        ];
        let choice = choose(Wish::Auto, candidates).unwrap();
        assert_eq!(choice.net.name(), "socket");
        assert_eq!(
            choice.line,
            "NET socket: dev0 10.0.0.1, KOLO_NET=auto; not plugin: it is not part of this kolo; \
             not verbs: libibverbs.so.1 is not installed; not ofi: it is not part of this kolo; \
             not mpi: it is not part of this kolo"
        );
    }

    #[test]
    fn a_name_goes_before_all() {
        let all = || vec![there(Wish::Mpi), there(Wish::Verbs), there(Wish::Socket)];
        assert_eq!(choose(Wish::Auto, all()).unwrap().kind, Wish::Verbs);
        let socket = choose(Wish::Socket, all()).unwrap();
        assert_eq!(socket.kind, Wish::Socket);
        assert!(socket.line.contains("not verbs: it was not asked for"));
        assert_eq!(choose(Wish::Mpi, all()).unwrap().kind, Wish::Mpi);
        // MPI alone is no reason to use it.
        assert!(choose(Wish::Auto, vec![there(Wish::Mpi)]).is_err());
    }

    #[test]
    fn what_was_asked_for_and_is_missing_is_an_error() {
        let candidates = vec![missing(Wish::Verbs, "no device"), there(Wish::Socket)];
        let error = choose(Wish::Verbs, candidates).err().unwrap();
        assert!(error.what.contains("KOLO_NET=verbs"), "{error}");
        assert!(error.what.contains("not verbs: no device"), "{error}");
    }
}
