//! kolo beside MPI in Rust: ranks meet over a communicator of crate `mpi` (rsmpi), which the
//! program goes on using. Each rank hands a row to the next one; the first and the last have one
//! neighbour.
//!
//!     make install PREFIX=/opt/kolo
//!     MPICC=mpicc.openmpi cargo build -p kolo-mpi --example hello_mpi
//!     export KOLO_MPI_LIBRARY=/opt/kolo/lib/kolo/openmpi/libkolo_mpi.so
//!     mpirun.openmpi -n 4 target/debug/examples/hello_mpi

use kolo::{CommConfig, Communicator, NO_RANK, RedOp};
use mpi::traits::{AsRaw, Communicator as _, CommunicatorCollectives as _};

fn main() -> kolo::Result<()> {
    let universe = mpi::initialize().expect("MPI is initialised here and nowhere else");
    let world = universe.world();
    // SAFETY: the communicator is alive, and of the MPI that this program is linked to.
    let comm = unsafe { Communicator::init_mpi(world.as_raw(), &CommConfig::default()) }?;
    let (rank, nranks) = (comm.rank(), comm.nranks());

    let mut sum = [0.0];
    comm.all_reduce(&[f64::from(rank + 1)], &mut sum, RedOp::SUM)?;

    let row: Vec<u32> = (0..1000).map(|i| 1000 * rank + i).collect();
    let mut halo = vec![u32::MAX; 1000];
    let above = if rank + 1 < nranks { rank + 1 } else { NO_RANK };
    let below = rank.checked_sub(1).unwrap_or(NO_RANK);
    comm.send_recv(&row, above, &mut halo, below)?;
    match below {
        NO_RANK => assert!(halo.iter().all(|&x| x == u32::MAX), "nothing came"),
        _ => assert!(halo.iter().zip(&row).all(|(&x, &mine)| x + 1000 == mine)),
    }

    // MPI is still the program's.
    world.barrier();
    assert_eq!(world.size() as u32, nranks);
    println!("rank {rank} of {nranks}: the sum is {}", sum[0]);
    comm.destroy()
}
