//! A table over barriers between threads, and tables that must be refused.

use super::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

/// State that the threads of one invented MPI share.
struct World {
    barrier: Barrier,
    parts: Mutex<Vec<Vec<u8>>>,
    freed: AtomicU32,
    idled: AtomicU32,
    /// Makes every allgather fail from now on.
    fail: std::sync::atomic::AtomicBool,
}

struct Context {
    world: Arc<World>,
    rank: usize,
}

/// # Safety
/// `context` is a `Context` that is alive.
unsafe fn context<'a>(context: *mut c_void) -> &'a Context {
    // SAFETY: the caller's promise.
    unsafe { &*context.cast::<Context>() }
}

unsafe extern "C" fn bcast(c: *mut c_void, data: *mut c_void, bytes: usize, root: c_int) -> c_int {
    // SAFETY: kolo hands back the context of the table, and a buffer of `bytes` bytes.
    let (c, data) = unsafe {
        (
            context(c),
            std::slice::from_raw_parts_mut(data.cast::<u8>(), bytes),
        )
    };
    c.world.parts.lock().unwrap()[c.rank] = data.to_vec();
    c.world.barrier.wait();
    data.copy_from_slice(&c.world.parts.lock().unwrap()[root as usize]);
    c.world.barrier.wait();
    0
}

unsafe extern "C" fn allgather(
    c: *mut c_void,
    send: *const c_void,
    bytes: usize,
    receive: *mut c_void,
) -> c_int {
    // SAFETY: kolo hands back the context of the table.
    let c = unsafe { context(c) };
    if c.world.fail.load(Ordering::SeqCst) {
        return 15;
    }
    // SAFETY: kolo hands over `bytes` bytes to send.
    let mine = unsafe { std::slice::from_raw_parts(send.cast::<u8>(), bytes) };
    c.world.parts.lock().unwrap()[c.rank] = mine.to_vec();
    c.world.barrier.wait();
    let all = c.world.parts.lock().unwrap().concat();
    // SAFETY: kolo hands over room for `bytes` bytes of every rank.
    unsafe { std::ptr::copy_nonoverlapping(all.as_ptr(), receive.cast::<u8>(), all.len()) };
    c.world.barrier.wait();
    0
}

unsafe extern "C" fn idle(c: *mut c_void) -> c_int {
    // SAFETY: kolo hands back the context of the table.
    unsafe { context(c) }
        .world
        .idled
        .fetch_add(1, Ordering::SeqCst);
    0
}

unsafe extern "C" fn free(c: *mut c_void) -> c_int {
    // SAFETY: the context was made by Box::into_raw and kolo frees it once.
    let c = unsafe { Box::from_raw(c.cast::<Context>()) };
    c.world.freed.fetch_add(1, Ordering::SeqCst);
    0
}

fn world(nranks: u32) -> Arc<World> {
    Arc::new(World {
        barrier: Barrier::new(nranks as usize),
        parts: Mutex::new(vec![Vec::new(); nranks as usize]),
        freed: AtomicU32::new(0),
        idled: AtomicU32::new(0),
        fail: false.into(),
    })
}

fn table(world: &Arc<World>, rank: u32, nranks: u32) -> MpiTable {
    let context = Context {
        world: Arc::clone(world),
        rank: rank as usize,
    };
    MpiTable {
        size: size_of::<MpiTable>(),
        version: TABLE_VERSION,
        context: Box::into_raw(Box::new(context)).cast(),
        rank: rank as c_int,
        nranks: nranks as c_int,
        bcast: Some(bcast),
        allgather: Some(allgather),
        idle: Some(idle),
        free: Some(free),
        problem: std::ptr::null(),
        problem_code: 0,
        net: c"any address".as_ptr().cast(),
        world: 0,
        no_rank: 0,
        name: std::ptr::null(),
    }
}

