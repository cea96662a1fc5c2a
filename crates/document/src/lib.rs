//! Documents: parsing of configurations to a tree with positions, edits of it, and faults with their places.
//!
//! Handles JSON, YAML and TOML, and is independent of the options: `tutti-config` reads a [`Document`] and reports
//! [`Diagnostics`]. No I/O. It must never panic on any input, and never recurse without a limit.

#![forbid(unsafe_code)]

mod config_path;
mod diagnostic;
mod excerpt;
mod parse;
mod pointer;
mod print;
mod read;
pub mod suggest;
mod toml;
mod tree;
mod yaml;

pub use config_path::ConfigPath;
pub use diagnostic::{
    Diagnostic, Diagnostics, FaultKind, Location, MOST_FAULTS, SourceText, Unknown, shorten,
};
pub use excerpt::{excerpt, excerpt_of_check, excerpt_of_warnings};
pub use parse::parse;
pub use pointer::Pointer;
pub use read::{read, read_source};
pub use tree::{Document, Member, SourceSpan, TreeNode, Value, locate};
