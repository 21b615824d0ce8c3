//! Files of a site: profiles, included files and locks.

use super::super::*;
use super::Sandbox;

const SITE: &str = "etc/kolo/kolo.toml";

/// A machine whose file of the site has this text.
fn site(text: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write(SITE, text);
    sandbox
}

/// `buffsize` in MiB, and the line it comes from.
fn buffsize(sandbox: &Sandbox) -> (u64, usize) {
    let settings = sandbox.load().unwrap();
    let entry = settings.entry("buffsize").unwrap();
    (settings.buffsize() >> 20, entry.at.map_or(0, |at| at.line))
}

fn warnings(sandbox: &Sandbox) -> Vec<String> {
    sandbox.load().unwrap().warnings().to_vec()
}

const TWO_PROFILES: &str = "\
buffsize = \"2M\"
[profile.big]
buffsize = \"8M\"
timeout = 5
[profile.small]
buffsize = \"1M\"
preload = [\"/opt/a.so\", '/opt/b.so']
[profile.\"v1.2\"]
preload = \"/opt/c.so\"
";

#[test]
fn a_profile_counts_when_it_is_chosen() {
    let mut sandbox = site(TWO_PROFILES);
    assert_eq!(buffsize(&sandbox), (2, 1));
    assert_eq!(sandbox.load().unwrap().timeout(), None);
    for (name, shown) in [
        ("big", (8, 3)),
        ("small", (1, 6)),
        ("v1.2", (2, 1)),
        ("none", (2, 1)),
        ("", (2, 1)),
    ] {
        sandbox.set("KOLO_PROFILE", name);
        assert_eq!(buffsize(&sandbox), shown, "{name}");
    }
}

#[test]
fn the_default_profile_gives_way_to_the_variable_and_to_higher_files() {
    let mut sandbox = site(&format!("default_profile = \"big\"\n{TWO_PROFILES}"));
    assert_eq!(buffsize(&sandbox).0, 8);
    sandbox.write(
        "home/.config/kolo/kolo.toml",
        "default_profile = \"small\"\n",
    );
    assert_eq!(buffsize(&sandbox).0, 1);
    sandbox.set("KOLO_PROFILE", "big");
    assert_eq!(buffsize(&sandbox).0, 8);
    sandbox.set("KOLO_PROFILE", "none");
    assert_eq!(buffsize(&sandbox).0, 2);
}

#[test]
fn both_files_of_a_site_may_have_a_part_of_a_profile() {
    let mut sandbox = site("[profile.p]\nbuffsize = \"2M\"\nwait = \"spin\"\n");
    sandbox.write("opt/etc/kolo.toml", "[profile.p]\nbuffsize = \"3M\"\n");
    sandbox.set("KOLO_PROFILE", "p");
    assert_eq!(buffsize(&sandbox), (3, 2));
    assert_eq!(sandbox.load().unwrap().wait(), Wait::Spin);
}

#[test]
fn an_including_file_hides_what_it_includes_and_the_later_the_earlier() {
    let sandbox = site("include = [\"d/one.toml\", \"d/two.toml\"]\ntimeout = 1\n");
    sandbox.write(
        "etc/kolo/d/one.toml",
        "timeout = 2\nbuffsize = \"2M\"\nwait = \"spin\"\n",
    );
    sandbox.write(
        "etc/kolo/d/two.toml",
        "include = \"three.toml\"\n\ntimeout = 3\nbuffsize = \"3M\"\n",
    );
    // Relative to the file that includes it, not to the first one.
    sandbox.write(
        "etc/kolo/d/three.toml",
        "buffsize = \"4M\"\nalgo = \"ring\"\n",
    );
    let settings = sandbox.load().unwrap();
    assert_eq!(settings.timeout().unwrap().as_secs(), 1);
    assert_eq!(buffsize(&sandbox), (3, 4));
    assert_eq!(settings.wait(), Wait::Spin);
    let algo = settings.entry("algo").unwrap();
    assert_eq!(algo.source.layer, Layer::System);
    assert_eq!(
        algo.source.origin,
        Origin::File(sandbox.path("etc/kolo/d/three.toml"))
    );
    let seen: Vec<_> = settings.files().iter().filter(|f| f.found).collect();
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert!(seen.iter().all(|file| file.layer == Layer::System));
}

#[test]
fn an_included_file_is_warned_of_like_any_other() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = site("include = \"../../more.toml\"\n");
    let more = sandbox.write("more.toml", "buffsize = \"4M\"\n");
    assert_eq!(warnings(&sandbox), [""; 0]);
    std::fs::set_permissions(&more, std::fs::Permissions::from_mode(0o666)).unwrap();
    let warnings = warnings(&sandbox);
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains("more.toml may be written by everybody"));
    assert_eq!(buffsize(&sandbox).0, 4, "it counts all the same");
}

