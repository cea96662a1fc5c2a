//! Worker-side runtime: base of every language host
