//! Ranks that call different things: everybody concerned hears of it, at the latest in the next
//! common call. Where there is none, whoever comes last hears of it, in its call or when it
//! destroys the communicator: who leaves waits for nobody. And what is allowed is not held against
//! it.
//!
//! Each mismatch is planted at sizes of every class, between two ranks and among three, once with
//! a common call afterwards and once without. Waiting has a limit, so that a mismatch that nobody
//! notices ends as a wrong error and not as a hang.

#[path = "mismatches/words.rs"]
mod words;

use kolo::base::{Code, Error};
use kolo::bootstrap::ThreadsBootstrap;
use kolo::comm::RawCalls;
use kolo::comm::{Call, Collective, CommConfig, Communicator, RedOp};
use kolo::dtype::DataType;

const SIZES: [usize; 5] = [8, 1 << 10, 16 << 10, 64 << 10, 1 << 20];

/// A call as a rank makes it.
#[derive(Clone, Copy, Debug)]
struct Made {
    collective: Collective,
    bytes: usize,
    dtype: DataType,
    op: RedOp,
    peer: u32,
    in_place: bool,
}

fn of(collective: Collective, bytes: usize) -> Made {
    Made {
        collective,
        bytes,
        dtype: DataType::Float64,
        op: RedOp::SUM,
        peer: 0,
        in_place: false,
    }
}

impl Made {
    fn run(self, comm: &Communicator) -> Result<(), Error> {
        let ranks = comm.nranks() as usize;
        let count = self.bytes / self.dtype.size_bytes();
        let mut send = vec![1.0f64; self.bytes * ranks / 8];
        let mut recv = vec![f64::NAN; self.bytes * ranks / 8];
        let recv_place = match self.in_place {
            true => send.as_mut_ptr(),
            false => recv.as_mut_ptr(),
        };
        let call = Call {
            collective: self.collective,
            send: send.as_ptr().cast(),
            recv: recv_place.cast(),
            count,
            dtype: self.dtype,
            op: self.op,
            peer: self.peer,
        };
        // SAFETY: both buffers hold a block for every rank, and live until the call has ended.
        unsafe { comm.enqueue(&call, None) }
    }
}

/// Calls of a rank: `odd` is the rank that differs.
type Plan = fn(bytes: usize, odd: bool) -> Vec<Made>;

const MISMATCHES: [(&str, Plan); 12] = [
    ("collective", |bytes, odd| match odd {
        false => vec![of(Collective::AllReduce, bytes)],
        true => vec![of(Collective::Broadcast, bytes)],
    }),
    ("reading and writing", |bytes, odd| match odd {
        false => vec![of(Collective::AllGather, bytes)],
        true => vec![of(Collective::AllToAll, bytes)],
    }),
    ("count", |bytes, odd| {
        let bytes = if odd { bytes + 8 } else { bytes };
        vec![of(Collective::AllReduce, bytes)]
    }),
    ("count of a broadcast", |bytes, odd| {
        let bytes = if odd { bytes + 8 } else { bytes };
        vec![of(Collective::Broadcast, bytes)]
    }),
    ("type", |bytes, odd| {
        let dtype = if odd {
            DataType::Int64
        } else {
            DataType::Float64
        };
        vec![Made {
            dtype,
            ..of(Collective::AllReduce, bytes)
        }]
    }),
    ("operation", |bytes, odd| {
        let op = if odd { RedOp::MAX } else { RedOp::SUM };
        vec![Made {
            op,
            ..of(Collective::AllReduce, bytes)
        }]
    }),
    ("root of a broadcast", |bytes, odd| {
        vec![Made {
            peer: u32::from(odd),
            ..of(Collective::Broadcast, bytes)
        }]
    }),
    ("root of a reduce", |bytes, odd| {
        vec![Made {
            peer: u32::from(odd),
            ..of(Collective::Reduce, bytes)
        }]
    }),
    ("root of a gather", |bytes, odd| {
        vec![Made {
            peer: u32::from(odd),
            ..of(Collective::Gather, bytes)
        }]
    }),
    ("root of a scatter", |bytes, odd| {
        vec![Made {
            peer: u32::from(odd),
            ..of(Collective::Scatter, bytes)
        }]
    }),
    ("order", |bytes, odd| {
        let mut made = vec![
            of(Collective::AllReduce, bytes),
            of(Collective::AllGather, bytes),
        ];
        if odd {
            made.reverse();
        }
        made
    }),
    ("one more", |bytes, odd| {
        let more = odd.then(|| of(Collective::Broadcast, bytes));
        more.into_iter()
            .chain([of(Collective::AllReduce, bytes)])
            .collect()
    }),
];

