//! Files that a user names: read whole, within a bound, and only if they are files.
//!
//! A path in a setting may lead anywhere. A device never ends, a FIFO waits for a writer that may
//! never come, and to open some devices already does something to them. Only `/dev/null` is taken
//! for what people mean by it: an empty file.

use super::descriptors::lifted;
use super::{Code, Error};
use std::fmt::Display;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// The bytes of the regular file at `path`, at most `most` of them.
///
/// # Errors
/// The system's; `InvalidInput` for what is no regular file, and `FileTooLarge`.
pub fn bytes(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let Some(file) = open(path)? else {
        return Ok(Vec::new());
    };
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        let why = format!("it has more than {}", amount(most));
        return Err(io::Error::new(ErrorKind::FileTooLarge, why));
    }
    Ok(bytes)
}

/// The regular file at `path`, to be read in parts; `None` for `/dev/null`.
///
/// # Errors
/// The system's; `InvalidInput` for what is no regular file.
pub fn open(path: &Path) -> io::Result<Option<File>> {
    if regular(&std::fs::metadata(path)?)?.is_none() {
        return Ok(None);
    }
    // The path may lead elsewhere by now: whatever it is, opening it must not wait.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let mut options = OpenOptions::new();
    let file = lifted(options.read(true).custom_flags(flags).open(path)?)?;
    Ok(regular(&file.metadata()?)?.map(|()| file))
}

/// The text of the regular file at `path`, at most `most` bytes of it.
///
/// # Errors
/// Those of [`bytes`]; `InvalidData` for what is not UTF-8.
pub fn text(path: &Path, most: u64) -> io::Result<String> {
    String::from_utf8(bytes(path, most)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        io::Error::new(
            ErrorKind::InvalidData,
            format!("it is not UTF-8 from byte {at} on"),
        )
    })
}

/// The error of a call that could not read such a file: the caller's fault where the file is of
/// the wrong kind or size, the system's otherwise.
pub fn refused(doing: impl Display, error: &io::Error, remedy: &'static str) -> Error {
    let code = match error.kind() {
        ErrorKind::InvalidInput | ErrorKind::FileTooLarge | ErrorKind::InvalidData => {
            Code::InvalidArgument
        }
        _ => Code::SystemError,
    };
    Error::new(code, format!("{doing}: {error}"), remedy)
}

/// Nothing for `/dev/null`.
fn regular(found: &std::fs::Metadata) -> io::Result<Option<()>> {
    let kind = found.file_type();
    let name = match () {
        () if kind.is_file() => return Ok(Some(())),
        () if kind.is_char_device() && found.rdev() == libc::makedev(1, 3) => return Ok(None),
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a FIFO",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    let why = format!("it is {name}, and a regular file is wanted");
    Err(io::Error::new(ErrorKind::InvalidInput, why))
}

fn amount(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        _ => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn only_regular_files_of_a_bounded_size_are_read() {
        let folder = std::env::temp_dir().join(format!("kolo-input-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("file");
        std::fs::write(&file, "twelve bytes").unwrap();
        assert_eq!(text(&file, 12).unwrap(), "twelve bytes");
        let long = text(&file, 11).unwrap_err();
        assert_eq!(long.kind(), ErrorKind::FileTooLarge);
        assert_eq!(long.to_string(), "it has more than 11 bytes");
        std::fs::write(&file, b"ok\xff").unwrap();
        assert_eq!(bytes(&file, 12).unwrap(), b"ok\xff");
        let wrong = text(&file, 12).unwrap_err();
        assert_eq!(wrong.to_string(), "it is not UTF-8 from byte 2 on");

        let fifo = folder.join("fifo");
        let name = CString::new(fifo.as_os_str().as_bytes()).unwrap();
        // SAFETY: `name` ends with NUL and lives until the call is over.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let said = |path: &Path| bytes(path, 12).unwrap_err().to_string();
        assert!(said(&fifo).starts_with("it is a FIFO"));
        assert!(said(&folder).starts_with("it is a directory"));
        assert!(said(Path::new("/dev/zero")).starts_with("it is a device"));
        assert_eq!(bytes(Path::new("/dev/null"), 12).unwrap(), b"");
        let absent = bytes(&folder.join("absent"), 12).unwrap_err();
        assert_eq!(absent.kind(), ErrorKind::NotFound);
        // A name that leads to a file is as good as the file.
        std::os::unix::fs::symlink(&file, folder.join("link")).unwrap();
        assert!(bytes(&folder.join("link"), 12).is_ok());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_wrong_kind_of_file_is_the_callers_fault() {
        let of = |kind| {
            let error = io::Error::new(kind, "so it is");
            refused("reading x", &error, "name another file")
        };
        assert_eq!(of(ErrorKind::InvalidInput).code, Code::InvalidArgument);
        assert_eq!(of(ErrorKind::NotFound).code, Code::SystemError);
        assert_eq!(of(ErrorKind::NotFound).what, "reading x: so it is");
    }
}
