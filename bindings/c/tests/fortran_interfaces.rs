//! `bindings/fortran/kolo_calls.inc` is what this table says: the interface bodies of the calls
//! that exist in many forms. Fortran has no macros, and a generic name needs a body for each kind
//! of integer, with and without a stream or a request.
//!
//! `KOLO_BLESS=1 cargo test -p kolo-c --test fortran_interfaces` writes it.

#[path = "../../../tests/skip/mod.rs"]
mod skip;

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// One call of kolo.
struct Call {
    /// Name without prefix.
    name: &'static str,
    /// What it does, for the comment.
    what: &'static str,
    /// `comm` or `graph`.
    on: &'static str,
    /// Forms that take sizes from the arrays: suffix of the C name, arguments, whether `ierror`
    /// must be a form of its own.
    short: &'static [(&'static str, &'static str)],
    /// MPI's arguments; each kind of integer is a form.
    explicit: &'static str,
}

const REDUCTION: &str = "in:send io:recv n:count t:datatype op";

/// The calls. Arguments: `in:` and `io:` are arrays of any type, `counts:` integer arrays, `n:`
/// numbers of elements, `t:` data types.
const CALLS: &[Call] = &[
    collective(
        "allreduce",
        "Reduces elements of all ranks; every rank gets the same bits. One \
         array, or two of the same type and size. Pairs for KOLO_MINLOC and \
         KOLO_MAXLOC are arrays (2, n). (Bodies with and without ierror, because \
         an optional one would make buf and (send, recv) ambiguous.)",
        &[("_buf", "io:buf op"), ("", "in:send io:recv op")],
        REDUCTION,
    ),
    collective(
        "bcast",
        "Copies buf of the root to all ranks; any type.",
        &[("", "io:buf root")],
        "io:buf n:count t:datatype root",
    ),
    collective(
        "reduce",
        "Reduces elements of all ranks into recv of the root; recv of the others \
         is not used.",
        &[("", "in:send io:recv op root")],
        "in:send io:recv n:count t:datatype op root",
    ),
    collective(
        "allgather",
        "Collects send of every rank in recv of all, in rank order: recv has \
         (ranks) x (size of send) elements.",
        &[("", "in:send io:recv")],
        BOTH,
    ),
    collective(
        "gather",
        "kolo_allgather to the root only; recv of the others is not used.",
        &[("", "in:send io:recv root")],
        BOTH_ROOT,
    ),
    collective(
        "scatter",
        "Block r of send of the root goes to recv of rank r; send of the others \
         is not used.",
        &[("", "in:send io:recv root")],
        BOTH_ROOT,
    ),
    collective(
        "reduce_scatter",
        "Reduces send of all ranks; rank r gets block r. send has (ranks) x \
         (size of recv) elements.",
        &[("", "in:send io:recv op")],
        REDUCTION,
    ),
    collective(
        "alltoall",
        "Block p of send goes to rank p, block p of recv comes from rank p.",
        &[("", "in:send io:recv")],
        BOTH,
    ),
    collective(
        "barrier",
        "Returns when all ranks have called.",
        &[("", "")],
        "",
    ),
    collective(
        "send",
        "Sends buf to rank `peer`, to nobody if that is KOLO_NO_RANK; calls between \
         two ranks match in order. Exchanges need a group, or kolo_sendrecv.",
        &[("", "in:buf peer")],
        "in:buf n:count t:datatype peer",
    ),
    collective(
        "recv",
        "Receives what rank `peer` sends; buf stays if that is KOLO_NO_RANK.",
        &[("", "io:buf peer")],
        "io:buf n:count t:datatype peer",
    ),
    collective(
        "sendrecv",
        "kolo_send to rank `dest` and kolo_recv from rank `source` at once, so that \
         neither waits for the other. Both arrays have one type; their sizes may differ. \
         KOLO_NO_RANK is a neighbour that is not there.",
        &[("", "in:send dest io:recv source")],
        "in:send n:sendcount t:sendtype dest io:recv n:recvcount t:recvtype source",
    ),
    Call {
        name: "scan",
        what: "Rank r gets the reduction of ranks 0 to r, in their order; no KOLO_AVG.",
        on: "comm",
        short: &[("", "in:send io:recv op")],
        explicit: REDUCTION,
    },
    Call {
        name: "exscan",
        what: "Rank r gets the reduction of ranks 0 to r - 1; recv of rank 0 is not used.",
        on: "comm",
        short: &[("", "in:send io:recv op")],
        explicit: REDUCTION,
    },
    Call {
        name: "allgatherv",
        what: "Collects recvcounts(r + 1) elements of rank r, at displs(r + 1) elements from the \
               start or one behind the other, in recv of all ranks.",
        on: "comm",
        short: &[
            ("#", "in:send io:recv counts:recvcounts"),
            ("_d#", "in:send io:recv counts:recvcounts counts:displs"),
        ],
        explicit: "in:send n:sendcount t:sendtype io:recv counts:recvcounts counts:displs \
                   t:recvtype",
    },
    Call {
        name: "gatherv",
        what: "kolo_allgatherv to the root; recv, recvcounts and displs of the others are not \
               used.",
        on: "comm",
        short: &[
            ("#", "in:send io:recv counts:recvcounts root"),
            (
                "_d#",
                "in:send io:recv counts:recvcounts counts:displs root",
            ),
        ],
        explicit: "in:send n:sendcount t:sendtype io:recv counts:recvcounts counts:displs \
                   t:recvtype root",
    },
    Call {
        name: "scatterv",
        what: "sendcounts(r + 1) elements of send of the root go to recv of rank r; send, \
               sendcounts and displs of the others are not used.",
        on: "comm",
        short: &[
            ("#", "in:send counts:sendcounts io:recv root"),
            (
                "_d#",
                "in:send counts:sendcounts io:recv counts:displs root",
            ),
        ],
        explicit: "in:send counts:sendcounts counts:displs t:sendtype io:recv n:recvcount \
                   t:recvtype root",
    },
    Call {
        name: "reduce_scatterv",
        what: "Reduces send of all ranks, in their order; rank r gets block r, which has \
               recvcounts(r + 1) elements (pairs, with KOLO_MINLOC and KOLO_MAXLOC).",
        on: "comm",
        short: &[("#", "in:send io:recv counts:recvcounts op")],
        explicit: "in:send io:recv counts:recvcounts t:datatype op",
    },
    Call {
        name: "alltoallv",
        what: "sendcounts(p + 1) elements go to rank p, recvcounts(p + 1) come from it.",
        on: "comm",
        short: MANY,
        explicit: MANY_EXPLICIT,
    },
    Call {
        name: "neighbor_allgather",
        what: "Collects send of all sources of the graph, of one size, in recv.",
        on: "graph",
        short: &[("", "in:send io:recv")],
        explicit: BOTH,
    },
    Call {
        name: "neighbor_allgatherv",
        what: "The same of different sizes: recvcounts(i) elements of source i.",
        on: "graph",
        short: &[
            ("#", "in:send io:recv counts:recvcounts"),
            ("_d#", "in:send io:recv counts:recvcounts counts:displs"),
        ],
        explicit: "in:send n:sendcount t:sendtype io:recv counts:recvcounts counts:displs \
                   t:recvtype",
    },
    Call {
        name: "neighbor_alltoall",
        what: "Block i of send goes to destination i, block i of recv comes from source i; blocks \
               of missing neighbours are left alone.",
        on: "graph",
        short: &[("", "in:send io:recv")],
        explicit: BOTH,
    },
    Call {
        name: "neighbor_alltoallv",
        what: "The same of different sizes.",
        on: "graph",
        short: MANY,
        explicit: MANY_EXPLICIT,
    },
];

