//! Subjects of commits: at most 72 characters, and one change each, so no `;`.
//!
//! Commits since the one that `commits.txt` names are read, merges left out: their subjects are
//! written by programs. Where that commit is not among the ancestors of what is checked out, there
//! is nothing to compare with, and the test says so. A clone that is not deep is one of these cases
//! even where it has the commit: it is cut somewhere, and what lies behind the cut looks new.

use std::path::Path;
use std::process::Command;

const MOST: usize = 72;

/// Faults of a subject.
pub fn faults(commit: &str, subject: &str) -> Vec<String> {
    let length = subject.chars().count();
    let mut found = Vec::new();
    if length > MOST {
        found.push(format!(
            "{commit}: {length} characters, not {MOST}: {subject}"
        ));
    }
    if subject.contains(';') {
        found.push(format!(
            "{commit}: `;` joins two changes, which are two commits: {subject}"
        ));
    }
    found
}

/// Text that a git command prints; none where it fails, or there is no git.
fn git(root: &Path, words: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    // A hook of git runs with these, and they name its repository.
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(name);
    }
    // A folder in the tree of another project is none of its own.
    if let Some(above) = root.parent() {
        command.env("GIT_CEILING_DIRECTORIES", above);
    }
    let output = command.args(words).current_dir(root).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

/// The commit that a list names.
pub fn base(list: &str) -> &str {
    let mut lines = list.lines().filter(|line| !line.starts_with('#'));
    lines.next().unwrap_or_default().trim()
}

/// The commits since `base`, each with its subject; or why they cannot be told.
pub fn since(root: &Path, base: &str) -> Result<Vec<(String, String)>, String> {
    let is_shallow = git(root, &["rev-parse", "--is-shallow-repository"]);
    match is_shallow.as_deref().map(str::trim) {
        Some("false") => {}
        Some(_) => return Err("this clone has a part of the history alone".into()),
        None => return Err("there is no history of git here".into()),
    }
    if git(root, &["merge-base", "--is-ancestor", base, "HEAD"]).is_none() {
        return Err(format!("commit {base} is not in this history"));
    }
    let range = format!("{base}..HEAD");
    let words = ["log", "--no-merges", "--format=%h%x09%s", &range];
    let text = git(root, &words).ok_or("git log fails")?;
    let pairs = text.lines().filter_map(|line| line.split_once('\t'));
    Ok(pairs
        .map(|(commit, subject)| (commit.into(), subject.into()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn a_long_subject_and_two_changes_are_faults() {
        let long = "x".repeat(MOST + 1);
        assert_eq!(
            faults("abc", &long),
            [format!("abc: 73 characters, not 72: {long}")]
        );
        assert_eq!(faults("abc", "One thing; another").len(), 1);
        assert_eq!(faults("abc", &format!("{long};")).len(), 2);
        assert_eq!(faults("abc", &"é".repeat(MOST)), [""; 0]);
    }

    #[test]
    fn the_list_names_one_commit() {
        assert_eq!(base("# Why.\nabc123\n"), "abc123");
    }

    /// A folder of this test, empty, that is removed at its end.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Folder {
            let name = format!("kolo-tidy-commits-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir_all(&path).expect("a folder for a repository");
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn commit(root: &Path, subject: &str) -> String {
        let who = [
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "commit.gpgsign=false",
        ];
        let words = [
            "commit",
            "--quiet",
            "--allow-empty",
            "--no-verify",
            "-m",
            subject,
        ];
        git(root, &[&who[..], &words].concat()).expect("a commit");
        let head = git(root, &["rev-parse", "HEAD"]).expect("a head");
        head.trim().to_owned()
    }

    #[test]
    fn only_a_whole_history_is_read() {
        let folder = Folder::new();
        let [whole, cut, none] = ["whole", "cut", "none"].map(|name| folder.0.join(name));
        for path in [&whole, &none] {
            std::fs::create_dir(path).expect("a folder");
        }
        if git(&whole, &["init", "--quiet"]).is_none() {
            return crate::skip::skip("history", "there is no git");
        }
        let first = commit(&whole, "First");
        let base = commit(&whole, "The base");
        assert_eq!(since(&whole, &base), Ok(Vec::new()));
        commit(&whole, "One more");
        let last = commit(&whole, "A tab\tin it");
        let read = since(&whole, &base).expect("two commits");
        let subjects: Vec<&str> = read.iter().map(|(_, subject)| subject.as_str()).collect();
        assert_eq!(subjects, ["A tab\tin it", "One more"]);
        assert!(last.starts_with(&read[0].0), "{read:?}");

        let from = format!("file://{}", whole.display());
        let to = cut.display().to_string();
        git(&folder.0, &["clone", "--quiet", "--depth=3", &from, &to]).expect("a clone");
        assert!(since(&cut, &base).unwrap_err().contains("a part"));
        assert!(since(&none, &base).unwrap_err().contains("no history"));
        git(&whole, &["checkout", "--quiet", &first]).expect("the first");
        assert!(since(&whole, &base).unwrap_err().contains("is not in"));
    }
}
