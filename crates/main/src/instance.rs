//! The server as it was started: its places, its users, and what it holds open for its whole life.

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

/// Everything that main knows once it has started, for good.
pub(crate) struct Instance {
    pub(crate) places: ServerPaths,
    pub(crate) log: Log,
    /// Whom applications run as that name nobody; `None` when not root.
    pub(crate) default_credentials: Option<Credentials>,
    /// Whom controller and router run as; `None` when not root.
    pub(crate) own_credentials: Option<Credentials>,
    pub(crate) default_user: Option<String>,
    pub(crate) modules: Vec<LanguageModule>,
    pub(crate) control: OwnedFd,
    /// The one at which routers read the status.
    pub(crate) status: StatusSocket,
    /// Who may use the control socket.
    pub(crate) access: ControlAccess,
    /// The folder of temporary files was made by this process.
    pub(crate) has_own_temporary_folder: bool,
    /// In the background, with standard error going to the log.
    pub(crate) is_daemon: bool,
    /// Held locked for the life of the process.
    pub(crate) state_lock: File,
    /// As well; `None` where a former version's could not be locked.
    pub(crate) pid_file: Option<PidFile>,
    /// The program that an upgrade runs.
    pub(crate) program: PathBuf,
    /// As the program was called, its name first.
    pub(crate) arguments: Vec<OsString>,
}

impl Instance {
    /// The module that runs an application.
    pub(crate) fn module_of(&self, grant: &ApplicationGrant) -> io::Result<&LanguageModule> {
        let mut modules = self.modules.iter();
        let found = modules.find(|m| m.kind == grant.kind && m.version == grant.version);
        found.ok_or_else(|| {
            let text = format!("no module for `{} {}`", grant.kind, grant.version);
            io::Error::new(io::ErrorKind::NotFound, text)
        })
    }

    /// Makes the folder of temporary files anew if somebody has removed it. Where that fails, what needs it says so.
    pub(crate) fn ensure_temporary(&self) {
        let folder = &self.places.temporary;
        match temporary::ensure(folder, self.own_credentials.as_ref()) {
            Ok(false) => {}
            Ok(true) => {
                let text = format!(
                    "the folder of temporary files `{}` was gone and has been made anew; keep cleaners away from it",
                    folder.display()
                );
                self.log.line(Level::Warn, &text);
            }
            Err(error) => self.log.line(Level::Alert, &error.to_string()),
        }
    }
}
