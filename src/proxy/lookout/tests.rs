//! A lookout that the service of this process looks after, beside a neighbour moved by hand.

use super::*;
use crate::transport::net::socket::{SocketNet, SocketOptions};
use crate::transport::node::NodeMemory;
use crate::wire::layout::Layout;
use std::cell::UnsafeCell;

const NONCE: u128 = 77;
/// How long something may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(20);

fn memory() -> NodeMemory {
    #[repr(C, align(4096))]
    struct Page(UnsafeCell<[u8; 4096]>);
    // SAFETY: the memory of a node is shared by construction, and `wire` decides who touches what.
    unsafe impl Sync for Page {}

    let layout = Layout {
        ranks: 2,
        channels: 1,
        slot_bytes: 4096,
        eager_bytes: 4096,
    };
    let pages = (0..layout.total().div_ceil(4096)).map(|_| Page(UnsafeCell::new([0; 4096])));
    let pages: Arc<Vec<Page>> = Arc::new(pages.collect());
    let base = pages.as_ptr().cast_mut().cast();
    // SAFETY: zeroed pages, enough of them, that live as long as their `Arc`.
    unsafe { NodeMemory::new(base, layout, 0, pages) }
}

fn post() -> Post {
    let options = SocketOptions {
        ifname: Some("=lo".into()),
        ..SocketOptions::default()
    };
    Post::new(SocketNet::new(options).unwrap()).unwrap()
}

/// Looks until there is something.
fn awaited<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let start = clock::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(!start.past(LIMIT), "it does not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Another thread than the service's says more at once than the neighbour has room for, which has
/// room later.
#[test]
fn what_could_not_be_said_at_once_is_said_later() {
    let there = post();
    let crew = Crew {
        me: Rank(0),
        nonce: NONCE,
        mates: vec![Rank(0)],
        node: memory(),
        on_lost: Arc::new(|ranks: &[Rank], text: &str| panic!("lost {ranks:?}: {text}")),
        places: [(0, "node0 (7)".into()), (1, "node1 (8)".into())].into(),
    };
    let beside = [(Rank(1), there.handle().clone())];
    let lookout = Lookout::new(post(), crew, &beside).unwrap();
    let mut newcomers = Newcomers::new(there.listener);
    let (rank, mut ear) = awaited(|| newcomers.look(NONCE).pop());
    assert_eq!(rank, 0);
    // The service thread sleeps then, and has nothing to say.
    std::thread::sleep(Duration::from_millis(20));
    const ASKED: u64 = 8;
    (0..ASKED).for_each(|_| lookout.ask());
    for number in 1..=2 * ASKED {
        let heard = awaited(|| ear.next().unwrap());
        assert_eq!((heard.origin, heard.number), (0, number));
        assert_eq!(heard.news == News::Ask, number % 2 == 0);
    }
    lookout.leave();
}
