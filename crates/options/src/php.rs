//! PHP.

use std::path::PathBuf;

use crate::application::{ApplicationSupport, Common, check_targets, entries};
use crate::table::{Names, Text, ValueKind};
use crate::{Complaints, Named, Options, options, prefix, words};

options! {
    /// A PHP application
    pub struct Php: PHP = "php", beside [Common::ROWS], exactly_one ["root", "targets"] {
        ..entry: PhpTarget,
        /// Several entry points, instead of `root`, `script` and `index`
        targets: Option<Named<PhpTarget>> [],
        /// `classic`: run the script anew for every request; `resident`: `script` boots once in each process and loops
        /// on `tutti_handle_request()`
        mode: Mode [beyond(), default("\"classic\"")],
        /// php.ini and directives
        options: PhpIni [],
    }
}

options! {
    /// An entry point of a PHP application
    #[derive(Eq)]
    pub struct PhpTarget: PHP_TARGET = "php target", exactly_one ["root"] {
        /// Base folder of the scripts
        root: PathBuf [],
        /// Script below `root` that serves every request
        script: Option<String> [needs(&["root"])],
        /// Script for a folder, if `script` is not set
        index: String [default("\"index.php\""), needs(&["root"])],
        /// URL path of `root`, like Apache's `Alias`: `SCRIPT_NAME` begins with it, files are looked up below `root`
        /// without it, and other paths get 404. Begins with a slash
        prefix: Option<String> [beyond(), needs(&["root"])],
    }
}

options! {
    /// php.ini and directives. Values are strings; flags are `"0"` and `"1"`
    #[derive(Eq)]
    pub struct PhpIni: PHP_INI = "php options" {
        /// php.ini
        file: Option<PathBuf> [],
        /// Directives that scripts cannot change
        admin: Named<String> [kind(ValueKind::Map(Names::NotEmpty, &ValueKind::String(Text::Argument)))],
        /// Directives that scripts can change
        user: Named<String> [kind(ValueKind::Map(Names::NotEmpty, &ValueKind::String(Text::Argument)))],
    }
}

words! {
    /// The way in which a script receives its requests.
    pub enum Mode {
        /// It runs anew for each request.
        Classic = "classic",
        /// It boots once and fetches requests in a loop.
        Resident = "resident",
    }
}

impl PhpTarget {
    /// The prefix without a slash at its end.
    pub fn path_prefix(&self) -> &str {
        prefix::trimmed(self.prefix.as_deref())
    }

    fn check(&self, complaints: &mut Complaints<'_>) {
        prefix::check(self.prefix.as_deref(), complaints);
    }
}

impl Php {
    /// Returns the entry points with the names of their targets; an application without targets has one, whose name is
    /// empty.
    pub fn entries(&self) -> Vec<(&str, &PhpTarget)> {
        entries(self.targets.as_ref(), &self.entry)
    }
}

impl ApplicationSupport for Php {
    const HAS_VERSIONS: bool = true;

    fn check(&self, complaints: &mut Complaints<'_>) {
        match &self.targets {
            None => self.entry.check(complaints),
            Some(Named(targets)) => check_targets(targets, PhpTarget::check, complaints),
        }
        // A resident process has booted one script, which answers every request.
        if self.mode == Mode::Resident {
            if self.targets.is_some() {
                complaints.value(
                    Self::mode.name,
                    "`resident` cannot be combined with `targets`: each script needs an application of its own",
                );
            } else if self.entry.script.is_none() {
                complaints.value(
                    Self::mode.name,
                    "`resident` needs `script`, the one that loops on `tutti_handle_request()`",
                );
            }
        }
    }

    fn targets(&self) -> Vec<&str> {
        let targets = self.targets.iter().flat_map(|Named(targets)| targets);
        targets.map(|(name, _)| name.as_str()).collect()
    }

    fn watched(&self) -> Vec<PathBuf> {
        let roots = self.entries().into_iter();
        let roots = roots.map(|(_, entry)| entry.root.clone());
        roots.chain(self.options.file.clone()).collect()
    }
}
