//! An application, as its workers start with it.

use std::ffi::OsString;
use std::path::PathBuf;

use tutti_options::cgi::CgiScripts;
use tutti_worker::{Common, StartError};

use crate::process::Running;
use crate::scripts::Target;

/// An application, as its workers start with it.
#[derive(Debug)]
pub(crate) struct Application {
    pub(crate) targets: Vec<Target>,
    /// The option: all of the environment that is not the request's, beside `PATH`.
    pub(crate) environment: Vec<(String, String)>,
    /// `PATH`.
    pub(crate) path: OsString,
    /// The option: where scripts run, in place of their own folders.
    pub(crate) working_directory: Option<PathBuf>,
    /// Resident bytes beyond which a script is killed.
    pub(crate) memory_max: Option<u64>,
    pub(crate) running: Running,
}

/// The `PATH` of scripts where the server has none: that of login shells (Debian's `/etc/profile`).
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

impl Application {
    /// Checks the folders and scripts.
    ///
    /// # Errors
    /// They cannot be used.
    pub(crate) fn new(configured: &CgiScripts, common: &Common) -> Result<Self, StartError> {
        let targets = configured.entries().into_iter();
        let targets = targets.map(|(name, target)| Target::new(name, target));
        let folder = common.working_directory.clone();
        Ok(Self {
            targets: targets.collect::<Result<_, _>>()?,
            environment: common.environment.clone().into_iter().collect(),
            path: std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into()),
            working_directory: folder.filter(|folder| !folder.as_os_str().is_empty()),
            memory_max: common.limits.kill_above(),
            running: Running::default(),
        })
    }
}
