//! `--json` of the commands that answer questions: one document, with what the text says.

use crate::{kolo, run, scratch, stderr, stdout};
use kolo::algo::REGISTRY;
use kolo::plan::Collective;
use serde_json::{Value, json};

/// The document that a command prints, and nothing else.
fn document(arguments: &str) -> Value {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments}: {}", stderr(&output));
    let text = stdout(&output);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments}: {error}: {text}"))
}

fn number(value: &Value) -> f64 {
    value
        .as_f64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn info_tells_facts_and_settings() {
    let info = document("info --json");
    assert_eq!(info["kolo"], env!("CARGO_PKG_VERSION"));
    assert_eq!(info["launcher"], "none");
    assert!(info["types"].as_array().unwrap().contains(&json!("float")));
    let networks = info["networks"].as_object().unwrap();
    for kind in ["plugin", "verbs", "ofi", "socket", "mpi"] {
        let one = &networks[kind];
        assert!(
            one["usable"].is_boolean() && one["words"].is_string(),
            "{one}"
        );
    }
    assert_eq!(networks["mpi"]["usable"], false);
    for name in ["locked_memory", "address_space", "open_files", "/dev/shm"] {
        let limit = &info[name];
        assert!(limit.is_u64() || limit.is_null(), "{name}: {limit}");
    }
    assert!(
        info["interfaces"]
            .as_array()
            .unwrap()
            .iter()
            .all(Value::is_string)
    );
    let ways = info["ways"].as_array().unwrap();
    let places: Vec<&Value> = ways.iter().map(|way| &way["between"]).collect();
    assert_eq!(places, ["process", "node", "nodes"]);
    for way in ways {
        assert!(way["way"].is_string() && way["pairs"] == 0, "{way}");
        let reasons = way["not"].as_array().unwrap();
        assert!(reasons.iter().all(|not| not["why"] != ""), "{way}");
    }
    let job = &info["job"];
    assert_eq!(
        (&job["processes"], &job["differences"]),
        (&json!(1), &json!([]))
    );

    let mut command = kolo();
    let output = command
        .env("KOLO_BUFFSIZE", "128K")
        .args(["info", "--config", "--json"])
        .output()
        .unwrap();
    let settings: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let settings = settings["settings"].as_array().unwrap();
    let of = |key: &str| settings.iter().find(|one| one["key"] == key).unwrap();
    assert_eq!(of("buffsize")["from"], "variable KOLO_BUFFSIZE");
    assert_eq!(of("errors")["value"], "return");
}

/// Names and phrases are those of the table: what `kolo info` tells of an algorithm is what it is.
#[test]
fn info_lists_the_algorithms_of_each_collective() {
    let told = document("info --algorithms --json");
    let all = told["algorithms"].as_object().unwrap();
    assert_eq!(&document("info --json")["algorithms"], &told["algorithms"]);
    let text = stdout(&run("info --algorithms"));
    let brief = stdout(&run("info"));
    let mut sections = text.split_once("\n\n").unwrap().0.lines().peekable();
    assert_eq!(all.len(), Collective::ALL.len());
    for collective in Collective::ALL {
        let names: Vec<&str> = REGISTRY
            .iter()
            .filter(|entry| entry.collective == collective)
            .map(|entry| entry.algorithm.name())
            .collect();
        let listed = all[collective.word()].as_array().unwrap();
        let listed: Vec<(&str, &str)> = listed
            .iter()
            .map(|it| {
                (
                    it["algorithm"].as_str().unwrap(),
                    it["purpose"].as_str().unwrap(),
                )
            })
            .collect();
        let found: Vec<&str> = listed.iter().map(|(name, _)| *name).collect();
        assert_eq!(found, names, "{collective:?}");
        assert_eq!(sections.next(), Some(collective.word()));
        for (name, purpose) in &listed {
            let line = sections.next().unwrap().trim_start();
            let (word, rest) = line.split_once(' ').unwrap();
            assert_eq!((word, rest.trim_start()), (*name, *purpose));
        }
        let line = format!(
            "{:<20}{}: {}\n",
            "algorithms",
            collective.word(),
            names.join(" ")
        );
        assert_eq!(brief.contains(&line), !names.is_empty(), "{line}{brief}");
        if names.is_empty() {
            let line = sections.next().unwrap();
            assert!(line.contains("there is nothing to choose"), "{line}");
        }
    }
    assert_eq!(sections.next(), None);
    let ring = &all["allreduce"][0];
    assert_eq!(
        ring["purpose"],
        "each rank passes chunks to its neighbour in a ring"
    );
}

#[test]
fn info_says_what_was_tried_and_what_limits_there_are() {
    let output = kolo()
        .env("KOLO_SOCKET_IFNAME", "=lo")
        .arg("info")
        .output()
        .unwrap();
    let text = stdout(&output);
    for line in [
        "launcher            none",
        "networks            socket: lo",
        "ways                  not plugin: there is no libnccl-net.so; to use it: ",
        "ways                  not verbs: no RDMA here: ",
        "ways                in a process (no such ranks here): memory of the process; ",
        "ways                between nodes (no such ranks here): socket over lo; ",
        "interfaces          lo 127.0.0.1",
        "locked memory ",
        "open files ",
        "address space ",
        "/dev/shm ",
        "ptrace scope ",
    ] {
        let is_there = |said: &&str| said.starts_with(line);
        // Where RDMA is there, sockets are not tried, and the lines say so.
        let by_rdma = ["verbs", "socket"].iter().any(|word| line.contains(word));
        let has_rdma = by_rdma && std::fs::exists("/sys/class/infiniband").unwrap();
        assert!(
            has_rdma || text.lines().find(is_there).is_some(),
            "{line}: {text}"
        );
    }
    assert!(!text.contains("unhandled"), "{text}");
}

#[test]
fn explain_gives_choice_reason_and_candidates() {
    let said = document("explain all_reduce 4M -n 4x2 --json");
    let question = &said["question"];
    assert_eq!(
        (&question["collective"], &question["bytes"]),
        (&json!("AllReduce"), &json!(4 << 20))
    );
    assert_eq!(
        (&question["nodes"], &question["ranks_per_node"]),
        (&json!(4), &json!(2))
    );
    let candidates = said["candidates"].as_array().unwrap();
    let chosen = &said["chosen"];
    let own = candidates.iter().find(|one| {
        one["algorithm"] == chosen["algorithm"] && one["protocol"] == chosen["protocol"]
    });
    assert_eq!(number(&own.unwrap()["time_ns"]), number(&said["time_ns"]));
    assert!(candidates.len() > 3, "{said}");
    // The same as the text says.
    let text = stdout(&run("explain all_reduce 4M -n 4x2"));
    let name = chosen["algorithm"].as_str().unwrap();
    assert!(text.contains(&format!("chosen      {name}, ")), "{text}");
    assert!(text.contains(said["why"].as_str().unwrap()), "{text}");
    assert!(said["steps_per_round"].as_u64().unwrap() > 0);
}

#[test]
fn sim_gives_times_and_loads() {
    let said = document("sim all_reduce 1M -n 2x3 -a ring --json");
    assert_eq!(said["chosen"]["algorithm"], "ring");
    assert!(number(&said["time_ns"]) >= number(&said["first_end_ns"]));
    let levels = said["levels"].as_array().unwrap();
    let links = said["links"].as_array().unwrap();
    assert!(
        levels
            .iter()
            .any(|level| level["bytes"].as_u64() >= Some(1 << 20)),
        "{said}"
    );
    assert!(!links.is_empty() && links.iter().all(|link| link["kind"].is_string()));
    let path = said["critical_path"].as_array().unwrap();
    let sum: f64 = path.iter().map(|cause| number(&cause["time_ns"])).sum();
    let time = number(&said["time_ns"]);
    assert!((sum - time).abs() < 1e-6 * time, "{sum} of {time}");
}

#[test]
fn topo_gives_rings_of_all_ranks() {
    let said = document("topo -n 2x3 --json");
    assert_eq!(
        (&said["nodes"], &said["ranks_per_node"]),
        (&json!(2), &json!(3))
    );
    assert_eq!(said["seats"].as_array().unwrap().len(), 3);
    let rings = said["rings"].as_array().unwrap();
    assert!(!rings.is_empty(), "{said}");
    for ring in rings {
        let mut ranks: Vec<u64> = ring["ranks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|rank| rank.as_u64().unwrap())
            .collect();
        ranks.sort_unstable();
        assert_eq!(ranks, [0, 1, 2]);
    }
    assert!(said["trees"][0]["chain"].is_array(), "{said}");
}

#[test]
fn tune_gives_what_it_measured() {
    let file = scratch("json-tuner.toml");
    let said = document(&format!(
        "tune --ranks 2 -c broadcast -b 8 -e 64 -f 8 -t 1 -o {} --json",
        file.display()
    ));
    assert_eq!(said["file"], file.display().to_string());
    assert_eq!(
        (&said["nodes"], &said["ranks_per_node"]),
        (&json!(1), &json!(2))
    );
    let series = said["series"].as_array().unwrap();
    assert!(
        series.iter().all(|one| one["collective"] == "Broadcast"),
        "{said}"
    );
    let points: Vec<&Value> = series
        .iter()
        .flat_map(|one| one["points"].as_array().unwrap())
        .collect();
    assert!(points.iter().any(|point| point["bytes"] == 64), "{said}");
    assert!(
        points.iter().all(|point| number(&point["time_ns"]) > 0.0),
        "{said}"
    );
    let written = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(written.contains("Broadcast"), "{written}");
}

/// A module sets the variable; what is installed is the same with it.
#[test]
fn info_tells_each_library_and_the_one_that_a_variable_names() {
    let said = |named: Option<&str>| {
        let mut command = kolo();
        command.args(["info", "--json"]);
        command.envs(named.map(|name| ("KOLO_MPI_LIBRARY", name)));
        let output = command.output().expect("the program starts");
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let (without, with) = (said(None), said(Some("/opt/gone/libkolo_mpi.so")));
    for family in ["openmpi", "mpich", "abi"] {
        assert_eq!(with[family], without[family], "{family}");
        assert!(with[family].is_string(), "{family}");
    }
    assert_eq!(without["mpi_library"], Value::Null);
    let named = with["mpi_library"].as_str().expect("a sentence");
    let begin = "KOLO_MPI_LIBRARY names /opt/gone/libkolo_mpi.so, which is not there";
    assert!(named.starts_with(begin), "{named}");
    let program = env!("CARGO_BIN_EXE_kolo");
    let named = said(Some(program))["mpi_library"].to_string();
    assert!(named.contains("which is no libkolo_mpi.so"), "{named}");
}
