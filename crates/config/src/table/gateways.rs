//! Options of FastCGI, uwsgi and SCGI.

use tutti_options::table::{Names, Text, ValueKind};
use tutti_options::{Unread, options};

options! {
    /// How to talk to a FastCGI server: PHP-FPM and others
    pub struct FastCgi: FASTCGI = "fastcgi" {
        /// Folder of the scripts, as the server sees it. Without it the application is no collection of scripts, and
        /// gets the whole path as `PATH_INFO`
        root: Option<String> [kind(ValueKind::String(Text::Path)), beyond()],
        /// Script for a path that ends with a slash
        index: String [beyond(), default("\"index.php\""), needs(ROOT)],
        /// Script below `root` that gets every request
        script: Option<String> [beyond(), needs(ROOT)],
        /// The endings of scripts' names. The rest of the path behind one is `PATH_INFO`; a path without such a name is
        /// answered 403
        split_path: Vec<String> [kind(ValueKind::OneOf(&[ValueKind::String(Text::NotEmpty), ValueKind::Array(&ValueKind::String(Text::NotEmpty))])), beyond(), default("\".php\""), needs(ROOT)],
        /// Look whether the script is there, where `root` can be seen from here; else 404. PHP, told a name that is no
        /// file, would run the nearest file above it
        check_files: bool [beyond(), default("true"), needs(ROOT)],
        /// Variables to set beside or in place of the usual ones; `null` leaves one out
        params: Unread [kind(PARAMS), beyond()],
    }
}

options! {
    /// How to talk to uWSGI in its own protocol
    pub struct Uwsgi: UWSGI = "uwsgi" {
        /// Variables to set beside or in place of the usual ones; `null` leaves one out
        params: Unread [kind(PARAMS), beyond()],
    }
}

options! {
    /// How to talk to an SCGI server
    pub struct Scgi: SCGI = "scgi" {
        /// Variables to set beside or in place of the usual ones; `null` leaves one out
        params: Unread [kind(PARAMS), beyond()],
    }
}

const ROOT: &[&str] = &["root"];

/// Variables, and `null` for one that is left out.
const PARAMS: ValueKind = ValueKind::Map(
    Names::Environment,
    &ValueKind::OneOf(&[ValueKind::String(Text::TemplateOrEmpty), ValueKind::Null]),
);
