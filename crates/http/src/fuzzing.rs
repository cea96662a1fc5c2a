//! What a fuzz target asserts, so that the same oracles run under `cargo fuzz` and under proptest.
