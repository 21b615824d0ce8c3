//! Words that may be used only in one place: loom, clocks, the environment, sockets, exported
//! symbols.
//!
//! The plan of a collective has no clock and no environment; a rule that forbids the words
//! everywhere else keeps it so without anybody having to remember.

use crate::source::Source;

/// Words that only some rooms or files may use.
pub struct Confined {
    pub words: &'static [&'static str],
    /// Rooms (`config`) or files (`src/base/clock.rs`) that may use them.
    pub allowed: &'static [&'static str],
    /// Whether the bindings may use them too.
    pub in_bindings: bool,
    pub advice: &'static str,
}

pub const CLOCK: Confined = Confined {
    words: &[
        "Instant::now",
        "SystemTime",
        "clock_gettime",
        "gettimeofday",
        "_rdtsc",
    ],
    allowed: &["src/base/clock.rs", "src/bin/kolo/perf/clock.rs"],
    in_bindings: false,
    advice: "read the clock through base::clock",
};

pub const ENVIRONMENT: Confined = Confined {
    words: &[
        "env::var",
        "env::set_var",
        "env::remove_var",
        "getenv",
        "setenv",
        "libc::environ",
    ],
    allowed: &[
        "config",
        "bootstrap",
        "transport",
        "proxy",
        "src/bin/kolo/launcher.rs",
        // It adds a folder to a search path.
        "src/bin/kolo/softgpu.rs",
        // One driver serves the process, whatever settings its communicators have.
        "src/cuda/driver.rs",
        // A test, of which KOLO_BLESS makes a writer.
        "src/bin/kolo/pages/reference_tests.rs",
        // A library that other programs load too: it has the environment only.
        "bindings/plugin/src/given.rs",
    ],
    in_bindings: false,
    advice: "make it an option of room config",
};

/// Whether the word stands in the line, and not only as the end of a longer one (`fesetenv`).
fn has_word(line: &str, word: &str) -> bool {
    let inside = |at: usize| {
        let before = line[..at].chars().next_back();
        before.is_some_and(|c| c.is_ascii_alphanumeric())
    };
    line.match_indices(word).any(|(at, _)| !inside(at))
}

/// Addresses are plain values; what opens a socket or asks for a name is not.
pub const SOCKETS: Confined = Confined {
    words: &[
        "ToSocketAddrs",
        "unix::net",
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "UnixStream",
        "UnixListener",
        "UnixDatagram",
        "libc::socket",
        "libc::connect",
    ],
    allowed: &[
        "bootstrap",
        "transport",
        "proxy",
        "bindings/plugin/src/connecting.rs",
        "bindings/plugin/src/line.rs",
        "bindings/plugin/src/listener.rs",
    ],
    in_bindings: false,
    advice: "sockets live in rooms bootstrap, transport and proxy",
};

/// An exported symbol of the core would leak into every library that links it.
pub const SYMBOLS: Confined = Confined {
    words: &["no_mangle", "export_name"],
    allowed: &[],
    in_bindings: true,
    advice: "C symbols are exported by bindings/c, never by the core",
};