/// A communicator of threads; rank r is on node `nodes[r]`.
fn comms(nodes: &[u32]) -> Vec<Communicator> {
    let config = |node: u32| CommConfig {
        overrides: vec![
            ("timeout".into(), "30".into()),
            ("hostid".into(), format!("node{node}")),
            // Nodes that are threads of one machine find each other there.
            ("socket_ifname".into(), "=lo".into()),
        ],
        ..CommConfig::default()
    };
    let members = ThreadsBootstrap::group(nodes.len() as u32);
    std::thread::scope(|scope| {
        let joined = members.into_iter().zip(nodes).map(|(member, &node)| {
            let config = config(node);
            scope.spawn(move || Communicator::init_bootstrap(Box::new(member), &config))
        });
        let joined: Vec<_> = joined.collect();
        let made = joined
            .into_iter()
            .map(|thread| thread.join().expect("no panic").expect("init"));
        made.collect()
    })
}

/// Errors of each rank of one node.
fn told(ranks: u32, made: impl Fn(u32) -> Vec<Made> + Sync) -> Vec<Option<Error>> {
    told_on(&vec![0; ranks as usize], made)
}

/// Errors that each rank was told, in the calls that it makes up to the first error, and at the
/// end.
fn told_on(nodes: &[u32], made: impl Fn(u32) -> Vec<Made> + Sync) -> Vec<Option<Error>> {
    let comms = comms(nodes);
    let ranks = comms.len();
    let start = std::sync::Barrier::new(ranks);
    let rank = |comm: &Communicator| {
        start.wait();
        let calls = made(comm.rank()).into_iter();
        let called = { calls }.try_for_each(|call| call.run(comm)).err();
        let ended = comm.destroy().err();
        called.or(ended)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = comms
            .iter()
            .map(|comm| scope.spawn(|| rank(comm)))
            .collect();
        let told = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        told.collect()
    })
}

/// Whether the error says what two ranks called, or which rank is not there for a call.
fn names_the_call(error: &Error) -> bool {
    let text = error.to_string();
    let named = matches!(error.code, Code::InvalidUsage | Code::RemoteError);
    named && (text.contains(" called ") || text.contains("let go of the communicator"))
}

#[test]
fn every_rank_hears_of_collectives_that_differ_or_the_last_one() {
    for (name, plan) in MISMATCHES {
        for bytes in SIZES {
            for (ranks, common) in [(2, false), (2, true), (3, false), (3, true)] {
                let told = told(ranks, |rank| {
                    let mut made = plan(bytes, rank == 1);
                    made.extend(common.then(|| of(Collective::AllReduce, 8)));
                    made
                });
                let heard = told.iter().flatten().count() as u32;
                assert!(
                    told.iter().flatten().all(names_the_call)
                        && heard >= if common { ranks } else { 1 },
                    "{name}, {bytes} bytes, {ranks} ranks, common call: {common}: {told:?}"
                );
            }
        }
    }
}

/// Ranks of several nodes hear of it too: what they have called travels with the data between
/// nodes, so that the next common call tells. (A rank that leaves at once looks at the ranks of its
/// own node only.)
#[test]
fn ranks_of_several_nodes_hear_of_it_in_the_next_common_call() {
    for (name, plan) in MISMATCHES {
        for bytes in [8, 16 << 10, 1 << 20] {
            for nodes in [&[0, 1][..], &[0, 1, 0], &[0, 0, 1]] {
                let told = told_on(nodes, |rank| {
                    let mut made = plan(bytes, rank == 1);
                    made.push(of(Collective::AllReduce, 8));
                    made
                });
                for (rank, told) in told.iter().enumerate() {
                    assert!(
                        told.as_ref().is_some_and(names_the_call),
                        "{name}, {bytes} bytes, nodes {nodes:?}: rank {rank} was told {told:?}"
                    );
                }
            }
        }
    }
}

