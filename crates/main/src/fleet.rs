//! The source process, its requests that the controller is processing, and the files of the source, which main reads.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;
use std::time::Instant;

use tutti_log::Log;
use tutti_options::source::LiveNodes;
use tutti_protocol::{FromFleet, SourcePlan, SourceSecrets};
use tutti_sys::error::context;

use super::certificate_files::{self, Keys};
use super::control_access::is_secret;
use super::own_process::OwnProcess;
use super::restarts::Restarts;

/// Longest password, and longest file with keys.
const LONGEST_PASSWORD: u64 = 4096;

/// The state of the source.
#[derive(Default)]
pub(super) struct Fleet {
    /// The source; `None`: there is no process.
    pub(super) plan: Option<Box<SourcePlan>>,
    pub(super) process: Option<OwnProcess<FromFleet>>,
    pub(super) restarts: Restarts,
    /// Requests that the controller is processing, each with the number of routers that had ended before.
    pub(super) asked: BTreeMap<u64, u64>,
    /// The nodes of the fleet, including this one.
    pub(super) nodes: Nodes,
    /// Requests of the acme process that the source process is handling: its request ids, by main's.
    pub(super) shared: BTreeMap<u64, u64>,
    pub(super) last_shared: u64,
}

impl Fleet {
    pub(super) fn process(&self) -> Option<&OwnProcess<FromFleet>> {
        self.process.as_ref()
    }

    /// True if the fleet shares automatic certificates.
    pub(super) fn is_sharing(&self) -> bool {
        let plan = self.plan.as_ref();
        plan.is_some_and(|plan| plan.secret_file.is_some())
    }

    /// Returns when the next task is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let ending = self.process.as_ref().and_then(OwnProcess::end_deadline);
        let dues = [self.restarts.deadline(), self.nodes.deadline(), ending];
        dues.into_iter().flatten().min()
    }

    /// Kills the process, which is restarted if it is needed.
    pub(super) fn kill(&mut self) {
        self.asked.clear();
        self.restarts.cancel();
        if let Some(process) = self.process.take() {
            process.kill();
        }
    }
}

/// Main's knowledge of the nodes, including this one.
#[derive(Default)]
pub(super) struct Nodes {
    pub(super) known: LiveNodes,
    /// A router needs them.
    pub(super) is_followed: bool,
    /// The controller has reported the source, or that there is none.
    pub(super) is_planned: bool,
    /// This node leaves the fleet before it stops, at the latest at this time.
    pub(super) leaving: Option<Instant>,
    pub(super) has_left: bool,
}

impl Nodes {
    /// Returns when the stop begins even if other nodes have not been notified.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.leaving
    }

    /// True while a stop waits for other nodes to be notified.
    pub(super) fn is_leaving(&self) -> bool {
        self.leaving.is_some()
    }
}

/// Reads the files of a source.
pub(super) fn secrets(plan: &SourcePlan, keys: &mut Keys, log: &Log) -> io::Result<SourceSecrets> {
    let mut pem = |path: &Path| certificate_files::read(None, path, None, (&mut *keys, log));
    let etcd = &plan.etcd;
    let identity = etcd.identity.as_ref();
    Ok(SourceSecrets {
        password: etcd
            .password_file
            .as_deref()
            .map(read_password)
            .transpose()?,
        ca: etcd.ca.as_deref().map(&mut pem).transpose()?,
        identity: identity
            .map(|(chain, key)| Ok::<_, io::Error>((pem(chain)?, pem(key)?)))
            .transpose()?,
        secret: plan
            .secret_file
            .as_deref()
            .map(|path| read_secret_file(path).map_err(|error| error.to_string())),
    })
}

/// Reads the password in a file that belongs to this user or to root, and that no other user can read.
///
/// # Errors
/// It cannot be read, other users can read it, or it is not a single line.
pub fn read_password(path: &Path) -> io::Result<String> {
    let text = read_secret("password", path)?;
    let password = text.trim_end_matches(['\n', '\r']);
    match password.is_empty() || password.contains(char::is_control) {
        true => Err(invalid("password", path, "is not one line")),
        false => Ok(password.to_owned()),
    }
}

/// Reads a file with keys of a fleet, which no other user may be able to read, like [`read_password`].
pub fn read_secret_file(path: &Path) -> io::Result<String> {
    read_secret("secret", path)
}

fn invalid(what: &str, path: &Path, why: &str) -> io::Error {
    let message = format!("the {what} in `{}` {why}", path.display());
    io::Error::new(io::ErrorKind::InvalidData, message)
}

fn read_secret(what: &str, path: &Path) -> io::Result<String> {
    let named = |error| context(format!("reading the {what} in `{}`", path.display()), error);
    let (file, about) = tutti_sys::file::open_ordinary(path).map_err(named)?;
    if !is_secret(&about) {
        let why =
            "is not secret: other users can read or change it; `chown root` and `chmod 600` it";
        return Err(invalid(what, path, why));
    }
    let mut text = String::new();
    file.take(LONGEST_PASSWORD)
        .read_to_string(&mut text)
        .map_err(named)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_password_is_one_line_that_only_its_owner_reads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let write = |text: &str, mode| {
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            read_password(&path)
        };
        assert_eq!(write("pass word\n", 0o600).unwrap(), "pass word");
        let open = write("secret\n", 0o644).unwrap_err().to_string();
        assert!(
            open.contains("not secret") && !open.contains("secret\n"),
            "{open}"
        );
        for wrong in ["", "\n", "a\nb\n"] {
            assert!(write(wrong, 0o600).is_err(), "{wrong:?}");
        }
        assert!(read_password(folder.path()).is_err());
        // Keys of a fleet have the same protection, and several lines.
        write("a\nb\n", 0o600).unwrap_err();
        assert_eq!(read_secret_file(&path).unwrap(), "a\nb\n");
        write("a\nb\n", 0o640).unwrap_err();
        assert!(
            read_secret_file(&path)
                .unwrap_err()
                .to_string()
                .contains("not secret")
        );
    }
}
