//! Where a communicator's buffers lie: its device.

use kolo::base::Code;
use kolo::bootstrap::ThreadsBootstrap;
use kolo::comm::RawCalls;
use kolo::comm::{CommConfig, CommDevice, Communicator, RedOp};

/// Starts of two ranks that ask for these devices; those that came are used once.
fn started(devices: [CommDevice; 2]) -> Vec<Result<CommDevice, kolo::base::Error>> {
    let start = |member: ThreadsBootstrap, device| {
        let config = CommConfig {
            device,
            ..CommConfig::default()
        };
        let comm = Communicator::init_bootstrap(Box::new(member), &config)?;
        let mut sum = [f64::from(comm.rank() + 1), f64::NAN];
        comm.all_reduce_in_place(&mut sum[..1], RedOp::SUM)?;
        assert_eq!(sum[0], 3.0);
        let child = comm.split(Some(0), 0, &CommConfig::default())?;
        let device = child.expect("a child").device();
        assert_eq!(device, comm.device(), "a child is where its parent is");
        Ok(device)
    };
    let members = ThreadsBootstrap::group(2).into_iter();
    std::thread::scope(|scope| {
        let ranks = members.zip(devices);
        let ranks: Vec<_> = ranks
            .map(|(member, device)| scope.spawn(move || start(member, device)))
            .collect();
        let ended = ranks.into_iter().map(|rank| rank.join().expect("no panic"));
        ended.collect()
    })
}

#[test]
fn a_device_that_this_build_cannot_drive_is_refused_on_all_ranks() {
    let host = CommDevice::Host;
    for ended in started([host, host]) {
        assert_eq!(ended.expect("a communicator"), host);
    }
    // Of these there are fewer, on every machine.
    let none = CommDevice::Cuda(4_000_000);
    for devices in [[host, none], [none, host]] {
        let asked = usize::from(devices[1] != host);
        let ended = started(devices);
        let own = ended[asked].as_ref().expect_err("refused");
        let text = own.to_string();
        let said = match own.code {
            Code::InvalidUsage => text.contains("CUDA device 4000000"),
            code => code == Code::UnhandledCudaError && text.contains("libcuda.so.1"),
        };
        assert!(said && text.contains("Remedy"), "{text}");
        let other = ended[1 - asked].as_ref().expect_err("not alone");
        assert!(
            other.to_string().contains(&format!("rank {asked}")),
            "{other}"
        );
    }
}
