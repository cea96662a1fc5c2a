//! Repository checks and generators.

fn main() {}
