//! Mules: processes of an application that serve no requests.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::table::{Names, Text, ValueKind};
use crate::{Complaints, options, words};

/// Maximum processes of one mule: each is supervised by a process of the server.
const MOST_PROCESSES: i64 = 256;

/// A time; more than a year is surely a mistake.
const PAUSE: ValueKind = ValueKind::Number(0.001, 31_536_000.0);

/// A program and its arguments.
pub const COMMAND: ValueKind = ValueKind::Array(&ValueKind::String(Text::Argument));

options! {
    /// A long-running command of an application beside its workers, such as a queue consumer. It runs with the
    /// application's user, environment, working directory and isolation, is started with the application, and is
    /// restarted when it ends
    pub struct Mule: MULE = "mule" {
        /// The program and its arguments, run without a shell. A name without `/` is looked up in `PATH`; a relative
        /// path is relative to `working_directory`
        command: Vec<String> [kind(COMMAND), beyond(), required()],
        /// Number of processes that run it
        processes: u32 [kind(ValueKind::Integer(1, MOST_PROCESSES)), beyond(), default("1"), unit("processes")],
        /// Environment variables, added to those of the application
        environment: BTreeMap<String, String> [kind(ValueKind::Map(Names::Environment, &ValueKind::String(Text::Argument))), beyond()],
        /// Signal that stops it
        stop_signal: StopSignal [beyond(), default("\"TERM\"")],
        /// Time to exit after that signal; then it is killed, with all processes it has started
        stop_timeout: Duration [kind(ValueKind::Number(0.0, 86_400.0)), beyond(), default("30"), unit("seconds")],
        /// Pause before a restart if it ended within 10 seconds; doubled each time
        backoff: Duration [kind(PAUSE), beyond(), default("1"), unit("seconds")],
        /// Longest pause
        max_backoff: Duration [kind(PAUSE), beyond(), default("60"), unit("seconds")],
    }
}

words! {
    /// A signal that a program can act on.
    pub enum StopSignal {
        /// SIGTERM.
        Term = "TERM",
        /// SIGINT.
        Int = "INT",
        /// SIGQUIT.
        Quit = "QUIT",
        /// SIGHUP.
        Hup = "HUP",
        /// SIGUSR1.
        Usr1 = "USR1",
        /// SIGUSR2.
        Usr2 = "USR2",
    }
}

impl Mule {
    pub(crate) fn check(&self, complaints: &mut Complaints<'_>) {
        check_command(&self.command, complaints);
        if self.max_backoff < self.backoff {
            let option = match complaints.is_written(Self::max_backoff.name) {
                true => Self::max_backoff.name,
                false => Self::backoff.name,
            };
            let message = "`max_backoff` is the longest pause: it cannot be shorter than `backoff`, the first";
            complaints.value(option, message);
        }
    }
}

/// Collects the faults of a member `command`.
fn check_command(command: &[String], complaints: &mut Complaints<'_>) {
    if let Some(fault) = fault_of(command) {
        let hint = "write the program and its arguments: `[\"php\", \"artisan\", \"queue:work\"]`";
        complaints.value_with_hint("command", fault, hint);
    }
}

/// Returns why this is not a command.
pub fn fault_of(command: &[String]) -> Option<&'static str> {
    match command.first().map(String::as_str) {
        None => Some("there is no program"),
        Some("") => Some("the name of the program is empty"),
        Some(_) => None,
    }
}
