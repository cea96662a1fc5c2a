//! CGI scripts.

use std::num::NonZeroU32;
use std::path::PathBuf;

use crate::application::{ApplicationSupport, Common, check_targets, entries};
use crate::table::{Text, ValueKind};
use crate::{Complaints, Named, Options, options, prefix};

options! {
    /// CGI scripts: each request starts a program
    pub struct CgiScripts: CGI = "cgi", beside [Common::ROWS], exactly_one ["root", "targets"] {
        ..entry: CgiTarget,
        /// Several entry points, instead of `root` and the options beside it
        targets: Option<Named<CgiTarget>> [beyond()],
    }
}

options! {
    /// An entry point of CGI scripts
    #[derive(Eq)]
    pub struct CgiTarget: CGI_TARGET = "cgi target", exactly_one ["root"] {
        /// Base folder of the scripts
        root: PathBuf [beyond()],
        /// Script below `root` that serves every request
        script: Option<String> [beyond(), needs(&["root"])],
        /// Script for a folder, if `script` is not set
        index: String [beyond(), default("\"index.cgi\""), needs(&["root"])],
        /// Endings of scripts' names: `.cgi`, `.pl`. Without it, every executable file below `root` is a script
        extensions: Vec<String> [kind(ValueKind::Array(&ValueKind::String(Text::NotEmpty))), beyond(), needs(&["root"])],
        /// URL path of `root`, like Apache's `ScriptAlias`: `SCRIPT_NAME` begins with it, files are looked up below
        /// `root` without it, and other paths get 404. Begins with a slash
        prefix: Option<String> [beyond(), needs(&["root"])],
    }
}

impl CgiTarget {
    /// The prefix without a slash at its end.
    pub fn path_prefix(&self) -> &str {
        prefix::trimmed(self.prefix.as_deref())
    }

    fn check(&self, complaints: &mut Complaints<'_>) {
        prefix::check(self.prefix.as_deref(), complaints);
        for (index, extension) in self.extensions.iter().enumerate() {
            if !extension.starts_with('.') || extension.contains('/') || extension.len() < 2 {
                complaints.value_with_hint(
                    &format!("extensions/{index}"),
                    "this is not a file extension",
                    "write it with its dot: `.cgi`",
                );
            }
        }
    }
}

impl CgiScripts {
    /// Returns the entry points with the names of their targets; an application without targets has one, whose name is
    /// empty.
    pub fn entries(&self) -> Vec<(&str, &CgiTarget)> {
        entries(self.targets.as_ref(), &self.entry)
    }
}

impl ApplicationSupport for CgiScripts {
    const HAS_VERSIONS: bool = false;
    const MAY_RUN_EVENT_LOOPS: bool = true;
    // As many scripts as processes run at once.
    const EVENT_LOOP_CONCURRENCY: Option<NonZeroU32> = Some(NonZeroU32::MIN);
    const READS_MEMORY_LIMIT: bool = true;

    fn check(&self, complaints: &mut Complaints<'_>) {
        match &self.targets {
            None => self.entry.check(complaints),
            Some(Named(targets)) => check_targets(targets, CgiTarget::check, complaints),
        }
    }

    fn targets(&self) -> Vec<&str> {
        let targets = self.targets.iter().flat_map(|Named(targets)| targets);
        targets.map(|(name, _)| name.as_str()).collect()
    }

    fn watched(&self) -> Vec<PathBuf> {
        let roots = self.entries().into_iter();
        roots.map(|(_, entry)| entry.root.clone()).collect()
    }
}
