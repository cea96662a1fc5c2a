//! The messages between the router and a prototype: one JSON object per SEQPACKET message, and the start document.
//!
//! The two may be of neighbouring versions (`spec/wire.md`, 11): a member that the receiver does not know is ignored, and so is a message.
//! So what is added has a default, and nothing may depend on an answer to it.
//!
//! The prototype's messages come from a process that runs user code: the router checks worker numbers and process ids against what it
//! requested.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use tutti_options::logging::Level;

/// Descriptor of the control socket in a prototype.
pub const FD_CONTROL: i32 = 3;
/// Descriptor of the segment.
pub const FD_SEGMENT: i32 = 4;
/// Descriptor of the spool file.
pub const FD_SPOOL: i32 = 5;
/// Descriptor of the start document.
pub const FD_START: i32 = 6;
/// Descriptor of the lifeline.
pub const FD_LIFELINE: i32 = 7;
/// First of the router threads' events.
pub const FD_EVENTS: i32 = 8;

/// The variable with the path of the prototype's module: `/proc/self/exe` may be a copy in memory. It is removed from the environment
/// before the application sees it.
pub const MODULE_VARIABLE: &str = "TUTTI_MODULE";

/// Asks a worker to write where it is, before it is killed: SIGURG (signal(7); the same number on all Linux platforms but alpha, MIPS and
/// SPARC), which is ignored by default. The convention is in `crates/worker`.
pub const WHERE_SIGNAL: i32 = libc::SIGURG;

/// Most descriptors with one [`ToPrototype::WorkerEvents`]; the kernel allows 253.
pub const MAX_EVENTS: usize = 200;

/// Longest control message in bytes; longer texts are cut before sending.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// The start document of a prototype, as JSON in descriptor 6.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The application's name.
    pub name: String,
    /// The language: `php`.
    pub kind: String,
    /// The application object of the configuration, defaults applied. Hosts read their options here.
    pub config: serde_json::Value,
    /// Router threads, for programs of older SDKs; `None` in a grant, since only a router knows the number. Others read it in the segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// Worker numbers, as for `threads`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<u32>,
    /// True if [`ToPrototype::WorkerEvents`] come before any other message, until each worker number has an event.
    #[serde(default)]
    pub worker_events: bool,
    /// Threads of a worker process, and so the number of its worker numbers.
    #[serde(default = "one")]
    pub worker_threads: NonZeroU32,
    /// Most concurrent requests of one worker: those of an event loop, or those beside the one that a thread serves.
    #[serde(default = "one")]
    pub concurrency: NonZeroU32,
    /// Files and folders whose change makes the prototype send [`FromPrototype::Changed`]; empty: `watch` is off.
    #[serde(default)]
    pub watch: Vec<String>,
}

impl Default for Start {
    /// An application without a name or language, with workers of one thread that serve one request at a time.
    fn default() -> Self {
        Start {
            name: String::new(),
            kind: String::new(),
            config: serde_json::Value::Object(serde_json::Map::new()),
            threads: None,
            workers: None,
            worker_events: false,
            worker_threads: NonZeroU32::MIN,
            concurrency: NonZeroU32::MIN,
            watch: Vec::new(),
        }
    }
}

/// The output of `HOST --describe`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Describe {
    /// The language: `php`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The runtime's version.
    pub version: String,
}

/// A message from the router to a prototype.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum ToPrototype {
    /// Fork a worker process.
    Fork {
        /// Its number in the segment, the first one if it has several.
        worker: u32,
        /// The count of its numbers, one for each of its threads.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        threads: NonZeroU32,
    },
    /// Brings the events of the workers from `first` on as descriptors, at most [`MAX_EVENTS`].
    WorkerEvents {
        /// The number of the first event's worker.
        first: u32,
    },
    /// End after the workers have ended.
    Quit,
    /// Reopen the output files.
    Reopen,
    /// A message that only a newer router knows.
    #[serde(other)]
    Unknown,
}

fn one() -> NonZeroU32 {
    NonZeroU32::MIN
}

fn is_one(count: &NonZeroU32) -> bool {
    *count == NonZeroU32::MIN
}

/// The exit status of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl std::fmt::Display for ExitStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal(signal) => write!(f, "was killed by signal {signal}"),
        }
    }
}

