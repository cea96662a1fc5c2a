//! Tutti with one Perl application, on the scripts of `tests/conformance/perl`.

use crate::script_site::{Language, ScriptSite};

/// Perl.
pub enum Perl {}

impl Language for Perl {
    const NAME: &'static str = "perl";
}

/// A server with the application `perl`.
pub type PerlSite = ScriptSite<Perl>;
