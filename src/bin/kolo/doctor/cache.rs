//! `/etc/ld.so.cache`: the loader's own list of libraries, which `ldconfig` writes.
//!
//! It begins with a header (or an older list in front of it): 20 bytes of name and version, the
//! number of entries, the bytes of all strings, and 20 bytes more. An entry has 24 bytes, of which
//! the second and third word lead to the name and the path, counted from the header.

use kolo::base::input_file;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

const FILE: &str = "/etc/ld.so.cache";
const MOST_BYTES: u64 = 64 << 20;
const BEGINS: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER: usize = 48;
const ENTRY: usize = 24;

/// The paths of each name, in the order in which the loader tries them.
#[derive(Debug, Default)]
pub struct LoaderCache(HashMap<String, Vec<PathBuf>>);

impl LoaderCache {
    /// That of this system; empty where there is none.
    pub fn of_system() -> LoaderCache {
        let bytes = input_file::bytes(Path::new(FILE), MOST_BYTES);
        LoaderCache::parse(&bytes.unwrap_or_default())
    }

    /// The libraries of this name.
    pub fn paths(&self, name: &str) -> &[PathBuf] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// Takes what can be read, and no more.
    fn parse(bytes: &[u8]) -> LoaderCache {
        let mut cache = LoaderCache::default();
        let begin = bytes.windows(BEGINS.len()).position(|one| one == BEGINS);
        let Some(bytes) = begin.map(|begin| &bytes[begin..]) else {
            return cache;
        };
        let word = |at: usize| {
            let word = bytes.get(at..at.checked_add(4)?)?;
            Some(u32::from_ne_bytes(word.try_into().ok()?) as usize)
        };
        let text = |at: usize| {
            let rest = bytes.get(at..)?;
            let end = rest.iter().position(|&byte| byte == 0)?;
            std::str::from_utf8(&rest[..end]).ok()
        };
        let entries = word(BEGINS.len()).unwrap_or(0);
        for number in 0..entries.min(bytes.len() / ENTRY) {
            let at = HEADER + number * ENTRY;
            let place = |field: usize| word(at + field).and_then(text);
            if let (Some(name), Some(path)) = (place(4), place(8)) {
                let paths = cache.0.entry(name.to_owned()).or_default();
                paths.push(PathBuf::from(path));
            }
        }
        cache
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of these names and paths.
    fn written(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut strings = Vec::new();
        let mut place = |text: &str| {
            let at = HEADER + entries.len() * ENTRY + strings.len();
            strings.extend(text.bytes().chain([0]));
            at as u32
        };
        let mut bytes = BEGINS.to_vec();
        bytes.extend((entries.len() as u32).to_ne_bytes());
        bytes.resize(HEADER, 0);
        for (name, path) in entries {
            let words = [0x303, place(name), place(path), 0, 0, 0];
            bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        }
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn names_lead_to_paths_in_their_order() {
        let entries = [("libb.so.1", "/x/libb.so.1"), ("liba.so", "/y/liba.so")];
        let mut bytes = written(&[entries[0], entries[1], ("liba.so", "/z/liba.so")]);
        for older in [0, 64] {
            let cache = LoaderCache::parse(&bytes);
            assert_eq!(cache.paths("libb.so.1"), [Path::new("/x/libb.so.1")]);
            let both = [Path::new("/y/liba.so"), Path::new("/z/liba.so")];
            assert_eq!(cache.paths("liba.so"), both, "{older} bytes in front");
            assert!(cache.paths("libc.so").is_empty());
            bytes.splice(0..0, [7; 64]);
        }
    }

    #[test]
    fn no_content_makes_it_panic() {
        let bytes = written(&[("libb.so.1", "/x/libb.so.1"), ("liba.so", "/y/liba.so")]);
        for end in 0..bytes.len() {
            LoaderCache::parse(&bytes[..end]);
        }
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] = 0xff;
            LoaderCache::parse(&broken);
        }
    }

    #[test]
    fn that_of_this_system_has_the_c_library() {
        if Path::new(FILE).exists() {
            assert!(!LoaderCache::of_system().paths("libc.so.6").is_empty());
        }
    }
}
