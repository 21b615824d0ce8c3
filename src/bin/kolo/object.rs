//! One program or library as the loader reads it: what it needs, where it looks for that, and which
//! names of MPI are in it. Files of others: no content makes this panic, or read without bound.

use elf::ElfStream;
use elf::abi;
use elf::endian::AnyEndian;
use elf::note::Note;
use elf::parse::ParseError;
use elf::string_table::StringTable;
use kolo::base::input_file;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A file of the format ELF.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ElfObject {
    /// Where it was found.
    pub path: PathBuf,
    /// The file behind all its paths: device and number.
    pub id: (u64, u64),
    /// Bits and processor: the loader takes only what is like the program.
    pub kind: (bool, u16),
    /// The loader that it wants; libraries and static programs want none.
    pub loader: Option<String>,
    /// The words of the dynamic section.
    pub dynamic: Dynamic,
    /// Which names it has.
    pub names: MpiNames,
    /// Of a `libkolo_mpi`: what it was built for.
    pub kolo: Option<KoloNote>,
}

/// The dynamic section.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dynamic {
    /// `DT_NEEDED`, in their order.
    pub needed: Vec<String>,
    /// `DT_SONAME`.
    pub own_name: Option<String>,
    /// `DT_RPATH`: folders for this file and for all that it brings.
    pub rpath: Option<String>,
    /// `DT_RUNPATH`: folders for what this file needs itself.
    pub runpath: Option<String>,
}

/// Findings from the names of functions and variables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MpiNames {
    /// There are some at all.
    pub any: bool,
    /// It has MPI's functions. (A profiler has `MPI_Init`, and not `PMPI_Init`.)
    pub is_mpi: bool,
    /// It has names that only Open MPI has, and what is made from it.
    pub is_open: bool,
    /// It has names that only MPICH has, and what is made from it.
    pub is_mpich: bool,
    /// It has a table of functions by which a network plugin is called.
    pub is_net: bool,
    /// It may open more libraries while it runs.
    pub opens: bool,
}

/// The note that `bindings/mpi/front/family.c` puts into `libkolo_mpi`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KoloNote {
    /// The family of MPI that it was built for.
    pub family: String,
    /// The MPI that it loads where the program has none.
    pub default: String,
}

/// Why a file is no [`ElfObject`].
#[derive(Debug, PartialEq, Eq)]
pub enum NoObject {
    /// It cannot be read.
    Unreadable(String),
    /// It begins with `#!`: the line behind it.
    Script(String),
    /// It is something else.
    Other,
}

/// Of a table of strings, more than any program has.
const MOST_STRINGS: u64 = 64 << 20;
/// Of the first line of a script, what is shown.
const SHEBANG: usize = 80;

impl ElfObject {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// The kind of file that it is instead.
    pub fn read(path: &Path) -> Result<ElfObject, NoObject> {
        let unreadable = |why: String| NoObject::Unreadable(why);
        let file = input_file::open(path).map_err(|error| unreadable(error.to_string()))?;
        let mut head = [0; SHEBANG];
        let file = file.ok_or(NoObject::Other)?;
        let read = file.read_at(&mut head, 0);
        let head = &head[..read.map_err(|error| unreadable(error.to_string()))?];
        match head {
            [0x7f, b'E', b'L', b'F', ..] => (),
            [b'#', b'!', rest @ ..] => {
                let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
                return Err(NoObject::Script(
                    String::from_utf8_lossy(line).trim().to_owned(),
                ));
            }
            _ => return Err(NoObject::Other),
        }
        let id = file.metadata().map(|about| (about.dev(), about.ino()));
        let id = id.map_err(|error| unreadable(error.to_string()))?;
        let parsed = parsed(path, &file).map_err(|error| unreadable(error.to_string()))?;
        Ok(ElfObject { id, ..parsed })
    }

    /// The file's name for people.
    pub fn name(&self) -> String {
        let name = self.path.file_name().unwrap_or(self.path.as_os_str());
        name.to_string_lossy().into_owned()
    }

    /// The name that it gives itself.
    pub fn own_name(&self) -> Option<&str> {
        self.dynamic.own_name.as_deref()
    }

    /// Whether nothing loads anything for it.
    pub fn is_static(&self) -> bool {
        self.loader.is_none() && self.dynamic == Dynamic::default()
    }

    /// Names that are in the file for debuggers, where they have not been stripped: those of an MPI
    /// that was linked into the program are only here.
    pub fn inner_names(&self) -> MpiNames {
        let open = || {
            let file = input_file::open(&self.path).ok()??;
            let mut stream = ElfStream::<AnyEndian, _>::open_stream(file).ok()?;
            let (table, strings) = stream.symbol_table().ok()??;
            Some(names_in(table.iter(), &strings, |_| true))
        };
        open().unwrap_or_default()
    }
}

/// The family of MPI that this file was built for, if it is a `libkolo_mpi`.
pub fn family_of_library(path: &Path) -> Option<String> {
    let library = ElfObject::read(path).ok()?;
    library.kolo.map(|note| note.family)
}

