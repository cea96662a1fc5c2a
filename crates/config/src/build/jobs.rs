//! `spoolers` and `schedules`.

use std::collections::BTreeMap;
use std::sync::Arc;

use tutti_document::{Diagnostic, Pointer, TreeNode, shorten};
use tutti_options::Options as _;
use tutti_options::mules::fault_of;
use tutti_options::table::Opt;

use super::builder::Builder;
use super::reader::Reader;
use crate::cron::CronError;
use crate::model::{
    Command, Destination, Pass, SCHEDULE_PREFIX, Schedule, Spooler, Times, Timetable,
};
use crate::table::{ScheduleOptions, SpoolerOptions};

impl<'d> Builder<'d> {
    pub(super) fn spoolers(
        &mut self,
        node: &'d TreeNode,
        pointer: &Pointer,
    ) -> BTreeMap<String, Arc<Spooler>> {
        let mut spoolers = BTreeMap::new();
        for member in node.members() {
            let reader = Reader::new(&member.node, pointer.child(&member.name));
            if let Some(spooler) = self.spooler(&member.name, reader) {
                spoolers.insert(member.name.to_string(), Arc::new(spooler));
            }
        }
        spoolers
    }

    fn spooler(&mut self, name: &str, reader: Reader<'d>) -> Option<Spooler> {
        let pass = self.receiver(&reader, &SpoolerOptions::pass)?;
        let options: SpoolerOptions = reader.read();
        if options.max_backoff < options.backoff {
            let message = "`max_backoff` is the longest pause: it cannot be shorter than `backoff`, the first";
            match reader.get(&SpoolerOptions::max_backoff) {
                Some((node, place)) => self.wrong(node, place, message),
                None => self.refuse(&reader, &SpoolerOptions::backoff, message),
            }
        }
        Some(Spooler {
            name: name.to_owned(),
            pass: Some(pass),
            options,
            pointer: reader.pointer,
        })
    }

    /// Builds the destination of jobs, which must not be a spooler.
    pub(super) fn receiver(&mut self, reader: &Reader<'d>, option: &Opt) -> Option<Pass> {
        let (node, place) = reader.get(option)?;
        let pass = self.pass(node, place.clone())?;
        let refused = match &pass {
            Pass::Fixed(Destination::Spooler(_)) => {
                "the server's own requests must go to an application, a route or an upstream, not to a spooler"
            }
            Pass::Fixed(Destination::Metrics | Destination::StubStatus) => {
                "the server's own requests cannot go to `metrics`"
            }
            _ => return Some(pass),
        };
        self.wrong(node, place, refused);
        None
    }

    pub(super) fn schedules(
        &mut self,
        node: &'d TreeNode,
        pointer: &Pointer,
    ) -> BTreeMap<String, Arc<Schedule>> {
        let mut schedules = BTreeMap::new();
        for member in node.members() {
            let reader = Reader::new(&member.node, pointer.child(&member.name));
            if let Some(schedule) = self.schedule(&member.name, &reader) {
                schedules.insert(member.name.to_string(), Arc::new(schedule));
            }
        }
        schedules
    }

    fn schedule(&mut self, name: &str, reader: &Reader<'d>) -> Option<Schedule> {
        let pass = self.receiver(reader, &ScheduleOptions::pass);
        let options: ScheduleOptions = reader.read();
        let command = self.command(reader, &options);
        let is_one = self.is_request_or_command(reader);
        let times = match options.every {
            Some(every) => Some(Times::Every(every)),
            None => self
                .timetable(reader, &options.time_zone)
                .map(|table| Times::Cron(Box::new(table))),
        };
        let headers = self.headers(reader);
        let runs = Spooler {
            pointer: reader.pointer.clone(),
            name: format!("{SCHEDULE_PREFIX}{name}"),
            pass,
            options: SpoolerOptions {
                concurrency: 1,
                max_jobs: 1,
                max_attempts: 1,
                timeout: options.timeout,
                ..SpoolerOptions::of(None::<&TreeNode>)
            },
        };
        let is_whole = is_one && runs.pass.is_some() != command.is_some();
        is_whole.then_some(Schedule {
            name: name.to_owned(),
            times: times?,
            headers,
            options,
            command,
            runs: Arc::new(runs),
        })
    }

    /// Checks that a schedule is exactly one of the two.
    fn is_request_or_command(&mut self, reader: &Reader<'d>) -> bool {
        let (pass, command) = (&ScheduleOptions::pass, &ScheduleOptions::command);
        match (reader.has(pass), reader.has(command)) {
            (true, true) => {
                let message = "a schedule makes a request (`pass`) or runs a command, not both";
                self.refuse(reader, command, message);
                false
            }
            (false, false) => {
                let place = reader.pointer.clone();
                let message = "neither `pass` nor `command` is set";
                self.wrong(reader.node, place, message);
                false
            }
            _ => true,
        }
    }

    fn command(&mut self, reader: &Reader<'d>, options: &ScheduleOptions) -> Option<Command> {
        let (node, pointer) = reader.get(&ScheduleOptions::command)?;
        let words = options.command.clone()?;
        if let Some(fault) = fault_of(&words) {
            self.wrong(node, pointer, fault);
            return None;
        }
        let (named, place) = reader.get(&ScheduleOptions::application)?;
        let application = options.application.clone()?;
        if !self.sections.has_application(&application) {
            // Reports a missing one.
            self.named_application(named, place);
            return None;
        }
        Some(Command {
            pointer,
            application,
            words,
        })
    }

    fn timetable(&mut self, reader: &Reader<'d>, zone: &str) -> Option<Timetable> {
        let (node, place) = reader.get(&ScheduleOptions::cron)?;
        let expression = node.as_str()?;
        let shown = shorten(expression);
        match Timetable::new(expression, zone) {
            Ok(timetable) => return Some(timetable),
            Err(CronError::Zone) => {
                if let Some((node, place)) = reader.get(&ScheduleOptions::time_zone) {
                    let text = format!("there is no time zone `{}`", shorten(zone));
                    let fault = Diagnostic::new(place, text);
                    let fault = fault.suggest("names are those of the IANA database: `Europe/Berlin`, `America/New_York`, `UTC`");
                    self.faults.value(fault, node);
                }
            }
            Err(CronError::Never) => {
                self.wrong(
                    node,
                    place,
                    format!("no day of any year is matched by `{shown}`"),
                );
            }
            Err(CronError::Expression(why)) => {
                let text = format!(
                    "`{shown}` is not a cron expression: {}",
                    why.trim_end_matches('.')
                );
                let fault = Diagnostic::new(place, text).suggest(
                    "five fields: minute, hour, day of the month, month, day of the week, as in `30 3 * * MON-FRI`",
                );
                self.faults.value(fault, node);
            }
        }
        None
    }

    fn headers(&mut self, reader: &Reader<'d>) -> Vec<(String, String)> {
        let Some((node, place)) = reader.get(&ScheduleOptions::headers) else {
            return Vec::new();
        };
        let mut headers = Vec::new();
        for member in node.members() {
            let Some(value) = member.node.as_str() else {
                continue;
            };
            if value.chars().any(|one| one.is_control() && one != '\t') {
                let place = place.child(&member.name);
                self.wrong(
                    &member.node,
                    place,
                    "the value of a field cannot have control characters",
                );
                continue;
            }
            headers.push((member.name.to_string(), value.to_owned()));
        }
        headers
    }
}
