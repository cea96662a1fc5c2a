//! Options of FastCGI, uwsgi and SCGI.

use tutti_options::table::{Names, Text, ValueKind};
use tutti_options::{Unread, options};

options! {
    /// Options for a FastCGI server, such as PHP-FPM
    pub struct FastCgi: FASTCGI = "fastcgi" {
        /// Folder of the scripts as the FastCGI server sees it. Without it, paths do not name scripts, and the
        /// application gets the whole path as `PATH_INFO`
        root: Option<String> [kind(ValueKind::String(Text::Path)), beyond()],
        /// Script for a path that ends with a slash
        index: String [beyond(), default("\"index.php\""), needs(ROOT)],
        /// Script below `root` that handles every request
        script: Option<String> [beyond(), needs(ROOT)],
        /// Endings of script names. The part of the path after a script's name is `PATH_INFO`; a path without a script
        /// gets 403
        split_path: Vec<String> [kind(ValueKind::OneOf(&[ValueKind::String(Text::NotEmpty), ValueKind::Array(&ValueKind::String(Text::NotEmpty))])), beyond(), default("\".php\""), needs(ROOT)],
        /// Check that the script exists, if `root` exists on this machine, and respond 404 otherwise. Given a file that
        /// does not exist, PHP may run a parent path that does
        check_files: bool [beyond(), default("true"), needs(ROOT)],
        /// Variables to set in addition to the standard ones, or to replace them; `null` removes one
        params: Unread [kind(PARAMS), beyond()],
    }
}

options! {
    /// Options for a uWSGI server that is accessed in the uwsgi protocol
    pub struct Uwsgi: UWSGI = "uwsgi" {
        /// Variables to set in addition to the standard ones, or to replace them; `null` removes one
        params: Unread [kind(PARAMS), beyond()],
    }
}

options! {
    /// Options for an SCGI server
    pub struct Scgi: SCGI = "scgi" {
        /// Variables to set in addition to the standard ones, or to replace them; `null` removes one
        params: Unread [kind(PARAMS), beyond()],
    }
}

const ROOT: &[&str] = &["root"];

/// Variables, and `null` for one that is removed.
const PARAMS: ValueKind = ValueKind::Map(
    Names::Environment,
    &ValueKind::OneOf(&[ValueKind::String(Text::TemplateOrEmpty), ValueKind::Null]),
);
