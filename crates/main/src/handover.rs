//! The handover from one version of main to the next.
//!
//! An upgrade replaces the program of the main process, not the process: its process id, its children and its
//! descriptors are kept. Their description is passed to the next program as JSON in a memory file, whose number is an
//! argument. Used at both ends of a takeover. The format is a contract between versions: see [`PROTOCOL`].

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tutti_protocol::{BindAddress, Grants, RouterCounts};
use tutti_sys::{handover, memfd, spawn};

use crate::flags::{ServerPaths, TermPace};

/// Version of this format and of the messages between main and the processes it starts for itself (2: with a
/// controller). Members may be added with a default; any other change requires a new version, to which a running server
/// cannot be upgraded.
pub(crate) const PROTOCOL: u32 = 2;

/// The hidden flag with the number of the memory file.
const FLAG: &str = "--takeover";

/// The controller, which sends the remaining responses, or continues if the next main does not succeed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct HandedController {
    pub(super) pid: i32,
    pub(super) socket: RawFd,
}

/// A router that the next main keeps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct HandedRouter {
    pub(super) pid: i32,
    pub(super) socket: RawFd,
    pub(super) is_ready: bool,
    /// The bank of its UDP sockets.
    #[serde(default)]
    pub(super) bank: u8,
    /// Its rights.
    pub(super) grants: Grants,
}

/// An application's process group.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct HandedGroup {
    pub(super) leader: i32,
    pub(super) lifeline: RawFd,
    pub(super) router: i32,
    /// The command that it runs.
    #[serde(default)]
    pub(super) command: Option<HandedCommand>,
}

/// Identifies the command that a process group runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HandedCommand {
    /// Its place in the configuration and the number of the process; `None`: it only checks the command.
    pub(super) place: Option<(String, u32)>,
    /// Milliseconds that it may take to end.
    pub(super) stop_timeout: u64,
}

/// A listening socket.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct HandedSocket {
    pub(super) place: BindAddress,
    pub(super) socket: RawFd,
    pub(super) backlog: i32,
    /// Its file; former versions do not hand it over.
    #[serde(default)]
    pub(super) file: Option<FileIdentity>,
}

/// The device and inode of a file.
pub(super) type FileIdentity = (u64, u64);

/// The purpose of UDP sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DatagramUse {
    /// The kernel selects the socket by the connection id; each generation of routers has its own bank of sockets.
    #[default]
    Quic,
    /// The kernel selects the socket by the addresses. An upgrade keeps the sockets, and the datagrams that wait there.
    Stream,
}

/// The UDP sockets of an address, in the kernel's order.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct HandedDatagrams {
    pub(super) address: SocketAddr,
    #[serde(default)]
    pub(super) purpose: DatagramUse,
    pub(super) sockets: Vec<RawFd>,
}

/// The whole handover. Descriptors are numbers of this process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Handover {
    pub(super) protocol: u32,
    /// Version of the program that wrote it.
    pub(super) version: String,
    /// Why the new program returns to the old one.
    pub(super) refusal: Option<String>,
    /// The controller's request for the upgrade, which must be answered.
    pub(super) asked: Option<u64>,
    /// Path of the program, as first started.
    pub(super) program: PathBuf,
    /// The program that wrote it, to which the new one can return.
    pub(super) previous: RawFd,
    pub(super) control: RawFd,
    pub(super) log: RawFd,
    pub(super) state_lock: RawFd,
    /// The pid file, locked.
    #[serde(default)]
    pub(super) pid_file: Option<RawFd>,
    pub(super) control_place: BindAddress,
    pub(super) pid: PathBuf,
    pub(super) log_path: Option<PathBuf>,
    pub(super) modules: PathBuf,
    pub(super) state: PathBuf,
    pub(super) temporary: PathBuf,
    /// A file or folder to be reloaded on request.
    #[serde(default)]
    pub(super) config: Option<PathBuf>,
    /// The store of the configuration.
    #[serde(default)]
    pub(super) source: Option<PathBuf>,
    /// The configuration files are reloaded when they change.
    #[serde(default)]
    pub(super) is_watching: bool,
    /// The configuration files must be reloaded after the takeover, because of this.
    #[serde(default)]
    pub(super) reload: Option<String>,
    #[serde(default)]
    pub(super) sigterm: TermPace,
    pub(super) has_own_temporary_folder: bool,
    pub(super) is_daemon: bool,
    pub(super) configuration: Option<String>,
    pub(super) files: Vec<PathBuf>,
    pub(super) sockets: Vec<HandedSocket>,
    /// The sockets of QUIC.
    #[serde(default)]
    pub(super) datagrams: Vec<HandedDatagrams>,
    /// The keys of QUIC are derived from it.
    #[serde(default)]
    pub(super) quic_secret: Vec<u8>,
    /// Opened by the service manager, in use or not.
    #[serde(default)]
    pub(super) given: Vec<HandedSocket>,
    pub(super) groups: Vec<HandedGroup>,
    /// The grants of the configuration for a router of this version.
    pub(super) grants: Grants,
    pub(super) controller: Option<HandedController>,
    pub(super) router: Option<HandedRouter>,
    pub(super) retired: Vec<HandedRouter>,
    /// Counted by routers that have ended.
    pub(super) totals: RouterCounts,
}

