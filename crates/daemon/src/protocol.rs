//! The messages between main and router, and how they travel.
//!
//! One message is one SEQPACKET packet of JSON with the descriptors it speaks of. What is longer than
//! [`seqpacket::MAX_MESSAGE`] (a whole configuration) travels in a sealed memory file that comes as the first
//! descriptor. Main believes nothing beyond what the message types allow: every path, number and name in a
//! [`ToMain`] is checked against what main knows itself.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tutti_sys::listen::Endpoint;
use tutti_sys::process::Ended;
use tutti_sys::{memfd, seqpacket};

/// Longest message in a memory file: a configuration of this size is refused before it is parsed.
const MAX_LARGE_MESSAGE: u64 = 256 * 1024 * 1024;

/// Descriptor of the message socket in the router.
pub(crate) const ROUTER_SOCKET: i32 = 3;

/// What the router's argument zero is; it also tells the program which role to take.
pub(crate) const ROUTER_TITLE: &str = "tutti: router";

/// A language host found in the modules directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Module {
    /// `php`, `python`, …
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// Full version of the language.
    pub(crate) version: String,
    /// The executable.
    #[serde(default)]
    pub(crate) path: PathBuf,
    /// Files and folders that it needs in another root.
    #[serde(default)]
    pub(crate) dependencies: Vec<PathBuf>,
}

/// What separates an application, as it travels: `isolation` of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Isolation {
    pub(crate) namespaces: Namespaces,
    pub(crate) rootfs: Option<PathBuf>,
    pub(crate) automount: Automount,
    pub(crate) cgroup: Option<PathBuf>,
    pub(crate) uidmap: Vec<IdMap>,
    pub(crate) gidmap: Vec<IdMap>,
    pub(crate) new_privs: bool,
}

/// `isolation.namespaces`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Namespaces {
    pub(crate) cgroup: bool,
    pub(crate) credential: bool,
    pub(crate) ipc: bool,
    pub(crate) mount: bool,
    pub(crate) network: bool,
    pub(crate) pid: bool,
    pub(crate) time: bool,
    pub(crate) uname: bool,
}

/// `isolation.automount`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Automount {
    pub(crate) language_deps: bool,
    pub(crate) procfs: bool,
    pub(crate) tmpfs: bool,
}

/// One of `isolation.uidmap` and `isolation.gidmap`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct IdMap {
    pub(crate) container: u32,
    pub(crate) host: u32,
    pub(crate) size: u32,
}

/// A place to listen at, as it travels.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Place {
    /// Address and port.
    Inet(SocketAddr),
    /// A socket file.
    Path(PathBuf),
    /// A name in the kernel's own space.
    Abstract(String),
}

impl From<&Endpoint> for Place {
    fn from(endpoint: &Endpoint) -> Place {
        match endpoint {
            Endpoint::Inet(address) => Place::Inet(*address),
            Endpoint::Path(path) => Place::Path(path.clone()),
            Endpoint::Abstract(name) => Place::Abstract(String::from_utf8_lossy(name).into_owned()),
        }
    }
}

/// What a router has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Totals {
    pub(crate) accepted: u64,
    pub(crate) active: u64,
    pub(crate) idle: u64,
    pub(crate) closed: u64,
    pub(crate) requests: u64,
}

impl std::ops::Add for Totals {
    type Output = Totals;

    fn add(self, other: Totals) -> Totals {
        Totals {
            accepted: self.accepted + other.accepted,
            active: self.active + other.active,
            idle: self.idle + other.idle,
            closed: self.closed + other.closed,
            requests: self.requests + other.requests,
        }
    }
}

impl From<Place> for Endpoint {
    fn from(place: Place) -> Endpoint {
        match place {
            Place::Inet(address) => Endpoint::Inet(address),
            Place::Path(path) => Endpoint::Path(path),
            Place::Abstract(name) => Endpoint::Abstract(name.into_bytes()),
        }
    }
}

/// How a process ended, as it travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    /// Exit code.
    Code(i32),
    /// Signal.
    Signal(i32),
}

impl From<Ended> for Status {
    fn from(ended: Ended) -> Status {
        match ended {
            Ended::Code(code) => Status::Code(code),
            Ended::Signal(signal, _) => Status::Signal(signal),
        }
    }
}

