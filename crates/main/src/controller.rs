//! The controller's life, and main's services for it. It alone decides what the configuration is.
//!
//! `impl` blocks of [`Supervisor`]. Main starts it first: it decides what the server starts with. From then on main can
//! replace it, and routers, without it. Must never happen: that another process sends the messages that are handled
//! here.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::Instant;

use tutti_log::Level;
use tutti_protocol::{
    Cause, ControllerHello, FromController, GivenSource, Grants, Reason, StoreKind, ToController,
};
use tutti_sys::memfd;
use tutti_sys::process::Ended;

use super::lifecycle::{Life, Pace, QUICK_STOP, Stop};
use super::own_process::{ControllerProcess, Launch};
use super::supervisor::{MOST_AT_ONCE, Supervisor};
use super::{certificate_files, control_access, history, state, stored};

impl Supervisor {
    /// Starts the controller, which decides what to start with or, if a configuration is in force, serves the control
    /// socket immediately.
    pub(super) fn start_controller(&mut self) {
        match self.launch_controller(Launch::Serving) {
            Ok(controller) => {
                let pid = controller.process.pid;
                self.log(Level::Info, &format!("controller started as process {pid}"));
                self.controllers.serving = Some(controller);
                if self.life.has_served() {
                    self.send_to_controller(&ToController::Serve, Vec::new());
                }
            }
            Err(error) if self.life.has_served() => {
                self.log(Level::Alert, &error.to_string());
                self.controller_restarts.ended(Some(Instant::now()));
            }
            Err(error) => self.give_up(&error.to_string()),
        }
    }

    /// Starts a controller and sends its greeting.
    pub(super) fn launch_controller(&self, launch: Launch) -> io::Result<ControllerProcess> {
        let mut controller = ControllerProcess::start(&self.instance)?;
        let is_upgrade = launch == Launch::Successor;
        let has_begun = !matches!(self.life, Life::Beginning) && !is_upgrade;
        let hello = ControllerHello {
            modules: self.instance.modules.clone(),
            log: self.instance.log.style().clone(),
            log_file: self.instance.places.log.clone(),
            configuration: self.holdings.configuration.clone(),
            certificates: self.stored(StoreKind::Certificates),
            js_modules: self.stored(StoreKind::JsModules),
            files: self.files_to_begin_with(),
            source: self.given_source(),
            is_lenient: self.instance.places.is_lenient,
            access: self.instance.access.clone(),
            has_begun,
            is_upgrade,
        };
        let descriptors = vec![
            self.instance.control.try_clone()?,
            self.instance.status.socket.try_clone()?,
            self.instance.log.descriptor()?,
        ];
        let hello = ToController::Hello(Box::new(hello));
        controller.process.send(&hello, descriptors)?;
        Ok(controller)
    }

    /// Returns the configuration files, unless a configuration is in force already.
    fn files_to_begin_with(&self) -> Option<Result<Vec<tutti_protocol::ConfigFile>, String>> {
        let path = self.instance.places.config.as_deref()?;
        if !matches!(self.life, Life::Beginning) {
            return None;
        }
        Some(crate::config_files::read(path).map_err(|error| error.to_string()))
    }

    /// Returns the source that `--source` names; a file is read again for each controller.
    fn given_source(&self) -> Option<GivenSource> {
        let given = self.instance.places.source.as_deref()?;
        Some(match given.to_str().filter(|text| text.contains("://")) {
            Some(url) => GivenSource::Url {
                url: url.to_owned(),
            },
            None => {
                let read = crate::config_files::read(given);
                let first = read.map(|files| files.into_iter().next());
                let file = match first {
                    Ok(file) => file.ok_or_else(|| format!("`{}` is empty", given.display())),
                    Err(error) => Err(error.to_string()),
                };
                GivenSource::File { file }
            }
        })
    }

    pub(super) fn send_to_controller(&mut self, message: &ToController, descriptors: Vec<OwnedFd>) {
        let Some(controller) = &mut self.controllers.serving else {
            return;
        };
        if let Err(error) = controller.process.send(message, descriptors) {
            self.log(
                Level::Alert,
                &format!("cannot send to the controller: {error}"),
            );
        }
    }

