//! The Common Gateway Interface (RFC 3875), which the three protocols carry, as web applications expect it.

mod script;
mod variables;

pub use script::{FileKind, Script, ScriptRules, find_script};
pub use variables::{CgiRequest, ScriptLocation, is_imitation, variables};
