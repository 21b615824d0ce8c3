//! The rules that read whole crates meet the tree.

use crate::{apart, method_arrows, method_circles, programs, shapes, shrinking, workspace};
use crate::{read, report, shrinking_list};

#[test]
fn every_crate_is_read() {
    let manifest = read("Cargo.toml").expect("Cargo.toml");
    assert!(
        manifest.contains("\nmembers = ["),
        "members stand in a line"
    );
    report(workspace::unread(&manifest));
    let more = manifest.replace("members = [", "members = [\"tools/new\", ");
    assert_eq!(
        workspace::unread(&more).len(),
        1,
        "a crate that nobody reads"
    );
}

#[test]
fn every_test_program_belongs_to_one_crate() {
    let paths: Vec<&str> = workspace::sources()
        .iter()
        .map(|it| it.path.as_str())
        .collect();
    let manifests = programs::MANIFESTS.map(|(path, _)| read(path).expect(path));
    report(programs::faults(
        &paths,
        manifests.each_ref().map(String::as_str),
    ));
}

#[test]
fn methods_stand_in_the_file_of_their_type() {
    let found = apart::found(workspace::all());
    let list = shrinking_list("apart.txt", |list| shrinking::shrunk(&found, list));
    let what = "an inherent `impl` in another file than its type";
    report(shrinking::faults("apart.txt", what, &found, &list));
}

#[test]
fn files_use_each_other_along_a_tree_by_methods_too() {
    let found = workspace::method_circles();
    let list = shrinking_list("method_circles.txt", |list| {
        method_circles::shrunk(found, list)
    });
    report(method_circles::faults(found, &list));
}

#[test]
fn rooms_use_methods_and_macros_along_the_arrows() {
    let library = workspace::library();
    let found = method_arrows::found(library, &workspace::used(library));
    let list = shrinking_list("method_arrows.txt", |list| shrinking::shrunk(&found, list));
    let what = "a room uses one that it must not import";
    report(shrinking::faults("method_arrows.txt", what, &found, &list));
}

#[test]
fn parameters_have_names_and_truth_is_asked_by_if() {
    let found = shapes::numbers(workspace::all());
    let list = shrinking_list("shapes.txt", |list| shrinking::shrunk_numbers(&found, list));
    let mut faults = shrinking::number_faults("shapes.txt", &found, &list);
    if !faults.is_empty() {
        faults.push(shapes::told(workspace::all(), &faults));
    }
    report(faults);
}