/// The owner of PREFIX is trusted below it, and `..` leads out of it.
#[test]
fn a_file_outside_of_the_prefix_does_not_pass_for_one_inside() {
    let sandbox = Sandbox::new();
    sandbox.write("opt/etc/kolo.toml", "include = \"../../out.toml\"\n");
    let out = sandbox.write("out.toml", "buffsize = \"4M\"\n");
    // Only root can give files away.
    let give = |path: &std::path::Path| std::os::unix::fs::chown(path, Some(12_345), None);
    if give(&out)
        .and_then(|()| give(&sandbox.path("opt")))
        .is_err()
    {
        crate::base::skip::skip("root", "a file cannot be given away");
        return;
    }
    let warnings = warnings(&sandbox);
    assert!(
        warnings.len() == 1 && warnings[0].contains("belongs to user 12345"),
        "{warnings:?}"
    );
}

/// Who looks at the one file hears what a program that reads it would be told.
#[test]
fn the_owner_of_the_prefix_is_trusted_when_its_file_is_checked_alone() {
    let sandbox = Sandbox::new();
    let path = sandbox.write("opt/etc/kolo.toml", "buffsize = \"4M\"\n");
    // Only root can give files away.
    let give = |path: &std::path::Path| std::os::unix::fs::chown(path, Some(12_345), None);
    if give(&path)
        .and_then(|()| give(&sandbox.path("opt")))
        .is_err()
    {
        crate::base::skip::skip("root", "a file cannot be given away");
        return;
    }
    let checked = check::check_file(&path, &sandbox.sources);
    assert_eq!(checked.warnings, Vec::<String>::new());
    assert_eq!(checked.settings, 1);
}

#[test]
fn what_an_included_file_says_is_read_again_when_it_changes() {
    let sandbox = site("");
    let part = sandbox.write("part.toml", "buffsize = \"4M\"\n");
    let named = sandbox.write("named.toml", "include = \"part.toml\"\n");
    let mut files = files::SettingsFiles::default();
    files.add(Layer::ConfigFile, named.clone());
    let stamps: Vec<_> = files.stamps.iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(stamps, [named, part]);
    assert!(files.stamps.iter().all(|(_, stamp)| stamp.is_some()));
}

