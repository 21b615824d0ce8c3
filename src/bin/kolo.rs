//! The one command line of kolo.

fn main() {}
