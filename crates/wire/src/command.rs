//! The messages between the router and a runner: a process that runs one command of an application and supervises it. One JSON object per
//! SEQPACKET message, over descriptor 3, and the start document in descriptor 6.
//!
//! A runner has the application's user: the router uses its messages as information, and never grants rights because of them.

use serde::{Deserialize, Serialize};
use tutti_options::application::Common;

use crate::control::ExitStatus;

/// The argument that makes a host a runner.
pub const RUN: &str = "--run-command";

/// The argument that makes a host a runner which only checks that the command can be run.
pub const LOOK: &str = "--look-at-command";

/// The start document.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommandStart {
    /// Its name in the log: `"app" mule "queue"`.
    pub title: String,
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The application's options for its commands, with the environment of this one.
    pub common: Common,
    /// The number of the signal that ends it.
    pub stop_signal: i32,
    /// Milliseconds from that signal until it is killed.
    pub stop_timeout: u64,
}

/// A message from the router to a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum ToRunner {
    /// End the command: by its signal, and by force when its time is over. The end of the stream means the same.
    Stop,
    /// End the command by force.
    Kill,
}

/// A message from a runner to the router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum FromRunner {
    /// The command can be run: the answer to [`LOOK`].
    Sound,
    /// It is running.
    Started {
        /// Its process id, as the runner sees it.
        pid: i32,
    },
    /// It cannot be run.
    Failed {
        /// The step that failed.
        step: String,
        /// The problem.
        message: String,
        /// The hint.
        hint: Option<String>,
        /// The option at fault: `command`, or one of the application's.
        member: Option<String>,
    },
    /// It has ended; its remaining child processes are being ended.
    Ended {
        /// Its exit status.
        status: ExitStatus,
        /// It did not end in time, and was killed.
        is_killed: bool,
    },
}
