//! Sentences about calls that differ: in the root, or in the bytes of a message.

use super::{Made, comms, of, told};
use kolo::comm::{Collective, Communicator};

#[test]
fn roots_that_differ_are_said() {
    for collective in [
        Collective::Broadcast,
        Collective::Gather,
        Collective::Reduce,
    ] {
        let heard = told(3, |rank| {
            let call = Made {
                peer: u32::from(rank == 1),
                ..of(collective, 4096)
            };
            vec![call, of(Collective::AllReduce, 8)]
        });
        for error in heard {
            let text = error.expect("an error").to_string();
            assert!(text.contains("they name different roots, "), "{text}");
            // Who hears it from another rank is sent to that rank's message.
            let remedies = ["the same root", "see the message of that rank"];
            assert!(remedies.iter().any(|it| text.contains(it)), "{text}");
        }
    }
}

#[test]
fn sizes_of_an_exchange_that_differ_are_both_said() {
    let comms = comms(&[0, 0]);
    let texts = std::thread::scope(|scope| {
        let rank = |comm: &Communicator| {
            let (peer, long) = (1 - comm.rank(), if comm.rank() == 0 { 9 } else { 5 });
            let send = vec![1.0_f64; long];
            // Rank 1 asks for 4 elements of the 9 that rank 0 sends.
            let mut recv = vec![0.0_f64; if comm.rank() == 0 { 5 } else { 4 }];
            let ended = comm.send_recv(&send, peer, &mut recv, peer);
            ended.map_or_else(|error| error.to_string(), |()| String::new())
        };
        let threads: Vec<_> = comms
            .iter()
            .map(|comm| scope.spawn(move || rank(comm)))
            .collect();
        let ended = threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"));
        ended.collect::<Vec<String>>()
    });
    let text = &texts[1];
    for words in [
        "rank 1 called Recv of 4 double",
        "rank 0 on ",
        "called Send of 9 double: 72 bytes are sent, and 32 received",
    ] {
        assert!(text.contains(words), "{texts:?}");
    }
}
