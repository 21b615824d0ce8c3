//! `kolo pages`: manual pages and completions of shells, made when kolo is installed.
//!
//! Nothing of them is written by hand but the overview and the lines of arguments: commands come
//! from the parser of the command line, calls from the C headers, procedures of Fortran from their
//! list in `docs/`, settings from the table of options. So nothing of them stands in the
//! repository, and none can be stale.

mod arguments;
mod calls;
mod commands;
mod fortran;
mod header;
mod overview;
mod page;
#[cfg(test)]
mod reference_tests;
mod settings;

use clap::Args;
use header::CHeader;
use kolo::base::{Error, Result};
use page::Leaf;
use std::path::{Path, PathBuf};

/// Options of `kolo pages`.
#[derive(Args, Debug)]
pub struct PagesArgs {
    /// The folder to write into; it is made: man/, bash-completion/, zsh/, fish/
    folder: PathBuf,
    /// C headers whose calls get a page each
    headers: Vec<PathBuf>,
}

/// Runs the command; `commands` is the whole command line.
///
/// # Errors
/// A header that cannot be read, a folder that cannot be written.
pub fn run(args: &PagesArgs, commands: clap::Command) -> Result<()> {
    let headers = args.headers.iter().map(|path| read(path));
    let headers = headers.collect::<Result<Vec<CHeader>>>()?;
    for (name, text) in files(&headers, &commands)? {
        let path = args.folder.join(name);
        let refused = |error: std::io::Error| {
            let doing = format!("{} cannot be written", path.display());
            Error::system(doing, &error, "name a folder that this user may write into")
        };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(refused)?;
        }
        std::fs::write(&path, text).map_err(refused)?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<CHeader> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        let doing = format!("the header {} cannot be read", path.display());
        Error::system(doing, &error, "name kolo.h and kolo_mpi.h")
    })?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(CHeader::parse(&name, &text))
}

fn files(headers: &[CHeader], commands: &clap::Command) -> Result<Vec<Leaf>> {
    let mut files = commands::pages(commands)?;
    files.extend(commands::completions(commands));
    files.extend(headers.iter().flat_map(calls::pages));
    if !headers.is_empty() {
        files.extend(fortran::pages(headers));
    }
    files.push(settings::page());
    files.push(overview::page(headers, commands));
    Ok(files)
}