    /// Handles the end of a controller. Router and requests are not affected: main has everything they need.
    pub(super) fn some_controller_ended(&mut self, pid: i32, ended: Ended) {
        if self.controllers.take_leaving(pid).is_some() {
            return;
        }
        if self.life.is_next_controller(pid) {
            let reason = format!("its controller {ended}; see its last messages in the log");
            return self.go_back(&reason, Some(pid));
        }
        let Some(controller) = self.controllers.serving.take() else {
            return;
        };
        self.forget_pending();
        self.acme_unanswered();
        self.fleet_unanswered();
        if self.is_stopping() {
            return;
        }
        self.log(
            Level::Alert,
            &format!(
                "controller process {pid} {ended}; requests continue, changes wait for the next one"
            ),
        );
        self.controller_lost_in_upgrade();
        let started = controller.process.started;
        let is_worth_it = self
            .controller_restarts
            .ended(controller.is_serving.then_some(started));
        if !is_worth_it && !self.life.has_served() {
            self.give_up(
                "the controller keeps ending before it serves; see its last messages in the log",
            );
        }
    }

    pub(super) fn handle_controllers(&mut self) {
        for pid in self.controller_pids() {
            for _ in 0..MOST_AT_ONCE {
                // Looked up each time: a message may change the set of controllers.
                let Some(controller) = self.controller(pid) else {
                    break;
                };
                controller.process.flush();
                match controller.process.receive() {
                    Ok(None) => break,
                    Ok(Some((message, _))) => self.obey_controller(pid, message),
                    Err(error) => {
                        controller.process.kill();
                        let text = format!(
                            "controller process {pid} sent a message that cannot be read: {error}"
                        );
                        self.log(Level::Alert, &text);
                        break;
                    }
                }
            }
        }
    }

    fn obey_controller(&mut self, pid: i32, message: FromController) {
        if self.life.is_next_controller(pid) {
            return self.obey_next_controller(message);
        }
        // Requests of a leaving controller are not carried out.
        if !self.controllers.is_serving(pid) {
            return;
        }
        match message {
            FromController::Begin {
                configuration,
                cause,
                set_aside,
                grants,
                certificates,
            } => {
                self.keep_certificates(&certificates);
                self.begin_with(configuration, cause, set_aside, *grants);
            }
            // Nothing to serve, and no former configuration to fall back on.
            FromController::Unfit { message } if matches!(self.life, Life::Beginning) => {
                self.give_up(&message);
            }
            FromController::Unfit { message } => self.log(Level::Alert, &message),
            FromController::Serving => {
                if let Some(controller) = &mut self.controllers.serving {
                    controller.is_serving = true;
                }
                self.check_up();
            }
            FromController::Alive { number } => {
                if let Some(controller) = &mut self.controllers.serving {
                    controller.process.pulse.answered(number);
                }
            }
            FromController::Frozen => self.controller_frozen(),
            FromController::Apply {
                id,
                change,
                grants,
                cause,
            } => self.apply(id, change, *grants, cause),
            FromController::Abandon { id } => self.change_overdue(id),
            FromController::Ask { id, question } => self.ask(id, question),
            FromController::Forget { id } => {
                self.forget_question(id);
                self.hand_over_if_at_rest();
            }
            FromController::ReadFiles { id } => {
                let files = self.read_files();
                self.answer_with(id, files.map(Some));
            }
            FromController::ReadCertificate { id, file, key } => {
                let config = self.instance.places.config.as_deref();
                let noted = (&mut self.keys, &self.instance.log);
                let text = certificate_files::read(config, &file, key.as_deref(), noted);
                let file =
                    text.and_then(|text| memfd::document("tutti-certificate", text.as_bytes()));
                self.answer_with(id, file.map(Some));
            }
            FromController::Listen { id, place } => {
                let socket = self.holdings.listen_for_dashboard(&place);
                self.answer_with(id, socket.map(Some));
            }
            FromController::Unlisten { place } => {
                self.holdings.sockets.release_of_dashboard(&place);
            }
            FromController::ReadToken { id, file } => {
                let token = control_access::read_secret(&file)
                    .and_then(|token| Ok(serde_json::to_vec(&token)?))
                    .and_then(|text| memfd::document("tutti-token", &text));
                self.answer_with(id, token.map(Some));
            }
            FromController::Acme { plan } => self.plan_certificates(plan),
            FromController::Renew { id, bundle } => self.renew_certificate(id, bundle),
            FromController::AcmeDone { id, error } => self.acme_done(id, error),
            FromController::Source { plan } => self.follow_source(plan),
            FromController::FleetDone { id, answer } => self.fleet_done(id, answer),
            FromController::History { id } => {
                let entries = history::list(&self.instance.places.state)
                    .and_then(|entries| Ok(serde_json::to_vec(&entries)?))
                    .and_then(|text| memfd::document("tutti-history", &text));
                self.answer_with(id, entries.map(Some));
            }
            FromController::Past { id, number } => {
                let past = history::past(&self.instance.places.state, number);
                let past = past.map(|text| memfd::document("tutti-past", text.as_bytes()));
                self.answer_with(id, past.transpose());
            }
            FromController::Upgrade { id } => self.begin_upgrade(Some(id)),
            FromController::Stop { id, is_graceful } => {
                self.answer(id, Vec::new());
                self.begin_stop(if is_graceful {
                    Stop::graceful()
                } else {
                    Stop::quick(ExitCode::SUCCESS)
                });
            }
        }
    }

