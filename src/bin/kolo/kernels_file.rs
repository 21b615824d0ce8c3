//! The file with the kernels of GPUs: where it is, and whether it can be of use.

use kolo::base::Code;
use kolo::config::Settings;
use kolo::exec::cuda::layout;
use std::io::Read;
use std::path::{Path, PathBuf};

/// How the software GPU's file begins. It ends the line below with the places of what host and
/// kernels share.
const OF_SOFTWARE: &str = "kolo software GPU kernels\n";
/// How to get the file.
const GET: &str = "`make kernels` builds it and `make install` takes it along; KOLO_KERNELS_FILE \
                   names one elsewhere";

/// Content of the file that the software GPU loads in place of machine code.
pub fn of_software() -> String {
    format!("{OF_SOFTWARE}{:016x}\n", layout::hash())
}

/// A file that cannot be used: what is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelsFault {
    /// Fault, as a sentence.
    pub what: String,
    /// Remedy for it.
    pub fix: String,
    /// Whether the file could not be read, which may pass.
    pub is_unread: bool,
}

impl KernelsFault {
    /// Its code as an error.
    pub fn code(&self) -> Code {
        if self.is_unread {
            Code::SystemError
        } else {
            Code::InvalidUsage
        }
    }
}

/// The file that the settings lead to.
///
/// # Errors
/// None can be used. `is_software`: the devices are those of the software GPU; `None` where there
/// is no device.
pub fn find(settings: &Settings, is_software: Option<bool>) -> Result<PathBuf, KernelsFault> {
    let path = settings.kernels().map_err(|error| KernelsFault {
        what: error.into_what(),
        fix: GET.into(),
        is_unread: false,
    })?;
    look(&path, is_software)?;
    Ok(path)
}

fn look(path: &Path, is_software: Option<bool>) -> Result<(), KernelsFault> {
    let shown = path.display();
    let fault = |what: String, fix: &str| {
        Err(KernelsFault {
            what,
            fix: fix.into(),
            is_unread: false,
        })
    };
    let begin = match beginning(path) {
        Ok(begin) => begin,
        Err(error) => {
            return Err(KernelsFault {
                what: format!("kolo's kernels are not there: {shown}: {error}"),
                fix: GET.into(),
                is_unread: true,
            });
        }
    };
    let of_software = begin.starts_with(OF_SOFTWARE.as_bytes());
    match is_software {
        Some(false) if of_software => fault(
            format!("{shown} is for the software GPU, and the devices are others"),
            "take KOLO_KERNELS_FILE away, or start the program by `kolo softgpu`",
        ),
        Some(true) if !of_software => fault(
            format!("{shown} is for GPUs, and the devices are those of the software GPU"),
            "start the program by `kolo softgpu`, which names the other file",
        ),
        _ if of_software && begin != self::of_software().as_bytes() => fault(
            format!("{shown} is of another version of kolo"),
            "install the software GPU and kolo together (`make install`)",
        ),
        _ => Ok(()),
    }
}

/// As many bytes as the software GPU's file has.
fn beginning(path: &Path) -> std::io::Result<Vec<u8>> {
    if !path.is_file() {
        let kind = std::io::ErrorKind::NotFound;
        return Err(std::io::Error::new(kind, "there is no such file"));
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(of_software().len() as u64)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_of_no_use_is_known() {
        let folder = std::env::temp_dir().join(format!("kolo-kernels-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let with = |content: &str, is_software| {
            let path = folder.join("kernels");
            std::fs::write(&path, content).unwrap();
            look(&path, is_software).err().map(|fault| fault.what)
        };
        let own = of_software();
        for is_software in [Some(true), None] {
            assert_eq!(with(&own, is_software), None);
        }
        for is_software in [Some(false), None] {
            assert_eq!(with("machine code", is_software), None);
        }
        let says = |what: Option<String>, words: &str| {
            let what = what.expect("a fault");
            assert!(what.contains(words), "{what}");
        };
        says(with(&own, Some(false)), "is for the software GPU");
        says(with("machine code", Some(true)), "is for GPUs, and");
        let other = format!("{OF_SOFTWARE}{:016x}\n", layout::hash() + 1);
        says(with(&other, Some(true)), "of another version of kolo");
        let fault = look(&folder.join("none"), None).expect_err("no file");
        assert!(
            fault.what.ends_with("none: there is no such file"),
            "{fault:?}"
        );
        assert!(fault.fix.contains("`make kernels`"), "{fault:?}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