pub fn faults(source: &Source, rule: &Confined) -> Vec<String> {
    let at_home = rule
        .allowed
        .iter()
        .any(|place| source.room() == Some(place) || source.path == *place);
    let binding_may = rule.in_bindings && source.path.starts_with("bindings/");
    let build_or_test = source.path.ends_with("/build.rs") || source.path.contains("/tests/");
    if !source.is_product() || at_home || binding_may || build_or_test {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (i, line) in source.code.iter().enumerate() {
        for word in rule.words.iter().filter(|word| has_word(line, word)) {
            found.push(source.fault(i, &format!("`{word}`: {}", rule.advice)));
        }
    }
    found
}

/// Rooms and folders that have sockets.
const WITH_SOCKETS: [&str; 6] = [
    "src/base/",
    "src/bootstrap/",
    "src/transport/",
    "src/proxy/",
    "bindings/plugin/src/",
    "bindings/verbs/src/",
];
/// Where write(2) is for event descriptors, which have no other end.
const WITH_EVENTS: [&str; 3] = [
    "src/proxy/service.rs",
    "src/bootstrap/office.rs",
    "bindings/verbs/src/events.rs",
];

const ALLOWED_WRITERS: [&str; 4] = [
    "src/trust/door.rs",
    "src/trust/knock.rs",
    "src/bootstrap/stream.rs",
    "src/transport/net/socket/stream.rs",
];

/// A write to a socket whose other end is gone raises SIGPIPE, which ends a program in C: what
/// writes goes through `base::quiet`, or sends with `MSG_NOSIGNAL`. Tests may do as they like.
///
/// Standard error may be such a pipe: `told` looks for that everywhere.
pub fn writes(source: &Source) -> Vec<String> {
    let has_sockets = WITH_SOCKETS.iter().any(|at| source.path.starts_with(at));
    // Writers of which the bytes go by `base::quiet`, and what takes any of these.
    let is_allowed = ALLOWED_WRITERS.contains(&source.path.as_str());
    let is_test = source.path.contains("/tests/") || source.path.ends_with("tests.rs");
    if !has_sockets || is_test || source.path == "src/base/quiet.rs" {
        return Vec::new();
    }
    let is_quiet = source.code.iter().any(|line| line.contains("MSG_NOSIGNAL"));
    let code = source.before_tests();
    let loud = |line: &String| {
        let words: Vec<&str> = line
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .collect();
        let has = |word: &str| words.contains(&word);
        let calls = |names: &[&str]| names.iter().any(|name| line.contains(name));
        let raw = calls(&[
            "libc::send(",
            "libc::sendmsg(",
            "libc::sendto(",
            "libc::sendmmsg(",
        ]);
        let write = calls(&["libc::write(", "libc::writev(", "libc::dprintf("]);
        (has("io") && has("Write") && !is_allowed)
            || (raw && !is_quiet)
            || (write && !WITH_EVENTS.contains(&source.path.as_str()))
    };
    let lines = code.iter().enumerate().filter(|(_, line)| loud(line));
    lines
        .map(|(i, _)| source.fault(i, "may raise SIGPIPE: write through base::quiet"))
        .collect()
}

/// Words for people on standard error, whose reader may be gone, go through `base::quiet` in all of
/// the library. The command `kolo` writes as other commands do.
pub fn told(source: &Source) -> Vec<String> {
    let others = [
        // The way itself.
        "src/base/quiet.rs",
        // Only the command loads the first; the other is a command.
        "bindings/mpi/src/api.rs",
        "bindings/fortran/interfaces/src/main.rs",
    ];
    if !source.is_library() || others.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let code = source.before_tests();
    let loud = |line: &str| {
        let macros = ["print!(", "println!(", "eprint!(", "eprintln!("];
        let streams = ["stderr().write", "stdout().write", "stderr().lock().write"];
        macros
            .iter()
            .chain(&streams)
            .any(|word| line.contains(word))
    };
    let lines = code.iter().enumerate().filter(|(_, line)| loud(line));
    lines
        .map(|(i, _)| source.fault(i, "may raise SIGPIPE: tell it through base::quiet"))
        .collect()
}

/// Calls that make a descriptor that may stay open.
const MAKERS: [&str; 19] = [
    "File::open(",
    "File::create(",
    ".open(path)",
    ".open(&path)",
    ".open(place)",
    "libc::open(",
    "libc::openat(",
    "libc::socket(",
    "libc::accept4(",
    "libc::accept(",
    "libc::memfd_create(",
    "libc::eventfd(",
    "libc::epoll_create1(",
    "libc::dup(",
    "F_DUPFD",
    "SYS_userfaultfd",
    "Socket::new(",
    "from_raw_fd(",
    "try_clone_to_owned(",
];
const MORE_MAKERS: [&str; 5] = [
    "TcpListener::bind(",
    "TcpStream::connect(",
    "UnixStream::pair(",
    ".accept()?",
    "fs::write(",
];
/// Calls that move it away from the numbers of standard streams.
const LIFTERS: [&str; 7] = [
    "lifted",
    "made(",
    "another(",
    "Fd::new",
    "Fd::from_result(",
    "Stream::new(",
    "Listener::new(",
];
/// Files that make none, or none that can be written into by mistake.
const NOT_MAKERS: [&str; 7] = [
    "src/base/descriptors.rs",
    "src/base/fork.rs",
    // Listeners of kolo, which move what they accept.
    "src/bootstrap/office.rs",
    "src/proxy/net/meet.rs",
    "bindings/plugin/src/table.rs",
    // Both ends of a pair, for the fuzzer.
    "src/bootstrap/launch/pmi.rs",
    // A child's only thread reads and closes it.
    "src/transport/registered/forked.rs",
];
/// How far from the maker it stands.
const NEAR: usize = 6;

/// No file of kolo has the number of a standard stream (`src/base/descriptors.rs`). The command and
/// tests may do as they like: their streams are opened before they begin.
pub fn descriptors(source: &Source) -> Vec<String> {
    if !source.is_library() || NOT_MAKERS.contains(&source.path.as_str()) {
        return Vec::new();
    }
    let code = source.before_tests();
    let has = |line: &str, words: &[&str]| words.iter().any(|word| line.contains(word));
    let is_lifted = |at: usize| {
        let near = at.saturating_sub(NEAR)..(at + NEAR).min(code.len());
        code[near].iter().any(|line| has(line, &LIFTERS))
    };
    let makes = |line: &String| has(line, &MAKERS) || has(line, &MORE_MAKERS);
    let lines = code.iter().enumerate().filter(|(_, line)| makes(line));
    lines
        .filter(|(at, _)| !is_lifted(*at))
        .map(|(at, _)| source.fault(at, "may be number 0, 1 or 2: base::descriptors::lifted"))
        .collect()
}

/// Atomics come from one module that is std or loom; nobody else asks which. Tests may.
pub fn loom(source: &Source) -> Vec<String> {
    if !source.is_product() || source.path == "src/base/sync.rs" {
        return Vec::new();
    }
    let asks = |line: &String| {
        let words: Vec<&str> = line
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .collect();
        let has = |word: &str| words.contains(&word);
        (has("cfg") || has("cfg_attr")) && has("loom") && !has("test")
    };
    let lines = source
        .code
        .iter()
        .enumerate()
        .filter(|(_, line)| asks(line));
    lines
        .map(|(i, _)| source.fault(i, "`cfg(loom)` belongs to base/sync.rs"))
        .collect()
}

/// Work that is not done is not in the tree.
pub fn unfinished(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let later = concat!("FIX", "ME");
    for (i, line) in source.raw.iter().enumerate() {
        if line.contains(later) {
            found.push(source.fault(i, "a note about work that is not done"));
        }
    }
    if !source.is_rust() {
        return found;
    }
    for (i, line) in source.code.iter().enumerate() {
        for word in ["todo!", "unimplemented!", "dbg!"] {
            if line.contains(word) {
                found.push(source.fault(i, &format!("`{word}`")));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str, rule: &Confined) -> usize {
        faults(&Source::new(path, text), rule).len()
    }

    #[test]
    fn a_clock_outside_its_file_is_a_fault() {
        let bad = "let t = std::time::Instant::now();";
        assert_eq!(count("src/plan/mod.rs", bad, &CLOCK), 1);
        assert_eq!(count("bindings/c/src/lib.rs", bad, &CLOCK), 1);
        assert_eq!(count("src/base/clock.rs", bad, &CLOCK), 0);
        assert_eq!(count("tests/a.rs", bad, &CLOCK), 0);
    }

    #[test]
    fn the_environment_outside_its_rooms_is_a_fault() {
        let bad = "std::env::var(\"KOLO_X\")";
        assert_eq!(count("src/exec/host/lane.rs", bad, &ENVIRONMENT), 1);
        assert_eq!(count("src/bin/kolo/main.rs", bad, &ENVIRONMENT), 1);
        assert_eq!(count("src/config/env.rs", bad, &ENVIRONMENT), 0);
        assert_eq!(count("bindings/mpi/build.rs", bad, &ENVIRONMENT), 0);
        assert_eq!(
            count(
                "src/exec/host/lane.rs",
                "env!(\"CARGO_PKG_VERSION\")",
                &ENVIRONMENT
            ),
            0
        );
    }

    #[test]
    fn a_socket_outside_its_rooms_is_a_fault() {
        assert_eq!(
            count("src/comm/mod.rs", "use std::net::ToSocketAddrs;", &SOCKETS),
            1
        );
        assert_eq!(
            count("src/config/value.rs", "std::net::Ipv6Addr", &SOCKETS),
            0
        );
        assert_eq!(count("src/comm/mod.rs", "UnixStream::pair()", &SOCKETS), 1);
        assert_eq!(
            count("src/bootstrap/tcp.rs", "TcpStream::connect(a)", &SOCKETS),
            0
        );
        assert_eq!(
            count("src/comm/mod.rs", "// as a TcpStream does\n", &SOCKETS),
            0
        );
    }

    #[test]
    fn a_write_that_could_raise_a_signal_is_a_fault() {
        let asks = |path: &str, text: &str| writes(&Source::new(path, text)).len();
        let trait_ = "use std::io::{self, Read, Write};";
        assert_eq!(asks("src/bootstrap/link.rs", trait_), 1);
        assert_eq!(
            asks("bindings/plugin/src/line.rs", "impl io::Write for Line {"),
            1
        );
        assert_eq!(asks("src/bin/kolo/out.rs", trait_), 0);
        assert_eq!(asks("src/bootstrap/link.rs", "use std::fmt::Write;"), 0);
        let tested = format!("#[cfg(test)]\nmod tests {{\n    {trait_}\n}}");
        assert_eq!(asks("src/bootstrap/link.rs", &tested), 0);
        let send = "unsafe { libc::send(fd, data, 1, 0) }";
        assert_eq!(asks("src/proxy/socket.rs", send), 1);
        let quiet = "unsafe { libc::send(fd, data, 1, libc::MSG_NOSIGNAL) }";
        assert_eq!(asks("src/proxy/socket.rs", quiet), 0);
        let write = "unsafe { libc::write(fd, data, 8) }";
        assert_eq!(asks("src/transport/net/socket/send.rs", write), 1);
        assert_eq!(asks("src/proxy/service.rs", write), 0);
    }

    #[test]
    fn a_word_that_could_raise_a_signal_is_a_fault() {
        let asks = |path: &str, text: &str| told(&Source::new(path, text)).len();
        for bad in ["eprintln!(\"a\");", "std::io::stderr().write(bytes)"] {
            assert_eq!(asks("src/comm/a.rs", bad), 1, "{bad}");
            assert_eq!(asks("bindings/c/src/a.rs", bad), 1, "{bad}");
            assert_eq!(asks("src/bin/kolo/a.rs", bad), 0, "{bad}");
        }
        assert_eq!(asks("src/comm/a.rs", "quiet::tell(\"a\");"), 0);
    }

    #[test]
    fn a_file_that_may_be_a_standard_stream_is_a_fault() {
        let asks = |path: &str, text: &str| descriptors(&Source::new(path, text)).len();
        for bad in [
            "let file = File::open(\"/proc/self/maps\")?;",
            "let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };",
            "let socket = Socket::new(domain, Type::STREAM, None)?;",
            "let copy = libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0);",
            "let (stream, _) = listener.accept()?;",
            "std::fs::write(path, text)",
        ] {
            assert_eq!(asks("src/proxy/a.rs", bad), 1, "{bad}");
            assert_eq!(asks("src/bin/kolo/a.rs", bad), 0, "{bad}");
            let tested = format!("#[cfg(test)]\nmod tests {{\n    {bad}\n}}");
            assert_eq!(asks("src/proxy/a.rs", &tested), 0, "{bad}");
        }
        let good = "let file = lifted(File::open(path)?)?;";
        assert_eq!(asks("src/proxy/a.rs", good), 0);
        let made = "unsafe { Fd::from_result(libc::eventfd(0, 0)) }";
        assert_eq!(asks("bindings/verbs/src/a.rs", made), 0);
    }

    #[test]
    fn an_exported_symbol_in_the_core_is_a_fault() {
        let bad = "#[unsafe(no_mangle)]\npub extern \"C\" fn koloX() {}";
        assert_eq!(count("src/comm/mod.rs", bad, &SYMBOLS), 1);
        assert_eq!(count("bindings/c/src/lib.rs", bad, &SYMBOLS), 0);
    }

    #[test]
    fn loom_outside_sync_is_a_fault() {
        let asks = |path: &str, text: &str| loom(&Source::new(path, text)).len();
        assert_eq!(
            asks("src/wire/slot.rs", "#[cfg(loom)]\n#[cfg(not(loom))]"),
            2
        );
        assert_eq!(asks("src/wire/slot.rs", "if cfg!(loom) {}"), 1);
        assert_eq!(asks("src/wire/slot.rs", "#[cfg(all(test, not(loom)))]"), 0);
        assert_eq!(asks("src/base/sync.rs", "#[cfg(loom)]"), 0);
        assert_eq!(asks("tests/loom/lib.rs", "#[cfg(loom)]"), 0);
    }

    #[test]
    fn unfinished_work_is_a_fault() {
        let asks = |path: &str, text: &str| unfinished(&Source::new(path, text)).len();
        assert_eq!(asks("src/a.rs", "fn f() { todo!() }"), 1);
        assert_eq!(
            asks("src/a.rs", "fn f() { unimplemented!(\"x\"); dbg!(1) }"),
            2
        );
        assert_eq!(asks("examples/a.c", concat!("/* FIX", "ME later */")), 1);
        assert_eq!(asks("src/a.rs", "// a todo! in a comment is a word\n"), 0);
    }
}
