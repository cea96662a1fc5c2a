//! The process that follows the source of the configuration, and what main does for it: reads the files of the source, keeps two texts,
//! and passes requests on to the controller.
//!
//! `impl` blocks of [`Supervisor`]. It is there while there is a source. It reads what a store on the network sends, so it is believed
//! nothing: a document that it brings is a change as any other, which the controller checks. Must never happen: that its end, at any
//! moment, costs more than a start of the next, or that the server waits for it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use tutti_log::Level;
use tutti_protocol::{
    FLEET_TITLE, FleetAnswer, FleetHello, FleetRequest, FleetText, FromFleet, LONGEST, SourcePlan,
    ToController, ToFleet,
};
use tutti_sys::process::Ended;

use super::fleet;
use super::instance::Instance;
use super::own_process::OwnProcess;
use super::stored::{self, Shelf};
use super::supervisor::{MOST_AT_ONCE, Supervisor};

/// The name of the text that is kept of the document in force.
const KEPT: &str = "applied";

/// The name of the text about certificates.
const KEPT_CERTIFICATES: &str = "certificates";

/// Longest text that is kept.
const MOST_BYTES: usize = 256 * 1024;

/// Requests that the controller has not answered.
const MOST_ASKED: usize = 100;

impl Supervisor {
    /// The controller says which source to follow.
    pub(super) fn follow_source(&mut self, plan: Option<Box<SourcePlan>>) {
        if self.is_stopping() || (plan == self.fleet.plan && self.fleet.process.is_some()) {
            return;
        }
        self.follow_nodes_of(plan.as_deref());
        self.fleet.plan = plan;
        self.fleet.kill();
        self.nothing_is_shared();
        self.start_fleet();
        self.share_anew();
    }

    fn start_fleet(&mut self) {
        let Some(plan) = self.fleet.plan.clone() else {
            return self.tell_all_of_nodes();
        };
        let (mut kept, errors) = stored::load_shelf(&self.instance.places.state, Shelf::Fleet);
        for error in errors {
            self.instance.log.line(Level::Alert, &error.to_string());
        }
        let secrets = fleet::secrets(&plan, &mut self.keys, &self.instance.log);
        let secrets = secrets.map_err(|error| error.to_string());
        if let Err(reason) = &secrets {
            let text = format!("the source cannot be followed: {reason}");
            self.log(Level::Alert, &text);
        }
        let hello = FleetHello {
            log: self.instance.log.style().clone(),
            plan: (*plan).clone(),
            secrets,
            kept: kept.remove(KEPT),
            kept_certificates: kept.remove(KEPT_CERTIFICATES),
            purged: kept.remove(FleetText::Purged.name()),
            nodes: kept
                .remove(FleetText::Nodes.name())
                .as_deref()
                .and_then(nodes),
        };
        match launch(&self.instance, hello) {
            Ok(process) => {
                let text = format!("source of the configuration: process {}", process.pid);
                self.log(Level::Info, &text);
                self.fleet.process = Some(process);
                self.begin_with_nodes(&kept, &plan);
                self.tell_of_sharing();
            }
            Err(error) => {
                self.log(Level::Alert, &error.to_string());
                self.fleet.restarts.ended(None);
            }
        }
    }

    pub(super) fn tell_fleet(&mut self, message: &ToFleet, descriptors: Vec<OwnedFd>) {
        let Some(process) = &mut self.fleet.process else {
            return;
        };
        if let Err(error) = process.send(message, descriptors) {
            let text = format!("cannot tell the process that follows the source: {error}");
            self.log(Level::Alert, &text);
        }
    }

    /// The log was reopened.
    pub(super) fn reopen_log_of_fleet(&mut self) -> io::Result<()> {
        let log = self.instance.log.descriptor()?;
        self.tell_fleet(&ToFleet::LogReopened, vec![log]);
        Ok(())
    }

