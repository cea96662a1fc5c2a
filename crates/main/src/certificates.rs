//! The acme process, and main's services for it: stores its documents, runs the hook for DNS records, and forwards its
//! requests to the controller.
//!
//! `impl` blocks of [`Supervisor`]. The process runs while the configuration has automatic certificates. It reads data
//! from strangers, so it is not trusted: only files in its own folder are written for it, and only the hook in the
//! controller's plan is run. Must never happen: that its end, at any moment, costs more than the start of a new one.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use tutti_log::Level;
use tutti_protocol::{
    ACME_TITLE, AcmeHello, AcmePlan, ForController, FromAcme, LONGEST_OF_ROUTER, ToAcme,
    ToController,
};
use tutti_sys::process::Ended;
use tutti_sys::spawn::Spawn;
use tutti_sys::{oom, signal};

use super::acme::{Asker, Hook};
use super::instance::Instance;
use super::own_process::OwnProcess;
use super::stored::{self, Shelf};
use super::supervisor::{MOST_AT_ONCE, Supervisor};
use super::trial::words_of;

/// Longest name or value of a DNS record for a hook.
const LONGEST_WORD: usize = 255;

/// A hook waits until the record is visible everywhere.
const LONGEST_HOOK: Duration = Duration::from_secs(300);

/// Maximum hooks at the same time.
const MOST_HOOKS: usize = 16;

/// Maximum requests that the controller has not answered.
const MOST_ASKED: usize = 1000;

impl Supervisor {
    /// Applies the controller's plan of certificates to obtain.
    pub(super) fn plan_certificates(&mut self, plan: Option<Box<AcmePlan>>) {
        if self.is_stopping() {
            return;
        }
        self.acme.plan = plan;
        match (&self.acme.plan, self.acme.process.is_some()) {
            (None, _) => {
                self.acme.kill();
                self.wishes_unanswered();
                self.send_sharing();
            }
            (Some(plan), true) => {
                let plan = plan.clone();
                self.send_to_acme(&ToAcme::Plan { plan }, Vec::new());
            }
            (Some(_), false) => self.start_acme(),
        }
    }

    pub(super) fn start_acme(&mut self) {
        let Some(plan) = self.acme.plan.clone() else {
            return;
        };
        let (documents, errors) = stored::load_shelf(&self.instance.places.state, Shelf::Acme);
        for error in errors {
            self.instance.log.line(Level::Alert, &error.to_string());
        }
        self.acme.kept = documents.keys().cloned().collect();
        let hello = AcmeHello {
            log: self.instance.log.style().clone(),
            documents,
            plan: *plan,
            is_shared: self.fleet.is_sharing(),
        };
        self.acme.is_shared = hello.is_shared;
        match launch(&self.instance, hello) {
            Ok(process) => {
                let text = format!("automatic certificates: started as process {}", process.pid);
                self.log(Level::Info, &text);
                self.acme.process = Some(process);
                self.send_sharing();
            }
            Err(error) => {
                self.log(Level::Alert, &error.to_string());
                self.acme.restarts.ended(None);
            }
        }
    }

    pub(super) fn send_to_acme(&mut self, message: &ToAcme, descriptors: Vec<OwnedFd>) {
        let Some(process) = &mut self.acme.process else {
            return;
        };
        if let Err(error) = process.send(message, descriptors) {
            let text = format!("cannot send to the certificate process: {error}");
            self.log(Level::Alert, &text);
        }
    }

    /// Passes on the reopened log.
    pub(super) fn reopen_log_of_acme(&mut self) -> io::Result<()> {
        let log = self.instance.log.descriptor()?;
        self.send_to_acme(&ToAcme::LogReopened, vec![log]);
        Ok(())
    }

    fn answer_acme(&mut self, id: u64, outcome: Result<(), String>) {
        let answer = match outcome {
            Ok(()) => ToAcme::Done { id },
            Err(message) => ToAcme::Failed { id, message },
        };
        self.send_to_acme(&answer, Vec::new());
    }

    pub(super) fn handle_acme(&mut self) {
        for _ in 0..MOST_AT_ONCE {
            let Some(process) = &mut self.acme.process else {
                return;
            };
            process.flush();
            match process.receive() {
                Ok(None) => return,
                Ok(Some((message, _))) => self.obey_acme(message),
                Err(error) => {
                    process.kill();
                    let text = format!(
                        "the certificate process sent a message that cannot be read: {error}"
                    );
                    return self.log(Level::Alert, &text);
                }
            }
        }
    }

    fn obey_acme(&mut self, message: FromAcme) {
        let state = &self.instance.places.state;
        match message {
            FromAcme::Alive { number } => {
                if let Some(process) = &mut self.acme.process {
                    process.pulse.answered(number);
                }
            }
            FromAcme::Keep { id, name, text } => {
                let kept = if self.acme.may_keep(&name, &text) {
                    stored::keep_on(state, Shelf::Acme, &name, &text)
                        .map(|unsynced| {
                            self.acme.kept.insert(name);
                            self.warn_of_unsynced(unsynced);
                        })
                        .map_err(|error| error.to_string())
                } else {
                    Err("the configuration does not require such a document".to_owned())
                };
                self.answer_acme(id, kept);
            }
            FromAcme::Discard { id, name } => {
                let gone = stored::discard_from(state, Shelf::Acme, &name);
                self.acme.kept.remove(&name);
                self.answer_acme(id, gone.map_err(|error| error.to_string()));
            }
            FromAcme::RunHook {
                id,
                account,
                is_present,
                name,
                value,
            } => {
                if let Err(error) = self.run_hook(id, &account, is_present, [&name, &value]) {
                    self.answer_acme(id, Err(error));
                }
            }
            FromAcme::Shared { id, request } => self.ask_fleet(id, request),
            FromAcme::Wanted { id, error } => self.wish_done(id, error),
            FromAcme::Tell { id, message } => self.pass_on(id, message),
        }
    }

