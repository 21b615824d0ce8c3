//! The place in the program from which kolo was called.
//!
//! **Problem.** A sentence names rank and call; a program has many such calls, and who reads the
//! sentence wants to know which of them it was.
//!
//! **Idea.** The stack is walked outwards, from here to the first frame that is not kolo's own. A
//! frame belongs to the object file in which its code lies: libraries whose name begins with
//! `libkolo` are kolo's, whatever language they are written in; those of an MPI are passed by too.
//! Where kolo is a part of the program itself, as in Rust, the files of functions tell, or where
//! these are not known their names. The debug information of the program gives file and line;
//! without it a sentence has the function and the distance from its begin, or at least the file and
//! the distance in it, which `addr2line` knows.
//!
//! **Bound.** All that is read while the program waits for its error: some milliseconds, and with
//! large debug information more. So it is done where a setting asks for it.

use backtrace::{Frame, Symbol};
use std::ffi::{CStr, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Frames that are looked at, at most.
const MOST_FRAMES: usize = 200;
/// Crates and functions that are kolo's where it is linked into the program, and what stands
/// between them: the standard library, and the start of a thread.
const NOT_THE_PROGRAM: [&str; 13] = [
    "kolo::",
    "kolo_c::",
    "kolo_mpi::",
    "kolo_pmpi::",
    "kolo_f_",
    "kolo_fi_",
    "__kolo_MOD_",
    "backtrace::",
    "std::",
    "core::",
    "alloc::",
    "__rust",
    "rust_",
];
/// Functions of kolo's headers, which are compiled into the program.
const OF_HEADERS: [&str; 1] = ["koloCommInitMPIConfig"];
/// Libraries in which every stack ends.
const ENDS: [&str; 4] = ["libc.so", "libc-", "libpthread", "ld-linux"];

/// The place in the program from which the calling thread has called kolo, in words: ` by step
/// (ocean.f90:120)`. `None` on a thread that is not inside a call, and where nothing is known of
/// the program.
pub fn of_caller() -> Option<String> {
    CallStack::here().place()
}

/// The calls that the calling thread is in, whose places in the program nobody has looked for yet:
/// taken down in some microseconds, for a call that may fail later and on another thread.
pub struct CallStack(Vec<Frame>);

impl CallStack {
    /// That of the calling thread.
    pub fn here() -> CallStack {
        let mut frames = Vec::new();
        backtrace::trace(|frame| {
            frames.push(frame.clone());
            frames.len() < MOST_FRAMES
        });
        CallStack(frames)
    }

    /// The place from which kolo was called, as [`of_caller`] words it.
    pub fn place(&self) -> Option<String> {
        let mut walk = Walk {
            own: ObjectFile::of(of_caller as *mut c_void)?,
            sources: None,
        };
        let looked = self.0.iter().map(|frame| walk.look(frame));
        let found = { looked }.find(|found| !matches!(found, StackFrame::Inside));
        match found? {
            StackFrame::Place(words) => Some(words),
            StackFrame::Inside | StackFrame::End => None,
        }
    }
}

/// Kind of a frame.
enum StackFrame {
    /// Kolo's own.
    Inside,
    /// The first one of the program.
    Place(String),
    /// Neither: the stack has no frame of the program.
    End,
}

/// An object file in memory.
struct ObjectFile {
    base: usize,
    path: PathBuf,
}

impl ObjectFile {
    /// The one in which an address of code lies.
    fn of(address: *mut c_void) -> Option<ObjectFile> {
        // SAFETY: all-zero bytes are a valid answer, which the call fills.
        let mut found: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: any address may be asked for.
        if unsafe { libc::dladdr(address, &raw mut found) } == 0 || found.dli_fname.is_null() {
            return None;
        }
        // SAFETY: the name of an object that is loaded.
        let name = unsafe { CStr::from_ptr(found.dli_fname) };
        Some(ObjectFile {
            base: found.dli_fbase.addr(),
            path: OsStr::from_bytes(name.to_bytes()).into(),
        })
    }

    fn begins_with(&self, names: &[&str]) -> bool {
        let name = self.path.file_name().unwrap_or_default().as_bytes();
        names.iter().any(|one| name.starts_with(one.as_bytes()))
    }
}

/// State of a walk outwards.
struct Walk {
    /// The object file that has kolo.
    own: ObjectFile,
    /// The folder of kolo's sources, once a frame of this file was seen.
    sources: Option<PathBuf>,
}

impl Walk {
    fn look(&mut self, frame: &Frame) -> StackFrame {
        // The address behind a call may be that of the next function.
        let address = frame.ip().wrapping_byte_sub(1);
        let Some(object) = ObjectFile::of(address) else {
            return StackFrame::End;
        };
        // An MPI that was called may stand between: its wrappers for Fortran, a tool's.
        if object.begins_with(&["libkolo", "libmpi", "libpmpi"]) {
            return StackFrame::Inside;
        }
        if object.begins_with(&ENDS) {
            return StackFrame::End;
        }
        let is_shared = object.base == self.own.base;
        let (mut words, mut has_inside) = (None, false);
        backtrace::resolve_frame(frame, |symbol| {
            let name = symbol.name().map(|name| format!("{name:#}"));
            // Of functions that were taken into each other the innermost comes first.
            if let (None, Some(name)) = (&words, name) {
                let is_inside = OF_HEADERS.contains(&name.as_str())
                    || is_shared && self.is_inside(&name, symbol.filename());
                match is_inside {
                    true => has_inside = true,
                    false => words = Some(in_words(&name, symbol, (frame, &object))),
                }
            }
        });
        match words {
            Some(words) => StackFrame::Place(words),
            // Of a program without names nobody knows which functions are kolo's.
            None if is_shared || has_inside => StackFrame::Inside,
            None => {
                let far = address.addr() - object.base;
                StackFrame::Place(format!("at {far:#x} of {}", short(&object.path)))
            }
        }
    }

    /// Whether a function of the object file that has kolo is no function of the program.
    fn is_inside(&mut self, name: &str, file: Option<&Path>) -> bool {
        let Some(file) = file else {
            return is_kolo(name);
        };
        if self.sources.is_none() && file.ends_with("src/base/place.rs") {
            self.sources = file.ancestors().nth(2).map(Path::to_owned);
        }
        let sources = self.sources.as_deref();
        sources.is_some_and(|sources| file.starts_with(sources))
            || is_between(file)
            || is_kolo(name)
    }
}

/// Whether a file is of the standard library, or of the crate that walks.
fn is_between(file: &Path) -> bool {
    let is_crate = |part: &OsStr| part.as_bytes().starts_with(b"backtrace-");
    file.starts_with("/rustc")
        || file.iter().any(is_crate)
        || ["core", "alloc", "std"].iter().any(|one| {
            let library = format!("/library/{one}/src/");
            file.to_string_lossy().contains(&library)
        })
}

/// Whether a function is kolo's, or stands between kolo and its caller.
fn is_kolo(name: &str) -> bool {
    let whole = name;
    // `<kolo::comm::Communicator as core::fmt::Debug>::fmt`, `<[T] as core::..>`, `_<..`.
    let name = name.trim_start_matches(['<', '&', '_', '[']);
    let name = name.strip_prefix("dyn ").unwrap_or(name);
    let is_c = name
        .strip_prefix("kolo")
        .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()));
    is_c || NOT_THE_PROGRAM
        .iter()
        .any(|one| match one.starts_with('_') {
            true => whole.starts_with(one),
            false => name.starts_with(one),
        })
}

