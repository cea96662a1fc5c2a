//! Configuration: from a document (`tutti-document`) to the typed configuration, or diagnostics.
//!
//! Owns the language: the table of every option ([`table`]), from which checks, defaults, the JSON Schema, the
//! description of the control API and the reference page are derived. Called by the control API (every change), by the
//! daemon at start, and by the command line (`config check`). It does no I/O; a [`ValidationContext`] describes the machine. It
//! must never panic on any input, never accept what it does not understand, and never accept what this version does not
//! implement.

#![forbid(unsafe_code)]

pub mod address;
mod address_pattern;
mod address_ranges;
mod build;
mod check;
mod computed_server;
pub mod context;
mod cron;
mod environment;
mod files;
pub mod mime_types;
pub mod model;
mod openapi;
mod openssl;
pub mod pattern;
mod reference_page;
pub mod references;
mod referer;
mod schema;
mod secrets;
pub mod source;
pub mod table;
pub mod template;
pub mod variables;
mod warnings;

pub use build::validate;
pub use context::{InstalledModule, ValidationContext};
pub use environment::Environment;
pub use files::{File, combine};
pub use mime_types::MIME_TYPES;
pub use model::Config;
pub use openapi::{openapi, without_shared_paths};
pub use reference_page::reference_markdown;
pub use references::{Reference, ReferenceTarget, references};
pub use schema::schema;
pub use tutti_document::suggest::nearest;
pub use tutti_document::{
    Diagnostic, Diagnostics, Document, FaultKind, Location, MOST_FAULTS, Pointer, TreeNode, Value,
    excerpt, excerpt_of_check, excerpt_of_warnings, parse, read,
};
pub use tutti_options::Format;
pub use variables::variables_markdown;
pub use warnings::{ExposedScript, exposed_scripts, warnings};