    fn pass_on(&mut self, id: u64, message: ForController) {
        if self.acme.asked.len() >= MOST_ASKED || self.controllers.serving.is_none() {
            let text = "the controller is not running".to_owned();
            return self.answer_acme(id, Err(text));
        }
        self.acme.asked.insert(id);
        self.send_to_controller(&ToController::Acme { id, message }, Vec::new());
    }

    /// Forwards the controller's answer to a request.
    pub(super) fn acme_done(&mut self, id: u64, error: Option<String>) {
        if self.acme.asked.remove(&id) {
            self.answer_acme(id, error.map_or(Ok(()), Err));
        }
    }

    /// The controller has ended: its requests will not be answered.
    pub(super) fn acme_unanswered(&mut self) {
        // The requests of the next controller have the same numbers.
        self.acme
            .wishes
            .retain(|_, asker| matches!(asker, Asker::Router(..)));
        for id in std::mem::take(&mut self.acme.asked) {
            self.answer_acme(
                id,
                Err("the controller has ended in the meantime".to_owned()),
            );
        }
    }

    fn run_hook(
        &mut self,
        id: u64,
        account: &str,
        is_present: bool,
        words: [&str; 2],
    ) -> Result<(), String> {
        let plan = self.acme.plan.as_ref();
        let account = plan.and_then(|plan| plan.accounts.get(account));
        let Some(hook) = account.and_then(|account| account.hook.clone()) else {
            return Err("there is no such hook in the configuration".to_owned());
        };
        let is_plain = |word: &str| {
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !word.is_empty() && word.len() <= LONGEST_WORD && word.bytes().all(is_letter)
        };
        if !words.into_iter().all(is_plain) || self.acme.hooks.len() >= MOST_HOOKS {
            return Err("a hook cannot be called with these arguments".to_owned());
        }
        let order = if is_present { "present" } else { "cleanup" };
        let started = start_hook(&self.instance, &hook, [order, words[0], words[1]]);
        let (pid, output) = started
            .map_err(|error| format!("the hook `{}` cannot be run: {error}", hook.display()))?;
        self.acme.hooks.push(Hook {
            pid,
            id,
            output,
            until: Instant::now() + LONGEST_HOOK,
        });
        Ok(())
    }

    /// Handles the end of a child; true if it was one of these.
    pub(super) fn acme_ended(&mut self, pid: i32, ended: Ended) -> bool {
        if let Some(place) = self.acme.hooks.iter().position(|hook| hook.pid == pid) {
            let hook = self.acme.hooks.swap_remove(place);
            // Kills processes that it has left behind.
            let _ = signal::send_group(pid, libc::SIGKILL);
            let outcome = match ended {
                Ended::Code(0) => Ok(()),
                ended => Err(format!("the hook {ended}: {}", words_of(hook.output))),
            };
            self.answer_acme(hook.id, outcome);
            return true;
        }
        let Some(process) = self.acme.process.take_if(|process| process.pid == pid) else {
            return false;
        };
        self.acme.kill();
        self.wishes_unanswered();
        self.send_sharing();
        if !self.is_stopping() && self.acme.plan.is_some() {
            let text = format!(
                "process {pid} for automatic certificates {ended}; certificates do not change until the next one starts"
            );
            self.log(Level::Alert, &text);
            // Everything it has started is stored, so restarting it is always worthwhile.
            self.acme.restarts.ended(Some(process.started));
        }
        true
    }

    /// Carries out due tasks.
    pub(super) fn mind_acme(&mut self, now: Instant) {
        if self.acme.restarts.take_due(now) && !self.is_stopping() {
            self.start_acme();
        }
        for hook in self.acme.hooks.iter_mut().filter(|hook| hook.until <= now) {
            // Its end is the answer.
            let _ = signal::send_group(hook.pid, libc::SIGKILL);
            hook.until = now + LONGEST_HOOK;
        }
        let overdue = self
            .acme
            .process
            .as_mut()
            .and_then(|process| process.kill_overdue(now));
        if let Some(text) = overdue {
            self.log(Level::Alert, &text);
        }
    }
}

fn launch(instance: &Instance, hello: AcmeHello) -> io::Result<OwnProcess<FromAcme>> {
    let mut process = OwnProcess::start(instance, ACME_TITLE, LONGEST_OF_ROUTER)?;
    let hello = ToAcme::Hello(Box::new(hello));
    process.send(&hello, vec![instance.log.descriptor()?])?;
    Ok(process)
}

/// Starts a hook, as the server's unprivileged user, in its own process group.
fn start_hook(
    instance: &Instance,
    hook: &std::path::Path,
    words: [&str; 3],
) -> io::Result<(i32, io::PipeReader)> {
    let (output, write) = io::pipe()?;
    let write = OwnedFd::from(write);
    let mut spawn = Spawn::new(hook)?
        .folder("/")?
        .new_session()
        .death_signal(libc::SIGKILL)
        .oom_value(oom::value_of_applications())
        .no_new_privileges()
        .descriptor(File::open("/dev/null")?.into(), 0)
        .descriptor(write.try_clone()?, 1)
        .descriptor(write, 2);
    for word in words {
        spawn = spawn.argument(word)?;
    }
    spawn = spawn.variable(
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    )?;
    if let Some(credentials) = &instance.own_credentials {
        spawn = spawn.credentials(credentials.clone());
    }
    let pid = spawn
        .start()
        .map_err(|e| io::Error::new(e.source.kind(), e.to_string()))?;
    Ok((pid, output))
}
