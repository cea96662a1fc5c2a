//! Any bytes as a configuration in JSON, YAML and TOML.
#![no_main]

#[path = "../../crates/config/tests/oracle/mod.rs"]
#[allow(dead_code)]
mod oracle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| oracle::text(bytes));