/// The first message a router gets.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Hello {
    /// Language hosts.
    pub(crate) modules: Vec<Module>,
    /// Folder of spool files.
    pub(crate) tmpdir: PathBuf,
    /// The configuration to begin with; `None` for a first start.
    pub(crate) configuration: Option<String>,
    /// A router before this one has served it already: failing to apply it again is no reason to drop it.
    pub(crate) is_restart: bool,
    /// Name of the user applications run as unless they say otherwise.
    pub(crate) default_user: Option<String>,
    /// Certificate bundles, by name.
    #[serde(default)]
    pub(crate) certificates: BTreeMap<String, String>,
    /// Script modules, by name.
    #[serde(default)]
    pub(crate) js_modules: BTreeMap<String, String>,
    /// The configuration files or why they cannot be read: at a first start they come before what is stored.
    #[serde(default)]
    pub(crate) files: Option<Result<Vec<ConfigFile>, String>>,
    /// Another router serves until this one does: failing to apply the configuration is told, and nothing else done.
    #[serde(default)]
    pub(crate) is_upgrade: bool,
}

/// What is stored beside the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Store {
    /// Certificate bundles.
    Certificates,
    /// Script modules.
    JsModules,
}

impl From<tutti_control::Store> for Store {
    fn from(store: tutti_control::Store) -> Store {
        match store {
            tutti_control::Store::Certificates => Store::Certificates,
            tutti_control::Store::JsModules => Store::JsModules,
        }
    }
}

/// A configuration file as main has read it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct ConfigFile {
    /// As the person would write it.
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Who made a change, and which: for the history.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cause {
    pub(crate) by: String,
    pub(crate) change: String,
}

/// From main to the router.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum ToRouter {
    /// Comes first. Descriptors: the control socket, the log.
    Hello(Box<Hello>),
    /// A request succeeded. Descriptors: what was asked for.
    Done {
        /// Of the request.
        id: u64,
        /// Of the process started.
        pid: Option<i32>,
    },
    /// A request failed.
    Failed {
        /// Of the request.
        id: u64,
        /// What went wrong.
        message: String,
        /// What to do about it.
        hint: Option<String>,
        /// Which option of the application it is about: `isolation/rootfs`.
        #[serde(default)]
        option: Option<String>,
    },
    /// The daemon's log was reopened. Descriptor: the log.
    LogReopened,
    /// Another log was reopened. Descriptor: the file.
    FileReopened {
        /// As it was asked for.
        path: PathBuf,
    },
    /// A process that belonged to an application has ended.
    Exited {
        /// Its number.
        pid: i32,
        /// How.
        status: Status,
    },
    /// Finish the change of configuration under way, take no other, answer no new control connection; then say
    /// [`ToMain::Frozen`].
    Freeze,
    /// Take changes again.
    Thaw,
    /// Read the configuration files again.
    Reload,
    /// Another router serves: accept nothing more, answer what has begun, end.
    Retire,
    /// What other routers have counted.
    Totals {
        /// All of them together.
        totals: Totals,
    },
    /// End.
    Stop {
        /// Answer what has begun first.
        is_graceful: bool,
    },
}

/// From the router to main.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum ToMain {
    /// Give a listening socket; answered with one descriptor.
    Listen {
        /// Of the request.
        id: u64,
        /// Where.
        place: Place,
        /// Longest queue.
        backlog: i32,
    },
    /// Close main's copy of a listening socket.
    Unlisten {
        /// Where.
        place: Place,
    },
    /// Open a log for append, and again whenever logs are reopened; answered with one descriptor.
    OpenFile {
        /// Of the request.
        id: u64,
        /// Which.
        path: PathBuf,
    },
    /// Make a file without a name for request bodies; answered with two descriptors, for writing and for reading only.
    OpenSpool {
        /// Of the request.
        id: u64,
        /// Where.
        folder: PathBuf,
    },
    /// Do not reopen this log any more.
    CloseFile {
        /// Which.
        path: PathBuf,
    },
    /// Start a prototype; answered with its process number. Descriptors: control, segment, spool, start document,
    /// output, one event per thread.
    Start {
        /// Of the request.
        id: u64,
        /// The application's name, for the title and messages.
        name: String,
        /// Language, to be found among the modules.
        kind: String,
        /// Version of the module.
        version: String,
        /// User to become.
        user: Option<String>,
        /// Group to become.
        group: Option<String>,
        /// What to put around it.
        #[serde(default)]
        isolation: Option<Box<Isolation>>,
        /// It may give way to those that serve: `Settle` follows when it is ready.
        #[serde(default)]
        may_give_way: bool,
    },
    /// This prototype is ready and need not give way any more.
    Settle {
        /// Of the request.
        id: u64,
        /// Its number.
        pid: i32,
    },
    /// Send a signal to a process of an application.
    Kill {
        /// Its number.
        pid: i32,
        /// Which signal.
        signal: i32,
    },
    /// Store the configuration for the next start.
    Store {
        /// Of the request.
        id: u64,
        /// The text.
        configuration: String,
        /// What the history tells of it.
        #[serde(default)]
        cause: Cause,
    },
    /// Read the configuration files; answered with a memory file of [`ConfigFile`]s.
    ReadFiles {
        /// Of the request.
        id: u64,
    },
    /// Tell the last changes; answered with a memory file of JSON.
    History {
        /// Of the request.
        id: u64,
    },
    /// Give the configuration after a change; answered with a file, or none if it is not kept.
    Past {
        /// Of the request.
        id: u64,
        /// Of the change.
        number: u64,
    },
    /// Keep something beside the configuration for the next start.
    Keep {
        /// Of the request.
        id: u64,
        /// What it is.
        store: Store,
        /// Its name.
        name: String,
        /// Its text.
        text: String,
    },
    /// Do not keep it any more.
    Discard {
        /// Of the request.
        id: u64,
        /// What it is.
        store: Store,
        /// Its name.
        name: String,
    },
    /// Move the stored configuration, which cannot be read, out of the way.
    SetAside,
    /// The control socket is being answered.
    Ready,
    /// Put the program that is at this one's path now in its place; answered when it serves.
    Upgrade {
        /// Of the request.
        id: u64,
    },
    /// No change is under way, and none will be.
    Frozen,
    /// The configuration cannot be applied, while another router serves it.
    Unfit {
        /// Why.
        message: String,
    },
    /// What this router has counted, as it retires.
    Totals {
        /// Its own.
        totals: Totals,
    },
}

