//! Tests of mistakes: each is refused with a sentence, and the communicator goes on.

use super::ranks::{POISON, Rank, ranks, software_gpu, sum};
use kolo::base::{Code, Result};
use kolo::bootstrap::ThreadsBootstrap;
use kolo::comm::RawCalls;
use kolo::comm::{Call, Collective, CommConfig, CommDevice, Communicator, RedOp, Stream};
use kolo::cuda::{Context, OwnStream, PinnedMemory, StreamId, copy_from_device};
use kolo::dtype::DataType;
use kolo::transport::gpu::own;

fn reduce(send: *const u8, recv: *mut u8, dtype: DataType, op: RedOp) -> Call {
    Call {
        collective: Collective::AllReduce,
        send,
        recv,
        count: 16,
        dtype,
        op,
        peer: 0,
    }
}

/// The communicator works as before.
fn still_sums(rank: &Rank) {
    let (send, recv) = (
        rank.buffer(&1u32.to_le_bytes().repeat(16)),
        rank.poisoned(64),
    );
    let call = reduce(send.at(0), recv.at(0), DataType::Uint32, RedOp::SUM);
    rank.put(&call).expect("a call");
    assert_eq!(
        rank.read(&recv),
        rank.comm.nranks().to_le_bytes().repeat(16)
    );
}

#[test]
fn buffers_that_the_device_cannot_reach_are_named() {
    ranks(&[0, 1], &[], |rank| {
        let mut plain = [0u8; 256];
        let mine = rank.buffer(&[1; 256]);
        let own = plain.as_mut_ptr();
        let refused = |send: *const u8, recv: *mut u8| {
            let call = reduce(send, recv, DataType::Float32, RedOp::SUM);
            let error = rank.put(&call).expect_err("refused");
            assert_eq!(error.code, Code::InvalidArgument, "{error}");
            error.to_string()
        };
        let text = refused(own, mine.at(0));
        assert!(
            text.contains("send buffer") && text.contains("host"),
            "{text}"
        );
        let text = refused(mine.at(0), own);
        assert!(
            text.contains("receive buffer") && text.contains("AllReduce"),
            "{text}"
        );
        let other = kolo::cuda::Context::of(5).expect("a device");
        let there = kolo::cuda::DeviceMemory::new(&other, "of another device", 4096, &[]);
        let there = there.expect("memory");
        let text = refused(there.address() as *const u8, mine.at(0));
        assert!(text.contains("CUDA device 5"), "{text}");
        still_sums(rank);
    });
}

/// Memory of the host that is registered serves as a buffer.
#[test]
fn pinned_memory_is_a_buffer() {
    ranks(&[0, 1], &[], |rank| {
        let pinned = PinnedMemory::new(4096).expect("memory");
        let words = pinned.as_ptr().cast::<u32>();
        for i in 0..16 {
            // SAFETY: the memory is 4096 bytes long, and no call uses it yet.
            unsafe { words.add(i).write(i as u32 + 100 * rank.number()) };
        }
        let place = pinned.address() as *mut u8;
        let call = reduce(place, place, DataType::Uint32, RedOp::SUM);
        rank.put(&call).expect("a call");
        rank.stream.synchronize().expect("it ends");
        for i in 0..16 {
            // SAFETY: the stream has ended.
            assert_eq!(unsafe { words.add(i).read() }, 2 * i as u32 + 100);
        }
    });
}

#[test]
fn what_no_kernel_does_is_refused_before_anything_begins() {
    ranks(&[0, 1], &[], |rank| {
        let buffer = rank.buffer(&[0; 1024]);
        let refused = |dtype, op| {
            let call = reduce(buffer.at(0), buffer.at(0), dtype, op);
            let error = rank.put(&call).expect_err("refused");
            assert_eq!(error.code, Code::InvalidUsage, "{error}");
            error.to_string()
        };
        assert!(refused(DataType::Float64, RedOp::SUM_EXACT).contains("exact sums"));
        let text = refused(DataType::Complex64, RedOp::SUM);
        assert!(text.contains("complex64"), "{text}");
        let own = rank
            .comm
            .user_op::<i64>(true, |a, b| b[0] += a[0])
            .expect("an operation");
        assert!(refused(DataType::Int64, own).contains("operation of the program"));
        still_sums(rank);
        rank.has_done_its_steps();
    });
}

#[test]
fn streams_and_communicators_belong_to_one_side() {
    software_gpu();
    let comms = Communicator::init_all(1, &CommConfig::default()).expect("on the host");
    let mut data = [1u32; 16];
    let place = data.as_mut_ptr().cast();
    let call = reduce(place, place, DataType::Uint32, RedOp::SUM);
    let stream = Stream::of_device(0);
    // SAFETY: the buffer lives through the call.
    let error = unsafe { comms[0].enqueue(&call, Some(&stream)) }.expect_err("refused");
    assert_eq!(error.code, Code::InvalidArgument);
    assert!(
        error.to_string().contains("communicator is on the host"),
        "{error}"
    );
    let error = stream.synchronize().expect_err("refused");
    assert!(error.to_string().contains("cuStreamSynchronize"), "{error}");
}

