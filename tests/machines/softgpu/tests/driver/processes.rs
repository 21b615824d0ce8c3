//! Two processes with a software GPU each share memory: by descriptors and by IPC handles.

use super::alone::{code, ok, program, test};
use super::ring::{Part, Rank, Shared, call, end, judge, prepare};
use super::world::*;
use cudarc::driver::sys::{CUdeviceptr, CUipcMemHandle, CUmemAllocationHandleType_enum as Kind};
use kolo::plan::{Direction, Link, Protocol};
use kolo::wire::gpu;
use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::os::fd::AsRawFd;
use std::process::Stdio;

const TWO: (&str, &str) = ("KOLO_SOFTGPU_DEVICES", "2");
const FD: Kind = Kind::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
/// Says which rank a process is.
const RANK: &str = "KOLO_SOFTGPU_TEST_RANK";
/// Lines that processes send each other begin so, because the test's own lines lie between.
const MARK: &str = "TO THE OTHER: ";
const SLOT_BYTES: usize = 2048;

/// The other process' end of a talk in lines.
struct Talk {
    write: Box<dyn Write>,
    read: Lines<BufReader<Box<dyn Read>>>,
}

impl Talk {
    fn new(write: Box<dyn Write>, read: Box<dyn Read>) -> Talk {
        Talk {
            write,
            read: BufReader::new(read).lines(),
        }
    }

    /// Says a line, and gives the other one's.
    fn exchange(&mut self, line: &str) -> String {
        writeln!(self.write, "\n{MARK}{line}").expect("the other one lives");
        self.write.flush().expect("the other one lives");
        loop {
            let line = self
                .read
                .next()
                .expect("the other one lives")
                .expect("a line");
            if let Some(said) = line.strip_prefix(MARK) {
                return said.to_owned();
            }
        }
    }
}

/// Runs both ranks: this process is the first, and starts the second.
fn two(name: &str, run: impl FnOnce(usize, &mut Talk)) {
    if std::env::var(RANK).is_ok() {
        let (output, input) = (std::io::stdout(), std::io::stdin());
        return run(1, &mut Talk::new(Box::new(output), Box::new(input)));
    }
    let mut other = program(name, &[(RANK, "1")]);
    other.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut other = other.spawn().expect("a process");
    let input = other.stdin.take().expect("a pipe");
    let output = other.stdout.take().expect("a pipe");
    let mut talk = Talk::new(Box::new(input), Box::new(output));
    run(0, &mut talk);
    // What else it says, so that it can.
    talk.read.for_each(drop);
    let ended = other.wait().expect("it ends");
    assert!(ended.success(), "the other process: {ended}");
}

/// This rank's memory that the other one uses, and the other's: slots, and half of it behind, the
/// head.
fn rounds(rank: usize, device: &Rank, mine: CUdeviceptr, theirs: CUdeviceptr, talk: &mut Talk) {
    let half = PAGE as u64 / 2;
    ok!(cuMemsetD8_v2(mine, 0, PAGE));
    for (round, protocol) in [Protocol::Simple, Protocol::Ll, Protocol::Ll128]
        .iter()
        .enumerate()
    {
        // Connections of each protocol are their own; both have wiped theirs.
        let at = 2 * gpu::reader_bytes(SLOT_BYTES) as u64 * round as u64;
        let sends = Shared {
            slots: theirs + at,
            head: mine + half + 128 * round as u64,
        };
        let receives = Shared {
            slots: mine + at,
            head: theirs + half + 128 * round as u64,
        };
        let ends = [end(&sends, SLOT_BYTES), end(&receives, SLOT_BYTES)];
        let ends = |_: Link, direction| ends[usize::from(direction == Direction::Recv)];
        for (seed, count) in [(1, 3000), (2, 40)] {
            let call = call(seed + 10 * round as u64, *protocol, count);
            let part: Part = prepare(&call, rank, &ends);
            talk.exchange("ready");
            part.launch(device);
            ok!(cuStreamSynchronize(device.stream));
            judge(&call, rank, &part);
        }
    }
    talk.exchange("done");
}

