//! Outcome of one side of a line, and the numbers that follow from single times.

/// Which rank's time counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeOf {
    RankZero,
    Average,
    Least,
    Most,
}

impl TimeOf {
    /// The time that counts, of those of all ranks.
    pub fn of(self, all: &[f64]) -> f64 {
        match self {
            TimeOf::RankZero => all[0],
            TimeOf::Average => all.iter().sum::<f64>() / all.len() as f64,
            TimeOf::Least => all.iter().copied().fold(f64::INFINITY, f64::min),
            TimeOf::Most => all.iter().copied().fold(0.0, f64::max),
        }
    }
}

/// Outcome of one side of a line.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Times of one call.
    pub took: Took,
    /// Size by time, in 10^9 bytes per second.
    pub algbw: f64,
    /// Size by time, times the factor of the collective.
    pub busbw: f64,
    /// Wrong elements on all ranks, where it was checked.
    pub wrong: Option<u64>,
    /// Times of single iterations, where they were taken.
    pub single: Option<Single>,
    /// The comparison, where it was asked for and the other side can do it.
    pub rival: Option<Versus>,
    /// Algorithm and protocol that did the work.
    pub algorithm: String,
}

/// Times of one call in microseconds, as the ranks agree on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Took {
    /// Until it was issued.
    pub issued_us: f64,
    /// Until it was complete: bandwidths come from this one.
    pub time_us: f64,
    /// One of each rank, in rank order.
    pub ranks_us: Vec<f64>,
}

impl Took {
    /// The measurement in the middle of several.
    pub fn of_median(versus: &Versus) -> Took {
        let mut sorted: Vec<&Took> = versus.kolo.iter().collect();
        sorted.sort_by(|a, b| a.time_us.total_cmp(&b.time_us));
        sorted[sorted.len() / 2].clone()
    }
}

/// Times of single iterations in microseconds, as the ranks agree on.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Single {
    pub least: f64,
    /// Half of the iterations took no longer.
    pub p50: f64,
    /// 99 of 100 iterations took no longer.
    pub p99: f64,
    pub most: f64,
}

impl Single {
    /// Of the times of all iterations; `None` without any.
    pub fn of(times: &[f64]) -> Option<Single> {
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| {
            let place = (part * sorted.len() as f64).ceil() as usize;
            sorted.get(place.max(1) - 1).copied()
        };
        Some(Single {
            least: *sorted.first()?,
            p50: at(0.5)?,
            p99: at(0.99)?,
            most: *sorted.last()?,
        })
    }

    /// Each of the numbers as `f` makes it.
    ///
    /// # Errors
    /// Those of `f`.
    pub fn each<E>(self, f: impl Fn(f64) -> Result<f64, E>) -> Result<Single, E> {
        Ok(Single {
            least: f(self.least)?,
            p50: f(self.p50)?,
            p99: f(self.p99)?,
            most: f(self.most)?,
        })
    }
}

/// kolo and another implementation side by side.
#[derive(Clone, Debug)]
pub struct Versus {
    /// Times of kolo, in the order they were taken.
    pub kolo: Vec<Took>,
    /// Those of the other in microseconds, taken in turns.
    pub rival_us: Vec<f64>,
}

/// The middle of some numbers.
pub fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

impl Versus {
    /// Times of kolo in microseconds, in the order they were taken.
    pub fn kolo_us(&self) -> Vec<f64> {
        self.kolo.iter().map(|took| took.time_us).collect()
    }

    /// The other's median time over kolo's: above 1, kolo is faster.
    pub fn ratio(&self) -> f64 {
        median(&self.rival_us) / median(&self.kolo_us())
    }

    /// Distance of the extremes of the ratios of neighbouring measurements, as part of the ratio.
    pub fn spread(&self) -> f64 {
        let ours = self.kolo_us();
        let ratios = ours.iter().zip(&self.rival_us).map(|(k, r)| r / k);
        let (mut least, mut most) = (f64::INFINITY, 0f64);
        for ratio in ratios {
            (least, most) = (least.min(ratio), most.max(ratio));
        }
        (most - least) / self.ratio()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_above_one_mean_that_kolo_is_faster() {
        let took = |time_us| Took {
            time_us,
            ..Took::default()
        };
        let versus = Versus {
            kolo: [1.0, 2.0, 1.0].map(took).into(),
            rival_us: vec![2.0, 2.0, 3.0],
        };
        assert_eq!(versus.ratio(), 2.0);
        assert_eq!(versus.spread(), 1.0);
    }

    #[test]
    fn percentiles_are_times_that_were_taken() {
        assert_eq!(Single::of(&[]), None);
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let single = Single::of(&hundred).unwrap();
        assert_eq!((single.least, single.most), (1.0, 100.0));
        assert_eq!((single.p50, single.p99), (50.0, 99.0));
        let one = Single::of(&[7.0]).unwrap();
        assert_eq!(
            (one.least, one.p50, one.p99, one.most),
            (7.0, 7.0, 7.0, 7.0)
        );
        let three = Single::of(&[3.0, 9.0, 5.0]).unwrap();
        assert_eq!((three.p50, three.p99), (5.0, 9.0));
    }
}