/// Many agreeing calls between the one that differs and the end: all are told all the same.
#[test]
fn the_past_is_found_out_by_the_next_common_call() {
    let plan = |rank| {
        let root = Made {
            peer: u32::from(rank == 1),
            ..of(Collective::Broadcast, 16 << 10)
        };
        let rest = std::iter::repeat_n(of(Collective::AllReduce, 8), 3);
        std::iter::once(root).chain(rest).collect()
    };
    for told in told(3, plan) {
        let text = told.expect("an error").to_string();
        assert!(text.contains("disagree in collective 1"), "{text}");
        assert!(text.contains("root 1") && text.contains("root 0"), "{text}");
    }
}

#[test]
fn receivers_hear_of_messages_that_differ() {
    let kinds: [(&str, Plan); 4] = [
        ("shorter", |bytes, odd| match odd {
            false => vec![Made {
                peer: 1,
                ..of(Collective::Send, 2 * bytes)
            }],
            true => vec![of(Collective::Recv, bytes)],
        }),
        ("longer", |bytes, odd| match odd {
            false => vec![Made {
                peer: 1,
                ..of(Collective::Send, bytes)
            }],
            true => vec![of(Collective::Recv, 2 * bytes)],
        }),
        ("type", |bytes, odd| match odd {
            false => vec![Made {
                peer: 1,
                ..of(Collective::Send, bytes)
            }],
            true => vec![Made {
                dtype: DataType::Int64,
                ..of(Collective::Recv, bytes)
            }],
        }),
        ("a collective", |bytes, odd| match odd {
            false => vec![Made {
                peer: 1,
                ..of(Collective::Send, bytes)
            }],
            true => vec![of(Collective::Reduce, bytes), of(Collective::Recv, bytes)],
        }),
    ];
    for (name, plan) in kinds {
        for bytes in SIZES {
            // A third rank that leaves would be a mismatch of its own with the collective.
            for ranks in 2..=if name == "a collective" { 2 } else { 3 } {
                let made = |rank| {
                    if rank < 2 {
                        plan(bytes, rank == 1)
                    } else {
                        Vec::new()
                    }
                };
                let told = told(ranks, made);
                // A third rank sees nothing of it, but must not be told nonsense.
                let is_told = |rank: usize| told[rank].is_some();
                let is_heard = match name {
                    // The message itself is as it should be: whoever leaves last hears.
                    "a collective" => is_told(0) || is_told(1),
                    // The sender may have left before.
                    _ => is_told(1),
                };
                assert!(
                    is_heard && told.iter().flatten().all(names_the_call),
                    "{name}, {bytes} bytes, {ranks} ranks: {told:?}"
                );
            }
        }
    }
}

#[test]
fn messages_in_another_order_are_heard_of() {
    let send = |bytes| Made {
        peer: 1,
        ..of(Collective::Send, bytes)
    };
    let recv = |bytes| of(Collective::Recv, bytes);
    for bytes in SIZES {
        let told = told(2, |rank| match rank {
            0 => vec![send(bytes), send(2 * bytes)],
            _ => vec![recv(2 * bytes), recv(bytes)],
        });
        assert!(
            told.iter().flatten().all(names_the_call),
            "{bytes} bytes: {told:?}"
        );
        assert!(told[1].is_some(), "{bytes} bytes: {told:?}");
    }
}

#[test]
fn what_is_allowed_is_told_nobody() {
    for bytes in SIZES {
        for ranks in [2, 3] {
            let told = told(ranks, |rank| {
                let in_place = rank == 1;
                let reduce = Made {
                    in_place,
                    ..of(Collective::AllReduce, bytes)
                };
                let last = Made {
                    peer: ranks - 1,
                    ..of(Collective::Broadcast, bytes)
                };
                let mut made = vec![reduce, last, of(Collective::AllGather, bytes)];
                // Messages that not all ranks take part in are in nobody's past.
                match rank {
                    0 => made.push(Made {
                        peer: 1,
                        ..of(Collective::Send, bytes)
                    }),
                    1 => made.push(of(Collective::Recv, bytes)),
                    _ => {}
                }
                made.extend([reduce, of(Collective::AllToAll, bytes)]);
                made
            });
            assert!(
                told.iter().all(Option::is_none),
                "{bytes} bytes, {ranks} ranks: {told:?}"
            );
        }
    }
}
