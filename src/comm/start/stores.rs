//! Which kind of store this node's ranks write slots with: as set, or as was measured here.
//!
//! The lowest rank of a node decides for all of them and tells them where ranks tell each other
//! what they have seen ([`super::init`]). It looks at what is kept of this boot, and measures what
//! is missing, one pair of cores of each class in which the ranks are. The kind of store decides
//! nothing but speed, so a file that is missing, strange or hostile costs a measurement at most.

use super::meet::version;
use crate::base::Result;
use crate::config::kept::{self, KeptFile};
use crate::config::{self, Settings};
use crate::exec::host::probe::{self, HandOver};
use crate::topo::pairs::{self, PairClass, Pairs};
use crate::topo::{self, Crowding, Machine, RankPlace};
use crate::tune::stores::{Measured, Stores, stores};
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a measurement holds in a virtual machine, whose host moves its cores.
const VIRTUAL: Duration = Duration::from_secs(60);
/// How often a process tries to measure a class before it leaves it.
const TRIES: u32 = 3;
/// How long a person who asks waits for a measurement, on a machine that is busy.
const PATIENCE: Duration = Duration::from_millis(500);

/// Times of a hand-over between pairs of one class.
type Found = (PairClass, HandOver);

/// Measurements that this process knows, and how many have failed.
struct Known {
    found: Vec<Found>,
    has_read: bool,
    /// Measurements that came to nothing.
    failures: u32,
}

static KNOWN: Mutex<Known> = Mutex::new(Known {
    found: Vec::new(),
    has_read: false,
    failures: 0,
});

/// The decision of the lowest of the `local` ranks for its node.
pub(in crate::comm) fn decide(
    settings: &Settings,
    local: &[&RankPlace],
    crowding: Crowding,
) -> Stores {
    match settings.stores() {
        config::Stores::Cached => Stores::Cached,
        config::Stores::Streamed => Stores::Streamed,
        config::Stores::Auto if local.len() < 2 => Stores::Streamed,
        config::Stores::Auto => {
            let unknown = match crowding.oversubscribed {
                // Ranks that take turns on a core hand over within its cache.
                true => Stores::Cached,
                false => Stores::Streamed,
            };
            match Machine::detect() {
                Ok(machine) => measured(&pairs::pairs(machine, local), unknown),
                Err(_) => unknown,
            }
        }
    }
}

/// The decision for a child of a communicator on one node: its parent's, where nothing else is set.
pub(in crate::comm) fn of_child(
    parent: Stores,
    settings: &Settings,
    local: &[&RankPlace],
    crowding: Crowding,
) -> Stores {
    match settings.stores() {
        config::Stores::Auto if local.len() > 1 => parent,
        _ => decide(settings, local, crowding),
    }
}

/// Decides by the measured times of these classes. Returns `unknown` where a class has none, or
/// where all ranks have one core.
fn measured(classes: &[Pairs], unknown: Stores) -> Stores {
    let found = look(classes, probe::LIMIT);
    let mut measured = Vec::new();
    for (class, HandOver { cached, streamed }) in found {
        let of_class = classes.iter().find(|pairs| pairs.class == class);
        measured.push(Measured {
            pairs: of_class.map_or(0, |pairs| pairs.count),
            cached,
            streamed,
        });
        tracing::info!(
            "256 KiB pass between {} in {cached} ns, and in {streamed} ns past the cache",
            class.description()
        );
    }
    // A class of which nothing is known could be the one that counts.
    let chosen = match measured.len() == classes.len() && !classes.is_empty() {
        true => stores(&measured),
        false => unknown,
    };
    tracing::info!("slots are written {}", words(chosen));
    chosen
}

fn words(chosen: Stores) -> &'static str {
    match chosen {
        Stores::Cached => "in the ordinary way",
        Stores::Streamed => "past the cache",
    }
}

