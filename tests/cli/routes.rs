//! `kolo explain` tells the route of every shape of call, and why a call is refused.

use crate::{kolo, run, scratch, stderr, stdout};
use serde_json::Value;
use std::path::Path;

/// Returns the answer of a command as text, and as a document.
fn asked(arguments: &str, tuner_file: Option<&Path>) -> (String, Value) {
    let said = |more: &str| {
        let mut command = kolo();
        if let Some(file) = tuner_file {
            command.env("KOLO_TUNER_FILE", file);
        }
        let words = format!("explain {arguments}{more}");
        let output = command.args(words.split(' ')).output().unwrap();
        assert!(output.status.success(), "{words}: {}", stderr(&output));
        stdout(&output)
    };
    let document = said(" --json");
    let document = serde_json::from_str(&document);
    let document = document.unwrap_or_else(|error| panic!("{arguments}: {error}"));
    (said(""), document)
}

#[test]
fn explain_tells_every_kind_of_route() {
    for (arguments, route, says) in [
        ("all_reduce 8 -n 4", "small", "oneshot, protocol eager"),
        ("reduce_scatter 64 -n 4", "small", "oneshot, protocol eager"),
        ("alltoall 64 -n 4", "small", "oneshot, protocol eager"),
        ("gather 64 -n 4", "messages", "bundle, protocol simple"),
        ("sendrecv 64 -n 2", "messages", "one message"),
        ("sendrecv 1M -n 2", "plan", "bundle, protocol simple"),
        ("send 1M -n 2", "plan", "bundle, protocol simple"),
        ("recv 64 -n 3", "messages", "one message"),
        ("reduce 1M -n 2x4", "plan", "ring, protocol simple"),
        ("all_reduce 4M -n 4", "may be direct", "or twoshot where"),
        ("all_reduce 4M -n 4 -o exactsum", "exact", "exact sum"),
        ("all_reduce 64 -n 1", "alone", "a copy"),
        ("all_reduce 0 -n 4", "nothing", "nothing to move"),
        ("alltoall_v 64K -n 4", "parts", "a message for each block"),
        ("neighbor_allgather 64 -n 4", "parts", "a message for each"),
        // A factor for each rank: no reads where data lie, and no two-shot among so many.
        ("all_reduce 4M -n 4 -o premulsum", "plan", "twoshot"),
        ("all_reduce 4M -n 70 -o premulsum", "plan", "ring"),
        ("barrier -n 4", "small", "oneshot, protocol eager"),
    ] {
        let (text, document) = asked(arguments, None);
        let line = format!("\nroute       {route}: ");
        assert!(text.contains(&line), "{arguments}: {text}");
        let words = document["words"].as_str().unwrap();
        assert!(text.contains(&format!("{line}{words}\n")), "{text}");
        assert!(words.contains(says), "{arguments}: {words}");
        assert_eq!(document["route"], route, "{arguments}");
        assert_eq!(document["may_be_direct"], route == "may be direct");
        // What is not one plan has none that is chosen; all depend on settings.
        let has_plan = !["exact", "parts", "nothing"].contains(&route);
        assert_eq!(text.contains("\nchosen "), has_plan, "{arguments}: {text}");
        assert_eq!(document["chosen"].is_object(), has_plan, "{arguments}");
        assert!(
            text.contains("KOLO") || text.contains("\n  algo "),
            "{text}"
        );
        assert!(document["settings"].as_array().unwrap().len() > 5);
        let launches = document["launches"].as_array().unwrap();
        assert_eq!(!launches.is_empty(), route == "exact", "{arguments}");
    }
}

/// A message is one call, and a send and a receive at once are another.
#[test]
fn explain_tells_messages_from_exchanges() {
    for (arguments, title, form) in [
        ("send 64 -n 2", "Send of 64 ", "message"),
        ("recv 1M -n 2", "Recv of 1M ", "message"),
        ("sendrecv 64 -n 2", "SendRecv of 64 ", "exchange"),
        ("MPI_Sendrecv 1M -n 2", "SendRecv of 1M ", "exchange"),
        ("ncclSend 4M -n 2", "Send of 4M ", "interpreted"),
        ("MPI_Isend 64 -n 2x1", "Send of 64 ", "bundle"),
        ("send 64 -n 1", "Send of 64 ", "interpreted"),
    ] {
        let (text, document) = asked(arguments, None);
        assert!(text.starts_with(title), "{arguments}: {text}");
        assert_eq!(document["form"], form, "{arguments}");
        assert!(text.contains(&format!(", form {form}\n")), "{text}");
        let name = title.split(' ').next().unwrap();
        assert_eq!(document["question"]["collective"], name, "{arguments}");
    }
}