fn rank_on(device: usize) -> Rank {
    let context = primary(device as i32);
    Rank::new(device as i32, context, stream(1))
}

test!(
    /// Sums over two processes in memory that descriptors carry.
    sums_over_descriptors, [TWO], {
        two("processes::sums_over_descriptors", |rank, talk| {
            let device = rank_on(rank);
            let handle = physical(rank as i32, PAGE, true);
            let mut file = -1i32;
            ok!(cuMemExportToShareableHandle((&raw mut file).cast(), handle, FD, 0));
            let place = format!("/proc/{}/fd/{file}", std::process::id());
            let other = std::fs::File::options().read(true).write(true).open(talk.exchange(&place));
            let other = other.expect("the other's memory");
            let mut imported = 0;
            let number = std::ptr::without_provenance_mut(other.as_raw_fd() as usize);
            ok!(cuMemImportFromShareableHandle(&mut imported, number, FD));
            let places = [handle, imported].map(|handle| {
                let at = reserve(PAGE);
                ok!(cuMemMap(at, PAGE, 0, handle, 0));
                assert_eq!(set_access(at, PAGE, rank as i32, BOTH_WAYS), 0);
                at
            });
            rounds(rank, &device, places[0], places[1], talk);
        });
    }
);

fn handle_of(at: CUdeviceptr) -> CUipcMemHandle {
    let mut handle = CUipcMemHandle { reserved: [0; 64] };
    ok!(cuIpcGetMemHandle(&mut handle, at));
    handle
}

fn hex(handle: &CUipcMemHandle) -> String {
    handle
        .reserved
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn from_hex(text: &str) -> CUipcMemHandle {
    let byte = |at: usize| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hex");
    CUipcMemHandle {
        reserved: std::array::from_fn(|at| byte(at) as std::ffi::c_char),
    }
}

test!(
    /// Sums over two processes in memory that IPC handles carry, and what handles refuse.
    sums_over_ipc, [TWO], {
        two("processes::sums_over_ipc", |rank, talk| {
            let device = rank_on(rank);
            // Not at the beginning of a page.
            allocate(256 * (rank + 1));
            let mine = allocate(PAGE);
            let handle = handle_of(mine + 77);
            let mut at = 0;
            assert_eq!(code!(cuIpcOpenMemHandle_v2(&mut at, handle, 1)), INVALID_CONTEXT);
            let other = from_hex(&talk.exchange(&hex(&handle)));
            ok!(cuIpcOpenMemHandle_v2(&mut at, other, 1));
            let mut again = 0;
            ok!(cuIpcOpenMemHandle_v2(&mut again, other, 1));
            assert_eq!(again, at);
            ok!(cuIpcCloseMemHandle(again));
            rounds(rank, &device, mine, at, talk);
            // Each sees what the other one writes.
            write(at + 5, &pattern(rank as u64, 1000));
            talk.exchange("written");
            assert_eq!(read(mine + 5, 1000), pattern(1 - rank as u64, 1000));
            assert_eq!(code!(cuMemFree_v2(at)), INVALID_VALUE);
            ok!(cuIpcCloseMemHandle(at));
            assert_eq!(code!(cuIpcCloseMemHandle(at)), INVALID_VALUE);
            let mut broken = other;
            broken.reserved[0] ^= 1;
            assert_eq!(code!(cuIpcOpenMemHandle_v2(&mut at, broken, 1)), INVALID_HANDLE);
            talk.exchange("ended");
        });
    }
);

test!(
    /// A process whose device is no peer of the memory's device does not get it.
    handles_need_peers, [TWO, ("KOLO_SOFTGPU_PEERS", "0")], {
        two("processes::handles_need_peers", |rank, talk| {
            primary(rank as i32);
            let mine = handle_of(allocate(64));
            let other = from_hex(&talk.exchange(&hex(&mine)));
            let mut at = 0;
            assert_eq!(code!(cuIpcOpenMemHandle_v2(&mut at, other, 1)), 217);
            primary(1 - rank as i32);
            ok!(cuIpcOpenMemHandle_v2(&mut at, other, 1));
            // Nobody goes before the other one has opened its memory.
            talk.exchange("opened");
        });
    }
);