/// Returns the times of these classes. Those that are not known yet are measured first.
fn look(classes: &[Pairs], limit: Duration) -> Vec<Found> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let places = kept::places();
    if !known.has_read {
        known.found = read(&places);
        known.has_read = true;
    }
    let mut is_new = false;
    for pairs in classes {
        let is_there = known.found.iter().any(|(class, _)| *class == pairs.class);
        if is_there || known.failures >= TRIES {
            continue;
        }
        let cores = pairs.cores.clone();
        let place: probe::Place =
            Arc::new(move |side| -> Result<()> { pairs::bind_quickly(&cores[side]) });
        match probe::measure(&place, limit) {
            Some(found) => {
                known.found.push((pairs.class, found));
                is_new = true;
            }
            None => known.failures += 1,
        }
    }
    // What was found on a busy machine, after a long wait, is not for others.
    if is_new && limit <= probe::LIMIT {
        // Where nothing can be kept, the next process measures again.
        kept::write(&places, KeptFile::Machine, &text_of(&about(), &known.found));
    }
    let wanted = |(class, _): &&Found| classes.iter().any(|pairs| pairs.class == *class);
    known.found.iter().filter(wanted).copied().collect()
}

fn read(places: &[PathBuf]) -> Vec<Found> {
    let holds = topo::place::is_virtual().then_some(VIRTUAL);
    let text = kept::read(places, KeptFile::Machine, holds);
    text.and_then(|text| from_text(&about(), &text))
        .unwrap_or_default()
}

/// Names the machine that a measurement holds for, in the first lines of the file.
fn about() -> String {
    let machine = Machine::detect().ok();
    let package = machine.and_then(|machine| machine.packages().next());
    let processor = package.and_then(|package| package.name.as_deref());
    format!(
        "kolo {}\nboot {}\nprocessor {}\n",
        version(),
        topo::place::boot_id(),
        processor.unwrap_or("unknown").replace('\n', " ")
    )
}

fn text_of(about: &str, found: &[Found]) -> String {
    let mut text = about.to_string();
    for (class, HandOver { cached, streamed }) in found {
        let _ = writeln!(text, "{} {cached} {streamed}", class.name());
    }
    text
}

/// Reads the times in a file that holds for `about`; `None` if it is for another machine, or
/// garbled.
fn from_text(about: &str, text: &str) -> Option<Vec<Found>> {
    /// No hand-over that was measured takes longer.
    const MOST: u64 = 1_000_000_000;
    let mut found: Vec<Found> = Vec::new();
    for line in text.strip_prefix(about)?.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let &[class, cached, streamed] = words.as_slice() else {
            return None;
        };
        let class = PairClass::ALL.into_iter().find(|it| it.name() == class)?;
        let time = |text: &str| text.parse().ok().filter(|time| (1..MOST).contains(time));
        let (cached, streamed) = (time(cached)?, time(streamed)?);
        if found.iter().any(|(known, _)| *known == class) {
            return None;
        }
        found.push((class, HandOver { cached, streamed }));
    }
    Some(found)
}

