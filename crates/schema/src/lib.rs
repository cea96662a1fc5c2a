//! Makes of the option table what others read: the JSON Schema, the description of the control API, the reference page.
//!
//! Called by `cargo xtask`, which writes all of them, and by the control API, which gives them out.

#![forbid(unsafe_code)]

mod openapi;
mod reference;
mod schema;

pub use openapi::{openapi, without_shared_paths};
pub use reference::reference_markdown;
pub use schema::schema;
