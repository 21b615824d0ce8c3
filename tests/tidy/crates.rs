//! The rules that read whole crates meet the tree.

use crate::{method_arrows, shrinking, workspace};
use crate::{report, shrinking_list};

#[test]
fn rooms_use_methods_and_macros_along_the_arrows() {
    let library = workspace::library();
    let found = method_arrows::found(library, &workspace::used(library));
    let list = shrinking_list("method_arrows.txt", |list| shrinking::shrunk(&found, list));
    let what = "a room uses one that it must not import";
    report(shrinking::faults("method_arrows.txt", what, &found, &list));
}