fn run<T: Send>(nranks: u32, body: impl Fn(TableBootstrap) -> T + Sync) -> (Arc<World>, Vec<T>) {
    let world = world(nranks);
    let results = std::thread::scope(|scope| {
        let (body, world) = (&body, &world);
        let start = |rank| {
            scope.spawn(move || {
                let table = table(world, rank, nranks);
                // SAFETY: the table and its functions are those above.
                body(unsafe { TableBootstrap::from_raw(&table) }.unwrap())
            })
        };
        let threads: Vec<_> = (0..nranks).map(start).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    (world, results)
}

#[test]
fn operations_with_lengths_of_every_rank() {
    for nranks in [1, 2, 5] {
        let (world, _) = run(nranks, |member| {
            let rank = member.rank().0;
            for round in 0..40u32 {
                let mine = vec![rank as u8; ((round + rank) % 5) as usize];
                let all = member.all_gather(&mine).unwrap();
                for (other, part) in (0..).zip(all.iter()) {
                    assert_eq!(*part, vec![other as u8; ((round + other) % 5) as usize]);
                }
                let root = Rank(round % nranks);
                let mut data = vec![rank as u8; (round % 3 + rank) as usize];
                member.broadcast(root, &mut data).unwrap();
                assert_eq!(data, vec![root.0 as u8; (round % 3 + root.0) as usize]);
                member.barrier().unwrap();
            }
        });
        assert_eq!(world.freed.load(Ordering::SeqCst), nranks);
    }
}

#[test]
fn idle_outlives_the_bootstrap_and_the_context_is_freed_once() {
    let world = world(1);
    let table = table(&world, 0, 1);
    // SAFETY: the table and its functions are those above.
    let member = unsafe { TableBootstrap::from_raw(&table) }.unwrap();
    let hook = member.idle_hook();
    drop(member);
    let second = hook.clone();
    hook.call();
    drop(hook);
    second.call();
    assert_eq!(world.freed.load(Ordering::SeqCst), 0);
    drop(second);
    assert_eq!(world.idled.load(Ordering::SeqCst), 2);
    assert_eq!(world.freed.load(Ordering::SeqCst), 1);
}

#[test]
fn an_older_table_has_no_network() {
    let world = world(1);
    let mut table = table(&world, 0, 1);
    let whole = table.net;
    for (size, net) in [
        (size_of::<MpiTable>(), whole),
        (std::mem::offset_of!(MpiTable, net), std::ptr::null()),
    ] {
        table.size = size;
        // SAFETY: the table and its functions are those above, and it is freed once at most.
        let member = unsafe { TableBootstrap::from_raw(&table) }.unwrap();
        assert_eq!(member.net_functions(), (net, table.context));
        if !net.is_null() {
            std::mem::forget(member);
        }
    }
}

#[test]
fn too_long_is_an_error_for_all_and_stays() {
    let long = vec![0; MAX_FRAME + 1];
    let (_, results) = run(3, |member| {
        let mine: &[u8] = if member.rank() == Rank(1) {
            &long
        } else {
            b"short"
        };
        let first = member.all_gather(mine).unwrap_err();
        (first.clone(), member.barrier().unwrap_err() == first)
    });
    for (error, stays) in results {
        assert!(
            stays && [error.rank, error.peer].contains(&Some(Rank(1))),
            "{error}"
        );
    }
}

#[test]
fn a_failing_function_is_an_error_with_its_code() {
    let world = world(1);
    let table = table(&world, 0, 1);
    // SAFETY: the table and its functions are those above.
    let member = unsafe { TableBootstrap::from_raw(&table) }.unwrap();
    world.fail.store(true, Ordering::SeqCst);
    let error = member.barrier().unwrap_err();
    assert!(error.what.contains("code 15") && error.rank == Some(Rank(0)));
    let error = member.broadcast(Rank(7), &mut Vec::new()).unwrap_err();
    assert!(
        error.what.contains("code 15"),
        "a broken bootstrap stays broken: {error}"
    );
}

#[test]
fn bad_tables_are_refused_and_not_freed() {
    let world = world(1);
    let good = table(&world, 0, 1);
    let words = c"MPI is not initialised. Remedy: call MPI_Init first";
    let cases: [(&str, MpiTable); 9] = [
        ("16 bytes", MpiTable { size: 16, ..good }),
        ("version 9", MpiTable { version: 9, ..good }),
        (
            "for bcast",
            MpiTable {
                bcast: None,
                ..good
            },
        ),
        (
            "for allgather",
            MpiTable {
                allgather: None,
                ..good
            },
        ),
        ("for idle", MpiTable { idle: None, ..good }),
        ("for free", MpiTable { free: None, ..good }),
        ("rank 1 of 1", MpiTable { rank: 1, ..good }),
        ("rank 0 of 0", MpiTable { nranks: 0, ..good }),
        (
            "MPI is not init",
            MpiTable {
                problem: words.as_ptr(),
                problem_code: 5,
                ..good
            },
        ),
    ];
    for (word, table) in cases {
        // SAFETY: every table is as long as it says or shorter.
        let error = unsafe { TableBootstrap::from_raw(&table) }.err().unwrap();
        assert!(
            error.what.contains(word) && !error.remedy.is_empty(),
            "{word}: {error}"
        );
    }
    // SAFETY: null is allowed.
    let error = unsafe { TableBootstrap::from_raw(std::ptr::null()) }
        .err()
        .unwrap();
    assert!(error.what.contains("null pointer"));
    assert_eq!(world.freed.load(Ordering::SeqCst), 0);
    // A table without the later members is whole as well; it takes over the context.
    let short = MpiTable {
        size: TABLE_LEAST_BYTES,
        ..good
    };
    // SAFETY: the table is longer than it says.
    drop(unsafe { TableBootstrap::from_raw(&short) }.unwrap());
    assert_eq!(world.freed.load(Ordering::SeqCst), 1);
}

#[test]
fn a_name_comes_with_the_member_only() {
    let whole = size_of::<MpiTable>();
    let older = std::mem::offset_of!(MpiTable, name);
    let cases = [
        (whole, c"ocean".as_ptr(), Some("ocean")),
        (whole, c"".as_ptr(), None),
        (whole, std::ptr::null(), None),
        (older, c"ocean".as_ptr(), None),
    ];
    for (size, name, wanted) in cases {
        let world = world(1);
        let table = MpiTable {
            size,
            name,
            ..table(&world, 0, 1)
        };
        // SAFETY: the table is as long as it says or longer.
        let member = unsafe { TableBootstrap::from_raw(&table) }.unwrap();
        assert_eq!(member.name().as_deref(), wanted, "{size} bytes");
    }
}

#[test]
fn no_rank_is_negative_and_comes_with_the_member_only() {
    let whole = size_of::<MpiTable>();
    let cases = [
        (whole, -2, Some(-2)),
        (whole, -1, Some(-1)),
        (whole, 0, None),
        (whole, 3, None),
        (std::mem::offset_of!(MpiTable, no_rank), -2, None),
        (TABLE_LEAST_BYTES, -2, None),
    ];
    for (size, no_rank, wanted) in cases {
        let world = world(1);
        let table = MpiTable {
            size,
            no_rank,
            ..table(&world, 0, 1)
        };
        // SAFETY: the table is as long as it says or longer.
        let member = unsafe { TableBootstrap::from_raw(&table) }.unwrap();
        assert_eq!(member.no_rank(), wanted, "{size} bytes, {no_rank}");
    }
}
