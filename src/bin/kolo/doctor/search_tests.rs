//! The search against the loader of this system, and the reader of files against broken ones.

use super::*;
use crate::object::NoObject;
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// A folder that is removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("kolo-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn seed() -> u64 {
    let seed = raw_variable("KOLO_TEST_SEED").and_then(|text| text.parse().ok());
    seed.unwrap_or_else(|| fastrand::u64(..))
}

/// Runs the C compiler on nothing but these words.
fn link(words: &[String]) {
    let nothing = ["-x", "c", "/dev/null"];
    let said = Command::new("cc").args(nothing).args(words).output();
    let said = said.unwrap();
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{words:?}: {text}");
}

/// A few libraries in a few folders, some in several; each needs some that were made before it,
/// and names folders in a way of its own. The program needs the last ones.
fn drawn(random: &mut fastrand::Rng, root: &Path) -> (PathBuf, Vec<PathBuf>) {
    let folders: Vec<PathBuf> = ["a", "b", "c"].map(|name| root.join(name)).to_vec();
    for folder in &folders {
        fs::create_dir_all(folder).unwrap();
    }
    let some = |random: &mut fastrand::Rng| {
        let chosen = folders.iter().filter(|_| random.bool());
        chosen.cloned().collect::<Vec<_>>()
    };
    let names = ["libone.so", "libtwo.so", "libthree.so", "libfour.so"];
    let mut made = Vec::new();
    for (at, name) in names.into_iter().chain(["model"]).enumerate() {
        let least = if name == "model" { 1 } else { 0 };
        let mut places = some(random);
        places.truncate(2);
        if places.is_empty() {
            places.push(folders[0].clone());
        }
        for place in places.iter().take(if least == 1 { 1 } else { 2 }) {
            let out = place.join(name);
            let mut words = vec!["-o".into(), out.display().to_string()];
            words.push("-Wl,--no-as-needed,--allow-shlib-undefined,-e,0".into());
            words.push("-nostartfiles".into());
            if least == 0 {
                words.extend(["-shared".into(), "-fPIC".into()]);
                // Some have a name of their own, by which others know them then.
                if random.bool() {
                    words.push(format!("-Wl,-soname,{name}"));
                }
            }
            let mut needed: Vec<&PathBuf> = made.iter().filter(|_| random.bool()).collect();
            needed.extend(made.last().filter(|_| least == 1));
            for library in needed {
                let library: &PathBuf = library;
                words.push(format!("-L{}", library.parent().unwrap().display()));
                let file = library.file_name().unwrap().to_string_lossy();
                words.push(format!("-l:{file}"));
            }
            let list: Vec<String> = some(random)
                .iter()
                .map(|it| place_word(random, it))
                .collect();
            if !list.is_empty() {
                let tags = ["--enable-new-dtags", "--disable-new-dtags"][random.usize(..2)];
                words.push(format!("-Wl,{tags},-rpath,{}", list.join(":")));
            }
            link(&words);
            if at < names.len() {
                made.push(out);
            } else {
                return (out, some(random));
            }
        }
    }
    unreachable!()
}

/// A folder by its path, or from where the file lies.
fn place_word(random: &mut fastrand::Rng, folder: &Path) -> String {
    let name = folder.file_name().unwrap().to_string_lossy();
    match random.usize(..3) {
        0 => format!("$ORIGIN/../{name}"),
        1 => format!("${{ORIGIN}}/../{name}"),
        _ => folder.display().to_string(),
    }
}

/// A name, and its file or nothing.
type Answer = (String, Option<PathBuf>);

/// The loader's own answers. A name may have two: one file finds it, and another one does not.
fn asked(program: &Path, folders: &[PathBuf]) -> BTreeSet<Answer> {
    let folders: Vec<String> = folders.iter().map(|it| it.display().to_string()).collect();
    let mut command = Command::new("ldd");
    command.arg(program).env_remove("LD_LIBRARY_PATH");
    if !folders.is_empty() {
        command.env("LD_LIBRARY_PATH", folders.join(":"));
    }
    let said = command.output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let line = |line: &str| {
        let (name, place) = line.trim().split_once(" => ")?;
        let path = place.split(" (").next()?;
        let found = (path != "not found").then(|| fs::canonicalize(path).unwrap());
        Some((name.to_owned(), found))
    };
    text.lines().filter_map(line).collect()
}