/// For `kolo info`: what a hand-over costs between the cores of this machine, and what follows,
/// one class of pairs a line.
pub fn report() -> Vec<String> {
    let Ok(machine) = Machine::detect() else {
        return vec!["the machine is not known".into()];
    };
    let classes = pairs::core_pairs(machine);
    let found = look(&classes, PATIENCE);
    let line = |pairs: &Pairs| {
        let name = pairs.class.description();
        let Some((_, times)) = found.iter().find(|(class, _)| *class == pairs.class) else {
            return format!("{name}: could not be measured, past the cache");
        };
        let HandOver { cached, streamed } = *times;
        let alone = Measured {
            pairs: 1,
            cached,
            streamed,
        };
        format!(
            "{name}: {:.1} us for 256 KiB, {:.1} past the cache; slots are written {}",
            cached as f64 / 1e3,
            streamed as f64 / 1e3,
            words(stores(&[alone]))
        )
    };
    match classes.is_empty() {
        true => vec!["one core only".into()],
        false => classes.iter().map(line).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::{CommConfig, Communicator, RedOp};

    const ABOUT: &str = "kolo 1\nboot 5a\nprocessor X\n";

    #[test]
    fn what_was_measured_is_read_again() {
        let of = |cached, streamed| HandOver { cached, streamed };
        let found = vec![
            (PairClass::Cache, of(5100, 6900)),
            (PairClass::Machine, of(30_000, 9_000)),
        ];
        let text = text_of(ABOUT, &found);
        assert_eq!(from_text(ABOUT, &text), Some(found));
        assert_eq!(from_text(ABOUT, ABOUT), Some(Vec::new()));
        for other in [
            "kolo 2\nboot 5a\nprocessor X\n",
            "kolo 1\nboot 5b\nprocessor X\n",
            "kolo 1\nboot 5a\nprocessor Y\n",
        ] {
            assert_eq!(from_text(other, &text), None, "{other}");
        }
    }

    /// Communicators of two ranks that write slots in a way, and what both got from calls whose
    /// data pass through slots: the bits.
    fn bits_of(kind: &str) -> (Vec<usize>, Vec<Vec<u32>>) {
        let said = [("stores", kind), ("direct", "false")];
        let config = CommConfig {
            overrides: said.map(|(key, value)| (key.into(), value.into())).into(),
            ..CommConfig::default()
        };
        let comms = Communicator::init_all(2, &config).unwrap();
        let kinds = comms.iter().map(|comm| {
            let exec = comm.queue.exec.driver().expect("nobody else drives");
            exec.engine.stream_bytes()
        });
        let kinds = kinds.collect();
        let rank = |comm: Communicator| -> Result<Vec<u32>> {
            let mut random = fastrand::Rng::with_seed(7 + u64::from(comm.rank()));
            let send: Vec<f32> = (0..1 << 18).map(|_| random.f32() - 0.5).collect();
            let mut bits = Vec::new();
            for count in [16 << 10, 1 << 18] {
                let mut recv = vec![f32::NAN; count];
                comm.all_reduce(&send[..count], &mut recv, RedOp::SUM)?;
                bits.extend(recv.iter().map(|x| x.to_bits()));
                comm.all_to_all(&send[..count], &mut recv)?;
                bits.extend(recv.iter().map(|x| x.to_bits()));
                comm.broadcast(&mut recv, 1)?;
                bits.extend(recv.iter().map(|x| x.to_bits()));
            }
            Ok(bits)
        };
        let threads: Vec<_> = comms
            .into_iter()
            .map(|comm| std::thread::spawn(move || rank(comm).unwrap()))
            .collect();
        let bits = threads.into_iter().map(|thread| thread.join().unwrap());
        (kinds, bits.collect())
    }

    #[test]
    fn the_setting_chooses_the_kind_and_no_bit_differs() {
        let (cached, bits) = bits_of("cached");
        assert_eq!(cached, [usize::MAX; 2]);
        let (streamed, others) = bits_of("streamed");
        assert!(
            streamed.iter().all(|&from| from <= 32 << 10),
            "{streamed:?}"
        );
        assert_eq!(bits, others);
        let (chosen, others) = bits_of("auto");
        assert_eq!(chosen[0], chosen[1], "one decision for the node");
        assert_eq!(bits, others);
    }

    #[test]
    fn what_is_known_is_not_measured_again() {
        let machine = Machine::detect().unwrap();
        let classes = pairs::core_pairs(machine);
        let first = look(&classes, PATIENCE);
        assert_eq!(look(&classes, Duration::ZERO), first);
    }

    #[test]
    fn a_garbled_file_says_nothing() {
        for line in [
            "cache 1",
            "cache 1 2 3",
            "cache 0 5",
            "cache 5 -1",
            "cache 5 1000000000",
            "cache 5 99999999999999999999999",
            "caches 5 6",
            "cache 5 6\ncache 5 6",
            "",
        ] {
            let text = format!("{ABOUT}{line}\n");
            assert_eq!(from_text(ABOUT, &text), None, "{line}");
        }
    }
}
