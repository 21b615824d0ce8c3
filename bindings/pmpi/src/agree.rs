//! The agreement of all ranks at the end of MPI_Init.
//!
//! Kolo takes calls only where every process of the job can. A process without this library (a
//! static program, a node without the file, an environment that was cleaned) would wait in MPI's
//! barrier for ranks that wait in kolo's. So the processes exchange one message along each edge of
//! a tree, upwards, and one downwards: on the way up whether all are there, on the way down what
//! world rank 0 wants. A rank that does not answer within a limit switches all off.

use crate::decide::{Across, Agreement, Attach, Collective, Left};
use crate::settings::Settings;
use crate::sys::kolo_pmpi_tag_ub_key;
use crate::{agreed, devices, memory, nodes, say, verify};
use mpi::ffi;
use std::ffi::{c_int, c_void};
use std::path::Path;
use std::time::Duration;

/// Of the messages and of what stands in `decide.rs`.
const VERSION: u64 = 6;

/// One message. Upwards it says whether all below can, downwards what holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Message {
    version: u64,
    /// 1: it goes well.
    well: u64,
    /// World rank + 1 of the first whose settings are wrong; 0: there is none.
    wrong: u64,
    /// World rank + 1 of the first that may have buffers on a GPU; 0: there is none.
    device: u64,
    /// The largest of the numbers of nodes, and of their complements: of one node, if they fit.
    nodes: [u64; 2],
    /// 1: some node has a network that kolo does not use.
    foreign: u64,
    min_ranks: u64,
    /// 0: after `calls` calls; 1: when they have earned it.
    attach: u64,
    calls: u64,
    float_sums_stay: u64,
    placement: u64,
    verify: u64,
    memory: u64,
    /// [`Across`], or [`AUTO`].
    across: u64,
    listed: [u64; Collective::COUNT],
    faster: Left,
}

const KOLO: u64 = Across::Kolo as u64;
const LEVELS: u64 = Across::Levels as u64;
/// Whether networks are kolo's or MPI's hangs on what the nodes have.
const AUTO: u64 = 9;

const WORDS: usize = size_of::<Message>() / size_of::<u64>();

impl Message {
    /// Begins with what one rank knows; `ready`: it can take calls.
    fn new(settings: &Settings, ready: bool, rank: c_int) -> Message {
        let (attach, calls) = match settings.attach {
            Attach::After(calls) => (0, calls),
            Attach::Earned => (1, 0),
        };
        let named = |said: bool| if said { rank as u64 + 1 } else { 0 };
        Message {
            version: VERSION,
            well: u64::from(ready),
            wrong: named(settings.wrong.is_some()),
            device: named(devices::are_there(Path::new("/"))),
            nodes: [nodes::own(), !nodes::own()],
            foreign: u64::from(nodes::is_foreign()),
            min_ranks: u64::from(settings.min_ranks),
            attach,
            calls,
            float_sums_stay: u64::from(settings.float_sums_stay),
            placement: u64::from(settings.placement),
            verify: u64::from(settings.verify),
            memory: settings.memory,
            across: settings.across.map_or(AUTO, |across| across as u64),
            listed: settings.listed.left,
            faster: settings.faster.without(&settings.listed.named),
        }
    }

    const EMPTY: Message = Message {
        version: VERSION,
        well: 0,
        wrong: 0,
        device: 0,
        nodes: [0; 2],
        foreign: 0,
        min_ranks: 0,
        attach: 0,
        calls: 0,
        float_sums_stay: 0,
        placement: 0,
        verify: 0,
        memory: 0,
        across: 0,
        listed: [0; Collective::COUNT],
        faster: Left::NONE,
    };

