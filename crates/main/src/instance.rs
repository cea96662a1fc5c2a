//! The server as it was started: its paths, its users, and everything it holds open for its whole life.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use tutti_log::{Level, Log};
use tutti_protocol::{ApplicationGrant, ControlAccess, LanguageModule};
use tutti_sys::credentials::Credentials;

use super::flags::ServerPaths;
use super::pid_file::PidFile;
use super::status_socket::StatusSocket;
use super::temporary;

/// Everything that is fixed once main has started.
pub(crate) struct Instance {
    pub(crate) places: ServerPaths,
    pub(crate) log: Log,
    /// The user of applications without `user`; `None` if not root.
    pub(crate) default_credentials: Option<Credentials>,
    /// The user of controller and router; `None` if not root.
    pub(crate) own_credentials: Option<Credentials>,
    pub(crate) default_user: Option<String>,
    pub(crate) modules: Vec<LanguageModule>,
    pub(crate) control: OwnedFd,
    /// The socket on which routers read the status.
    pub(crate) status: StatusSocket,
    /// Access rules of the control socket.
    pub(crate) access: ControlAccess,
    /// The folder of temporary files was created by this process.
    pub(crate) has_own_temporary_folder: bool,
    /// Runs in the background, with standard error redirected to the log.
    pub(crate) is_daemon: bool,
    /// Locked for the life of the process.
    pub(crate) state_lock: File,
    /// Locked too; `None` if a former version's file could not be locked.
    pub(crate) pid_file: Option<PidFile>,
    /// The program that an upgrade executes.
    pub(crate) program: PathBuf,
    /// The arguments of the program, beginning with its name.
    pub(crate) arguments: Vec<OsString>,
}

impl Instance {
    /// Returns the module that runs an application.
    pub(crate) fn module_of(&self, grant: &ApplicationGrant) -> io::Result<&LanguageModule> {
        let mut modules = self.modules.iter();
        let found = modules.find(|m| m.kind == grant.kind && m.version == grant.version);
        found.ok_or_else(|| {
            let text = format!("no module for `{} {}`", grant.kind, grant.version);
            io::Error::new(io::ErrorKind::NotFound, text)
        })
    }

    /// Creates the folder of temporary files again if it was removed. If that fails, the operations that need it report
    /// it.
    pub(crate) fn ensure_temporary(&self) {
        let folder = &self.places.temporary;
        match temporary::ensure(folder, self.own_credentials.as_ref()) {
            Ok(false) => {}
            Ok(true) => {
                let text = format!(
                    "the folder of temporary files `{}` was missing and has been created again; exclude it from cleanup jobs",
                    folder.display()
                );
                self.log.line(Level::Warn, &text);
            }
            Err(error) => self.log.line(Level::Alert, &error.to_string()),
        }
    }
}
