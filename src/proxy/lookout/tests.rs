//! Lookouts of several nodes in one process, tended by hand: every order of events on purpose.

use super::*;
use crate::transport::net::socket::{SocketNet, SocketOptions};
use crate::transport::node::NodeMemory;
use crate::wire::layout::Layout;
use std::cell::UnsafeCell;

/// How long what must happen may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

/// A node of a ring.
struct Site {
    lookout: Arc<Lookout>,
    memory: NodeMemory,
    /// Whom its ranks were told to be lost.
    lost: Arc<Mutex<Vec<Rank>>>,
}

fn memory(me: u32, ranks: u32) -> NodeMemory {
    #[repr(C, align(4096))]
    struct Page(UnsafeCell<[u8; 4096]>);
    // SAFETY: the memory of a node is shared by construction, and `wire` decides who touches what.
    unsafe impl Sync for Page {}

    let layout = Layout {
        ranks: ranks as usize,
        channels: 1,
        slot_bytes: 4096,
        eager_bytes: 4096,
    };
    let pages = (0..layout.total().div_ceil(4096)).map(|_| Page(UnsafeCell::new([0; 4096])));
    let pages: Arc<Vec<Page>> = Arc::new(pages.collect());
    let base = pages.as_ptr().cast_mut().cast();
    // SAFETY: zeroed pages, enough of them, that live as long as their `Arc`.
    unsafe { NodeMemory::new(base, layout, me as usize, pages) }
}

/// A ring of nodes with so many ranks each, whose lookouts have not met.
fn ring(nodes: u32, per_node: u32) -> Vec<Site> {
    let post = |_| {
        let options = SocketOptions {
            ifname: Some("=lo".into()),
            ..SocketOptions::default()
        };
        Post::new(SocketNet::new(options).unwrap()).unwrap()
    };
    let posts: Vec<Post> = (0..nodes).map(post).collect();
    let handles: Vec<Handle> = posts.iter().map(|post| post.handle().clone()).collect();
    let first = |node: u32| Rank(node * per_node);
    let site = |(post, node): (Post, u32)| {
        let lost = Arc::<Mutex<Vec<Rank>>>::default();
        let told = Arc::clone(&lost);
        let memory = memory(first(node).0, nodes * per_node);
        let crew = Crew {
            me: first(node),
            nonce: 77,
            mates: (first(node).0..first(node + 1).0).map(Rank).collect(),
            node: memory.clone(),
            on_lost: Arc::new(move |ranks: &[Rank], _: &str| told.lock().unwrap().extend(ranks)),
            places: (0..nodes)
                .map(|at| (first(at).0, format!("node{at} (7)")))
                .collect(),
        };
        let mut beside = vec![(node + 1) % nodes, (node + nodes - 1) % nodes];
        beside.dedup();
        let beside = beside.into_iter();
        let beside: Vec<_> = beside
            .map(|at| (first(at), handles[at as usize].clone()))
            .collect();
        let lookout = Lookout::between(post, crew, &beside).unwrap();
        Site {
            lookout,
            memory,
            lost,
        }
    };
    posts.into_iter().zip(0..).map(site).collect()
}

/// Tends these until it is so.
fn until(sites: &[&Site], is_so: impl Fn() -> bool) {
    let start = clock::now();
    while !is_so() {
        assert!(!start.past(LIMIT), "it does not come to that");
        sites.iter().for_each(|site| site.lookout.tend());
        std::thread::yield_now();
    }
}

fn now() -> Until<'static> {
    Until {
        limit: Some(Duration::ZERO),
        birth: None,
    }
}

fn for_long() -> Until<'static> {
    Until {
        limit: Some(LIMIT),
        birth: None,
    }
}

fn met(nodes: u32, per_node: u32) -> Vec<Site> {
    let sites = ring(nodes, per_node);
    let have_met = || sites.iter().all(|site| site.lookout.meet(now()).is_ok());
    until(&sites.iter().collect::<Vec<_>>(), have_met);
    sites
}

impl Site {
    /// Its process dies.
    fn die(&self) {
        self.lookout.lock().end();
    }

    fn has_left(&self) -> bool {
        self.lookout.lock().left
    }
}

