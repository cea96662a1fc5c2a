//! The common ground of the readers of other servers' configurations.
//!
//! Owns how files are read, within bounds and nowhere else ([`Sources`]), how a reader tells what it could not carry over
//! ([`Findings`]), the configuration that is being made ([`output`]), texts on their way to templates ([`template`]), and the pools of
//! PHP-FPM, which several servers stand before. It must never panic on any input, and runs nothing of what it reads.

#![forbid(unsafe_code)]

pub mod finding;
pub mod fpm;
pub mod ini;
pub mod mime;
pub mod output;
pub mod program;
pub mod sources;
pub mod template;
pub mod units;

pub use finding::{Finding, Findings, Importance, Place, Unreadable};
pub use sources::{Disk, LARGEST_FILE, Sources};
