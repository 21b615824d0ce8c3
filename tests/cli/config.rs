//! `kolo config`: mistakes of files with their places, what is in force and whence, what differs.

use super::*;

/// A folder of the test's own with a file of settings in it, and the way to the file.
fn file(name: &str, text: &str) -> PathBuf {
    let folder = scratch(&format!("config-{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("kolo.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// `kolo config` with these words, in an environment with these variables and without a home.
fn config(words: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = kolo();
    command
        .env("HOME", "/nowhere")
        .env_remove("XDG_CONFIG_HOME");
    command.envs(variables.iter().copied());
    command.arg("config").args(words).output().unwrap()
}

#[test]
fn a_check_tells_each_mistake_with_its_place_and_ends_with_1() {
    let text = "bufsize = 1\n\nwait = \"spni\"\n[profile.p]\nalgo = \"rnig\"\n";
    let path = file("wrong", text);
    let name = path.to_str().unwrap();
    let output = config(&["check", name], &[]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(stdout(&output), "");
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 3, "{said}");
    for (line, (place, nearest)) in lines.iter().zip([
        ("line 1, column 1", "`buffsize`"),
        ("line 3, column 8", "`spin`"),
        ("line 5, column 8", "`ring`"),
    ]) {
        let place = format!("file {name}, {place}: ");
        assert!(line.contains(&place) && line.contains(nearest), "{line}");
    }
}

#[test]
fn a_check_of_a_file_without_mistakes_ends_with_0_and_names_what_it_read() {
    let path = file("right", "include = \"more.toml\"\nwait = \"spin\"\n");
    let more = path.with_file_name("more.toml");
    std::fs::write(&more, "[profile.p]\nwait = \"sleep\"\n").unwrap();
    let output = config(&["check", path.to_str().unwrap()], &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stdout(&output);
    assert!(said.ends_with(": 2 settings, no mistake\n"), "{said}");
    for name in [&path, &more] {
        assert!(said.contains(name.to_str().unwrap()), "{said}");
    }
    // Two files, one of which is not there: all are looked at.
    let gone = path.with_file_name("gone.toml");
    let words = ["check", gone.to_str().unwrap(), path.to_str().unwrap()];
    let output = config(&words, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("no mistake"));
    assert!(stderr(&output).contains("gone.toml is not there"));
}

#[test]
fn a_check_without_a_name_looks_at_all_files_in_force() {
    let path = file("in-force", "\ntiemout = 3\n");
    let name = path.to_str().unwrap();
    let output = config(&["check"], &[("KOLO_CONFIG", name)]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.contains("line 2, column 1") && said.contains("`timeout`"),
        "{said}"
    );
    let output = config(&["check"], &[]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn each_wrong_variable_is_a_line_of_the_check_and_of_what_is_in_force() {
    let wrong = [
        ("KOLO_ALGOO", "ring"),
        ("KOLO_NET", "scoket"),
        ("KOLO_TIMEOUT", "7"),
    ];
    for words in [["check"], ["show"]] {
        let output = config(&words, &wrong);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines.len(), 2, "{said}");
        for (line, (name, remedy)) in lines.iter().zip([
            ("KOLO_ALGOO", "KOLO_ALGO if that"),
            ("KOLO_NET", "correct KOLO_NET or unset it"),
        ]) {
            assert!(line.contains(name) && line.contains(remedy), "{line}");
        }
    }
    let output = config(&["check"], &wrong[2..]);
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stdout(&output);
    assert!(
        said.contains("environment: 1 variable, no mistake"),
        "{said}"
    );
}

#[test]
fn what_is_in_force_has_file_and_line() {
    let path = file("shown", "# mine\nwait = \"spin\"\ncheck = false\n");
    let name = path.to_str().unwrap();
    let variables = [("KOLO_CONFIG", name), ("KOLO_TIMEOUT", "7")];
    let output = config(&["show"], &variables);
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stdout(&output);
    assert!(
        said.contains("\nwait = \"spin\"\n") || said.starts_with("wait"),
        "{said}"
    );
    assert!(
        said.contains("timeout = ") && !said.contains("check"),
        "{said}"
    );
    let whole = config(&["show", "--origin"], &variables);
    let row = |key: &str| {
        let said = stdout(&whole);
        let row = said
            .lines()
            .find(|line| line.starts_with(&format!("{key} ")));
        let words: Vec<_> = row
            .expect(key)
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        words.join(" ")
    };
    assert_eq!(
        row("wait"),
        format!("wait spin user KOLO_CONFIG file {name}, line 2")
    );
    assert_eq!(
        row("timeout"),
        "timeout 7 user environment variable KOLO_TIMEOUT"
    );
    assert_eq!(row("algo"), "algo auto user default built in");
    // Its older name.
    let mut older = kolo();
    older.env("HOME", "/nowhere").env_remove("XDG_CONFIG_HOME");
    let older = older.envs(variables).args(["info", "--config"]).output();
    assert_eq!(stdout(&older.unwrap()), stdout(&whole));
    let json = config(&["show", "--json"], &variables);
    let all: Value = serde_json::from_str(&stdout(&json)).unwrap();
    let all = all["settings"].as_array().unwrap();
    let wait = all.iter().find(|one| one["key"] == "wait").unwrap();
    assert_eq!((&wait["value"], &wait["line"]), (&"spin".into(), &2.into()));
}

#[test]
fn a_profile_that_is_not_there_is_an_error_and_no_crash() {
    let output = config(&["show"], &[("KOLO_PROFILE", "no-such-profile")]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(
        said.contains("KOLO_PROFILE") && said.contains("`no-such-profile`"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
    let output = config(&["show"], &[("KOLO_PROFILE", "none")]);
    assert!(output.status.success(), "{}", stderr(&output));
}

#[test]
fn two_files_differ_in_what_one_has_and_the_other_has_not() {
    let a = file("a", "wait = \"spin\"\nalgo = \"ring\"\nlocked = \"algo\"\n");
    let text = "wait = \"sleep\"\nalgo = \"ring\"\n[profile.p]\ntimeout = 3\n";
    let b = file("b", text);
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let rows = |words: &[&str]| {
        let output = config(words, &[]);
        assert!(output.status.success(), "{}", stderr(&output));
        rows(&stdout(&output))
    };
    let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let head = words(&format!("option {a} {b}"));
    let (wait, locked) = (words("wait spin sleep"), words("locked algo -"));
    let profile = words("profile.p.timeout - 3");
    assert_eq!(rows(&["diff", a, b]), [head, wait, locked, profile]);
    let against = rows(&["diff", a]);
    assert_eq!(against[0], words(&format!("option built in {a}")));
    assert!(against.contains(&words("wait auto spin")), "{against:?}");
    assert!(against.contains(&words("algo auto ring")), "{against:?}");
    assert_eq!(against.len(), 4);
    assert_eq!(rows(&["diff", a, a]), [words("no difference")]);
    let output = config(&["diff", a, "/nowhere/b.toml"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/nowhere/b.toml is not there"));
}

/// Mistakes that a job would end with, the doctor says before.
#[test]
fn the_doctor_reads_the_files_that_settings_name() {
    let doctor = |words: &[&str], variables: &[(&str, &str)]| {
        let mut command = kolo();
        command.args(["doctor", "--json"]).args(words);
        command.envs(variables.iter().copied());
        let output = command.output().expect("the program starts");
        let said: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let found = said["findings"].as_array().expect("findings").clone();
        let of_settings = |one: &serde_json::Value| one["check"] == "settings";
        let found = found.into_iter().filter(of_settings);
        let what = |one: serde_json::Value| one["what"].as_str().expect("a text").to_owned();
        found.map(what).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(doctor(&[], &[]), "");
    let said = doctor(&[], &[("KOLO_TOPO_FILE", "/nonexistent/x")]);
    let begin = "topo_file (variable KOLO_TOPO_FILE): ";
    assert!(
        said.starts_with(begin) && said.contains("/nonexistent/x"),
        "{said}"
    );
    // A file server may be away, and no node is drained for that; a wrong file stays wrong.
    let node = |path: &str| doctor(&["--node"], &[("NCCL_TOPO_FILE", path)]);
    assert_eq!(node("/nonexistent/x"), "");
    let text = file("no-machine", "node17\n");
    let said = node(text.to_str().unwrap());
    assert!(
        said.starts_with("topo_file (variable NCCL_TOPO_FILE): "),
        "{said}"
    );
    let settings = file("names", "graph_file = \"/nonexistent/y\"\n");
    let said = doctor(&[], &[("KOLO_CONFIG", settings.to_str().unwrap())]);
    let begin = format!("graph_file (file {}): ", settings.display());
    assert!(said.starts_with(&begin), "{said}");
}
