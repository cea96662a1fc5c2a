//! The messages between main and the processes that it starts for itself: the controller and the routers.
//!
//! Each kind of process has a line of its own and message types of its own, so that main's code cannot take what a router says
//! for what the controller says: [`FromController`] may change what the server does, [`FromRouter`] may ask for what serving needs
//! within the [`Grants`] that the controller has computed.
//!
//! | Module | holds |
//! |---|---|
//! | `controller` | what main and the controller say to each other |
//! | `router` | what main and a router say to each other |
//! | `grants` | what a configuration lets a router have |
//! | `packet` | how a message travels |

mod controller;
mod grants;
mod packet;
mod router;

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tutti_config::{Diagnostic, Diagnostics, FaultKind, Pointer};
use tutti_sys::listen::Endpoint;
use tutti_sys::process::Ended;

pub(crate) use controller::{ControllerHello, FromController, Reason, ToController};
pub(crate) use grants::{ApplicationGrant, Grants, PlaceGrant};
pub(crate) use packet::{LONGEST, LONGEST_OF_ROUTER, Packet, read_large, receive};
pub(crate) use router::{FromRouter, RouterHello, ToRouter, Told};

/// Descriptor of the message socket in the controller and in a router.
pub(crate) const LINE: i32 = 3;

/// What the router's argument zero is; it also tells the program which role to take.
pub(crate) const ROUTER_TITLE: &str = "tutti: router";

/// The same of the controller.
pub(crate) const CONTROLLER_TITLE: &str = "tutti: controller";

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
    /// What of these it cannot be started without: its loader and libraries.
    #[serde(default)]
    pub(crate) libraries: Vec<PathBuf>,
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

    /// Saturates: a router in wrong hands may say any number.
    fn add(self, other: Totals) -> Totals {
        Totals {
            accepted: self.accepted.saturating_add(other.accepted),
            active: self.active.saturating_add(other.active),
            idle: self.idle.saturating_add(other.idle),
            closed: self.closed.saturating_add(other.closed),
            requests: self.requests.saturating_add(other.requests),
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

impl From<tutti_control::Cause> for Cause {
    fn from(cause: tutti_control::Cause) -> Cause {
        Cause {
            by: cause.by,
            change: cause.change,
        }
    }
}

/// What is to become of the configuration or of what is stored beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum Change {
    /// This text is to be the configuration.
    Configuration {
        /// The whole of it.
        text: String,
    },
    /// Something is stored under this name, in the place of what had it.
    Keep {
        /// What it is.
        store: Store,
        /// Its name.
        name: String,
        /// Its text.
        text: String,
    },
    /// What has this name is stored no longer.
    Discard {
        /// What it is.
        store: Store,
        /// Its name.
        name: String,
    },
}

/// What the controller wants to know of the router, or have done by it, that changes no configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub(crate) enum Question {
    /// The content of `/status`; answered with a memory file of JSON.
    Status,
    /// Replace the processes of an application.
    Restart {
        /// Its name.
        application: String,
    },
}

/// A fault as it travels: text only, to be rebuilt by who tells it to a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Fault {
    /// It was not the machine's: the configuration is at fault.
    is_invalid: bool,
    pointer: String,
    message: String,
    value: Option<String>,
    expected: Option<String>,
    suggestion: Option<String>,
}

/// Faults of one answer that are passed on.
const MOST_FAULTS: usize = 100;

/// Characters of one part of a fault that are passed on. An application's last words are shorter.
const LONGEST_WORDS: usize = 64 * 1024;

impl Fault {
    /// Faults as they travel, bounded in number and length.
    pub(crate) fn list(faults: &Diagnostics) -> Vec<Fault> {
        let faults = faults.0.iter().take(MOST_FAULTS);
        faults.map(Fault::from).collect()
    }

    /// Rebuilds faults that have come over a line, bounded again: the sender may be in wrong hands.
    pub(crate) fn diagnostics(faults: Vec<Fault>) -> Diagnostics {
        let faults = faults.into_iter().take(MOST_FAULTS);
        Diagnostics(faults.map(Diagnostic::from).collect())
    }
}

impl From<&Diagnostic> for Fault {
    fn from(fault: &Diagnostic) -> Fault {
        Fault {
            is_invalid: fault.kind != FaultKind::Apply,
            pointer: fault.pointer.as_str().to_owned(),
            message: fault.message.clone(),
            value: fault.value.clone(),
            expected: fault.expected.clone(),
            suggestion: fault.suggestion.clone(),
        }
    }
}

impl From<Fault> for Diagnostic {
    fn from(fault: Fault) -> Diagnostic {
        let short = |text: String| match text.char_indices().nth(LONGEST_WORDS) {
            Some((end, _)) => text.get(..end).unwrap_or_default().to_owned(),
            None => text,
        };
        let mut diagnostic =
            Diagnostic::new(Pointer::from_escaped(&fault.pointer), short(fault.message));
        if !fault.is_invalid {
            diagnostic.kind = FaultKind::Apply;
        }
        diagnostic.value = fault.value.map(short);
        diagnostic.expected = fault.expected.map(short);
        diagnostic.suggestion = fault.suggestion.map(short);
        diagnostic
    }
}
