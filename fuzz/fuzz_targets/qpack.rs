#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tutti_http::fuzzing::qpack(bytes));