    fn obey_next_controller(&mut self, message: FromController) {
        match message {
            FromController::Begin { grants, .. } => self.start_next_router(*grants),
            FromController::Unfit { message } => self.go_back(&message, None),
            // It serves when its router does.
            _ => {}
        }
    }

    fn answer_with(&mut self, id: u64, file: io::Result<Option<OwnedFd>>) {
        match file {
            Ok(file) => self.answer(id, file.into_iter().collect()),
            Err(error) => self.refuse(id, Reason::Refused, error.to_string()),
        }
    }

    fn read_files(&self) -> io::Result<OwnedFd> {
        let files = match &self.instance.places.config {
            Some(path) => crate::config_files::read(path)?,
            None => Vec::new(),
        };
        memfd::document("tutti-files", &serde_json::to_vec(&files)?)
    }

    /// The controller has decided what the server starts with.
    fn begin_with(
        &mut self,
        configuration: Option<String>,
        cause: Option<Cause>,
        set_aside: bool,
        grants: Grants,
    ) {
        if !matches!(self.life, Life::Beginning) {
            return;
        }
        self.life = Life::Starting;
        self.holdings.grants = grants;
        if set_aside {
            self.set_aside();
        }
        match (configuration, cause) {
            (Some(text), Some(cause)) => {
                if let Err(error) = self.store_configuration(&text, &cause) {
                    // A full disk does not prevent serving the configuration of the files.
                    let text_of = format!("cannot store the configuration: {error}");
                    self.log(Level::Alert, &text_of);
                    self.holdings.configuration = Some(text);
                }
            }
            (Some(_), None) => {}
            (None, _) => self.holdings.configuration = None,
        }
        self.start_router();
    }

    /// Stores the certificates of files before a router gets the stored certificates.
    fn keep_certificates(&self, certificates: &BTreeMap<String, String>) {
        if !matches!(self.life, Life::Beginning) {
            return;
        }
        for (name, text) in certificates {
            let state = &self.instance.places.state;
            match stored::keep(state, StoreKind::Certificates, name, text) {
                Ok(unsynced) => self.warn_of_unsynced(unsynced),
                Err(error) => {
                    let text = format!("cannot store the certificate `{name}`: {error}");
                    self.log(Level::Alert, &text);
                }
            }
        }
    }

    fn set_aside(&mut self) {
        match state::set_aside(&self.instance.places.state) {
            Ok(path) => {
                let text = format!("the stored configuration is kept as `{}`", path.display());
                self.log(Level::Notice, &text);
            }
            Err(error) => self.log(Level::Alert, &error.to_string()),
        }
    }

    /// Ends controllers that are no longer needed: the server stops, and its routers have ended.
    pub(super) fn end_controllers(&mut self) {
        let Life::Stopping(stop) = &mut self.life else {
            return;
        };
        if matches!(stop.pace, Pace::LastAnswers { .. }) || self.controllers.is_empty() {
            return;
        }
        let kill_at = Instant::now() + QUICK_STOP;
        stop.pace = Pace::LastAnswers { kill_at };
        self.refuse_questions("the server is stopping");
        for controller in self.controllers.all_mut() {
            let _ = controller.process.send(&ToController::End, Vec::new());
        }
    }
}
