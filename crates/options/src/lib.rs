//! Options: each is declared once, in a row of [`options!`], and everything that uses it reads that row.
//!
//! A row is a typed field with its documentation, its kind (the values it may have), its default and its unit. From the
//! rows come the typed structure, its defaults, the table that configurations are checked against, the JSON Schema, the
//! reference page, and the JSON that a language host is started with. The options of each type of application are in
//! one file here ([`php`], [`python`], …), used by the server and by its host; those of [`tls`] and of automatic
//! certificates ([`acme`], with their names: [`acme_names`]) are here too, the server's other options in
//! `tutti-config`. No I/O. An option must never be read under a name or as a type that its row does not have; both fail
//! to compile.

#![forbid(unsafe_code)]

pub mod acme;
pub mod acme_names;
pub mod application;
pub mod cgi;
mod complaint;
#[doc(hidden)]
pub mod declare;
pub mod external;
mod format;
pub mod isolation;
pub mod java;
pub mod kinds;
pub mod log_target;
pub mod logging;
pub mod mules;
pub mod node;
pub mod password;
pub mod perl;
pub mod php;
pub mod prefix;
pub mod processes;
pub mod python;
pub mod ruby;
pub mod size;
pub mod source;
mod switch;
pub mod syslog;
pub mod table;
pub mod tls;
mod typed;
pub mod types;
mod visible;
pub mod wasm;

pub use complaint::{Complaint, Complaints, MemberPart};
pub use declare::Options;
pub use format::Format;
#[doc(hidden)]
pub use serde;
#[doc(hidden)]
pub use serde_json;
pub use switch::Switch;
pub use typed::{Named, OptionalLimit, Scalar, Shape, Tree, Typed, Unread, UnreadableValue};
pub use visible::{visible, visible_value};