/// Each launch of an exact sum goes by what a call of its size would.
#[test]
fn explain_tells_the_launches_of_an_exact_sum() {
    for (arguments, ranks, wanted) in [
        ("all_reduce 8 -d double", "4", vec![("AllReduce", 0)]),
        (
            "all_reduce 4M -d double",
            "4",
            vec![("AllReduce", 64 << 10), ("AllReduce", 512 << 10)],
        ),
        (
            "reduce 1M -d float",
            "2x4",
            vec![("AllReduce", 64 << 10), ("Reduce", 512 << 10)],
        ),
        // Fewer elements than a block has, of two numbers each.
        (
            "reduce 64K -d complex64",
            "2x4",
            vec![("AllReduce", 64 << 10), ("Reduce", 512 << 10)],
        ),
    ] {
        let (text, document) = asked(&format!("{arguments} -n {ranks} -o exactsum"), None);
        let launches = document["launches"].as_array().unwrap();
        assert_eq!(launches.len(), wanted.len(), "{document}");
        assert_eq!(text.matches("\nlaunch      ").count(), wanted.len());
        for (launch, (collective, bytes)) in launches.iter().zip(wanted) {
            let told = launch["bytes"].as_u64().unwrap();
            match bytes {
                // One whole sum of doubles: 2098 bits, in words of less than 64.
                0 => assert!((34 * 8..=68 * 8).contains(&told), "{launch}"),
                bytes => assert_eq!(told, bytes, "{launch}"),
            }
            assert_eq!(launch["collective"], collective);
            let name = match collective {
                "Reduce" => "reduce",
                _ => "all_reduce",
            };
            let (_, call) = asked(&format!("{name} {told} -d uint8 -n {ranks}"), None);
            for key in ["algorithm", "protocol", "channels"] {
                assert!(!launch[key].is_null(), "{launch}");
                assert_eq!(launch[key], call["chosen"][key], "{launch} {call}");
            }
        }
    }
}

/// Measured times by which an all-reduce is a reduce and a broadcast: a launch is one plan.
#[test]
fn a_composed_call_has_its_route_and_a_launch_is_never_composed() {
    let file = scratch("composed_routes.toml");
    std::fs::write(&file, crate::tuning::composing()).unwrap();
    let (text, document) = asked("all_reduce 64K -n 4", Some(&file));
    let line = "\nroute       composed: Reduce and Broadcast in a row\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("Reduce and Broadcast, one after the other"));
    assert_eq!(document["route"], "composed");
    let (text, document) = asked("all_reduce 4M -n 4 -o exactsum", Some(&file));
    let windows = &document["launches"][0];
    assert_eq!(windows["bytes"], 64 << 10);
    assert!(windows["algorithm"].is_string(), "{windows}");
    assert!(!text.contains("one after the other"), "{text}");
    assert!(!text.contains("in a row"), "{text}");
}

#[test]
fn explain_says_why_a_call_is_refused() {
    for (arguments, why, remedy) in [
        (
            "all_reduce 1M -n 4 -o exactsum -d int32",
            "there is no exact sum of int32",
            "use koloSum",
        ),
        (
            "reduce_scatter 1K -n 4 -o exactsum",
            "only AllReduce and Reduce have exact sums",
            "take it from the all-reduce",
        ),
        (
            "scan 1K -n 4 -o avg",
            "a scan has no average",
            "divide it by the number of ranks",
        ),
    ] {
        let (text, document) = asked(arguments, None);
        let line = format!("\nroute       refused: {why}\nremedy      ");
        assert!(text.contains(&line), "{arguments}: {text}");
        assert!(text.contains(remedy), "{arguments}: {text}");
        assert_eq!(document["route"], "refused");
        assert_eq!(document["why"], why);
        assert!(document["remedy"].as_str().unwrap().contains(remedy));
        assert!(document["chosen"].is_null() && document["launches"].is_null());
        assert!(document["question"].is_object(), "{document}");
    }
    let output = run("explain all_reduce -n 4 -o minus");
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(text.contains("there are sum, "), "{text}");
}
