//! The source process, and main's services for it: reads the files of the source, stores two texts, and forwards
//! requests to the controller.
//!
//! `impl` blocks of [`Supervisor`]. The process runs while there is a source. It reads data from a store on the
//! network, so it is not trusted: a document from it is a change like any other, which the controller checks. Must
//! never happen: that its end, at any moment, costs more than the start of a new one, or that the server waits for it.

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

/// The name of the stored text about the document in force.
const KEPT: &str = "applied";

/// The name of the stored text about certificates.
const KEPT_CERTIFICATES: &str = "certificates";

/// Longest text that is stored.
const MOST_BYTES: usize = 256 * 1024;

/// Maximum requests that the controller has not answered.
const MOST_ASKED: usize = 100;

impl Supervisor {
    /// Applies the controller's choice of a source.
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
            return self.send_nodes_to_all();
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
                self.send_sharing();
            }
            Err(error) => {
                self.log(Level::Alert, &error.to_string());
                self.fleet.restarts.ended(None);
            }
        }
    }

    pub(super) fn send_to_fleet(&mut self, message: &ToFleet, descriptors: Vec<OwnedFd>) {
        let Some(process) = &mut self.fleet.process else {
            return;
        };
        if let Err(error) = process.send(message, descriptors) {
            let text = format!("cannot send to the source process: {error}");
            self.log(Level::Alert, &text);
        }
    }

    /// Passes on the reopened log.
    pub(super) fn reopen_log_of_fleet(&mut self) -> io::Result<()> {
        let log = self.instance.log.descriptor()?;
        self.send_to_fleet(&ToFleet::LogReopened, vec![log]);
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
                    let text =
                        format!("the source process sent a message that cannot be read: {error}");
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
            FromFleet::Nodes { known } => self.take_nodes(known),
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
        match kept {
            Ok(unsynced) => self.warn_of_unsynced(unsynced),
            Err(error) => {
                let text = format!("cannot store the configuration of the source: {error}");
                self.log(Level::Alert, &text);
            }
        }
    }

    /// Returns the last known number of nodes of the fleet.
    pub(super) fn nodes_of_fleet(&self) -> Option<u32> {
        // Errors are logged when the source process is started.
        let (kept, _) = stored::load_shelf(&self.instance.places.state, Shelf::Fleet);
        kept.get(FleetText::Nodes.name())
            .and_then(|text| nodes(text))
    }

    fn pass_to_controller(&mut self, id: u64, request: FleetRequest) {
        if self.fleet.asked.len() >= MOST_ASKED || self.controllers.serving.is_none() {
            let reason = "the controller is not running".to_owned();
            let answer = FleetAnswer::Unavailable { reason };
            return self.send_to_fleet(&ToFleet::Answer { id, answer }, Vec::new());
        }
        let router_ends = self.router_restarts.total();
        self.fleet.asked.insert(id, router_ends);
        self.send_to_controller(&ToController::Fleet { id, request }, Vec::new());
    }

    /// Forwards the controller's answer to a request.
    pub(super) fn fleet_done(&mut self, id: u64, mut answer: FleetAnswer) {
        let Some(ends_before) = self.fleet.asked.remove(&id) else {
            return;
        };
        // A router that ends after the request was made may have ended because of it.
        if let FleetAnswer::Applied { router_ends, .. } | FleetAnswer::Seen { router_ends, .. } =
            &mut answer
        {
            *router_ends = ends_before;
        }
        self.send_to_fleet(&ToFleet::Answer { id, answer }, Vec::new());
    }

    /// The controller has ended: its requests will not be answered.
    pub(super) fn fleet_unanswered(&mut self) {
        for id in std::mem::take(&mut self.fleet.asked).into_keys() {
            let reason = "the controller has ended in the meantime".to_owned();
            let answer = FleetAnswer::Unavailable { reason };
            self.send_to_fleet(&ToFleet::Answer { id, answer }, Vec::new());
        }
    }

    /// Handles the end of a child; true if it was this one.
    pub(super) fn fleet_ended(&mut self, pid: i32, ended: Ended) -> bool {
        let Some(process) = self.fleet.process.take_if(|process| process.pid == pid) else {
            return false;
        };
        self.fleet.kill();
        self.nothing_is_shared();
        if !self.is_stopping() && self.fleet.plan.is_some() {
            let text = format!(
                "process {pid}, the source process, {ended}; the configuration does not change until the next one starts"
            );
            self.log(Level::Alert, &text);
            // The document in force is stored, so restarting it is always worthwhile.
            self.fleet.restarts.ended(Some(process.started));
        }
        // Without it, other nodes cannot be notified that this node leaves.
        if self.fleet.nodes.is_leaving() {
            self.fleet_left();
        }
        true
    }

    /// Carries out due tasks.
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

/// Parses a stored number of nodes.
fn nodes(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|nodes| *nodes > 0)
}

fn launch(instance: &Instance, hello: FleetHello) -> io::Result<OwnProcess<FromFleet>> {
    let mut process = OwnProcess::start(instance, FLEET_TITLE, LONGEST)?;
    let hello = ToFleet::Hello(Box::new(hello));
    process.send(&hello, vec![instance.log.descriptor()?])?;
    Ok(process)
}
