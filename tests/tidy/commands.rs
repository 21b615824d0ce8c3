//! Commands that pages show in backquotes: a program of the tree is there, `make` knows the goal,
//! and cargo the benchmark. Programs that give figures say how they are called.

use crate::page::TOPS;

/// The commands of a page, without what they set before: `A=1 make test` is `make test`.
fn commands(text: &str) -> Vec<Vec<&str>> {
    let quoted = text
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    quoted
        .map(|command| {
            let words = command.split_whitespace();
            words.skip_while(|word| word.contains('=')).collect()
        })
        .filter(|words: &Vec<&str>| words.len() > 1)
        .collect()
}

/// A program of the tree that a command starts, if it is one.
fn program<'a>(words: &[&'a str]) -> Option<&'a str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    let word = words.first()?;
    let is_path = TOPS.iter().any(|top| word.starts_with(top)) && word.chars().all(plain);
    is_path.then_some(*word)
}

/// Whether a Makefile has rules for a goal.
fn is_goal(makefile: &str, goal: &str) -> bool {
    makefile.lines().any(|line| {
        let names = line.split(':').next().unwrap_or_default();
        let is_rule = line.contains(':') && !line.starts_with(['\t', ' ', '#']);
        is_rule && names.split_whitespace().any(|name| name == goal)
    })
}

/// Whether a manifest of cargo has a benchmark.
fn is_bench(manifest: &str, name: &str) -> bool {
    manifest.contains(&format!("[[bench]]\nname = \"{name}\"\n"))
}

/// Names in a page's commands that the tree has not.
pub fn faults(
    page: &str,
    text: &str,
    [makefile, manifest]: [&str; 2],
    exists: &dyn Fn(&str) -> bool,
) -> Vec<String> {
    let mut found = Vec::new();
    let mut fault = |what: String| found.push(format!("{page}: {what}"));
    for words in commands(text) {
        if let Some(path) = program(&words).filter(|path| !exists(path)) {
            fault(format!("`{path}` is not there"));
        }
        match words[..] {
            ["make", ref goals @ ..] => {
                let goals = goals.iter().skip_while(|word| word.contains('='));
                for goal in goals.take_while(|word| !word.contains('=')) {
                    if !is_goal(makefile, goal) {
                        fault(format!("`make` does not know `{goal}`"));
                    }
                }
            }
            ["cargo", "bench", "--bench", name, ..] if !is_bench(manifest, name) => {
                fault(format!("there is no benchmark `{name}`"));
            }
            _ => {}
        }
    }
    found
}

/// The programs of the tree that a page's commands start, once each.
pub fn programs(text: &str) -> Vec<&str> {
    let commands = commands(text);
    let mut found: Vec<&str> = commands.iter().filter_map(|words| program(words)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether a program's source says that it answers `--help`: whoever starts it so measures nothing.
pub fn answers_help(source: &str) -> bool {
    let mut words = source.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    words.any(|word| word == "--help" || word == "ArgumentParser")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKEFILE: &str = "# goals: none\nA := b:c\ntest check: build ## all\n\tno: way\n";
    const MANIFEST: &str = "[[bench]]\nname = \"step\"\nharness = false\n";

    fn told(text: &str) -> usize {
        let exists = |path: &str| path == "tests/run.sh";
        faults("a.md", text, [MAKEFILE, MANIFEST], &exists).len()
    }

    #[test]
    fn a_command_is_known() {
        assert_eq!(
            told("`make test`, `A=1 make B=2 check C=\"d e\"`, `make`"),
            0
        );
        assert_eq!(told("`make tests`"), 1);
        assert_eq!(told("`make test goals`"), 1);
        assert_eq!(told("`make no`"), 1);
        assert_eq!(told("`cargo bench --bench step`, `cargo bench`"), 0);
        assert_eq!(told("`cargo bench --bench steps`"), 1);
    }

    #[test]
    fn a_program_is_there() {
        assert_eq!(
            told("`tests/run.sh a`, `A=1 tests/run.sh b`, `tests/{a,b} c`"),
            0
        );
        assert_eq!(told("`tests/runs.sh a`, `A=1 benches/x.py b`"), 2);
        let page = "`tests/run.sh b`, `benches/x.py a` `tests/run.sh`\n`A=1 tests/run.sh a`";
        assert_eq!(programs(page), ["benches/x.py", "tests/run.sh"]);
    }

    #[test]
    fn a_program_answers_help() {
        assert!(answers_help("case $1 in --help) ;; esac"));
        assert!(answers_help("p = argparse.ArgumentParser(x)"));
        assert!(!answers_help("prefix = sys.argv[1]; no = '--helps'"));
    }
}
