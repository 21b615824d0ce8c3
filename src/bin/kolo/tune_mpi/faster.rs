//! Which sizes stay with MPI, by the times of two series.

use kolo::tune::mpi_table::{self, Beside, StayRow};

/// How many times as long as MPI kolo takes where MPI is faster.
const LEAD: f64 = 1.05;
/// One series of a point.
#[derive(Clone, Copy, Debug)]
pub struct SeriesTook {
    /// Of one call.
    pub kolo_ns: f64,
    /// Likewise.
    pub mpi_ns: f64,
    /// kolo's time over MPI's.
    pub lead: f64,
}

/// A line for each collective, by all series. A point is one of the collectives of the
/// table, and a size; those of one collective follow each other, sizes ascending.
pub fn judged(points: &[(usize, u64)], series: &[Vec<SeriesTook>]) -> Vec<StayRow> {
    let mut rows = Vec::new();
    let indexed: Vec<(usize, (usize, u64))> = points.iter().copied().enumerate().collect();
    for of_one in indexed.chunk_by(|(_, a), (_, b)| a.0 == b.0) {
        let (_, (collective, _)) = of_one[0];
        let took = |index: usize| series.iter().map(move |one| one[index]);
        let leads = of_one.iter().map(|&(index, (_, size))| {
            let leads: Vec<f64> = took(index).map(|took| took.lead).collect();
            (size, leads)
        });
        let leads: Vec<(u64, Vec<f64>)> = leads.collect();
        let times = of_one.iter().map(|&(index, (_, size))| {
            // A hundredth of a microsecond is finer than what is known.
            let us = |ns: f64| (ns / series.len() as f64 / 10.0).round().max(1.0) / 100.0;
            Beside {
                bytes: size,
                kolo_us: us(took(index).map(|took| took.kolo_ns).sum()),
                mpi_us: us(took(index).map(|took| took.mpi_ns).sum()),
            }
        });
        rows.push(StayRow {
            collective,
            stays: if mpi_table::is_sized(collective) {
                of_sizes(&leads)
            } else {
                whole(&leads)
            },
            times: times.collect(),
        });
    }
    rows
}

/// So many times as long in one series as in another: the machine had other work.
const APART: f64 = 1.5;

/// Points at which kolo or MPI took [`APART`] times as long in one series as in another.
pub fn restless(series: &[Vec<SeriesTook>]) -> usize {
    let points = series.first().map_or(0, Vec::len);
    let differs = |time: fn(&SeriesTook) -> f64, point: usize| {
        let times = series.iter().map(|one| time(&one[point]));
        let (least, most) = times.fold((f64::MAX, 0.0), |(least, most): (f64, f64), time| {
            (least.min(time), most.max(time))
        });
        most > APART * least
    };
    let is_restless =
        |&point: &usize| differs(|took| took.kolo_ns, point) || differs(|took| took.mpi_ns, point);
    (0..points).filter(is_restless).count()
}

/// Bits of the sizes of which MPI is faster in all series. Between two sizes that were measured it
/// is so where it is at both, and below the least one as it is there. Above the greatest one
/// nobody knows.
fn of_sizes(leads: &[(u64, Vec<f64>)]) -> u64 {
    let mut bits = 0;
    // The first bit behind the size before, and whether MPI was faster there.
    let mut before: Option<(u32, bool)> = None;
    for (size, leads) in leads {
        let at = size.max(&1).ilog2().min(mpi_table::SIZES - 1);
        let is_faster = leads.iter().all(|&lead| lead >= LEAD);
        let (from, both) = before.map_or((0, true), |(next, faster)| (next, faster));
        let from = if both { from } else { at };
        if is_faster {
            bits |= (from..=at).fold(0, |bits, bit| bits | 1 << bit);
        }
        before = Some((at + 1, is_faster));
    }
    bits
}

/// The bit of calls whose size not all ranks know: MPI has all of them where it is faster on
/// average over the sizes, in all series.
fn whole(leads: &[(u64, Vec<f64>)]) -> u64 {
    let series = leads.first().map_or(0, |(_, leads)| leads.len());
    let mean = |series: usize| {
        let sum: f64 = leads.iter().map(|(_, leads)| leads[series].ln()).sum();
        (sum / leads.len() as f64).exp()
    };
    let is_faster = series > 0 && (0..series).all(|series| mean(series) >= LEAD);
    u64::from(is_faster) << mpi_table::UNKNOWN
}

#[cfg(test)]
mod tests {
    use super::*;
    use kolo::tune::mpi_table::NAMES;

    fn took(lead: f64) -> SeriesTook {
        SeriesTook {
            kolo_ns: 100.0 * lead,
            mpi_ns: 100.0,
            lead,
        }
    }

    /// Sizes of one collective that stay, where they have these leads in the two series.
    fn stays(name: &str, leads: &[(u64, [f64; 2])]) -> String {
        let collective = NAMES.iter().position(|known| *known == name).unwrap();
        let points: Vec<(usize, u64)> = leads.iter().map(|&(size, _)| (collective, size)).collect();
        let series = [0, 1].map(|at| leads.iter().map(|(_, both)| took(both[at])).collect());
        let rows = judged(&points, &series);
        assert_eq!(rows.len(), 1);
        mpi_table::words(collective, rows[0].stays)
    }

    #[test]
    fn mpi_is_faster_where_it_is_so_in_both_series() {
        let lead = |a, b| stays("bcast", &[(8, [0.9, 0.9]), (16, [a, b]), (32, [0.9, 0.9])]);
        assert_eq!(lead(1.05, 1.2), "16-32");
        assert_eq!(lead(1.04, 1.2), "none");
        assert_eq!(lead(1.2, 1.04), "none");
        // Below the least size as there, between two as at both, above the greatest nobody knows.
        let [won, lost] = [[1.1, 1.1], [1.0, 1.0]];
        let of = |leads: &[(u64, [f64; 2])]| stays("bcast", leads);
        assert_eq!(of(&[(8, won), (64, won), (512, lost)]), "-128");
        assert_eq!(of(&[(8, lost), (64, won), (512, won)]), "64-1K");
        assert_eq!(of(&[(8, won), (64, lost), (512, won)]), "-16,512-1K");
    }

    #[test]
    fn a_busy_machine_is_noticed() {
        let series = |kolo: [f64; 3], mpi: [f64; 3]| {
            let all = kolo.into_iter().zip(mpi);
            let took = all.map(|(kolo_ns, mpi_ns)| SeriesTook {
                kolo_ns,
                mpi_ns,
                lead: kolo_ns / mpi_ns,
            });
            took.collect::<Vec<_>>()
        };
        let quiet = series([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]);
        let of = |other| restless(&[quiet.clone(), other]);
        assert_eq!(of(series([1.4, 1.5, 2.1], [4.0, 6.0, 7.0])), 0);
        assert_eq!(of(series([1.6, 2.0, 1.9], [4.0, 5.0, 6.0])), 2);
        assert_eq!(of(series([1.0, 2.0, 3.0], [2.0, 8.0, 6.0])), 2);
    }

    #[test]
    fn of_unknown_sizes_the_mean_decides() {
        let of = |leads: &[(u64, [f64; 2])]| stays("gatherv", leads);
        assert_eq!(of(&[(8, [1.3, 1.3]), (16, [0.9, 0.9])]), "all");
        assert_eq!(of(&[(8, [1.3, 1.1]), (16, [0.9, 0.9])]), "none");
        assert_eq!(stays("barrier", &[(0, [1.06, 1.06])]), "all");
        assert_eq!(stays("barrier", &[(0, [1.06, 1.0])]), "none");
    }
}
