//! What the three protocols carry: the Common Gateway Interface (RFC 3875), as web applications came to expect it.

mod script;
mod variables;

pub use script::{Kind, Script, ScriptRules, find_script};
pub use variables::{Place, Request, is_imitation, variables};
