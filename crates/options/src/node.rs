//! Node.js.

use std::path::PathBuf;

use crate::application::{ApplicationSupport, Common, with_folder};
use crate::table::{Text, ValueKind};
use crate::{Options, options};

options! {
    /// A Node.js application: a script that listens with `http`
    pub struct Node: NODE = "node", beside [Common::ROWS] {
        /// The script that `node` runs, absolute or relative to `working_directory`
        script: PathBuf [required(), beyond()],
        /// Its arguments
        arguments: Vec<String> [kind(ValueKind::Array(&ValueKind::String(Text::Argument))), beyond()],
        /// The `node` that runs it: a path, or a name that is looked up in the application's `PATH`
        runtime: PathBuf [beyond(), default("\"node\"")],
    }
}

impl ApplicationSupport for Node {
    const HAS_VERSIONS: bool = false;
    const MAY_RUN_EVENT_LOOPS: bool = true;

    fn watched(&self) -> Vec<PathBuf> {
        with_folder(&self.script)
    }

    fn is_relayed(&self) -> bool {
        true
    }
}
