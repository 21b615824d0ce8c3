//! Refusals in files of a site, with file, line and column; and the findings of `kolo config`.

use super::super::*;
use super::Sandbox;

/// The place of a mistake and words of its message, for the file of the site.
fn refused(text: &str, line: usize, column: usize, parts: &[&str]) {
    let sandbox = Sandbox::new();
    let path = sandbox.write("etc/kolo/kolo.toml", text);
    let error = sandbox.error().to_string();
    let place = format!("file {}, line {line}, column {column}: ", path.display());
    assert!(error.contains(&place), "{place} is missing in: {error}");
    for part in parts {
        assert!(error.contains(part), "{part:?} is missing in: {error}");
    }
}

#[test]
fn mistakes_have_line_and_column() {
    let nearest = "the nearest valid key is `buffsize`";
    refused("algo = \"ring\"\n  bufsize = 1\n", 2, 3, &[nearest]);
    refused(
        "wait = \"spin\"\nalgo = \"rnig\"\n",
        2,
        8,
        &["`rnig`", "`ring`"],
    );
    refused("# é\ndebug = \"é\" x\n", 2, 13, &["not valid TOML"]);
    refused(
        "pmpi = \"on\"\n[profile.p]\npmpi_collectives = \"allreduce,bcst\"\n",
        3,
        20,
        &["`bcst` is not a collective of MPI", "`bcast`"],
    );
    refused("a = 1\na = 2\n", 2, 1, &["duplicate key"]);
    refused("[profile.p]\nbufsize = 1\n", 2, 1, &[nearest]);
    refused(
        "[profile.p]\npreloads = \"/x\"\n",
        2,
        1,
        &["key is `preload`"],
    );
    refused("[profil.p]\nwait = \"spin\"\n", 1, 2, &["`profile`"]);
    refused(
        "includes = \"x\"\n",
        1,
        1,
        &["the nearest valid key is `include`"],
    );
    refused("locked = [\"wait\",\n \"bufsize\"]\n", 2, 2, &[nearest]);
    // It was meant for the file, and would be a key of the profile.
    let top = "at the top of the file, above the first `[`";
    refused(
        "[profile.p]\nlocked = [\"wait\"]\n",
        2,
        1,
        &["`locked`", top],
    );
}

#[test]
fn what_is_of_another_form_is_refused_with_the_right_one() {
    refused(
        "profile = \"big\"\n",
        1,
        1,
        &["[profile.NAME]", "default_profile"],
    );
    refused("[profile]\nbig = 1\n", 2, 1, &["[profile.NAME]"]);
    refused("[profile.a.b]\nwait = \"spin\"\n", 1, 12, &["`b`"]);
    refused("[profile.\"a b\"]\n", 1, 10, &["`a b`", "letters, digits"]);
    refused("[profile.none]\n", 1, 10, &["`none`"]);
    refused(
        "[profile.p]\npreload = \"x.so\"\n",
        2,
        11,
        &["absolute paths"],
    );
    // Earlier files had conditions.
    let by_profile = ["partition, host", "[profile.NAME]", "KOLO_PROFILE=NAME"];
    refused("[[when]]\nnodes = 1\n", 1, 3, &by_profile);
    refused("wait = \"spin\"\nwhen = [1]\n", 2, 1, &by_profile);
    refused(
        "include = 3\n",
        1,
        1,
        &["`include` is `3`", "list of texts"],
    );
    refused("locked = true\n", 1, 1, &["`locked` is `true`"]);
    refused(
        "default_profile = [\"a\", \"b\"]\n",
        1,
        1,
        &["several names"],
    );
}

