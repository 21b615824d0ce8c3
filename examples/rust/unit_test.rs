//! A function that calls kolo, and a unit test of it: all ranks are threads of the test.
use kolo::{Communicator, RedOp, Result};

/// The mean of what all ranks have.
pub fn mean(comm: &Communicator, mine: &[f64]) -> Result<f64> {
    let mut sum = [mine.iter().sum(), mine.len() as f64];
    comm.all_reduce_in_place(&mut sum, RedOp::SUM)?;
    Ok(sum[0] / sum[1])
}

#[cfg(test)]
mod tests {
    use super::mean;
    use kolo::{CommConfig, Communicator};

    #[test]
    fn all_ranks_get_the_mean() {
        let comms = Communicator::init_all(3, &CommConfig::default()).unwrap();
        std::thread::scope(|threads| {
            for comm in &comms {
                // Rank 0 has 0, rank 1 has 1 1, rank 2 has 2 2 2.
                let (value, count) = (comm.rank(), comm.rank() + 1);
                let mine = vec![f64::from(value); count as usize];
                threads.spawn(move || assert_eq!(mean(comm, &mine).unwrap(), 8.0 / 6.0));
            }
        });
    }
}