/// Each way to give an option above the file that locks it.
#[test]
fn nothing_above_the_file_changes_a_locked_option() {
    let locked = "locked = [\"buffsize\"]\nbuffsize = \"2M\"\n[profile.p]\nbuffsize = \"9M\"\n";
    type Put = fn(&mut Sandbox);
    let ways: [(Put, &str); 7] = [
        (
            |s| drop(s.write("opt/etc/kolo.toml", "buffsize = \"9M\"\n")),
            "opt/etc/kolo.toml, line 1",
        ),
        (|s| s.set("KOLO_PROFILE", "p"), "profile p of file "),
        (
            |s| drop(s.write("home/.config/kolo/kolo.toml", "buffsize = \"9M\"\n")),
            "home/.config/kolo/kolo.toml, line 1",
        ),
        (
            |s| {
                let path = s.write("job.toml", "buffsize = \"9M\"\n");
                s.set("KOLO_CONFIG", path.to_str().unwrap());
            },
            "job.toml, line 1",
        ),
        (
            |s| s.set("NCCL_BUFFSIZE", "9437184"),
            "variable NCCL_BUFFSIZE",
        ),
        (|s| s.set("KOLO_BUFFSIZE", "9M"), "variable KOLO_BUFFSIZE"),
        (|s| s.give("buffsize", "9M"), "the calling program"),
    ];
    for (put, place) in ways {
        let mut sandbox = site(locked);
        assert_eq!(warnings(&sandbox), [""; 0]);
        put(&mut sandbox);
        assert_eq!(buffsize(&sandbox), (2, 2), "{place}");
        let warnings = warnings(&sandbox);
        let [warning] = warnings.as_slice() else {
            panic!("{place}: {warnings:?}");
        };
        let lock = format!(
            "{}, line 1, column 11 locks it",
            sandbox.path(SITE).display()
        );
        for part in ["`buffsize` stays `2M`", "`9M`", place, &lock] {
            assert!(warning.contains(part), "{part:?} is missing in: {warning}");
        }
    }
}

#[test]
fn one_warning_names_all_who_want_another_value_and_the_same_value_is_fine() {
    let mut sandbox = site("locked = [\"buffsize\", \"wait\"]\n");
    sandbox.write(
        "home/.config/kolo/kolo.toml",
        "buffsize = \"3M\"\nwait = \"auto\"\n",
    );
    sandbox.set("KOLO_BUFFSIZE", "4M");
    sandbox.give("timeout", "3");
    let settings = sandbox.load().unwrap();
    assert_eq!(settings.buffsize(), 1 << 20, "the built-in value is locked");
    assert!(settings.timeout().is_some(), "this one is not locked");
    let [warning] = settings.warnings() else {
        panic!("{:?}", settings.warnings());
    };
    for part in [
        "the built-in value",
        "`3M` (file ",
        "`4M` (variable KOLO_BUFFSIZE)",
    ] {
        assert!(warning.contains(part), "{part:?} is missing in: {warning}");
    }
    let row = render_table(&settings);
    let row = row
        .lines()
        .find(|line| line.starts_with("buffsize "))
        .unwrap();
    assert!(row.contains("built in; locked by file "), "{row}");
}

#[test]
fn a_lock_of_the_higher_file_of_the_site_leaves_it_its_own_value() {
    let mut sandbox = site("buffsize = \"2M\"\n");
    sandbox.write(
        "opt/etc/kolo.toml",
        "locked = \"buffsize\"\nbuffsize = \"3M\"\n",
    );
    sandbox.set("KOLO_BUFFSIZE", "4M");
    assert_eq!(buffsize(&sandbox).0, 3);
    // The machine's own lock is the stronger one.
    sandbox.write(SITE, "locked = \"buffsize\"\nbuffsize = \"2M\"\n");
    assert_eq!(buffsize(&sandbox).0, 2);
}

/// A locked maximum does not give way to a minimum, and who reads of it is told what may change.
#[test]
fn numbers_of_channels_that_do_not_fit_name_what_is_not_locked() {
    let refused = |text: &str, user: &str| {
        let mut sandbox = site(text);
        sandbox.set("KOLO_MIN_NCHANNELS", user);
        let error = sandbox.load().expect_err("they do not fit");
        (error.what.clone(), error.remedy.to_string())
    };
    let lock = "etc/kolo/kolo.toml, line 1";
    let (what, remedy) = refused("locked = [\"max_nchannels\"]\n", "16");
    assert!(what.contains("max_nchannels, 2 (built in"), "{what}");
    assert!(remedy.starts_with("lower min_nchannels: "), "{remedy}");
    assert!(remedy.contains(lock) && remedy.ends_with("locks max_nchannels"));
    let (_, remedy) = refused(
        "locked = \"min_nchannels\"\nmin_nchannels = 4\nmax_nchannels = 3\n",
        "2",
    );
    assert!(remedy.starts_with("raise max_nchannels: "), "{remedy}");
    assert!(remedy.contains(lock) && remedy.ends_with("locks min_nchannels"));
    let both = "locked = [\"min_nchannels\", \"max_nchannels\"]\nmin_nchannels = 4\n";
    let (_, remedy) = refused(both, "2");
    assert!(
        remedy.contains(lock) && remedy.contains("locks both"),
        "{remedy}"
    );
    let (_, remedy) = refused("max_nchannels = 3\n", "16");
    assert_eq!(remedy, "lower min_nchannels or raise max_nchannels");
    // A minimum that fits stands beside a locked maximum.
    let mut sandbox = site("locked = [\"max_nchannels\"]\nmax_nchannels = 4\n");
    sandbox.set("KOLO_MIN_NCHANNELS", "3");
    let settings = sandbox.load().expect("they fit");
    assert_eq!((settings.min_nchannels(), settings.max_nchannels()), (3, 4));
}