#[test]
fn an_unknown_profile_is_told_with_the_nearest_name_and_the_file() {
    let mut sandbox = Sandbox::new();
    sandbox.set("KOLO_PROFILE", "big");
    let error = sandbox.error();
    assert_eq!(error.code, crate::base::Code::InvalidUsage);
    let text = error.to_string();
    assert!(text.contains("variable KOLO_PROFILE") && text.contains("no file of the site"));
    let text = "[profile.bigger]\n[profile.traced]\n";
    let path = sandbox.write("etc/kolo/kolo.toml", text);
    sandbox.set("KOLO_PROFILE", "biger");
    let text = sandbox.error().to_string();
    for part in [
        "the profile `biger`",
        path.to_str().unwrap(),
        "the nearest name is `bigger`",
        "there are bigger, traced",
    ] {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
    let text = "\ndefault_profile = \"tarced\"\n[profile.traced]\n";
    refused(text, 2, 19, &["the nearest name is `traced`"]);
}

#[test]
fn only_files_of_the_site_have_profiles_and_locks() {
    for (text, says) in [
        (
            "locked = [\"wait\"]\n",
            "only a file of the site locks options",
        ),
        ("[profile.p]\n", "only a file of the site has profiles"),
    ] {
        for name in ["home/.config/kolo/kolo.toml", "job.toml"] {
            let mut sandbox = Sandbox::new();
            let path = sandbox.write(name, text);
            if name == "job.toml" {
                sandbox.set("KOLO_CONFIG", path.to_str().unwrap());
            }
            let error = sandbox.error().to_string();
            assert!(error.contains(says) && error.contains("line 1"), "{error}");
        }
        let sandbox = Sandbox::new();
        sandbox.write("opt/etc/kolo.toml", text);
        assert!(sandbox.load().is_ok());
    }
}

#[test]
fn missing_files_and_circles_are_told_with_file_and_line() {
    refused(
        "\ninclude = \"gone.toml\"\n",
        2,
        11,
        &["gone.toml", "No such file"],
    );
    refused("include = \"kolo.toml\"\n", 1, 11, &["closes a circle"]);
    refused("include = \"../kolo\"\n", 1, 11, &["directory"]);
    let sandbox = Sandbox::new();
    sandbox.write(
        "etc/kolo/kolo.toml",
        "include = [\n \"a.toml\",\n \"a.toml\" ]\n",
    );
    let a = sandbox.write("etc/kolo/a.toml", "include = \"b.toml\"\n");
    assert!(sandbox.load().is_err(), "there is no b.toml");
    sandbox.write("etc/kolo/b.toml", "wait = \"spin\"\n");
    assert!(sandbox.load().is_ok(), "twice the same is no circle");
    // By another name of the same file.
    let b = sandbox.write(
        "etc/kolo/b.toml",
        "wait = \"spin\"\ninclude = \"./x.toml\"\n",
    );
    std::os::unix::fs::symlink(&a, sandbox.path("etc/kolo/x.toml")).unwrap();
    let error = sandbox.error().to_string();
    let place = format!("file {}, line 2, column 11", b.display());
    let circle = format!("{0} includes {1} includes {0}", a.display(), b.display());
    assert!(error.contains(&place) && error.contains(&circle), "{error}");
}

#[test]
fn too_many_files_are_refused() {
    let sandbox = Sandbox::new();
    let list = |next: &str| format!("include = [{}]\n", format!("\"{next}\",").repeat(10));
    sandbox.write("etc/kolo/kolo.toml", &list("a"));
    sandbox.write("etc/kolo/a", &list("b"));
    sandbox.write("etc/kolo/b", &list("c"));
    sandbox.write("etc/kolo/c", "");
    let error = sandbox.error().to_string();
    assert!(error.contains("more than the 100th"), "{error}");
    let checked = check_file(&sandbox.path("etc/kolo/kolo.toml"), &sandbox.sources);
    assert_eq!(checked.faults.len(), 1);
}

/// Starts use the first mistake, the check tells all.
#[test]
fn a_check_finds_all_mistakes_of_a_file() {
    let sandbox = Sandbox::new();
    let text = "bufsize = 1\nwait = 7\ninclude = \"more.toml\"\n[profile.p]\nalgo = \"x\"\n";
    let path = sandbox.write("site.toml", text);
    sandbox.write("more.toml", "tiemout = 1\n");
    let checked = check_file(&path, &sandbox.sources);
    let texts: Vec<_> = checked
        .faults
        .iter()
        .map(|fault| fault.to_string())
        .collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    for (text, part) in texts
        .iter()
        .zip(["line 1", "line 2", "line 5", "`timeout`"])
    {
        assert!(text.contains(part), "{part:?} is missing in: {text}");
    }
    assert_eq!(checked.files.len(), 2);
    let gone = check_file(&sandbox.path("gone.toml"), &sandbox.sources);
    assert!(gone.faults[0].to_string().contains("is not there"));
}

/// A fault of one profile alone is found, though nobody who chooses another one would see it.
#[test]
fn a_check_tries_every_profile() {
    let sandbox = Sandbox::new();
    let text = "locked = \"wait\"\nmin_nchannels = 4\n[profile.a]\nmax_nchannels = 2\n\
                [profile.b]\nwait = \"spin\"\n";
    let path = sandbox.write("site.toml", text);
    let checked = check_file(&path, &sandbox.sources);
    let fault = checked.faults[0].to_string();
    assert!(fault.contains("max_nchannels, 2 (profile a of"), "{fault}");
    let warning = &checked.warnings[0];
    assert!(
        warning.contains("profile b of") && warning.contains("locks"),
        "{warning}"
    );
    assert_eq!((checked.faults.len(), checked.warnings.len()), (1, 1));
    let text = "default_profile = \"c\"\n[profile.a]\n";
    let path = sandbox.write("site.toml", text);
    let checked = check_file(&path, &sandbox.sources);
    assert!(checked.faults[0].to_string().contains("the profile `c`"));
}

#[test]
fn a_users_file_is_checked_as_such() {
    let sandbox = Sandbox::new();
    let text = "default_profile = \"of-the-site\"\nlocked = \"wait\"\n";
    let path = sandbox.write("home/.config/kolo/kolo.toml", text);
    let checked = check_file(&path, &sandbox.sources);
    assert_eq!(checked.faults.len(), 1);
    assert!(
        checked.faults[0]
            .to_string()
            .contains("only a file of the site locks")
    );
    sandbox.write(
        "home/.config/kolo/kolo.toml",
        "default_profile = \"of-the-site\"\n",
    );
    let checked = check_file(&path, &sandbox.sources);
    assert_eq!(
        checked.faults.len(),
        0,
        "which profiles there are is not known here"
    );
    let all = check_all(&sandbox.sources);
    assert!(all.faults[0].to_string().contains("`of-the-site`"));
}

#[test]
fn the_contents_of_a_file_are_all_that_it_says() {
    let sandbox = Sandbox::new();
    let path = sandbox.write(
        "site.toml",
        "locked = \"wait\"\ntimeout = 3\ninclude = \"more.toml\"\n[profile.p]\nalgo = \"ring\"\n\
         preload = \"/a.so\"\n",
    );
    sandbox.write("more.toml", "timeout = 4\nwait = \"spin\"\n");
    let said = contents(Some(&path), &sandbox.sources).unwrap();
    let built_in = contents(None, &sandbox.sources).unwrap();
    assert_eq!(built_in.len(), OPTIONS.len());
    let new = said.iter().filter(|pair| !built_in.contains(pair));
    let new: Vec<_> = new.map(|(k, v)| format!("{k}: {v}")).collect();
    let mut expected = [
        "timeout: 3",
        "wait: spin",
        "profile.p.algo: ring",
        "profile.p.preload: /a.so",
        "locked: wait",
    ];
    expected[..2].sort_by_key(|line| built_in.iter().position(|(k, _)| line.starts_with(k)));
    assert_eq!(new, expected);
}
