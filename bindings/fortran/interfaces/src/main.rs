//! Writes `bindings/fortran/kolo_calls.inc`: the interface bodies of the calls that exist in many
//! forms. Fortran has no macros, and a generic name needs a body for each kind of integer, with and
//! without a stream or a request.
//!
//! The file is what this program prints: `make interfaces` writes it.

mod calls;

use calls::{Arrays, CALLS, Call};
use std::fmt::Write;

fn main() {
    print!("{}", generate());
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
    names.push(call.on().to_string());
    lines.push(format!("type(kolo_{0}), intent(in) :: {0}", call.on()));
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
    let split = call.arrays == Arrays::OneOrTwo && !args.contains("n:count");
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
    let (forms, of_blocks) = (call.forms(), call.has_blocks());
    for (suffix, args) in &forms.short {
        let kinds: &[u32] = if suffix.contains('#') { &[4, 8] } else { &[4] };
        for &kind in kinds {
            let suffix = suffix.replace('#', &format!("_{kind}"));
            let stream = match (end, of_blocks) {
                (End::Stream, true) => "s",
                (End::Stream, false) => "_s",
                _ => "",
            };
            let name = format!("kolo_f_{initial}{}{suffix}{stream}", call.name);
            if call.arrays == Arrays::OneOrTwo {
                body(text, &name, call, args, kind, end, false);
                let mark = if end == End::Stream { "e" } else { "_e" };
                body(text, &format!("{name}{mark}"), call, args, kind, end, true);
            } else {
                body(text, &name, call, args, kind, end, true);
            }
        }
    }
    let Some(explicit) = forms.explicit.filter(|_| end != End::Stream) else {
        return;
    };
    for kind in [4, 8] {
        let mark = if of_blocks { "_x" } else { "_" };
        let name = format!("kolo_f_{initial}{}{mark}{kind}", call.name);
        body(text, &name, call, &explicit, kind, end, true);
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

/// The text of the file.
fn generate() -> String {
    let mut text = String::from(
        "  ! Generated by bindings/fortran/interfaces, which has the table: do not \
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
