#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tutti_cache::fuzzing::metadata(bytes));