/// The examples of the page are what a file may have.
#[test]
fn the_examples_mean_what_they_say() {
    use super::super::render_file::CHANGED;
    use super::super::render_site::{ABOVE, BELOW};
    let mut sandbox = site(&format!("{ABOVE}\n{BELOW}"));
    sandbox.write("etc/kolo/network.toml", "net = \"socket\"\n");
    sandbox.set("KOLO_NET", "mpi");
    let settings = sandbox.load().unwrap();
    assert_eq!(settings.net(), Net::Socket, "locked");
    assert_eq!(settings.timeout().unwrap().as_secs(), 1800);
    sandbox.set("KOLO_PROFILE", "traced");
    assert_eq!(sandbox.load().unwrap().debug(), DebugLevel::Info);
    for text in [render_toml(), render_markdown().replace('\n', "\n# ")] {
        for line in ABOVE
            .lines()
            .chain(BELOW.lines())
            .filter(|line| !line.is_empty())
        {
            assert!(text.contains(&format!("\n# {line}\n")), "{line}");
        }
    }
    let file = render_toml();
    let place = |key: &str| file.find(&format!("\n#{key} = ")).expect(key);
    let last = CHANGED.iter().map(|key| place(key)).max().unwrap();
    for option in OPTIONS
        .iter()
        .filter(|option| !CHANGED.contains(&option.key))
    {
        assert!(place(option.key) > last, "{}", option.key);
    }
    assert!(CHANGED.windows(2).all(|two| place(two[0]) < place(two[1])));
}

/// Root reads everything, and would find nothing wrong with a file that stops every job of a user.
#[test]
fn the_check_of_root_tells_of_a_file_that_users_cannot_read() {
    use std::os::unix::fs::PermissionsExt;
    let sandbox = Sandbox::new();
    let path = sandbox.write("etc/kolo/kolo.toml", "wait = \"spin\"\n");
    let warnings = || {
        let all = check_all(&sandbox.sources).warnings;
        assert_eq!(check_file(&path, &sandbox.sources).warnings, all);
        let settings = sandbox.load().unwrap();
        let faults = faults_of_files(settings.files(), sandbox.sources.prefix.as_deref());
        assert_eq!(faults.len(), all.len(), "the doctor has {faults:?}");
        all.join("\n")
    };
    let mode = |mode| {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode(0o644);
    assert_eq!(warnings(), "");
    mode(0o666);
    assert!(warnings().contains("may be written by everybody"));
    // SAFETY: takes nothing.
    if unsafe { libc::geteuid() } != 0 {
        crate::base::skip::skip("root", "who can read a file is told to root");
        return;
    }
    mode(0o600);
    let said = warnings();
    let words = ["kolo.toml holds", "only root can read it", "chmod a+r"];
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
    // A draft that lies elsewhere is its writer's.
    let draft = sandbox.write("draft.toml", "wait = \"spin\"\n");
    let private = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&draft, private).unwrap();
    assert_eq!(check_file(&draft, &sandbox.sources).warnings.len(), 0);
}