const BOTH: &str = "in:send n:sendcount t:sendtype io:recv n:recvcount t:recvtype";
const BOTH_ROOT: &str = "in:send n:sendcount t:sendtype io:recv n:recvcount t:recvtype root";
const MANY: &[(&str, &str)] = &[
    ("#", "in:send counts:sendcounts io:recv counts:recvcounts"),
    (
        "_d#",
        "in:send counts:sendcounts io:recv counts:recvcounts counts:sdispls counts:rdispls",
    ),
];
const MANY_EXPLICIT: &str = "in:send counts:sendcounts counts:sdispls t:sendtype io:recv \
                             counts:recvcounts counts:rdispls t:recvtype";

const fn collective(
    name: &'static str,
    what: &'static str,
    short: &'static [(&'static str, &'static str)],
    explicit: &'static str,
) -> Call {
    Call {
        name,
        what,
        on: "comm",
        short,
        explicit,
    }
}

/// How a form ends.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Blocks,
    Stream,
    Request,
}

/// How an argument is declared.
fn declaration(form: &str, name: &str, apart: &str, integer: &str) -> String {
    match form {
        "in" => format!("type(*), dimension(..), intent(in){apart} :: {name}"),
        "io" => format!("type(*), dimension(..), intent(inout){apart} :: {name}"),
        "counts" => format!("integer({integer}), intent(in) :: {name}(:)"),
        "n" => format!("integer({integer}), intent(in) :: {name}"),
        "t" => format!("type(kolo_datatype), intent(in) :: {name}"),
        "op" => "type(kolo_op), intent(in) :: op".to_string(),
        "root" | "peer" | "dest" | "source" => format!("integer(c_int32_t), intent(in) :: {name}"),
        other => panic!("{other}"),
    }
}

