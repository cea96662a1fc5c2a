//! The commands of a configuration, with everything needed to start their processes.
//!
//! Used by the router to start them, and by the controller to grant the starts: both derive the same text from the same
//! configuration, and main compares the two.

use std::sync::Arc;
use std::time::Duration;

use tutti_config::Config;
use tutti_config::model::{Application, Command, Common, Schedule, Special};
use tutti_options::mules::{Mule, StopSignal};
use tutti_wire::command::CommandStart;

/// One command.
#[derive(Clone, Debug, PartialEq)]
pub struct CommandSpec {
    /// Its place in the configuration: a JSON pointer to the mule or schedule.
    pub place: String,
    /// The application.
    pub application: Arc<str>,
    /// JSON pointer of the application.
    pub application_place: String,
    /// The name of the mule or schedule.
    pub name: String,
    /// The name in messages: `"app" mule "queue"`.
    pub title: String,
    /// The start document of its runner.
    pub start: String,
    /// Number of processes that run it.
    pub processes: u32,
    /// Time it may take to end after its stop signal.
    pub stop_timeout: Duration,
    /// The first pause before a restart, and the longest.
    pub pauses: (Duration, Duration),
    /// Resident bytes beyond which a process is replaced, and beyond which it is killed.
    pub memory: (Option<u64>, Option<u64>),
    /// The language of the application and its version: if they change, the processes are replaced.
    host: (Special, String),
}

impl CommandSpec {
    /// Creates the specification of a mule.
    fn of_mule(application: &Application, name: &str, mule: &Mule) -> CommandSpec {
        let title = format!("\"{}\" mule \"{name}\"", application.name);
        let limits = &application.common.limits;
        let place = application.pointer.child("mules").child(name);
        let command = Command {
            pointer: place,
            application: application.name.clone(),
            words: mule.command.clone(),
        };
        CommandSpec {
            processes: mule.processes,
            pauses: (mule.backoff, mule.max_backoff),
            memory: (limits.memory.0, limits.kill_above()),
            ..CommandSpec::new(
                application,
                &command,
                (title, name),
                mule.environment.iter(),
                (mule.stop_signal, mule.stop_timeout),
            )
        }
    }

    /// Creates the specification of the command of a schedule.
    fn of_schedule(application: &Application, schedule: &Schedule, command: &Command) -> Self {
        let title = format!("\"{}\" schedule \"{}\"", application.name, schedule.name);
        let options = &schedule.options;
        let command = Command {
            pointer: schedule.runs.pointer.clone(),
            ..command.clone()
        };
        CommandSpec::new(
            application,
            &command,
            (title, &schedule.name),
            options.environment.iter(),
            (options.stop_signal, options.stop_timeout),
        )
    }

    fn new<'a>(
        application: &Application,
        command: &Command,
        (title, name): (String, &str),
        environment: impl Iterator<Item = (&'a String, &'a String)>,
        (stop_signal, stop_timeout): (StopSignal, Duration),
    ) -> CommandSpec {
        let of_workers = Common::default();
        let mut common = Common {
            processes: of_workers.processes,
            limits: of_workers.limits,
            request_buffering: of_workers.request_buffering,
            preload: of_workers.preload,
            watch: of_workers.watch,
            mules: of_workers.mules,
            ..application.common.clone()
        };
        let own = environment.map(|(name, value)| (name.clone(), value.clone()));
        common.environment.extend(own);
        let start = CommandStart {
            title: title.clone(),
            words: command.words.clone(),
            common,
            stop_signal: number(stop_signal),
            stop_timeout: u64::try_from(stop_timeout.as_millis()).unwrap_or(u64::MAX),
        };
        CommandSpec {
            place: command.pointer.as_str().to_owned(),
            application: application.name.as_str().into(),
            application_place: application.pointer.as_str().to_owned(),
            name: name.to_owned(),
            title,
            // String keys and no fallible Serialize: an error cannot occur.
            start: serde_json::to_string(&start).unwrap_or_default(),
            processes: 1,
            stop_timeout,
            pauses: (Duration::ZERO, Duration::ZERO),
            memory: (None, None),
            host: (
                application.special.clone(),
                application.module.version.clone(),
            ),
        }
    }

    /// True if processes of one can be kept for the other: they differ only in their number and in limits from outside.
    pub(crate) fn has_same_processes(&self, other: &CommandSpec) -> bool {
        let adapted = CommandSpec {
            processes: other.processes,
            pauses: other.pauses,
            memory: other.memory,
            ..self.clone()
        };
        adapted == *other
    }

    /// True if it belongs to a mule.
    pub(crate) fn is_mule(&self) -> bool {
        self.place != self.application_place && self.place.starts_with(&self.application_place)
    }

    /// Returns the place of an option: one of the command's, or else one of the application's.
    pub(crate) fn place_of(&self, option: Option<&str>) -> String {
        match option {
            None => self.place.clone(),
            Some(option) if option.starts_with("command") => format!("{}/{option}", self.place),
            Some(option) => format!("{}/{option}", self.application_place),
        }
    }
}

