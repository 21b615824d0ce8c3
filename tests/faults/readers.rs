//! A rank stops while another one is in the middle of a fold from its buffer.

use super::comms;
use kolo::base::Code;
use kolo::comm::RawCalls;
use kolo::comm::{Call, Collective, Communicator, RedOp};
use kolo::dtype::DataType;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Elements that a step folds at once, of many that the function of the program is given.
const SLICE: usize = (256 << 10) / 8;
/// Elements of a rank's block: enough to be read where they lie.
const COUNT: usize = 4 * SLICE;
/// No wait of this test is longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Hands on what the library logs.
struct Ear(Sender<String>);

impl Write for Ear {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        // The test may have heard what it listens for.
        let _ = self.0.send(String::from_utf8_lossy(bytes).into_owned());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The sum of both ranks' blocks, by a function of the program.
fn reduce_scatter(
    comm: &Communicator,
    op: RedOp,
    send: &[i64],
) -> (kolo::base::Result<()>, Vec<i64>) {
    let mut recv = vec![-1; COUNT];
    let call = Call {
        collective: Collective::ReduceScatter,
        send: send.as_ptr().cast(),
        recv: recv.as_mut_ptr().cast(),
        count: COUNT,
        dtype: DataType::Int64,
        op,
        peer: 0,
    };
    // SAFETY: both buffers hold what the call says, and nobody touches them meanwhile.
    let result = unsafe { comm.enqueue(&call, None) };
    (result, recv)
}

/// Lets the held fold go on when the test ends, whichever way: else its thread would not end, nor
/// the owner that waits for it, nor the scope that waits for both.
struct Held<'a>(Option<Sender<()>>, &'a Communicator);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0 = None;
        if std::thread::panicking() {
            // The ranks may wait for each other as well.
            let _ = self.1.abort();
        }
    }
}

fn sum(first: &[i64], second: &mut [i64]) {
    for (a, b) in first.iter().zip(second) {
        *b += a;
    }
}

#[test]
fn a_thread_that_still_reads_is_waited_for_and_named() {
    let (tell, log) = channel();
    let comms = comms(2, &[("algo", "twoshot")]);
    let (say_inside, inside) = channel();
    let (open, gate) = channel::<()>();
    let gate = Mutex::new(Some((say_inside, gate)));
    let combined = Arc::new(AtomicUsize::new(0));
    let owner_op = comms[0].user_op(true, sum).expect("an operation");
    let count = Arc::clone(&combined);
    let slow_sum = move |first: &[i64], second: &mut [i64]| {
        if let Some((inside, gate)) = gate.lock().expect("whole").take() {
            inside.send(()).expect("the test listens");
            // Nobody sends: it opens when the other end goes.
            let _ = gate.recv();
        }
        sum(first, second);
        count.fetch_add(first.len(), Ordering::SeqCst);
    };
    let reader_op = comms[1].user_op(true, slow_sum).expect("an operation");
    std::thread::scope(|scope| {
        let (comms, combined) = (&comms, &combined);
        let held = Held(Some(open), &comms[0]);
        let owner = scope.spawn(move || {
            let ears = tracing_subscriber::fmt().with_writer(move || Ear(tell.clone()));
            let _log = tracing::subscriber::set_default(ears.finish());
            let send: Vec<i64> = (0..2 * COUNT as i64).collect();
            let (result, _) = reduce_scatter(&comms[0], owner_op, &send);
            // From here on the memory may be used for something else.
            (result, combined.load(Ordering::SeqCst))
        });
        let reader = scope.spawn(|| reduce_scatter(&comms[1], reader_op, &vec![7; 2 * COUNT]).0);
        inside.recv_timeout(PATIENCE).expect("the reader folds");
        comms[0].abort().expect("abort");
        let named = "rank 1, a thread of this process";
        let warning = || log.recv_timeout(PATIENCE).expect("a warning");
        while !warning().contains(named) {}
        assert!(!owner.is_finished(), "its buffer is being read");
        drop(held);
        let (result, combined) = owner.join().expect("the owner ends");
        assert_eq!(result.expect_err("aborted").code, Code::RemoteError);
        assert!(combined > 0, "the reader was done with what it had begun");
        assert_eq!(combined % SLICE, 0, "it does not read any more");
        let error = reader.join().expect("the reader ends");
        assert_eq!(error.expect_err("aborted").code, Code::RemoteError);
    });
}
