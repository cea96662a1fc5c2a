//! The messages between the router and a runner: a process that runs one command of an application and minds it. One JSON object per
//! SEQPACKET message, over descriptor 3, and the start document in descriptor 6.
//!
//! A runner is of the application's user: the router takes what it says as news, never as a right.

use serde::{Deserialize, Serialize};
use tutti_options::application::Common;

use crate::control::ExitStatus;

/// The argument that makes a host a runner.
pub const RUN: &str = "--run-command";

/// The argument that makes a host a runner which only looks whether the command can be run.
pub const LOOK: &str = "--look-at-command";

/// The start document.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CommandStart {
    /// As whom it is known to people: `"app" mule "queue"`.
    pub title: String,
    /// The program and its arguments.
    pub words: Vec<String>,
    /// The options of the application that concern its commands; the environment has what is added for this one.
    pub common: Common,
    /// The number of the signal that tells it to end.
    pub stop_signal: i32,
    /// Milliseconds from then until it is killed.
    pub stop_timeout: u64,
}

/// A message from the router to a runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum ToRunner {
    /// End the command: by its signal, and when its time is over by force. The end of the line means the same.
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
    /// It runs.
    Started {
        /// Its process number, as the runner sees it.
        pid: i32,
    },
    /// It cannot be run.
    Failed {
        /// The step that failed.
        step: String,
        /// The problem.
        message: String,
        /// The cure.
        hint: Option<String>,
        /// The option at fault: `command`, or one of the application's.
        member: Option<String>,
    },
    /// It has ended, and what it had started is being ended.
    Ended {
        /// How.
        status: ExitStatus,
        /// It did not end in its time, and was killed.
        is_killed: bool,
    },
}