fn parsed(path: &Path, file: &File) -> Result<ElfObject, ParseError> {
    let mut stream = ElfStream::<AnyEndian, _>::open_stream(file)?;
    let segments = stream.segments().clone();
    let text = |bytes: &[u8]| {
        let end = bytes.iter().position(|&byte| byte == 0);
        String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
    };
    let mut loader = None;
    let mut kolo = None;
    for segment in &segments {
        match segment.p_type {
            abi::PT_INTERP if segment.p_filesz < MOST_STRINGS => {
                loader = Some(text(stream.segment_data(segment)?));
            }
            abi::PT_NOTE if segment.p_filesz < MOST_STRINGS => {
                let notes = stream.segment_data_as_notes(segment).into_iter().flatten();
                kolo = kolo.or(notes.filter_map(of_kolo).next());
            }
            _ => (),
        }
    }
    let (is_wide, machine) = (stream.ehdr.class, stream.ehdr.e_machine);
    let entries: Vec<(i64, u64)> = match stream.dynamic()? {
        Some(table) => table.iter().map(|one| (one.d_tag, one.d_val())).collect(),
        None => Vec::new(),
    };
    let names = match stream.dynamic_symbol_table()? {
        Some((table, strings)) => names_in(table.iter(), &strings, |name| name.is_undefined()),
        None => MpiNames::default(),
    };
    Ok(ElfObject {
        path: path.to_owned(),
        id: (0, 0),
        kind: (is_wide == elf::file::Class::ELF64, machine),
        loader,
        dynamic: dynamic(&entries, &segments, file)?,
        names,
        kolo,
    })
}

/// The section's strings lie where the program would have them in memory.
fn dynamic(
    entries: &[(i64, u64)],
    segments: &[elf::segment::ProgramHeader],
    file: &File,
) -> Result<Dynamic, ParseError> {
    let value = |tag: i64| entries.iter().find(|one| one.0 == tag).map(|one| one.1);
    let (Some(place), Some(bytes)) = (value(abi::DT_STRTAB), value(abi::DT_STRSZ)) else {
        return Ok(Dynamic::default());
    };
    let holds = |one: &&elf::segment::ProgramHeader| {
        let offset = place.checked_sub(one.p_vaddr);
        one.p_type == abi::PT_LOAD && offset.is_some_and(|offset| offset < one.p_filesz)
    };
    let segment = segments.iter().find(holds);
    let segment = segment.ok_or(ParseError::BadOffset(place))?;
    let offset = segment.p_offset.checked_add(place - segment.p_vaddr);
    let offset = offset.ok_or(ParseError::IntegerOverflow)?;
    let length = file.metadata()?.len();
    if bytes > MOST_STRINGS || offset.checked_add(bytes).is_none_or(|end| end > length) {
        return Err(ParseError::BadOffset(offset));
    }
    let mut strings = vec![0; bytes as usize];
    file.read_exact_at(&mut strings, offset)?;
    let strings = StringTable::new(&strings);
    let text = |at: u64| Ok::<_, ParseError>(strings.get(at as usize)?.to_owned());
    let one = |tag: i64| value(tag).map(text).transpose();
    let needed = entries.iter().filter(|one| one.0 == abi::DT_NEEDED);
    Ok(Dynamic {
        needed: needed.map(|one| text(one.1)).collect::<Result<_, _>>()?,
        own_name: one(abi::DT_SONAME)?,
        rpath: one(abi::DT_RPATH)?,
        runpath: one(abi::DT_RUNPATH)?,
    })
}

/// Reads the names that tell something; `asks` says of a symbol whether it calls for `dlopen`.
fn names_in(
    table: impl Iterator<Item = elf::symbol::Symbol>,
    strings: &StringTable,
    asks: impl Fn(&elf::symbol::Symbol) -> bool,
) -> MpiNames {
    let mut found = MpiNames::default();
    for symbol in table {
        let Ok(name) = strings.get_raw(symbol.st_name as usize) else {
            continue;
        };
        // A version may stand behind it.
        let name = name.split(|&byte| byte == b'@').next().unwrap_or(name);
        found.any |= !name.is_empty();
        found.opens |= matches!(name, b"dlopen" | b"dlmopen") && asks(&symbol);
        if !symbol.is_undefined() {
            found.is_mpi |= name == b"PMPI_Init";
            found.is_open |= name.starts_with(b"ompi_mpi_");
            found.is_mpich |= name.starts_with(b"MPIR_");
            found.is_net |= name.starts_with(b"ncclNetPlugin_v");
        }
    }
    found
}

/// `family`, a zero byte, and the name of the MPI.
fn of_kolo(note: Note) -> Option<KoloNote> {
    let Note::Unknown(note) = note else {
        return None;
    };
    if note.name_str().ok() != Some("kolo") {
        return None;
    }
    let mut words = note.desc.split(|&byte| byte == 0);
    let mut word = || String::from_utf8(words.next()?.to_vec()).ok();
    Some(KoloNote {
        family: word()?,
        default: word()?,
    })
}
