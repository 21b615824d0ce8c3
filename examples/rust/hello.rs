//! cargo build --example hello && mpirun -n 4 target/debug/examples/hello
use kolo::{CommConfig, Communicator, RedOp};

fn main() -> kolo::Result<()> {
    let comm = Communicator::init_env(&CommConfig::default())?;
    let (rank, nranks) = (comm.rank(), comm.nranks());
    let x = [f64::from(rank + 1)];
    let mut sum = [0.0];
    comm.all_reduce(&x, &mut sum, RedOp::SUM)?;
    println!("rank {rank} of {nranks}: the sum is {}", sum[0]);
    comm.destroy()
}
