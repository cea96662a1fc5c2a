//! Tests only: a server on temporary folders, raw-byte clients, wait-until.

pub mod load;
