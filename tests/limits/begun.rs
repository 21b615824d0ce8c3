//! Scenarios of communicators that are made from nothing while others live, as the ranks of a job
//! play them.

use super::job::Context;
use super::scenarios::{bytes_of_files, descriptors, limit};
use kolo::bootstrap::UniqueId;
use kolo::comm::{CommConfig, Communicator, RedOp};

/// The memory files of kolo that this process has open.
fn files_open() -> usize {
    let files = std::fs::read_dir("/proc/self/fd").expect("proc");
    let files = files.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let is_ours = |target: &std::path::PathBuf| target.to_string_lossy().contains("memfd:kolo");
    files.filter(is_ours).count()
}

/// A communicator of these ranks of the parent that is made from nothing, in this order.
fn begin_anew(parent: &Communicator, ranks: &[u32], config: &CommConfig) -> Option<Communicator> {
    let mut id = [0_u8; 128];
    if parent.rank() == ranks[0] {
        id = *Communicator::unique_id().expect("an id").as_bytes();
    }
    parent.broadcast(&mut id, ranks[0]).expect("the id");
    let place = ranks.iter().position(|&rank| rank == parent.rank())?;
    let id = UniqueId::from_bytes(id).expect("an id");
    let begun = Communicator::init_rank(ranks.len() as u32, &id, place as u32, config);
    Some(begun.expect("init"))
}

fn is_summed(comm: &Communicator) {
    let mut sum = vec![1_u32; 3];
    comm.all_reduce_in_place(&mut sum, RedOp::SUM)
        .expect("a sum");
    assert_eq!(sum, vec![comm.nranks(); 3]);
}

/// Communicators of drawn ranks that are made from nothing live in the file that their processes
/// have already.
pub fn many_begun(context: &Context) {
    let parent = context.join(&[]).expect("init");
    let mut seed = [fastrand::u64(..)];
    parent.broadcast(&mut seed, 0).expect("a seed");
    let mut rng = fastrand::Rng::with_seed(seed[0]);
    let before = descriptors();
    limit(libc::RLIMIT_NOFILE, before as u64 + 24);
    let mut begun = Vec::new();
    for number in 0..40 {
        let mut ranks: Vec<u32> = (0..context.nranks).collect();
        rng.shuffle(&mut ranks);
        ranks.truncate(rng.usize(2..=ranks.len()));
        let place = format!("seed {}, {number}: {ranks:?}", seed[0]);
        let made = begin_anew(&parent, &ranks, &CommConfig::default());
        made.iter().for_each(is_summed);
        begun.extend(made);
        assert!(files_open() <= 1, "{} files, {place}", files_open());
    }
    parent.barrier().expect("a barrier");
    assert!(descriptors() <= before, "{} after {before}", descriptors());
    // In the place of those that have ended others begin.
    let bytes = bytes_of_files();
    parent.barrier().expect("a barrier");
    drop(begun);
    parent.barrier().expect("a barrier");
    assert!(bytes_of_files() < bytes, "their memory was given back");
    let all: Vec<u32> = (0..context.nranks).collect();
    let last = begin_anew(&parent, &all, &CommConfig::default());
    is_summed(&last.expect("all are in"));
}

/// Two nodes of two ranks: a communicator of several nodes needs no file of its own, made by a
/// split or from nothing.
pub fn many_on_nodes(context: &Context) {
    let node = format!("limits-{}", context.rank / 2);
    let overrides = [("hostid", node.as_str())];
    let parent = context.join(&overrides).expect("init");
    let config = CommConfig {
        overrides: vec![("hostid".into(), node.clone())],
        ..CommConfig::default()
    };
    assert_eq!(files_open(), 1, "that of the first communicator");
    let mut begun = Vec::new();
    for _ in 0..5 {
        begun.extend(begin_anew(&parent, &[2, 0, 3, 1], &config));
        let split = parent.split(Some(0), -(context.rank as i32), &config);
        begun.push(split.expect("a split").expect("a color"));
        begun.iter().rev().take(2).for_each(is_summed);
        assert_eq!(files_open(), 1, "{} are alive", begun.len());
    }
    parent.barrier().expect("a barrier");
}
