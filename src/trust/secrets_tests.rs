//! Tests of what ranks can prove themselves with.

use super::*;
use crate::trust::munge::tests::Daemon;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

const ID: [u8; ID_BYTES] = [3; ID_BYTES];
const NONCE: [u8; ID_BYTES] = [4; ID_BYTES];

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let place = std::env::temp_dir().join(format!("kolo-secret-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&place).unwrap();
        Place(place)
    }

    fn file(&self, name: &str, mode: u32, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn found(file: Option<PathBuf>, socket: Option<PathBuf>) -> Result<Secrets> {
    let socket = socket.unwrap_or_else(|| "/nonexistent/munge".into());
    Secrets::found(file.as_deref(), Some(&socket))
}

fn of(file: Option<PathBuf>, socket: Option<PathBuf>) -> Secrets {
    let text = Secret::from_text("127.0.0.1:4711");
    found(file, socket).unwrap().or_text(text)
}

fn hello(offers: u8) -> proof::Hello {
    proof::Hello {
        purpose: 1,
        offers,
        id: ID,
        nonce: NONCE,
        body: Vec::new(),
    }
}

/// Lets both ends agree, and returns the kind, and whether their keys are equal.
fn agree(caller: &Secrets, host: &Secrets) -> Result<(u8, bool)> {
    let shown = caller.show(&ID, &NONCE, 5)?;
    let (choice, theirs) = host.choose(&hello(caller.offers()), 5, &shown.credential)?;
    let ours = caller.key(choice, &shown, &ID).unwrap();
    Ok((choice, ours.bytes() == theirs.bytes()))
}

#[test]
fn a_file_must_be_this_users_alone() {
    let place = Place::new("modes");
    let secret = [9; 32];
    let good = place.file("good", 0o600, &secret);
    assert!(read(&good).unwrap() == read(&place.file("same", 0o400, &secret)).unwrap());
    assert!(read(&good).unwrap() != read(&place.file("other", 0o600, &[8; 32])).unwrap());
    let link = place.0.join("link");
    symlink(&good, &link).unwrap();
    let directory = place.0.join("directory");
    std::fs::create_dir(&directory).unwrap();
    let pipe = place.0.join("pipe");
    let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: a text that ends with zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    for (path, word) in [
        (place.file("group", 0o640, &secret), "0640"),
        (place.file("all", 0o604, &secret), "0604"),
        (place.file("program", 0o700, &secret), "0700"),
        (place.file("short", 0o600, &[1; 31]), "31 bytes"),
        (
            place.file("long", 0o600, &[1; (64 << 10) + 1]),
            "more than 65536",
        ),
        (link, "symbolic link"),
        (directory, "no regular file"),
        (pipe, "no regular file"),
        (place.0.join("nothing"), "No such file"),
    ] {
        let error = read(&path).err().expect("it was taken");
        assert!(error.what.contains(word), "{error}");
        let remedy = match error.what.contains("its mode is") {
            true => format!("`chmod 600 {}`", path.display()),
            false => "umask 077".to_owned(),
        };
        assert!(error.remedy.contains(&remedy), "{error}");
    }
    // SAFETY: no arguments.
    if unsafe { libc::geteuid() } == 0 {
        let path = place.file("foreign", 0o600, &secret);
        std::os::unix::fs::chown(&path, Some(12_345), None).unwrap();
        let error = read(&path).err().unwrap();
        assert!(error.what.contains("user 12345, not 0"), "{error}");
    }
}

#[test]
fn a_secret_that_was_handed_over_needs_nothing_else() {
    let secrets = Secrets::given(&Secret::random().unwrap());
    assert!(secrets.offers() == GIVEN && !secrets.is_weak());
    assert_eq!(agree(&secrets, &secrets).unwrap(), (GIVEN, true));
}

#[test]
fn ranks_with_one_file_agree_and_others_do_not() {
    let place = Place::new("files");
    let with = |name: &str, byte| of(Some(place.file(name, 0o600, &[byte; 32])), None);
    let (a, b, other) = (with("a", 1), with("b", 1), with("c", 2));
    assert!(!a.is_weak());
    assert_eq!(agree(&a, &b).unwrap(), (FILE, true));
    assert_eq!(agree(&a, &other).unwrap(), (FILE, false));
    // Who has nothing is not let in by who has something, nor the other way round.
    let none = of(None, None);
    for (caller, host) in [(&none, &a), (&a, &none)] {
        let error = agree(caller, host).unwrap_err();
        assert!(error.what.contains("KOLO_SECRET_FILE"), "{error}");
        assert!(error.what.contains("no secret at all"), "{error}");
    }
    assert!(found(Some(place.0.join("nothing")), None).is_err());
}

#[test]
fn without_anything_the_text_is_taken_and_one_warning_given() {
    let said = std::cell::RefCell::new(Vec::new());
    let none = of(None, None);
    assert!(none.is_weak());
    assert_eq!(agree(&none, &of(None, None)).unwrap(), (TEXT, true));
    WARNED.store(false, Ordering::Relaxed);
    (0..3).for_each(|_| none.warn(&|text| said.borrow_mut().push(text.to_string())));
    let said = said.into_inner();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("KOLO_SECRET_FILE") && said[0].contains("munge"));
}

#[test]
fn munge_comes_first_where_it_runs() {
    let place = Place::new("munge");
    let file = Some(place.file("file", 0o600, &[1; 32]));
    let Some(daemon) = Daemon::start("secrets") else {
        // Not installed: the file is taken, as nothing better is there.
        assert_eq!(of(file, None).offers(), FILE);
        return;
    };
    let socket = Some(daemon.socket());
    let (one, both) = (of(None, socket.clone()), of(file.clone(), socket));
    assert_eq!((one.offers(), both.offers()), (MUNGE, MUNGE | FILE));
    assert_eq!(agree(&one, &both).unwrap(), (MUNGE, true));
    assert_eq!(agree(&both, &both).unwrap(), (MUNGE, true));
    let file = of(file, None);
    assert_eq!(agree(&both, &file).unwrap(), (FILE, true));
    assert!(agree(&one, &file).unwrap_err().what.contains("by munge"));
    // A credential serves for its own rank, number and communicator.
    let shown = one.show(&ID, &NONCE, 5).unwrap();
    let error = one
        .choose(&hello(MUNGE), 6, &shown.credential)
        .err()
        .unwrap();
    assert!(error.what.contains("for something else"), "{error}");
    let shown = one.show(&ID, &[7; ID_BYTES], 5).unwrap();
    assert!(one.choose(&hello(MUNGE), 5, &shown.credential).is_err());
    let shown = one.show(&[7; ID_BYTES], &NONCE, 5).unwrap();
    assert!(one.choose(&hello(MUNGE), 5, &shown.credential).is_err());
    // And once.
    let shown = one.show(&ID, &NONCE, 5).unwrap();
    assert!(one.choose(&hello(MUNGE), 5, &shown.credential).is_ok());
    assert!(one.choose(&hello(MUNGE), 5, &shown.credential).is_err());
}
