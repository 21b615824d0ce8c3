//! Finding functions by name and version, as `cuGetProcAddress` does.

use super::entry::{Symbol, driver};
use super::{
    capture, context, copy, device, event, general, graph, ipc, launch, memory, module, peer,
    pointer, pool, stream, virtual_memory,
};
use crate::abi::{In, Out};
use crate::error::Code;
use crate::fault::Faults;
use crate::settings;
use std::ffi::c_char;

/// Why there is no address: `CUdriverProcAddressQueryResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Unknown = 1,
    /// The version that is asked for has it not yet.
    Newer = 2,
}

const ALL: &[&[Symbol]] = &[
    SYMBOLS,
    general::SYMBOLS,
    device::SYMBOLS,
    context::SYMBOLS,
    peer::SYMBOLS,
    memory::SYMBOLS,
    pool::SYMBOLS,
    virtual_memory::SYMBOLS,
    ipc::SYMBOLS,
    capture::SYMBOLS,
    graph::SYMBOLS,
    pointer::SYMBOLS,
    copy::SYMBOLS,
    stream::SYMBOLS,
    event::SYMBOLS,
    module::SYMBOLS,
    launch::SYMBOLS,
];

/// The name without the version of the function's form.
fn base(name: &str) -> &str {
    let (base, version) = name.rsplit_once("_v").unwrap_or((name, ""));
    match version.len() == 1 && version.chars().all(|c| c.is_ascii_digit()) {
        true => base,
        false => name,
    }
}

/// The newest form of a function that `version` and the pretended driver have.
pub fn find(name: &str, version: i32) -> Result<*const (), Missing> {
    // This one has changed its name, too.
    let name = match name {
        "cuGraphInstantiate" if version >= 12_000 => "cuGraphInstantiateWithFlags",
        name => name,
    };
    let faults = Faults::read(&settings::fault()).unwrap_or_default();
    let is_it = |symbol: &&Symbol| symbol.name == name || base(symbol.name) == name;
    let forms: Vec<&Symbol> = ALL
        .iter()
        .flat_map(|list| list.iter())
        .filter(is_it)
        .collect();
    if faults.is_missing(name) || forms.iter().any(|form| faults.is_missing(form.name)) {
        return Err(Missing::Unknown);
    }
    let old = |form: &&&Symbol| form.since <= version.min(settings::driver());
    let newest = forms.iter().filter(old).max_by_key(|form| form.since);
    match (newest, forms.is_empty()) {
        (Some(form), _) => Ok(form.address),
        (None, true) => Err(Missing::Unknown),
        (None, false) => Err(Missing::Newer),
    }
}

driver! {
    11_030 cuGetProcAddress(
        name: In<c_char>,
        to: Out<*const ()>,
        version: i32,
        _flags: u64,
    ) {
        match find(&name.text()?, version) {
            Ok(address) => to.set(address),
            Err(_) => {
                to.set(std::ptr::null())?;
                Err(Code::NOT_FOUND)
            }
        }
    }

    12_000 cuGetProcAddress_v2(
        name: In<c_char>,
        to: Out<*const ()>,
        version: i32,
        _flags: u64,
        status: Out<i32>,
    ) {
        let (address, found) = match find(&name.text()?, version) {
            Ok(address) => (address, 0),
            Err(missing) => (std::ptr::null(), missing as i32),
        };
        status.set_if_asked(found);
        to.set(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_there_once_and_forms_have_bases() {
        let mut names: Vec<&str> = ALL
            .iter()
            .flat_map(|list| list.iter())
            .map(|symbol| symbol.name)
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert_eq!(base("cuMemAlloc_v2"), "cuMemAlloc");
        assert_eq!(base("cuMemcpyHtoD_v2"), "cuMemcpyHtoD");
        assert_eq!(base("cuMem_vx"), "cuMem_vx");
    }

    #[test]
    fn the_newest_form_that_is_old_enough_is_found() {
        let of = |name, version| find(name, version).expect("a form");
        assert_eq!(of("cuCtxCreate", 11_030), of("cuCtxCreate_v2", 13_000));
        assert_eq!(of("cuCtxCreate", 13_000), of("cuCtxCreate_v4", 13_000));
        assert_eq!(find("cuCtxCreate_v4", 12_000), Err(Missing::Newer));
        assert_eq!(find("cuTexture", 13_000), Err(Missing::Unknown));
    }
}