/// The device of one rank, and what all ranks hear.
fn started(devices: [CommDevice; 2]) -> Vec<String> {
    software_gpu();
    let start = |member: ThreadsBootstrap, device| {
        let config = CommConfig {
            device,
            ..CommConfig::default()
        };
        let made = Communicator::init_bootstrap(Box::new(member), &config);
        made.map_or_else(
            |error| error.to_string(),
            |comm| format!("{:?}", comm.device()),
        )
    };
    let members = ThreadsBootstrap::group(2).into_iter().zip(devices);
    std::thread::scope(|scope| {
        let ranks: Vec<_> = members
            .map(|(member, device)| scope.spawn(move || start(member, device)))
            .collect();
        ranks
            .into_iter()
            .map(|rank| rank.join().expect("no panic"))
            .collect()
    })
}

#[test]
fn all_ranks_hear_of_a_device_that_cannot_be() {
    let (host, first) = (CommDevice::Host, CommDevice::Cuda(0));
    for text in started([first, CommDevice::Cuda(1)]) {
        assert!(text.starts_with("Cuda("), "{text}");
    }
    for text in started([first, host]) {
        assert!(text.contains("rank 1 is on the host"), "{text}");
    }
    let texts = started([first, CommDevice::Cuda(99)]);
    assert!(
        texts[1].contains("99") && texts[1].contains("this process sees 8"),
        "{}",
        texts[1]
    );
    assert!(texts[0].contains("rank 1"), "{}", texts[0]);
}

/// A split of a communicator on devices is on devices.
#[test]
fn parts_of_a_communicator_are_on_its_devices() {
    ranks(&[3, 1, 2], &[], |rank| {
        let color = u32::from(rank.number() > 0);
        let child = rank.comm.split(Some(color), 0, &CommConfig::default());
        let child = child.expect("a split").expect("a part");
        assert_eq!(child.device(), rank.comm.device());
        let part = Rank {
            comm: child,
            context: rank.context.clone(),
            stream: kolo::cuda::OwnStream::new(&rank.context).expect("a stream"),
        };
        still_sums(&part);
        part.comm.destroy().expect("a clean end");
        still_sums(rank);
    });
}

/// Memory that the program has of kolo is a buffer, and other devices of the process reach it.
#[test]
fn memory_that_kolo_gives_is_a_buffer() {
    ranks(&[0, 1], &[], |rank| {
        let device = rank.number();
        let given = own::allocate(device, 64).expect("memory");
        let send = rank.buffer(&(1 + device).to_le_bytes().repeat(16));
        let call = reduce(send.at(0), given as *mut u8, DataType::Uint32, RedOp::SUM);
        rank.put(&call).expect("a call");
        rank.stream.synchronize().expect("it ends");
        let other = Context::of(1 - device).expect("a device");
        let stream = OwnStream::new(&other).expect("a stream");
        let mut read = [0; 64];
        // SAFETY: the memory has 64 bytes, which nobody writes now.
        unsafe { copy_from_device(&other, &mut read, given, stream.id()) }.expect("a copy");
        stream.synchronize().expect("it ends");
        assert_eq!(read[..], 3u32.to_le_bytes().repeat(16)[..]);
        assert!(own::free(given), "it was given");
        assert!(!own::free(given), "it is gone");
        assert!(own::allocate(99, 64).is_err() && own::allocate(0, usize::MAX).is_err());
    });
}

/// Two ranks of a device on one stream: the second would wait behind the first, which waits for it.
#[test]
fn ranks_of_a_device_are_not_put_on_one_stream() {
    software_gpu();
    for is_default in [false, true] {
        let members = ThreadsBootstrap::group(2).into_iter();
        let ranks: Vec<Rank> = std::thread::scope(|scope| {
            let join = |member| scope.spawn(move || Rank::join(member, 3, &[]));
            let joined: Vec<_> = members.map(join).collect();
            let joined = joined.into_iter().map(|it| it.join().expect("no panic"));
            joined.collect::<Result<_>>().expect("communicators")
        });
        let buffers: Vec<_> = ranks
            .iter()
            .map(|rank| (rank.buffer(&[1; 800]), rank.poisoned(800)))
            .collect();
        let id = match is_default {
            true => StreamId(0),
            false => ranks[0].stream.id(),
        };
        let stream = Stream::of_device(id.0);
        let put = |rank: usize| {
            let (send, recv) = &buffers[rank];
            let call = sum(send.at(0), recv.at(0), 100);
            // SAFETY: the buffers live until both have been read.
            unsafe { ranks[rank].comm.enqueue(&call, Some(&stream)) }
        };
        put(0).expect("the first is put");
        let error = put(1).expect_err("the second is not");
        let text = error.to_string();
        assert!(
            text.contains("ranks 0 and 1 are both on CUDA device 3") && text.contains("one stream"),
            "{text}"
        );
        // The kernel that was put leaves.
        for (rank, (_, recv)) in ranks.iter().zip(&buffers) {
            id.synchronize(&rank.context).expect("it ends");
            assert!(rank.read(recv).iter().all(|&byte| byte == POISON));
            assert!(rank.comm.async_error().is_err());
        }
        std::thread::scope(|scope| {
            for rank in &ranks {
                scope.spawn(|| rank.comm.destroy());
            }
        });
    }
}
