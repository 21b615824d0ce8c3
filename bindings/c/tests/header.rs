//! `include/kolo.h` is what cbindgen makes of the sources today, and compilers accept it.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn generate() -> String {
    let config = cbindgen::Config::from_file(root().join("cbindgen.toml")).unwrap();
    let mut text = Vec::new();
    // The files in reading order; cbindgen keeps it.
    [
        "types",
        "error",
        "comm",
        "launch",
        "table",
        "group",
        "collective",
        "message",
        "vector",
        "graph",
        "exact",
        "op",
        "route",
        "setting",
        "stream",
        "request",
        "memory",
    ]
    .iter()
    .fold(
        cbindgen::Builder::new().with_config(config),
        |builder, file| builder.with_src(plain(file)),
    )
    .generate()
    .unwrap()
    .write(&mut text);
    with_checks(&with_asynchronous_calls(&String::from_utf8(text).unwrap()))
}

/// A source file in which the calls stand as plain functions: cbindgen does not look into macros.
fn plain(file: &str) -> PathBuf {
    let path = root().join(format!("src/{file}.rs"));
    let source = std::fs::read_to_string(&path).unwrap();
    let Some((before, calls)) = source.split_once("\ncalls! {\n") else {
        return path;
    };
    let mut text = before.to_string();
    for call in declared(calls) {
        let (name, arguments) = (call.name, call.arguments);
        text += &format!(
            "\n{}#[unsafe(no_mangle)]\npub unsafe extern \"C\" fn {name}({arguments}, \
             stream: koloStream_t) -> koloResult_t {{}}\n",
            call.words
        );
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("plain");
    std::fs::create_dir_all(&folder).unwrap();
    let own = folder.join(format!("{file}_{:?}.rs", std::thread::current().id()));
    std::fs::write(&own, text).unwrap();
    own
}

/// A call of `calls!` in `src/calls.rs`.
struct Declared {
    words: String,
    name: String,
    /// The name of the form with a request.
    begun: String,
    arguments: String,
}

/// The calls between the brackets of `calls!`: an empty line stands between two of them.
fn declared(calls: &str) -> impl Iterator<Item = Declared> {
    calls
        .split_once("\n}")
        .unwrap()
        .0
        .split("\n\n")
        .map(|call| {
            let (words, form) = call.split_at(call.find("\nkolo").unwrap() + 1);
            let (names, form) = form.split_once('(').unwrap();
            let (name, begun) = names.split_once(", ").unwrap();
            let (arguments, _) = form.split_once(")\n    = ").unwrap();
            Declared {
                words: words.to_string(),
                name: name.to_string(),
                begun: begun.to_string(),
                arguments: arguments
                    .replace(';', ",")
                    .trim_start_matches(", ")
                    .to_string(),
            }
        })
}

/// Calls after whose failure a program has no wrong data: queries, and ends.
const MAY_DROP: [&str; 12] = [
    "koloCommAbort",
    "koloCommCount",
    "koloCommDeregister",
    "koloCommDestroy",
    "koloCommUserRank",
    "koloGetVersion",
    "koloGraphDestroy",
    "koloGroupStart",
    "koloMemFree",
    "koloQuietWhile",
    "koloRedOpDestroy",
    "koloReportError",
];

/// Has compilers warn where the result of any other call is dropped.
fn with_checks(text: &str) -> String {
    let mut checked = String::new();
    for line in text.split_inclusive('\n') {
        let call = line.strip_prefix("koloResult_t ");
        let name = call.and_then(|call| call.split('(').next());
        if name.is_some_and(|name| name.starts_with("kolo") && !MAY_DROP.contains(&name)) {
            checked.push_str("KOLO_MUST_CHECK\n");
        }
        checked.push_str(line);
    }
    checked
}

/// Adds the declarations of the asynchronous calls, made from those of all calls with a stream.
fn with_asynchronous_calls(text: &str) -> String {
    let declarations = text.split("\n\n").filter_map(|part| {
        let start = part.rfind("koloResult_t kolo")?;
        let declaration = part[start..].strip_suffix(';')?;
        let arguments = declaration.strip_suffix("koloStream_t stream)")?;
        let name = arguments.strip_prefix("koloResult_t kolo")?;
        // Further lines are aligned with the bracket, which moves by a letter.
        let name = name.replace('\n', "\n ");
        Some(format!(
            "koloResult_t koloI{name}koloRequest_t *request);\n\n"
        ))
    });
    let calls: String = declarations.filter(|one| !one.contains("Stream")).collect();
    let words = [
        "/* Asynchronous calls: each one begins the call without the I and returns at once. Until",
        " * koloWait, koloTest or koloWaitAll has ended the request, the buffers belong to kolo.",
        " * Arrays of counts and displacements are only read during the call. */\n",
    ];
    let end = text.rfind("#ifdef __cplusplus").unwrap();
    format!(
        "{}{}{calls}{}",
        &text[..end],
        words.join("\n"),
        &text[end..]
    )
}

#[test]
fn kolo_h_is_not_stale() {
    let path = root().join("include/kolo.h");
    let fresh = generate();
    if std::env::var_os("KOLO_BLESS").is_some() {
        std::fs::write(&path, &fresh).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == fresh,
        "include/kolo.h is stale: run KOLO_BLESS=1 cargo test -p kolo-c --test header"
    );
}

#[test]
fn every_source_file_is_in_the_header() {
    let text = generate();
    for entry in std::fs::read_dir(root().join("src")).unwrap() {
        let source = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let functions = source.split("extern \"C\" fn kolo").skip(1);
        for name in functions.map(|rest| rest.split('(').next().unwrap()) {
            assert!(
                text.contains(&format!("kolo{name}(")),
                "kolo{name} is not in kolo.h"
            );
        }
    }
}

#[test]
fn every_call_with_a_stream_has_an_asynchronous_form() {
    let text = generate();
    let mut calls = 0;
    for entry in std::fs::read_dir(root().join("src")).unwrap() {
        let source = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let Some((_, both)) = source.split_once("\ncalls! {\n") else {
            continue;
        };
        for call in declared(both) {
            let (name, begun) = (call.name, call.begun);
            assert_eq!(begun, name.replacen("kolo", "koloI", 1));
            for name in [name, begun] {
                assert!(text.contains(&format!("koloResult_t {name}(")), "{name}");
            }
            calls += 1;
        }
    }
    let all = text.matches("koloResult_t koloI").count();
    assert_eq!(calls, all, "none is missing in kolo.h");
    assert_eq!(calls, 24);
}

#[test]
fn compilers_accept_kolo_h_without_a_warning() {
    let dir = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let text = "#include <kolo.h>\n#include <kolo.h>\nextern int use_kolo(koloComm_t *comm);\n\
                int use_kolo(koloComm_t *comm) {\n  \
                koloConfig_t config = KOLO_CONFIG_INITIALIZER;\n  \
                koloUniqueId id = {{0}};\n  koloDataType_t type = koloDouble;\n  \
                if (koloAllReduce(NULL, NULL, 0, type, koloSum, *comm, NULL) != koloSuccess)\n    \
                return KOLO_VERSION_CODE;\n  \
                return (int)koloCommInitRankConfig(comm, 1, id, 0, &config);\n}\n";
    let cases = [
        ("cc", "c99", "c"),
        ("cc", "c11", "c"),
        ("c++", "c++11", "cpp"),
        ("c++", "c++17", "cpp"),
    ];
    for (compiler, standard, suffix) in cases {
        let source = dir.join(format!("header_{standard}.{suffix}"));
        std::fs::write(&source, text).unwrap();
        let status = Command::new(compiler)
            .args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"])
            .arg(format!("-std={standard}"))
            .arg("-I")
            .arg(root().join("include"))
            .arg(&source)
            .status()
            .unwrap();
        assert!(
            status.success(),
            "{compiler} -std={standard} does not accept kolo.h"
        );
    }
}

/// Compiles a program that drops the result of `call`, with these words for the compiler.
fn drops(call: &str, (compiler, standard): (&str, &str), more: &[&str]) -> bool {
    let dir = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let suffix = if compiler == "cc" { "c" } else { "cpp" };
    let source = dir.join(format!("drops_{standard}_{}.{suffix}", more.len()));
    let text = format!(
        "#include <kolo.h>\nextern void drop(koloComm_t comm);\n\
         void drop(koloComm_t comm) {{ {call}; (void)comm; }}\n"
    );
    std::fs::write(&source, text).unwrap();
    Command::new(compiler)
        // Not -fsyntax-only, with which compilers do not look at what is dropped.
        .args([
            "-Wall",
            "-Wextra",
            "-pedantic",
            "-Werror",
            "-c",
            "-o",
            "/dev/null",
        ])
        .arg(format!("-std={standard}"))
        .args(more)
        .arg("-I")
        .arg(root().join("include"))
        .arg(&source)
        .stderr(std::process::Stdio::null())
        .status()
        .unwrap()
        .success()
}

#[test]
fn a_dropped_result_is_a_warning() {
    for standard in [
        ("cc", "c99"),
        ("cc", "c11"),
        ("c++", "c++11"),
        ("c++", "c++17"),
    ] {
        let barrier = "koloBarrier(comm, NULL)";
        assert!(!drops(barrier, standard, &[]), "{standard:?}");
        assert!(
            !drops("koloIBarrier(comm, NULL)", standard, &[]),
            "{standard:?}"
        );
        assert!(
            drops(barrier, standard, &["-DKOLO_MAY_DROP_RESULTS"]),
            "{standard:?}"
        );
        assert!(
            drops("KOLO_IGNORE(koloBarrier(comm, NULL))", standard, &[]),
            "{standard:?}"
        );
        assert!(
            drops("koloCommDestroy(comm)", standard, &[]),
            "{standard:?}"
        );
    }
}

/// The enumerators and whole-number macros of kolo.h: (name, value).
fn numbers_of_header() -> Vec<(String, i64)> {
    let text = std::fs::read_to_string(root().join("include/kolo.h")).unwrap();
    let entry = |line: &str| {
        let line = line.trim().trim_end_matches(',');
        let (name, value) = match line.strip_prefix("#define ") {
            Some(rest) => rest.split_once(' ')?,
            None => line.split_once(" = ")?,
        };
        Some((name.to_owned(), value.parse().ok()?))
    };
    text.lines().filter_map(entry).collect()
}

#[test]
fn kolo_f90_has_the_numbers_of_kolo_h() {
    let header = numbers_of_header();
    let text = std::fs::read_to_string(root().join("../fortran/kolo_constants.inc")).unwrap();
    // Fortran names whose C name is another one.
    let renamed = [
        ("INTEGER1", "Int8"),
        ("INTEGER4", "Int32"),
        ("INTEGER8", "Int64"),
        ("REAL2", "Float16"),
        ("REAL4", "Float32"),
        ("REAL8", "Float64"),
        ("EXACT_SUM", "SumExact"),
        ("COMPLEX8", "Complex64"),
        ("COMPLEX16", "Complex128"),
        ("LOGICAL1", "Logical8"),
        ("LOGICAL2", "Logical16"),
        ("LOGICAL4", "Logical32"),
        ("LOGICAL8", "Logical64"),
        ("2INTEGER", "IntInt"),
        ("2REAL", "FloatFloat"),
        ("2DOUBLE_PRECISION", "DoubleDouble"),
        ("NO_RANK", "_NO_RANK"),
        ("UNDEFINED", "_SPLIT_NOCOLOR"),
    ];
    let mut compared = 0;
    for line in text
        .lines()
        .filter(|line| line.contains("parameter, public ::"))
    {
        let (name, value) = line
            .split_once(":: KOLO_")
            .unwrap()
            .1
            .split_once(" = ")
            .unwrap();
        let value = value.split_once("  !<").unwrap().0;
        let number = value.rsplit('(').next().unwrap().trim_end_matches(')');
        let Ok(number) = number.parse::<i64>() else {
            continue;
        };
        if number >= 100 {
            continue;
        }
        let other = renamed.iter().find(|(fortran, _)| *fortran == name);
        let wanted = match other {
            Some((_, c)) => format!("kolo{c}").to_lowercase(),
            None => format!("kolo{}", name.replace('_', "")).to_lowercase(),
        };
        let found = header.iter().find(|(c, _)| c.to_lowercase() == wanted);
        assert_eq!(found.map(|(_, value)| *value), Some(number), "KOLO_{name}");
        compared += 1;
    }
    assert_eq!(
        compared,
        14 + 21 + 9 + 2,
        "operations, data types, results, color and neighbour"
    );
}