/// All commands of a configuration.
pub fn all(config: &Config) -> Vec<CommandSpec> {
    let mut specs = Vec::new();
    for application in config.applications.values() {
        for (name, mule) in &application.common.mules.0 {
            specs.push(CommandSpec::of_mule(application, name, mule));
        }
    }
    for schedule in config.schedules.values() {
        let Some(command) = &schedule.command else {
            continue;
        };
        if let Some(application) = config.applications.get(&command.application) {
            specs.push(CommandSpec::of_schedule(application, schedule, command));
        }
    }
    specs
}

fn number(signal: StopSignal) -> i32 {
    match signal {
        StopSignal::Term => libc::SIGTERM,
        StopSignal::Int => libc::SIGINT,
        StopSignal::Quit => libc::SIGQUIT,
        StopSignal::Hup => libc::SIGHUP,
        StopSignal::Usr1 => libc::SIGUSR1,
        StopSignal::Usr2 => libc::SIGUSR2,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
pub(crate) mod tests {
    use std::path::Path;

    use super::*;

    pub(crate) fn specs(application: &str, mule: &str) -> Vec<CommandSpec> {
        let text = format!(
            r#"{{"applications": {{"a/b": {{"type": "external", "executable": "x", "environment": {{"A": "1", "B": "1"}}{application},
                "mules": {{"q": {{"command": ["run"], "environment": {{"B": "2"}}{mule}}}}}}}}},
                "schedules": {{"s": {{"every": 60, "application": "a/b", "command": ["tidy", "all"]}}}}}}"#
        );
        let document = tutti_config::parse(text.as_bytes()).unwrap();
        let context = tutti_config::ValidationContext::with_modules([("external", "1")]);
        all(&tutti_config::validate(&document, &context).unwrap())
    }

    #[test]
    fn a_command_has_what_its_application_has() {
        let specs = specs(
            r#", "working_directory": "/srv""#,
            r#", "stop_signal": "QUIT""#,
        );
        let places: Vec<&str> = specs.iter().map(|spec| spec.place.as_str()).collect();
        assert_eq!(places, ["/applications/a~1b/mules/q", "/schedules/s"]);
        assert!(specs[0].is_mule() && !specs[1].is_mule());
        let start: CommandStart = serde_json::from_str(&specs[0].start).unwrap();
        assert_eq!(
            (
                start.common.environment["A"].as_str(),
                start.common.environment["B"].as_str()
            ),
            ("1", "2")
        );
        assert_eq!(
            start.common.working_directory.as_deref(),
            Some(Path::new("/srv"))
        );
        assert_eq!(
            (start.stop_signal, start.stop_timeout),
            (libc::SIGQUIT, 30_000)
        );
        assert_eq!(
            specs[0].place_of(Some("command/0")),
            "/applications/a~1b/mules/q/command/0"
        );
        assert_eq!(
            specs[1].place_of(Some("working_directory")),
            "/applications/a~1b/working_directory"
        );
        let start: CommandStart = serde_json::from_str(&specs[1].start).unwrap();
        assert_eq!(start.words, ["tidy", "all"]);
    }

    #[test]
    fn what_concerns_workers_alone_leaves_the_process_as_it_is() {
        let before = &specs("", "")[0];
        for (application, mule, is_same) in [
            (
                r#", "processes": 7, "limits": {"memory": 1000000, "timeout": 5}"#,
                "",
                true,
            ),
            ("", r#", "processes": 3, "backoff": 2"#, true),
            (r#", "user": "nobody""#, "", false),
            (r#", "arguments": ["new"]"#, "", false),
            ("", r#", "stop_timeout": 5"#, false),
        ] {
            let after = &specs(application, mule)[0];
            assert_eq!(
                before.has_same_processes(after),
                is_same,
                "{application}{mule}"
            );
        }
    }
}
