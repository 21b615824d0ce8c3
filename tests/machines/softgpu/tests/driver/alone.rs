//! A process for each test, and calls of the driver in it.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest time of a test: one that takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

const CHILD: &str = "KOLO_SOFTGPU_TEST";

/// A folder with the library under the names that programs look for.
fn library() -> PathBuf {
    let program = std::env::current_exe().expect("this program");
    let library = program.with_file_name("libkolo_softgpu.so");
    assert!(library.exists(), "{} is not built", library.display());
    // A folder for each library, as profiles have their own.
    let name = library.display().to_string().replace('/', "-");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    for name in ["libcuda.so", "libcuda.so.1"] {
        // Another test of this process may have made it.
        let _ = symlink(&library, folder.join(name));
    }
    folder
}

/// Runs a test in a new process with these variables, which must say all of `wanted`; in that
/// process, runs it here.
pub fn alone(name: &str, variables: &[(&str, &str)], wanted: &[&str], test: impl FnOnce()) {
    if std::env::var(CHILD).is_ok_and(|child| child == name) {
        std::thread::spawn(|| {
            std::thread::sleep(LIMIT);
            eprintln!("the test hangs: it did not end within {LIMIT:?}");
            std::process::abort();
        });
        return test();
    }
    let (status, said) = child(name, variables);
    assert!(status, "{name}, alone:\n{said}");
    for wanted in wanted {
        assert!(
            said.contains(wanted),
            "{name} does not say {wanted}:\n{said}"
        );
    }
}

/// A process that runs one test, here.
pub fn program(name: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", name, "--nocapture"])
        .env("LD_LIBRARY_PATH", library())
        .env(CHILD, name)
        .envs(variables.iter().copied());
    command
}

/// Runs a test in a new process: whether it ended well, and what it said.
pub fn child(name: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let ended = program(name, variables).output().expect("a process");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let text = said(&ended.stdout) + &said(&ended.stderr);
    let ran = text.contains("1 passed") || !ended.status.success();
    assert!(ran, "no test has the name {name}:\n{text}");
    (ended.status.success(), text)
}

/// A test of the driver: `test!(name, [("VARIABLE", "value")], says "text", { ... })`.
macro_rules! test {
    (
        $(#[doc = $doc:literal])*
        $name:ident, [$($variable:expr),* $(,)?], $(says $wanted:literal,)* $body:block
    ) => {
        $(#[doc = $doc])*
        #[test]
        fn $name() {
            let name = concat!(module_path!(), "::", stringify!($name));
            // Without the name of the program.
            let name = name.split_once("::").expect("a module").1;
            $crate::alone::alone(name, &[$($variable),*], &[$($wanted),*], || $body);
        }
    };
}
pub(crate) use test;

/// A call's result code.
macro_rules! code {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        // SAFETY: tests hand over what the driver's documentation asks for, or what the software
        // GPU promises to refuse.
        let result = unsafe { cudarc::driver::sys::$name($($argument),*) };
        result as i32
    }};
}
pub(crate) use code;

/// A call that succeeds.
macro_rules! ok {
    ($name:ident($($argument:expr),* $(,)?)) => {
        assert_eq!($crate::alone::code!($name($($argument),*)), 0, stringify!($name))
    };
}
pub(crate) use ok;
