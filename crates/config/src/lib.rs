//! Configuration: bytes to a tree with places, edits of it, and the typed configuration or diagnostics.
//!
//! Owns the language: the table of every option ([`table`]), from which checking and defaults come, and in `tutti-schema` the JSON Schema and
//! the reference page. Called by the control API (every change), by the daemon at start, and by the command line
//! (`config check`). Pure: it reads no file and asks no system; what the machine has is told by a [`Context`]. It must
//! never panic on any input, never accept what it does not understand, and never accept what this version does not do.

#![forbid(unsafe_code)]

pub mod address;
mod build;
mod check;
pub mod context;
pub mod diagnostic;
pub mod document;
mod environment;
mod excerpt;
mod files;
pub mod mime_types;
pub mod model;
pub mod parse;
pub mod pattern;
mod place;
pub mod pointer;
mod print;
mod suggest;
pub mod table;
pub mod template;
mod toml;
pub mod variables;
mod warnings;
mod yaml;

pub use build::validate;
pub use context::{Context, Module};
pub use diagnostic::{Diagnostic, Diagnostics, FaultKind, Location, MOST_FAULTS};
pub use document::Document;
pub use environment::Environment;
pub use excerpt::{excerpt, excerpt_of_warnings};
pub use files::{File, combine, read};
pub use mime_types::MIME_TYPES;
pub use model::Config;
pub use parse::parse;
pub use pointer::Pointer;
pub use suggest::nearest;
pub use tutti_options::Format;
pub use variables::variables_markdown;
pub use warnings::warnings;
