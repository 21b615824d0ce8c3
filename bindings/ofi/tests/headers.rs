//! Without libfabric's headers the plugin is built empty, and the other test program too.

#[cfg(no_libfabric)]
#[path = "../../../tests/skip/mod.rs"]
mod skip;

#[test]
fn they_are_there() {
    #[cfg(no_libfabric)]
    skip::skip(
        "libfabric",
        "there are no headers of libfabric (libfabric-dev)",
    );
}