/// One interface body.
fn body(
    text: &mut String,
    c_name: &str,
    call: &Call,
    args: &str,
    kind: u32,
    end: End,
    error: bool,
) {
    let mut names = Vec::new();
    let mut lines = Vec::new();
    let apart = if end == End::Blocks {
        ""
    } else {
        ", asynchronous"
    };
    let integer = if kind == 4 { "c_int32_t" } else { "c_int64_t" };
    for arg in args.split_whitespace() {
        let (form, name) = arg.split_once(':').unwrap_or((arg, arg));
        names.push(name.to_string());
        lines.push(declaration(form, name, apart, integer));
    }
    names.push(call.on.to_string());
    lines.push(format!("type(kolo_{0}), intent(in) :: {0}", call.on));
    match end {
        End::Blocks => {}
        End::Stream => {
            names.push("stream".to_string());
            lines.push("type(kolo_stream), intent(in) :: stream".to_string());
        }
        End::Request => {
            names.push("request".to_string());
            lines.push("type(kolo_request), intent(out) :: request".to_string());
        }
    }
    // Where an optional ierror would make two forms ambiguous, it is a form of its own.
    let split = call.name == "allreduce" && args != call.explicit;
    if error || !split {
        names.push("ierror".to_string());
        let optional = if split { "" } else { ", optional" };
        lines.push(format!(
            "integer(c_int32_t), intent(out){optional} :: ierror"
        ));
    }
    let head = format!("    subroutine {c_name}({})", names.join(", "));
    let bind = format!("bind(C, name=\"{c_name}\")");
    match head.len() + bind.len() < 100 {
        true => writeln!(text, "{head} {bind}").unwrap(),
        false if head.len() < 97 => writeln!(text, "{head} &\n      {bind}").unwrap(),
        false => {
            let middle = names.len() / 2;
            let (first, rest) = (names[..middle].join(", "), names[middle..].join(", "));
            writeln!(
                text,
                "    subroutine {c_name}({first}, &\n      {rest}) &\n      {bind}"
            )
            .unwrap();
        }
    }
    text.push_str("      import\n");
    lines
        .iter()
        .for_each(|line| writeln!(text, "      {line}").unwrap());
    writeln!(text, "    end subroutine {c_name}").unwrap();
}

/// All bodies of a call with this end.
fn bodies(text: &mut String, call: &Call, end: End) {
    let initial = if end == End::Request { "i" } else { "" };
    let of_blocks = call.explicit.contains("counts:") || call.on == "graph";
    for (suffix, args) in call.short {
        let kinds: &[u32] = if suffix.contains('#') { &[4, 8] } else { &[4] };
        for &kind in kinds {
            let suffix = suffix.replace('#', &format!("_{kind}"));
            let stream = match (end, of_blocks) {
                (End::Stream, true) => "s",
                (End::Stream, false) => "_s",
                _ => "",
            };
            let name = format!("kolo_f_{initial}{}{suffix}{stream}", call.name);
            if call.name == "allreduce" {
                body(text, &name, call, args, kind, end, false);
                let mark = if end == End::Stream { "e" } else { "_e" };
                body(text, &format!("{name}{mark}"), call, args, kind, end, true);
            } else {
                body(text, &name, call, args, kind, end, true);
            }
        }
    }
    if end == End::Stream || call.explicit.is_empty() {
        return;
    }
    for kind in [4, 8] {
        let mark = if of_blocks { "_x" } else { "_" };
        let name = format!("kolo_f_{initial}{}{mark}{kind}", call.name);
        body(text, &name, call, call.explicit, kind, end, true);
    }
}