    fn agreement(&self) -> Agreement {
        Agreement {
            min_ranks: self.min_ranks as u32,
            attach: match self.attach {
                0 => Attach::After(self.calls),
                _ => Attach::Earned,
            },
            float_sums_stay: self.float_sums_stay != 0,
            placement: self.placement != 0,
            across: match self.across {
                KOLO => Across::Kolo,
                LEVELS => Across::Levels,
                // MPI's sums between the nodes have bits of their own.
                AUTO if self.foreign == 0 || self.placement != 0 => Across::Kolo,
                AUTO => Across::Levels,
                _ => Across::Stays,
            },
            left: Left::NONE,
            faster: Left::NONE,
        }
        .leaving(self.listed, self.faster)
    }

    /// Begins with what holds, if it goes well. Whether it does.
    fn begin(&self, rank: c_int) -> bool {
        if self.well == 1 {
            let spans = self.nodes[0] != !self.nodes[1];
            if spans && !nodes::begin() {
                if rank == 0 {
                    say(
                        "kolo: the collectives of this program stay with MPI: its all-gather \
                         failed, so that a rank does not know on which nodes the others are. \
                         Remedy: see what MPI says of it",
                    );
                }
                return false;
            }
            agreed::keep(self.agreement());
            memory::begin(self.memory);
            if self.verify != 0 {
                verify::begin();
            }
        }
        self.well == 1
    }

    /// Joins what a child says into what this rank will say.
    fn join(&mut self, theirs: &Message) {
        if theirs.version != VERSION || theirs.well != 1 {
            self.well = 0;
        }
        if theirs.version != VERSION {
            return;
        }
        for (mine, theirs) in [
            (&mut self.wrong, theirs.wrong),
            (&mut self.device, theirs.device),
        ] {
            if theirs != 0 && (*mine == 0 || theirs < *mine) {
                *mine = theirs;
            }
        }
        for (mine, theirs) in self.nodes.iter_mut().zip(theirs.nodes) {
            *mine = theirs.max(*mine);
        }
        self.foreign |= theirs.foreign;
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
                (&raw const *message).cast(),
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
            if looks < 1000 {
                std::thread::yield_now()
            } else {
                std::thread::sleep(Duration::from_micros(200))
            }
        }
        let mut message = Message::EMPTY;
        // SAFETY: the message is there, and has as many words.
        let code = unsafe {
            ffi::PMPI_Recv(
                (&raw mut message).cast(),
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

fn has_devices(rank: u64) {
    say(&format!(
        "kolo: the collectives of this program stay with MPI: rank {rank} can open a GPU, and its \
         MPI takes buffers there, which kolo does not. Remedy: set KOLO_PMPI_GPU=host where no \
         collective of the program has such buffers"
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

/// Agrees with all ranks of the world; `ready`: this one can take calls. Whether kolo takes calls.
pub fn agree(settings: &Settings, ready: bool) -> bool {
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
    let mut mine = Message::new(settings, ready, rank);
    for &child in &children {
        // Whoever has children itself waits for them first.
        let levels = 1 + child.trailing_zeros();
        match line(child).receive(begun + settings.limit * f64::from(levels)) {
            Some(message) => mine.join(&message),
            None => {
                does_not_answer(child);
                mine.well = 0;
                silent.push(child);
            }
        }
    }
    let heard = match rank {
        0 => {
            if mine.well == 1 && mine.device != 0 && !settings.host_only {
                has_devices(mine.device - 1);
                mine.well = 0;
            }
            Some(mine)
        }
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
        Some(message) if message.version == VERSION => message,
        _ => Message::EMPTY,
    };
    let all = children.iter();
    all.filter(|child| !silent.contains(child))
        .for_each(|child| line(*child).send(&verdict));
    // Many ranks may have one fault, and one of them tells it.
    if let Some(wrong) = settings
        .wrong
        .as_ref()
        .filter(|_| verdict.wrong == rank as u64 + 1)
    {
        say(&format!(
            "kolo: the collectives of this program stay with MPI: {wrong}"
        ));
    }
    verdict.begin(rank)
}
