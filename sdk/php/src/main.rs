//! PHP language host.

fn main() {}