/// A message from a prototype, or one of its workers, to the router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum FromPrototype {
    /// Loaded; workers can be forked.
    Ready,
    /// The application cannot start; the prototype exits.
    Failed {
        /// The step that failed.
        step: String,
        /// The problem.
        message: String,
        /// The hint.
        hint: Option<String>,
        /// The option at fault, as a JSON pointer inside the application without its first `/`: `root`, `targets/admin/script`.
        #[serde(default)]
        member: Option<String>,
    },
    /// A worker process exists.
    Forked {
        /// Its number; for a worker with several numbers, the first, here and below.
        worker: u32,
        /// Its process id.
        pid: i32,
    },
    /// A worker could not be forked.
    ForkFailed {
        /// Its number.
        worker: u32,
        /// The reason.
        message: String,
    },
    /// A worker is ready for requests. Sent by the worker.
    WorkerReady {
        /// Its number.
        worker: u32,
        /// Its process id.
        pid: i32,
    },
    /// A worker could not start; it exits. Sent by the worker.
    WorkerFailed {
        /// Its number.
        worker: u32,
        /// Its process id.
        pid: i32,
        /// The step that failed.
        step: String,
        /// The problem.
        message: String,
        /// The hint.
        hint: Option<String>,
        /// The option at fault, as for `Failed`.
        #[serde(default)]
        member: Option<String>,
    },
    /// A worker has ended.
    Exited {
        /// Its number.
        worker: u32,
        /// Its process id.
        pid: i32,
        /// Its exit status.
        status: ExitStatus,
    },
    /// A watched file has changed: the application is to be restarted.
    Changed {
        /// The changed file, for the log.
        path: String,
    },
    /// Each worker starts a program that serves: measurements of a worker must include it. Sent before `Ready`.
    StartsPrograms,
    /// An option of the application has a problem, although it starts. Sent before `Ready`; it has been logged already.
    Warning {
        /// The problem.
        message: String,
        /// The hint.
        hint: Option<String>,
        /// The option, as for `Failed`.
        member: Option<String>,
    },
    /// A line for the log.
    Log {
        /// Its severity.
        level: Level,
        /// The text.
        message: String,
    },
    /// A message that only a newer host knows.
    #[serde(other)]
    Unknown,
}

/// Encodes a message.
pub fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    // These types have string keys and no fallible Serialize; an error cannot occur.
    serde_json::to_vec(message).unwrap_or_default()
}

/// Decodes a message.
pub fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_a_newer_side_knows_is_ignored() {
        let decoded = decode::<FromPrototype>(br#"{"what":"sings","worker":3,"song":[1,{}]}"#);
        assert_eq!(decoded.unwrap(), FromPrototype::Unknown);
        let decoded = decode::<ToPrototype>(br#"{"do":"sing","first":"high"}"#);
        assert_eq!(decoded.unwrap(), ToPrototype::Unknown);
        let decoded =
            decode::<FromPrototype>(br#"{"what":"worker_ready","worker":1,"pid":2,"song":3}"#);
        let ready = FromPrototype::WorkerReady { worker: 1, pid: 2 };
        assert_eq!(decoded.unwrap(), ready);
        let start: Start = decode(br#"{"name":"a","kind":"php","config":{},"song":[]}"#).unwrap();
        assert_eq!(start.kind, "php");
        // Not that of a newer version, but none at all.
        for malformed in [
            &b"{}"[..],
            br#"{"what":"worker_ready","worker":"one","pid":2}"#,
            b"x",
        ] {
            assert!(decode::<FromPrototype>(malformed).is_err());
        }
    }

    #[test]
    fn messages_have_stable_text() {
        let exited = FromPrototype::Exited {
            worker: 3,
            pid: 77,
            status: ExitStatus::Signal(9),
        };
        let text = r#"{"what":"exited","worker":3,"pid":77,"status":{"signal":9}}"#;
        assert_eq!(encode(&exited), text.as_bytes());
        assert_eq!(decode::<FromPrototype>(text.as_bytes()).unwrap(), exited);
        let threads = |count| NonZeroU32::new(count).unwrap();
        let fork = |count| {
            encode(&ToPrototype::Fork {
                worker: 1,
                threads: threads(count),
            })
        };
        assert_eq!(fork(1), br#"{"do":"fork","worker":1}"#);
        assert_eq!(fork(4), br#"{"do":"fork","worker":1,"threads":4}"#);
        assert_eq!(
            decode::<ToPrototype>(&fork(1)).unwrap(),
            ToPrototype::Fork {
                worker: 1,
                threads: threads(1)
            }
        );
    }
}
