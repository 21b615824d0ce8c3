//! The settings of this library, which `libkolo.so.0` reads for it: docs/settings.md has them.

use crate::decide::{Across, Attach, Left};
use crate::mpi_calls::{self, ListedCalls};
use crate::mpi_table::{self, MpiJob};
use crate::report;
use crate::sys::{koloGetLastError, koloGetSetting};
use crate::table::{self, Saved};
use mpi::ffi;
use std::ffi::{CStr, CString, c_int};

/// Longer than any value.
const ROOM: usize = 4096;

/// One rank's settings.
pub struct Settings {
    pub on: bool,
    /// MPI runs again what kolo takes.
    pub verify: bool,
    pub min_ranks: u32,
    pub attach: Attach,
    pub float_sums_stay: bool,
    /// Bits of float sums depend on nothing but the number of ranks.
    pub placement: bool,
    pub listed: ListedCalls,
    /// Calls that MPI was measured to do faster: world rank 0 knows them.
    pub faster: Left,
    /// Bytes of a node that communicators may take; 0: a share of them.
    pub memory: u64,
    /// Buffers lie in the node's memory, though there are GPUs.
    pub host_only: bool,
    /// Who runs collectives of several nodes; None: whoever has their network.
    pub across: Option<Across>,
    /// Seconds for which others are waited for.
    pub limit: f64,
    /// The sentence that says what is wrong with them: all else is then by default.
    pub wrong: Option<String>,
}

/// The value of one setting.
///
/// # Errors
/// Kolo's sentence.
pub fn text(key: &str) -> Result<String, String> {
    let name = CString::new(key).map_err(|_| key.to_owned())?;
    let mut value = [0; ROOM];
    // SAFETY: a text with its zero byte, and room for so many bytes.
    let code = unsafe { koloGetSetting(name.as_ptr(), value.as_mut_ptr(), ROOM) };
    let from = match code {
        0 => value.as_ptr(),
        // SAFETY: no communicator: the last error of this thread.
        _ => unsafe { koloGetLastError(std::ptr::null_mut()) },
    };
    if from.is_null() {
        return Err(format!("the setting {key} cannot be read"));
    }
    // SAFETY: it ends with a zero byte.
    let text = unsafe { CStr::from_ptr(from) }
        .to_string_lossy()
        .into_owned();
    match code {
        0 => Ok(text),
        // The program has not called that.
        _ => Err(text.replacen("kolo: GetSetting: ", "", 1)),
    }
}

/// The name that MPI gives itself, and more.
fn library() -> String {
    // More than any MPI writes.
    let mut text = vec![0u8; 16 << 10];
    let mut length = 0;
    // SAFETY: the buffer is longer than any MPI asks for; the call is allowed at any time.
    unsafe { ffi::PMPI_Get_library_version(text.as_mut_ptr().cast(), &mut length) };
    text.truncate(length.max(0) as usize);
    String::from_utf8_lossy(&text).into_owned()
}

/// Asks about a job of so many ranks under this MPI, on this machine.
fn of_job<T>(nranks: c_int, ask: impl FnOnce(&MpiJob) -> T) -> T {
    // SAFETY: a number of the system.
    let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    ask(&MpiJob {
        mpi: &mpi_table::name_of(&library()),
        ranks: nranks.max(0) as u32,
        cpus: cpus.max(1) as u32,
    })
}

/// The calls of this job that `pmpi_table` leaves to MPI.
fn faster(nranks: c_int) -> Result<Left, String> {
    let setting = text("pmpi_table")?;
    of_job(nranks, |job| table::faster(&setting, job))
        .map_err(|why| format!("KOLO_PMPI_TABLE: {why}"))
}

/// The time that kolo saved, as far as `pmpi_table` knows.
pub fn saved(nranks: c_int) -> Option<Saved> {
    let setting = text("pmpi_table").ok()?;
    of_job(nranks, |job| table::saved(&setting, job, report::ran))
}

impl Settings {
    /// Reads them, on this rank of the world.
    pub fn read(rank: c_int, nranks: c_int) -> Settings {
        let mut settings = Settings {
            on: true,
            verify: false,
            memory: 0,
            host_only: false,
            across: None,
            min_ranks: 2,
            attach: Attach::Earned,
            float_sums_stay: false,
            placement: false,
            listed: ListedCalls::default(),
            faster: Left::default(),
            limit: 60.0,
            wrong: None,
        };
        settings.wrong = settings.fill().err();
        if rank == 0 && settings.on && settings.wrong.is_none() {
            match faster(nranks) {
                Ok(faster) => settings.faster = faster,
                Err(why) => settings.wrong = Some(why),
            }
        }
        settings
    }

    fn fill(&mut self) -> Result<(), String> {
        let pmpi = text("pmpi")?;
        (self.on, self.verify) = (pmpi != "off", pmpi == "verify");
        self.min_ranks = text("pmpi_min_ranks")?.parse().unwrap_or(2);
        // A word is no number: it is `earned`, or `none` for the time.
        if let Ok(calls) = text("pmpi_attach")?.parse() {
            self.attach = Attach::After(calls);
        }
        self.float_sums_stay = text("pmpi_float_sums")? == "mpi";
        self.placement = text("reproducible")? == "placement";
        // What is wrong with the list is told where it is read, with its place.
        self.listed = mpi_calls::read(&text("pmpi_collectives")?)
            .map_err(|wrong| format!("the setting pmpi_collectives: {wrong}"))?;
        // A word is no number: it is `share`.
        self.memory = mpi_calls::bytes(&text("pmpi_memory")?).unwrap_or(0);
        self.host_only = text("pmpi_gpu")? == "host";
        self.across = match text("pmpi_nodes")?.as_str() {
            "off" => Some(Across::Stays),
            "kolo" => Some(Across::Kolo),
            "mpi" => Some(Across::Levels),
            _ => None,
        };
        self.limit = text("pmpi_timeout")?.parse().unwrap_or(f64::INFINITY);
        Ok(())
    }
}
