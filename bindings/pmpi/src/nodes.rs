//! On which node each rank of the world is.

use crate::places::{has_foreign_network, numbered};
use crate::settings;
use crate::sys::koloBarrier;
use mpi::ffi;
use std::ffi::{CStr, OsStr, c_int};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static NODE: OnceLock<u64> = OnceLock::new();
/// The node of each rank of the world, numbered in the order of their first ranks. Missing where
/// the world is on one node.
static WORLD: OnceLock<Vec<u32>> = OnceLock::new();

/// A number that all ranks of a node have, and another for those of other nodes.
pub fn own() -> u64 {
    *NODE.get_or_init(|| {
        let mut hasher = DefaultHasher::new();
        // A name that is set tells nodes apart, and nothing else does: so it is for kolo itself.
        if let Ok(named) = settings::text("hostid")
            && !named.is_empty()
        {
            named.hash(&mut hasher);
            return hasher.finish();
        }
        for file in [
            "/proc/sys/kernel/random/boot_id",
            "/proc/sys/kernel/hostname",
        ] {
            std::fs::read(file).unwrap_or_default().hash(&mut hasher);
        }
        // Containers of one node see each other's memory only where they share it.
        if let Ok(place) = std::fs::metadata("/dev/shm") {
            std::os::unix::fs::MetadataExt::dev(&place).hash(&mut hasher);
        }
        hasher.finish()
    })
}

/// Whether this node has a network that its MPI may use and kolo does not.
pub fn is_foreign() -> bool {
    has_foreign_network(Path::new("/"), has_verbs)
}

/// Whether kolo's library for RDMA can be loaded: it is installed, and so is libibverbs.
fn has_verbs() -> bool {
    let beside = kolo_folder().map(|folder| folder.join("kolo/libkolo_verbs.so.0"));
    // SAFETY: the name ends with a zero byte; what it loads kolo loads too.
    let loads = || unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_LAZY) };
    beside.is_some_and(|library| library.exists()) && !loads().is_null()
}

/// The folder of `libkolo.so.0`.
fn kolo_folder() -> Option<PathBuf> {
    // SAFETY: all zero is a value of this struct of numbers and pointers.
    let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: an address in that library; what is found stays as long as it does.
    unsafe {
        let known = libc::dladdr(koloBarrier as *const libc::c_void, &mut found);
        if known == 0 || found.dli_fname.is_null() {
            return None;
        }
        let file = OsStr::from_bytes(CStr::from_ptr(found.dli_fname).to_bytes());
        Path::new(file).parent().map(Path::to_path_buf)
    }
}

/// Learns where all ranks of the world are, all of which are here. Whether MPI told, on all ranks.
pub fn begin() -> bool {
    let (mut nranks, mut all_know): (c_int, c_int) = (0, 0);
    // SAFETY: MPI is initialised.
    let sized = unsafe { ffi::PMPI_Comm_size(ffi::RSMPI_COMM_WORLD, &mut nranks) } == 0;
    let (mine, mut all) = (own(), vec![0u64; nranks.max(1) as usize]);
    // SAFETY: there is room for a number of each rank.
    let code = unsafe {
        ffi::PMPI_Allgather(
            (&raw const mine).cast(),
            1,
            ffi::RSMPI_UINT64_T,
            all.as_mut_ptr().cast(),
            1,
            ffi::RSMPI_UINT64_T,
            ffi::RSMPI_COMM_WORLD,
        )
    };
    let _ = WORLD.set(numbered(&all));
    let knows = c_int::from(sized && code == 0);
    // SAFETY: one number of each rank, in memory of this call.
    let code = unsafe {
        ffi::PMPI_Allreduce(
            (&raw const knows).cast(),
            (&raw mut all_know).cast(),
            1,
            ffi::RSMPI_INT32_T,
            ffi::RSMPI_MIN,
            ffi::RSMPI_COMM_WORLD,
        )
    };
    code == 0 && all_know == 1
}

/// The node of each of these ranks of the world, numbered in the order of their first ranks. None:
/// all of the world are on one node.
pub fn of(ranks: &[c_int]) -> Option<Vec<u32>> {
    let world = WORLD.get()?;
    let there = ranks.iter().map(|&rank| u64::from(world[rank as usize]));
    Some(numbered(&there.collect::<Vec<_>>()))
}
