//! The `tutti` binary.

fn main() {}
