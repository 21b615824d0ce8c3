//! The agreement of all ranks at the end of MPI_Init.
//!
//! Kolo takes calls only where every process of the job can. A process without this library (a
//! static program, a node without the file, an environment that was cleaned) would wait in MPI's
//! barrier for ranks that wait in kolo's. So the processes exchange one message along each edge of
//! a tree, upwards, and one downwards: on the way up whether all are there, on the way down what
//! world rank 0 wants. A rank that does not answer within a limit switches all off.

use crate::decide::{Agreement, Attach};
use crate::say;
use crate::settings::Settings;
use crate::sys::kolo_pmpi_tag_ub_key;
use mpi::ffi;
use std::ffi::{c_int, c_void};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;
use std::time::Duration;

/// Of the messages and of what stands in `decide.rs`.
const VERSION: u64 = 1;

static AGREED: OnceLock<Agreement> = OnceLock::new();
static NODE: OnceLock<u64> = OnceLock::new();

/// The agreement; none: kolo takes nothing.
#[inline]
pub fn agreed() -> Option<&'static Agreement> {
    AGREED.get()
}

/// A number that all ranks of a node have, and another for those of other nodes.
pub fn node() -> u64 {
    *NODE.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        for file in [
            "/proc/sys/kernel/random/boot_id",
            "/proc/sys/kernel/hostname",
        ] {
            std::fs::read(file).unwrap_or_default().hash(&mut hasher);
        }
        // Containers of one node see each other's memory only where they share it.
        if let Ok(place) = std::fs::metadata("/dev/shm") {
            std::os::unix::fs::MetadataExt::dev(&place).hash(&mut hasher);
        }
        hasher.finish()
    })
}

/// One message: version; 1: it goes well; world rank + 1 of the first whose settings are wrong, and
/// 0 where there is none; the settings.
const WORDS: usize = 7;
type Message = [u64; WORDS];

fn message(agreed: &Agreement) -> Message {
    let (kind, calls) = match agreed.attach {
        Attach::After(calls) => (0, calls),
        Attach::Earned => (1, 0),
    };
    let (ranks, sums) = (
        u64::from(agreed.min_ranks),
        u64::from(agreed.float_sums_stay),
    );
    [VERSION, 1, 0, ranks, kind, calls, sums]
}

fn agreement(message: &Message) -> Agreement {
    Agreement {
        min_ranks: message[3] as u32,
        attach: match message[4] {
            0 => Attach::After(message[5]),
            _ => Attach::Earned,
        },
        float_sums_stay: message[6] != 0,
    }
}

/// Seconds, by MPI's clock.
fn now() -> f64 {
    // SAFETY: MPI is initialised.
    unsafe { ffi::PMPI_Wtime() }
}

/// The tag that no program sends: the largest.
fn tag() -> c_int {
    const LEAST: c_int = 32_767;
    let (mut value, mut found) = (std::ptr::null_mut::<c_int>(), 0);
    // SAFETY: MPI is initialised; the value is a pointer to int that MPI keeps.
    unsafe {
        let place = (&raw mut value).cast::<c_void>();
        let world = ffi::RSMPI_COMM_WORLD;
        ffi::PMPI_Comm_get_attr(world, kolo_pmpi_tag_ub_key, place, &mut found);
        if found != 0 && !value.is_null() {
            *value
        } else {
            LEAST
        }
    }
}

/// The messages of one rank with another.
struct Line {
    peer: c_int,
    tag: c_int,
}

impl Line {
    fn send(&self, message: &Message) {
        // SAFETY: MPI is initialised; a message so small is sent without waiting for its receiver.
        unsafe {
            ffi::PMPI_Send(
                message.as_ptr().cast(),
                WORDS as c_int,
                ffi::RSMPI_UINT64_T,
                self.peer,
                self.tag,
                ffi::RSMPI_COMM_WORLD,
            );
        }
    }

