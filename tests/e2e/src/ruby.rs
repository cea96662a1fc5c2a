//! Tutti with one Ruby application, on the scripts of `tests/conformance/ruby`.

use std::path::PathBuf;

use crate::script_site::{self, Language, ScriptSite};

/// Ruby.
pub enum Ruby {}

impl Language for Ruby {
    const NAME: &'static str = "ruby";
}

/// A server with the application `ruby`.
pub type RubySite = ScriptSite<Ruby>;

/// The folder of the scripts in the source tree.
pub fn scripts() -> PathBuf {
    script_site::scripts::<Ruby>()
}