fn loader(folders: &[PathBuf]) -> Loader {
    Loader {
        library_path: folders.to_vec(),
        preload: Vec::new(),
        cache: LoaderCache::of_system(),
    }
}

/// Compares for one program.
fn compare(program: &Path, folders: &[PathBuf]) {
    let (all, missing) = loader(folders).load(ElfObject::read(program).unwrap());
    let answer = |one: &LoadedFile| {
        let path = fs::canonicalize(&one.object.path).unwrap();
        (one.known[0].clone(), Some(path))
    };
    let mut found: BTreeSet<Answer> = all[1..].iter().map(answer).collect();
    found.extend(missing.into_iter().map(|one| (one.name, None)));
    // ldd shows the loader itself, and what the kernel brings, in another form.
    found.retain(|(name, _)| !name.contains("/ld-linux") && !name.starts_with("ld-linux"));
    let expected = asked(program, folders);
    assert_eq!(found, expected, "{} with {folders:?}", program.display());
}

#[test]
fn drawn_programs_are_loaded_as_by_the_loader() {
    let seed = seed();
    println!("KOLO_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = Folder::new("search");
    for round in 0..3 {
        let root = folder.0.join(round.to_string());
        fs::create_dir_all(&root).unwrap();
        let (program, folders) = drawn(&mut random, &root);
        compare(&program, &folders);
    }
}

#[test]
fn programs_of_this_system_are_loaded_as_by_the_loader() {
    for name in ["ls", "bash", "git", "python3", "gdb"] {
        let path = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(name));
        if let Some(path) = path.iter().find(|path| path.is_file()) {
            let path = fs::canonicalize(path).unwrap();
            if !matches!(ElfObject::read(&path), Err(NoObject::Script(_))) {
                compare(&path, &[]);
            }
        }
    }
}

#[test]
fn what_is_no_program_is_said() {
    let me = ElfObject::read(&std::env::current_exe().unwrap()).unwrap();
    let needs_c = |name: &String| name.starts_with("libc.so");
    assert!(me.dynamic.needed.iter().any(needs_c), "{me:?}");
    let folder = Folder::new("no-object");
    let script = folder.0.join("run.sh");
    fs::write(&script, "#!/bin/sh -e\ntrue\n").unwrap();
    let line = NoObject::Script("/bin/sh -e".into());
    assert_eq!(ElfObject::read(&script), Err(line));
    assert_eq!(
        ElfObject::read(Path::new("/dev/null")),
        Err(NoObject::Other)
    );
    for path in ["/no/such/program", "/tmp", "/dev/zero"] {
        let read = ElfObject::read(Path::new(path));
        assert!(matches!(read, Err(NoObject::Unreadable(_))), "{path}");
    }
}

/// Bytes of others: a fault or something, and never a panic.
#[test]
fn broken_files_are_read_without_panic() {
    let seed = seed();
    println!("KOLO_TEST_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let folder = Folder::new("broken");
    let whole = folder.0.join("whole");
    link(&["-shared", "-o", &whole.display().to_string()].map(str::to_owned));
    let bytes = fs::read(&whole).unwrap();
    let path = folder.0.join("broken");
    for round in 0..200 {
        let mut broken = bytes.clone();
        match round % 4 {
            0 => broken.truncate(random.usize(..bytes.len())),
            // Headers, and the tables that they lead to.
            1 => broken[random.usize(4..64 + 56 * 8)] = random.u8(..),
            _ => {
                for _ in 0..20 {
                    broken[random.usize(4..bytes.len())] = random.u8(..);
                }
            }
        }
        fs::write(&path, &broken).unwrap();
        if let Ok(object) = ElfObject::read(&path) {
            let _ = object.inner_names();
            loader(&[]).load(object);
        }
    }
}