/// An encoded message and the descriptors to send with it.
#[derive(Debug)]
pub(crate) struct Packet {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

impl Packet {
    /// Encodes a message.
    pub(crate) fn new<T: Serialize>(message: &T, descriptors: Vec<OwnedFd>) -> io::Result<Packet> {
        let bytes = serde_json::to_vec(message)?;
        if bytes.len() <= seqpacket::MAX_MESSAGE {
            return Ok(Packet { bytes, descriptors });
        }
        let mut all = vec![memfd::document("tutti-message", &bytes)?];
        all.extend(descriptors);
        Ok(Packet {
            bytes: vec![LARGE],
            descriptors: all,
        })
    }

    /// Sends it; `WouldBlock` means not a byte was sent.
    pub(crate) fn send(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let descriptors: Vec<BorrowedFd<'_>> = self.descriptors.iter().map(AsFd::as_fd).collect();
        seqpacket::send(socket, &self.bytes, &descriptors)
    }
}

/// A packet of this one byte: the message is in the first descriptor. JSON cannot begin with it.
const LARGE: u8 = 0;

/// Receives one message; `None` when the other side has gone.
pub(crate) fn receive<T: DeserializeOwned>(
    socket: BorrowedFd<'_>,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut buffer = vec![0; seqpacket::MAX_MESSAGE];
    let Some(received) = seqpacket::receive(socket, &mut buffer)? else {
        return Ok(None);
    };
    let bytes = buffer.get(..received.len).unwrap_or_default();
    if bytes != [LARGE] {
        return Ok(Some((serde_json::from_slice(bytes)?, received.descriptors)));
    }
    let mut descriptors = received.descriptors.into_iter();
    let file = descriptors.next().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "large message without its memory file",
        )
    })?;
    let text = read_large(file)?;
    Ok(Some((
        serde_json::from_slice(&text)?,
        descriptors.collect(),
    )))
}

/// The whole content of a memory file.
pub(crate) fn read_large(file: OwnedFd) -> io::Result<Vec<u8>> {
    if !memfd::is_sealed(&file) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "large message in an unsealed file",
        ));
    }
    let mut file = std::fs::File::from(file);
    // The sender's handle shares the position with ours.
    file.rewind()?;
    let mut text = Vec::new();
    file.take(MAX_LARGE_MESSAGE).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_messages_arrive_with_their_descriptors() {
        let (a, b) = seqpacket::pair().unwrap();
        for size in [10, 3_000_000] {
            let text = "x".repeat(size);
            let (_, extra) = io::pipe().unwrap();
            let message = ToMain::Store {
                id: 7,
                configuration: text.clone(),
                cause: Cause::default(),
            };
            Packet::new(&message, vec![extra.into()])
                .unwrap()
                .send(a.as_fd())
                .unwrap();
            let (message, descriptors) = receive::<ToMain>(b.as_fd()).unwrap().unwrap();
            assert!(
                matches!(message, ToMain::Store { id: 7, configuration, .. } if configuration == text)
            );
            assert_eq!(descriptors.len(), 1);
        }
        drop(a);
        assert!(receive::<ToMain>(b.as_fd()).unwrap().is_none());
    }

    #[test]
    fn nonsense_is_an_error() {
        let (a, b) = seqpacket::pair().unwrap();
        seqpacket::send(a.as_fd(), b"{\"do\":\"reboot\"}", &[]).unwrap();
        assert!(receive::<ToMain>(b.as_fd()).is_err());
        seqpacket::send(a.as_fd(), &[LARGE], &[]).unwrap();
        assert!(receive::<ToMain>(b.as_fd()).is_err());
    }
}