    /// Waits for the other's message. None: nothing came in time.
    fn receive(&self, until: f64) -> Option<Message> {
        let mut looks = 0u32;
        loop {
            let mut there = 0;
            // SAFETY: MPI is initialised.
            unsafe {
                ffi::PMPI_Iprobe(
                    self.peer,
                    self.tag,
                    ffi::RSMPI_COMM_WORLD,
                    &mut there,
                    ffi::RSMPI_STATUS_IGNORE,
                );
            }
            if there != 0 {
                break;
            }
            // Each look at the clock stands behind a look at MPI.
            if now() > until {
                return None;
            }
            looks += 1;
            match looks < 1000 {
                true => std::thread::yield_now(),
                false => std::thread::sleep(Duration::from_micros(200)),
            }
        }
        let mut message = [0; WORDS];
        // SAFETY: the message is there, and has as many words.
        let code = unsafe {
            ffi::PMPI_Recv(
                message.as_mut_ptr().cast(),
                WORDS as c_int,
                ffi::RSMPI_UINT64_T,
                self.peer,
                self.tag,
                ffi::RSMPI_COMM_WORLD,
                ffi::RSMPI_STATUS_IGNORE,
            )
        };
        (code == 0).then_some(message)
    }
}

fn does_not_answer(rank: c_int) {
    say(&format!(
        "kolo: the collectives of this program stay with MPI: rank {rank} does not answer. \
         Remedy: start all ranks with libkolo_pmpi.so in LD_PRELOAD; a static program cannot use it"
    ));
}

/// The ranks to which a rank of a binomial tree sends: they differ from it in one of the bits below
/// its lowest.
fn children(rank: c_int, nranks: c_int) -> Vec<c_int> {
    let all = (nranks as u32).next_power_of_two() as c_int;
    let lowest = if rank == 0 { all } else { rank & -rank };
    std::iter::successors(Some(1), |bit| Some(bit << 1))
        .take_while(|&bit| bit < lowest)
        .map(|bit| rank | bit)
        .filter(|&child| child < nranks)
        .collect()
}

/// Joins what a child says into what this rank will say.
fn join(mine: &mut Message, theirs: &Message) {
    if theirs[0] != VERSION || theirs[1] != 1 {
        mine[1] = 0;
    }
    if theirs[0] == VERSION && theirs[2] != 0 && (mine[2] == 0 || theirs[2] < mine[2]) {
        mine[2] = theirs[2];
    }
}

/// Agrees with all ranks of the world. Whether kolo takes calls.
pub fn agree(settings: &Settings) -> bool {
    let (mut nranks, mut rank) = (0, 0);
    // SAFETY: MPI is initialised.
    unsafe {
        ffi::PMPI_Comm_size(ffi::RSMPI_COMM_WORLD, &mut nranks);
        ffi::PMPI_Comm_rank(ffi::RSMPI_COMM_WORLD, &mut rank);
    }
    let tag = tag();
    let line = |peer| Line { peer, tag };
    let children = children(rank, nranks);
    let begun = now();
    let mut silent = Vec::new();
    let mut mine = message(&settings.wanted);
    mine[1] = u64::from(settings.on && settings.wrong.is_none());
    mine[2] = if settings.wrong.is_some() {
        rank as u64 + 1
    } else {
        0
    };
    for &child in &children {
        // Whoever has children itself waits for them first.
        let levels = 1 + child.trailing_zeros();
        match line(child).receive(begun + settings.limit * f64::from(levels)) {
            Some(message) => join(&mut mine, &message),
            None => {
                does_not_answer(child);
                mine[1] = 0;
                silent.push(child);
            }
        }
    }
    let heard = match rank {
        0 => Some(mine),
        _ => {
            let parent = line(rank & (rank - 1));
            parent.send(&mine);
            // Rank 0 may wait for a child on each level, and each level may hear of it later.
            let levels = 2 * (1 + u32::BITS - (nranks as u32).leading_zeros());
            let heard = parent.receive(begun + settings.limit * f64::from(levels));
            if heard.is_none() && rank == 1 {
                does_not_answer(0);
            }
            heard
        }
    };
    let verdict = match heard {
        Some(message) if message[0] == VERSION => message,
        _ => [VERSION, 0, 0, 0, 0, 0, 0],
    };
    for child in children.iter().filter(|child| !silent.contains(child)) {
        line(*child).send(&verdict);
    }
    // Many ranks may have one fault, and one of them tells it.
    if let Some(wrong) = settings
        .wrong
        .as_ref()
        .filter(|_| verdict[2] == rank as u64 + 1)
    {
        say(&format!(
            "kolo: the collectives of this program stay with MPI: {wrong}"
        ));
    }
    if verdict[1] == 1 {
        let _ = AGREED.set(agreement(&verdict));
    }
    verdict[1] == 1
}
