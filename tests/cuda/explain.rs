//! `kolo explain --device cuda`: what it says is what communicators of devices do.

use crate::drawn;
use crate::softgpu::{kolo, perf, said};
use serde_json::Value;
use std::process::Command;

/// An algorithm that settings name, and the size of buffers; nothing where they do not.
type Named = (&'static str, &'static str);

/// Runs a command of kolo with these words and settings, and returns what it prints.
fn told(mut command: Command, words: &str, (algorithm, buffer): Named) -> String {
    command.args(words.split_whitespace());
    command.args(["--device", "cuda"]);
    for (name, value) in [("KOLO_ALGO", algorithm), ("KOLO_BUFFSIZE", buffer)] {
        if !value.is_empty() {
            command.env(name, value);
        }
    }
    let output = command.output().expect("kolo");
    let said = said(&output);
    assert!(output.status.success(), "{words}: {said}");
    said
}

fn document(words: &str, named: Named) -> Value {
    let said = told(kolo(), &format!("explain {words} --json"), named);
    serde_json::from_str(&said).expect("JSON")
}

/// Steps that four ranks have planned in so many iterations.
fn planned(collective: &str, size: &str, named: Named, iterations: u32) -> u64 {
    let words = format!("{collective} -b {size} -e {size} -g 4 -n {iterations} -w 0 -c 0");
    let said = told(perf(4), &words, named);
    let line = said
        .lines()
        .find(|line| line.contains("# steps: executed =="));
    let number = line.and_then(|line| line.split([',', ')']).nth(1));
    let number = number.and_then(|text| text.trim().parse().ok());
    number.unwrap_or_else(|| panic!("{collective}: {said}"))
}

/// An iteration of all-reduce is measured in place and not, one of all-to-all only not; both with
/// two calls.
#[test]
fn the_steps_are_those_that_communicators_plan() {
    let all = vec![
        ("all_reduce", "1K", ("ring", ""), 4),
        ("all_reduce", "272K", ("ring", "64K"), 4),
        // Of five rounds.
        ("all_reduce", "64K", ("tree", "64K"), 4),
        ("all_reduce", "2K", ("oneshot", ""), 4),
        ("alltoall", "128K", ("pairwise", "64K"), 2),
    ];
    for (collective, size, named, calls) in drawn::of_each("explained", [all], 3) {
        let of = |rank| {
            let words = format!("{collective} {size} -n 4 -r {rank}");
            let told = document(&words, named);
            assert_eq!(told["chosen"]["algorithm"], named.0, "{told}");
            told["steps"].as_u64().expect("a number")
        };
        let told: u64 = (0..4).map(of).sum();
        let planned = |iterations| planned(collective, size, named, iterations);
        let made = planned(3) - planned(2);
        assert_eq!(made, calls * told, "{collective} {size} {named:?}");
    }
}

#[test]
fn the_protocol_follows_size_and_reach() {
    let of = |size: &str| document(&format!("all_reduce {size} -n 4"), ("ring", ""));
    for (size, near, far) in [
        ("16K", "ll", None),
        ("64K", "ll128", Some("simple")),
        ("1M", "simple", None),
    ] {
        let told = of(size);
        assert_eq!(told["chosen"]["protocol"], near, "{told}");
        let apart = told["out_of_reach"]["protocol"].as_str();
        assert_eq!(apart, far, "{told}");
        let kernel = told["kernel"].as_str().expect("a name");
        let word = ["Ll_", "Ll128_", "Simple_"].into_iter();
        let word = word
            .zip(["ll", "ll128", "simple"])
            .find(|(_, it)| *it == near);
        assert_eq!(kernel, format!("kolo2_{}Float_Sum", word.unwrap().0));
    }
    let text = told(kolo(), "explain all_reduce 64K -n 4", ("ring", ""));
    for line in [
        "route       launch: on the stream of each rank one kernel interprets the plan, \
         form kernel\n",
        "otherwise   ring, protocol simple, where devices do not all reach each other\n",
        "time        unknown: kolo has measured no GPU\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
}

#[test]
fn every_way_of_a_call_has_its_words() {
    for (words, route) in [
        ("sendrecv 1K -n 2", "messages"),
        ("alltoall_v 64K -n 4", "messages"),
        ("broadcast 1K -n 1", "copy"),
        ("barrier -n 1", "nothing"),
        ("barrier -n 4", "launch"),
        ("all_gather 1M -d complex64 -n 4", "launch"),
    ] {
        assert_eq!(document(words, ("", ""))["route"], route, "{words}");
    }
    for (words, why) in [
        ("all_reduce 1K -n 2x4", "connects the devices of one node"),
        ("all_reduce 1K -d complex64 -n 4", "no sum of complex64"),
        ("all_reduce 1K -o exactsum -n 4", "in memory of the host"),
        ("reduce_scatter_v 1K -n 4", "are not reduced on a device"),
    ] {
        let told = document(words, ("", ""));
        assert_eq!(told["route"], "refused", "{words}");
        let said = told["why"].as_str().expect("a reason");
        assert!(said.contains(why), "{words}: {said}");
    }
}