    pub(super) fn handle_fleet(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            let Some(process) = &mut self.fleet.process else {
                return;
            };
            process.flush();
            match process.receive() {
                Ok(None) => return,
                Ok(Some((message, _))) => self.obey_fleet(message),
                Err(error) => {
                    process.kill();
                    let text = format!(
                        "the process that follows the source sent a message that cannot be read: {error}"
                    );
                    return self.log(Level::Alert, &text);
                }
            }
        }
    }

    fn obey_fleet(&mut self, message: FromFleet) {
        match message {
            FromFleet::Alive { number } => {
                if let Some(process) = &mut self.fleet.process {
                    process.pulse.answered(number);
                }
            }
            FromFleet::Tell { id, request } => self.pass_to_controller(id, request),
            FromFleet::Nodes { known } => self.nodes_told(known),
            FromFleet::Left => self.fleet_left(),
            FromFleet::Keep { text } => self.keep_of_fleet(KEPT, &text),
            FromFleet::KeepBeside { name, text } => self.keep_of_fleet(name.name(), &text),
            FromFleet::KeepCertificates { text } => self.keep_of_fleet(KEPT_CERTIFICATES, &text),
            FromFleet::Shared { id, answer } => self.fleet_answers(id, answer),
            FromFleet::SharedNews { news } => self.pass_on_news(news),
        }
    }

    fn keep_of_fleet(&self, name: &str, text: &str) {
        let state = &self.instance.places.state;
        let kept = match text.len() <= MOST_BYTES {
            true => stored::keep_on(state, Shelf::Fleet, name, text),
            false => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is too long",
            )),
        };
        if let Err(error) = kept {
            let text = format!("cannot keep what the source says: {error}");
            self.log(Level::Alert, &text);
        }
    }

    /// The number of nodes of the fleet when it was known last.
    pub(super) fn nodes_of_fleet(&self) -> Option<u32> {
        // Whatever is wrong there is told when the process that follows is started.
        let (kept, _) = stored::load_shelf(&self.instance.places.state, Shelf::Fleet);
        kept.get(FleetText::Nodes.name())
            .and_then(|text| nodes(text))
    }

    fn pass_to_controller(&mut self, id: u64, request: FleetRequest) {
        if self.fleet.asked.len() >= MOST_ASKED || self.controllers.serving.is_none() {
            let reason = "the controller is not there".to_owned();
            let answer = FleetAnswer::Unavailable { reason };
            return self.tell_fleet(&ToFleet::Answer { id, answer }, Vec::new());
        }
        self.fleet.asked.insert(id);
        self.tell_controller(&ToController::Fleet { id, request }, Vec::new());
    }

    /// The controller has done what it was asked for, or says why not.
    pub(super) fn fleet_done(&mut self, id: u64, answer: FleetAnswer) {
        if self.fleet.asked.remove(&id) {
            self.tell_fleet(&ToFleet::Answer { id, answer }, Vec::new());
        }
    }

    /// The controller has ended: nobody will answer.
    pub(super) fn fleet_unanswered(&mut self) {
        for id in std::mem::take(&mut self.fleet.asked) {
            let reason = "the controller has ended meanwhile".to_owned();
            let answer = FleetAnswer::Unavailable { reason };
            self.tell_fleet(&ToFleet::Answer { id, answer }, Vec::new());
        }
    }

    /// A child has ended: true if it was this one.
    pub(super) fn fleet_ended(&mut self, pid: i32, ended: Ended) -> bool {
        let Some(process) = self.fleet.process.take_if(|process| process.pid == pid) else {
            return false;
        };
        self.fleet.kill();
        self.nothing_is_shared();
        if !self.is_stopping() && self.fleet.plan.is_some() {
            let text = format!(
                "process {pid}, which follows the source, {ended}; the configuration stays as it is until the next"
            );
            self.log(Level::Alert, &text);
            // The document that it has put in force is kept, so it is always worth another.
            self.fleet.restarts.ended(Some(process.started));
        }
        // Nobody can tell others any more that this node leaves.
        if self.fleet.nodes.is_leaving() {
            self.fleet_left();
        }
        true
    }

    /// Does what is due.
    pub(super) fn mind_fleet(&mut self, now: Instant) {
        if self.fleet.restarts.take_due(now) && !self.is_stopping() {
            self.start_fleet();
        }
        if self.fleet.nodes.deadline().is_some_and(|at| at <= now) {
            self.fleet_left();
        }
        let process = self.fleet.process.as_mut();
        if let Some(text) = process.and_then(|process| process.kill_overdue(now)) {
            self.log(Level::Alert, &text);
        }
    }
}

/// Reads a number of nodes as it was kept.
fn nodes(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|nodes| *nodes > 0)
}

fn launch(instance: &Instance, hello: FleetHello) -> io::Result<OwnProcess<FromFleet>> {
    let mut process = OwnProcess::start(instance, FLEET_TITLE, LONGEST)?;
    let hello = ToFleet::Hello(Box::new(hello));
    process.send(&hello, vec![instance.log.descriptor()?])?;
    Ok(process)
}