/// A comment of several lines.
fn comment(text: &mut String, words: &str) {
    let mut line = String::from("  !>");
    for word in words.split_whitespace() {
        if line.len() + word.len() > 98 {
            writeln!(text, "{line}").unwrap();
            line = String::from("  !!");
        }
        line.push(' ');
        line.push_str(word);
    }
    writeln!(text, "{line}").unwrap();
}

fn generate() -> String {
    let mut text = String::from(
        "  ! Generated by bindings/c/tests/fortran_interfaces.rs, which has the table: do not \
         edit.\n",
    );
    for call in CALLS {
        text.push('\n');
        comment(&mut text, call.what);
        writeln!(
            text,
            "  public :: kolo_{0}\n  interface kolo_{0}",
            call.name
        )
        .unwrap();
        bodies(&mut text, call, End::Blocks);
        bodies(&mut text, call, End::Stream);
        writeln!(text, "  end interface kolo_{}", call.name).unwrap();
        text.push('\n');
        comment(
            &mut text,
            &format!("Begins kolo_{} and returns at once.", call.name),
        );
        writeln!(
            text,
            "  public :: kolo_i{0}\n  interface kolo_i{0}",
            call.name
        )
        .unwrap();
        bodies(&mut text, call, End::Request);
        writeln!(text, "  end interface kolo_i{}", call.name).unwrap();
    }
    text
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fortran")
}

#[test]
fn kolo_calls_inc_is_not_stale() {
    let (path, fresh) = (folder().join("kolo_calls.inc"), generate());
    if std::env::var_os("KOLO_BLESS").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == fresh,
        "kolo_calls.inc is stale: run KOLO_BLESS=1 cargo test -p kolo-c --test fortran_interfaces"
    );
    assert!(fresh.lines().all(|line| line.len() <= 100));
}

/// The two sides are separate programs to their compilers: nothing else compares their names.
#[test]
fn every_body_has_its_function() {
    let library = std::env::temp_dir().join(format!("kolo_bodies_{}", std::process::id()));
    std::fs::create_dir_all(&library).unwrap();
    let mut symbols = String::new();
    for part in [
        "kolo_fortran",
        "kolo_fortran_blocks",
        "kolo_fortran_control",
        "kolo_fortran_pair",
    ] {
        let object = library.join(format!("{part}.o"));
        let compiled = std::process::Command::new("cc")
            .args(["-std=gnu11", "-c", "-I"])
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"))
            .arg(folder().join(format!("{part}.c")))
            .arg("-o")
            .arg(&object)
            .status();
        // ISO_Fortran_binding.h comes with gfortran.
        if !compiled.is_ok_and(|status| status.success()) {
            skip::skip("fortran-binding", "no C compiler has ISO_Fortran_binding.h");
            return;
        }
        let output = std::process::Command::new("nm")
            .arg(&object)
            .output()
            .unwrap();
        symbols.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    std::fs::remove_dir_all(&library).unwrap();
    let defined: std::collections::BTreeSet<&str> = symbols
        .lines()
        .filter_map(|line| line.split_once(" T ").map(|(_, name)| name))
        .collect();
    let mut text = generate();
    text.push_str(&std::fs::read_to_string(folder().join("kolo.f90")).unwrap());
    let bound: std::collections::BTreeSet<&str> = text
        .split("bind(C, name=\"kolo_f_")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap())
        .collect();
    assert!(bound.len() > 200, "{}", bound.len());
    for name in bound {
        assert!(
            defined.contains(format!("kolo_f_{name}").as_str()),
            "kolo_f_{name}"
        );
    }
}
