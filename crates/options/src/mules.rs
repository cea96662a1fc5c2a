//! Mules: processes of an application that serve no requests.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::table::{Names, Text, ValueKind};
use crate::{Complaints, options, words};

/// Processes of one mule: each is watched by a process of the server's.
const MOST_PROCESSES: i64 = 256;

/// A time; beyond a year it would only be a mistake.
const PAUSE: ValueKind = ValueKind::Number(0.001, 31_536_000.0);

/// A program and its arguments.
pub const COMMAND: ValueKind = ValueKind::Array(&ValueKind::String(Text::Argument));

options! {
    /// A long-running command of an application beside its workers, such as a consumer of a queue: as its user, in its
    /// environment, working directory and isolation; started with the application, and again when it ends
    pub struct Mule: MULE = "mule" {
        /// The program and its arguments; no shell is between. A name without `/` is looked for in `PATH`, a relative path starts at `working_directory`
        command: Vec<String> [kind(COMMAND), beyond(), required()],
        /// How many processes run it
        processes: u32 [kind(ValueKind::Integer(1, MOST_PROCESSES)), beyond(), default("1"), unit("processes")],
        /// Environment variables, added to those of the application
        environment: BTreeMap<String, String> [kind(ValueKind::Map(Names::Environment, &ValueKind::String(Text::Argument))), beyond()],
        /// The signal that tells it to end
        stop_signal: StopSignal [beyond(), default("\"TERM\"")],
        /// Time it may take to end then, until it is killed with all it has started
        stop_timeout: Duration [kind(ValueKind::Number(0.0, 86_400.0)), beyond(), default("30"), unit("seconds")],
        /// Pause before it is started again when it has ended within 10 seconds; doubled each time
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

/// Says why this is no command.
pub fn fault_of(command: &[String]) -> Option<&'static str> {
    match command.first().map(String::as_str) {
        None => Some("there is no program"),
        Some("") => Some("the name of the program is empty"),
        Some(_) => None,
    }
}