/// Whoever has met hears of a death by the end of a connection that it knows.
#[test]
fn a_start_waits_until_neighbours_hear_each_other() {
    let sites = ring(3, 1);
    // The others are there and do nothing.
    for _ in 0..10 {
        sites[0].lookout.tend();
    }
    let error = sites[0].lookout.meet(now()).unwrap_err();
    for words in ["node0 (7)", "rank 1 on node1 (7) and rank 2 on node2 (7)"] {
        assert!(error.what.contains(words), "{error}");
    }
    let mut set = Vec::new();
    assert!(
        !sites[0].lookout.watch(&mut set),
        "a try may have to be made again"
    );
    let sites = met(3, 1);
    for site in &sites {
        set.clear();
        assert!(
            site.lookout.watch(&mut set) && !set.is_empty(),
            "now it may sleep"
        );
    }
    sites[1].die();
    let told = || [0, 2].map(|at: usize| sites[at].lost.lock().unwrap().contains(&Rank(1)));
    until(&[&sites[0], &sites[2]], || told() == [true; 2]);
    // One that is gone is not waited for.
    assert_eq!(sites[0].lookout.meet(now()), Ok(()));
}

#[test]
fn a_start_that_waits_is_woken() {
    let sites = ring(2, 1);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| sites[0].lookout.meet(for_long()));
        until(&[&sites[0], &sites[1]], || waiting.is_finished());
        assert_eq!(waiting.join().unwrap(), Ok(()));
    });
    // Nor does it wait where the communicator has stopped.
    let sites = ring(2, 1);
    sites[0].memory.abort(0, &Error::internal("it stopped"));
    assert_eq!(sites[0].lookout.meet(now()), Ok(()));
}

/// Nobody has tended them: there is no connection in either direction.
#[test]
fn neighbours_that_leave_at_the_same_time_hear_of_it() {
    let sites = ring(2, 1);
    std::thread::scope(|scope| {
        let leave = |site: &'_ Site| {
            site.lookout.begin_parting(&mut site.lookout.lock());
            site.lookout.part(LIMIT, || Some(site.lookout.lock()))
        };
        let leaving = [&sites[0], &sites[1]].map(|site| scope.spawn(move || leave(site)));
        for heard in leaving {
            assert!(heard.join().unwrap());
        }
    });
    assert!(
        sites
            .iter()
            .all(|site| site.lost.lock().unwrap().is_empty())
    );
}

/// Ranks of its node go on, and nobody asks.
#[test]
fn an_end_is_told_at_its_first_look() {
    let sites = met(2, 2);
    let [here, there] = &sites[..] else {
        unreachable!("two nodes");
    };
    here.memory.board(0).end();
    assert!(!here.lookout.end(false), "rank 1 goes on");
    until(&[there], || there.memory.board(0).has_ended());
    assert!(!there.memory.board(1).has_ended() && !there.memory.board(0).has_left());
    here.memory.board(1).end();
    until(&[there], || here.lookout.end(false));
    until(&[there], || there.memory.board(1).has_ended());
    assert!(
        there.lost.lock().unwrap().contains(&Rank(0)),
        "as one that has ended"
    );
}

#[test]
fn an_end_is_not_done_while_another_thread_tends() {
    let sites = met(2, 1);
    sites[0].memory.board(0).end();
    let held = sites[0].lookout.lock();
    assert!(!sites[0].lookout.end(false) && !sites[0].lookout.end(true));
    drop(held);
    until(&[&sites[1]], || sites[0].lookout.end(false));
}

/// Both ways between nodes 0 and 2 go through lookouts that say goodbye, which node 0 is slow to
/// take.
#[test]
fn who_says_goodbye_passes_on_what_it_hears() {
    let sites = met(4, 1);
    let [slow, one, far, other] = &sites[..] else {
        unreachable!("four nodes");
    };
    for leaving in [one, other] {
        // More than it takes unread.
        for _ in 0..20 {
            leaving.lookout.ask();
        }
        leaving.lookout.relieved();
    }
    far.memory.abort(2, &Error::internal("rank 2 has stopped"));
    far.lookout.tell_abort();
    let have_heard = || one.memory.aborted() && other.memory.aborted();
    until(&[one, far, other], have_heard);
    assert!(!slow.memory.aborted() && !one.has_left() && !other.has_left());
    until(&[slow, one, far, other], || slow.memory.aborted());
    until(&[slow, one, far, other], || {
        one.has_left() && other.has_left()
    });
    for left in [1, 3] {
        assert!(slow.memory.board(left).has_left() && far.memory.board(left).has_left());
    }
    assert!(
        sites
            .iter()
            .all(|site| site.lost.lock().unwrap().is_empty()),
        "nobody is lost"
    );
}