/// `by step (ocean.f90:120)`, or what is known of it.
fn in_words(name: &str, symbol: &Symbol, (frame, object): (&Frame, &ObjectFile)) -> String {
    let name = of_fortran(name);
    match (symbol.filename(), symbol.lineno()) {
        (Some(file), Some(line)) => format!("by {name} ({}:{line})", file.display()),
        _ => {
            let begin = frame.symbol_address().addr();
            let far = frame.ip().addr().saturating_sub(begin);
            let place = match begin {
                0 => String::new(),
                _ => format!("+{far:#x}"),
            };
            format!("by {name}{place} of {}", short(&object.path))
        }
    }
}

/// The name of a procedure in a module without what compilers make of it: `__ocean_MOD_step` and
/// `_QMoceanPstep` are step of module ocean.
fn of_fortran(name: &str) -> String {
    let gnu = name
        .strip_prefix("__")
        .and_then(|name| name.split_once("_MOD_"));
    let flang = || name.strip_prefix("_QM")?.split_once('P');
    match gnu.or_else(flang) {
        Some((module, procedure)) => format!("{procedure} of module {module}"),
        None => name.to_owned(),
    }
}

fn short(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_kolo_and_of_the_standard_library_are_not_the_program() {
        for name in [
            "kolo::comm::faces::safe::<impl kolo::comm::Communicator>::barrier",
            "<kolo::comm::Communicator as core::fmt::Debug>::fmt",
            "<&kolo::comm::Communicator as core::fmt::Debug>::fmt",
            "koloAllReduce",
            "kolo_f_allreduce",
            "__kolo_MOD_kolo_op_create_plain",
            "core::ops::function::FnOnce::call_once",
            "std::panicking::try",
            "__rust_begin_short_backtrace",
        ] {
            assert!(is_kolo(name), "{name}");
        }
        for name in [
            "main",
            "MAIN__",
            "kolomogorov::step",
            "kolo_model::main",
            "rustocean::step",
            "<model::Grid as model::Step>::step",
            "__ocean_MOD_step",
        ] {
            assert!(!is_kolo(name), "{name}");
        }
    }

    /// Where debug information is short, names have no path.
    #[test]
    fn files_tell_what_names_do_not() {
        let mut walk = Walk {
            own: ObjectFile::of(of_caller as *mut c_void).unwrap(),
            sources: None,
        };
        let registry = "/home/u/.cargo/registry/src/index";
        let mut inside = |name: &str, file: &str| {
            let file = file.replace("REGISTRY", registry);
            walk.is_inside(name, Some(Path::new(&file)))
        };
        assert!(inside(
            "trace",
            "REGISTRY/backtrace-0.3.77/src/backtrace/libunwind.rs"
        ));
        assert!(
            !inside("send", "REGISTRY/kolo-0.1.0/src/comm/faces/safe.rs"),
            "not known yet"
        );
        assert!(inside("of_caller", "REGISTRY/kolo-0.1.0/src/base/place.rs"));
        assert!(inside("send", "REGISTRY/kolo-0.1.0/src/comm/faces/safe.rs"));
        assert!(inside(
            "call_once",
            "/rustc/5980/library/core/src/ops/function.rs"
        ));
        assert!(!inside("main", "/home/u/model/src/main.rs"));
        assert!(!inside("step", "REGISTRY/kolo-0.1.0/tests/step.rs"));
    }

    #[test]
    fn procedures_of_modules_are_named_as_in_their_source() {
        assert_eq!(of_fortran("__ocean_MOD_step"), "step of module ocean");
        assert_eq!(of_fortran("_QMoceanPstep"), "step of module ocean");
        assert_eq!(of_fortran("MAIN__"), "MAIN__");
    }

    #[test]
    fn code_lies_in_an_object_file() {
        let object = ObjectFile::of(of_caller as *mut c_void).unwrap();
        assert!(object.base > 0 && object.path.exists());
        let libc = ObjectFile::of(libc::strlen as *mut c_void).unwrap();
        assert!(libc.begins_with(&ENDS), "{}", libc.path.display());
        assert!(ObjectFile::of(8 as *mut c_void).is_none());
    }
}