impl Handover {
    /// Writes it to a memory file.
    pub(super) fn document(&self) -> io::Result<OwnedFd> {
        memfd::document("tutti-takeover", &serde_json::to_vec(self)?)
    }

    /// Reads it from this descriptor.
    pub(crate) fn read(number: RawFd) -> io::Result<Handover> {
        let document = memfd::contents(spawn::inherited(number)?)?;
        let handover: Handover = serde_json::from_slice(&document)?;
        if handover.protocol == PROTOCOL {
            return Ok(handover);
        }
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "version {} cannot be upgraded to {} while it runs (handover {}, here {PROTOCOL}): stop it and start the new one",
                handover.version,
                env!("CARGO_PKG_VERSION"),
                handover.protocol
            ),
        ))
    }

    pub(super) fn places(&self) -> ServerPaths {
        ServerPaths {
            control: self.control_place.clone().into(),
            pid: self.pid.clone(),
            log: self.log_path.clone(),
            modules: self.modules.clone(),
            state: self.state.clone(),
            temporary: self.temporary.clone(),
            config: self.config.clone(),
            // Only for starts, not for upgrades.
            is_lenient: false,
            is_watching: self.is_watching,
            sigterm: self.sigterm,
            source: self.source.clone(),
        }
    }

    fn descriptors(&self) -> Vec<RawFd> {
        let mut all = vec![self.previous, self.control, self.log, self.state_lock];
        all.extend(self.pid_file);
        all.extend(self.sockets.iter().chain(&self.given).map(|s| s.socket));
        all.extend(
            self.datagrams
                .iter()
                .flat_map(|of_address| &of_address.sockets),
        );
        all.extend(self.groups.iter().map(|g| g.lifeline));
        all.extend(self.controller.iter().map(|c| c.socket));
        all.extend(self.router.iter().chain(&self.retired).map(|r| r.socket));
        all
    }

    /// Replaces this program with `program`, which takes over. Returns only if that fails; then nothing has changed.
    pub(super) fn become_program(
        &self,
        program: &std::path::Path,
        arguments: &[OsString],
    ) -> io::Error {
        let document = match self.document() {
            Ok(document) => document,
            Err(error) => return error,
        };
        let mut all = self.descriptors();
        all.push(document.as_raw_fd());
        let set_kept = |stays: bool| {
            all.iter()
                .try_for_each(|&number| handover::keep_number(number, stays))
        };
        let done = set_kept(true).and_then(|()| {
            let mut words = plain_arguments(arguments);
            words.push(format!("{FLAG}={}", document.as_raw_fd()).into());
            handover::become_program(program, &words)
        });
        let _ = set_kept(false);
        match done {
            Err(error) => error,
            Ok(never) => match never {},
        }
    }
}

/// Returns the arguments as the user gave them.
pub(super) fn plain_arguments(arguments: &[OsString]) -> Vec<OsString> {
    let is_own = |word: &OsString| word.to_string_lossy().starts_with(FLAG);
    arguments
        .iter()
        .filter(|word| !is_own(word))
        .cloned()
        .collect()
}
