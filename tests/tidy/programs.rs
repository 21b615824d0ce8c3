//! Each test program in `tests/` is named by one manifest, as no crate finds them by itself: those
//! that start the command belong to its crate, all others to the library's.

/// Manifests that name programs of `tests/`, and what stands before their paths there.
pub const MANIFESTS: [(&str, &str); 2] =
    [("Cargo.toml", ""), ("src/bin/kolo/Cargo.toml", "../../../")];

/// Whether a file of the tree is the root of a test program.
fn is_program(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    match parts[..] {
        ["tests", file] => file.ends_with(".rs"),
        ["tests", _, file] => file == "main.rs",
        _ => false,
    }
}

/// Programs among `paths` that not just one of the manifests names.
pub fn faults(paths: &[&str], manifests: [&str; 2]) -> Vec<String> {
    let programs = paths.iter().filter(|path| is_program(path));
    let times = |path: &str| {
        let named = MANIFESTS
            .iter()
            .zip(manifests)
            .map(|((_, before), manifest)| {
                let line = format!("path = \"{before}{path}\"");
                manifest.lines().filter(|it| *it == line).count()
            });
        named.sum::<usize>()
    };
    let faults = programs.filter(|path| times(path) != 1).map(|path| {
        let [(ours, _), (commands, _)] = MANIFESTS;
        let times = times(path);
        format!("{path}: named {times} times as a test in {ours} and {commands}")
    });
    faults.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_nobody_runs_or_that_runs_twice_is_a_fault() {
        let paths = ["tests/a.rs", "tests/b/main.rs", "tests/b/c.rs", "src/a.rs"];
        let ours = "[[test]]\nname = \"a\"\npath = \"tests/a.rs\"\n";
        let commands = "[[test]]\nname = \"b\"\npath = \"../../../tests/b/main.rs\"\n";
        assert_eq!(faults(&paths, [ours, commands]), [""; 0]);
        assert_eq!(faults(&paths, [ours, ""]).len(), 1);
        assert_eq!(faults(&paths, ["", commands]).len(), 1);
        let twice = format!("{commands}path = \"../../../tests/a.rs\"\n");
        assert_eq!(faults(&paths, [ours, &twice]).len(), 1);
    }
}
