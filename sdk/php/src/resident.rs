//! Resident applications: the script boots once in each worker and asks for its requests.
//!
//! Called by the worker's loop with the source of requests; PHP's loop runs inside (`csrc/resident.c`) and calls back for each. What must never
//! happen: a request that was taken and gets no answer, whatever the script does.

use std::{
    ptr::NonNull,
    rc::Rc,
    time::{SystemTime, UNIX_EPOCH},
};

use crate::{
    abi::{Request, ScriptFile, Variable},
    exchange::PhpRequest,
    log,
    options::LoadError,
    running::{self, Life},
    script::Script,
    serve::{PhpInstance, answer},
    serving::{Current, Progress, Serving, describe},
    variables::{Constants, Variables},
};

/// Where the requests come from.
pub trait RequestSource {
    /// The script has booted. Called before the first `next`.
    fn ready(&mut self);
    /// Waits for a request, which `exchange` then gives. False: there will be none.
    fn next(&mut self) -> bool;
    /// The request, until `done`.
    fn exchange(&mut self) -> Option<&mut dyn PhpRequest>;
    /// It is over.
    fn done(&mut self);
    /// The worker takes no more.
    fn leave(&mut self);
}

impl PhpInstance {
    /// Boots the script of a resident application and serves until the source has no more, or the worker must go.
    ///
    /// # Errors
    /// When the script does not boot: the first time, an error of the start.
    pub fn reside(&mut self, source: &mut dyn RequestSource) -> Result<(), LoadError> {
        let script = self.targets.first().and_then(|scripts| scripts.single());
        let Some(script) = script else {
            return Err(LoadError::resident(
                "`mode` `resident` needs `script`".to_owned(),
                "name the script that loops on `tutti_handle_request()`",
            ));
        };
        let mut resident = Resident {
            source,
            script: Rc::clone(&script),
            booted: Rc::clone(&script),
            constants: &self.constants,
            variables: &mut self.variables,
            strings: &mut self.strings,
            request: None,
            progress: Progress::default(),
            failure: Vec::new(),
            is_kept: false,
            is_ready: false,
        };
        let file = ScriptFile::new(&script);
        loop {
            resident.variables.reset();
            let end = running::reside(&file, &mut resident);
            match end {
                Life::Over => {
                    resident.source.leave();
                    return Ok(());
                }
                Life::Reboot => {}
                Life::Fatal => {
                    log::error(&format!(
                        "`{}` met a fatal error within a request: its process is replaced",
                        script.file.to_string_lossy()
                    ));
                    return Ok(());
                }
                Life::NoLoop | Life::Broken => return Err(resident.boot_error()),
            }
        }
    }
}

/// A resident script and the request it is at.
struct Resident<'a> {
    source: &'a mut dyn RequestSource,
    /// As the request names it: with path information.
    script: Rc<Script>,
    booted: Rc<Script>,
    constants: &'a Constants,
    variables: &'a mut Variables,
    strings: &'a mut Vec<u8>,
    request: Option<Request>,
    progress: Progress,
    failure: Vec<u8>,
    /// The source's request waits for the next boot.
    is_kept: bool,
    is_ready: bool,
}

impl Resident<'_> {
    /// The boot has failed; what waited for it is answered.
    fn boot_error(&mut self) -> LoadError {
        if self.is_kept
            && let Some(exchange) = self.source.exchange()
        {
            answer(exchange, 500, None);
            self.source.done();
        }
        let script = self.booted.file.to_string_lossy();
        if self.failure.is_empty() {
            LoadError::resident(
                format!("`{script}` ended without having called `tutti_handle_request()`"),
                "a resident script boots and then loops: `while (tutti_handle_request($handler));`; without a loop, remove `mode`",
            )
        } else {
            LoadError::resident(
                format!(
                    "`{script}` does not boot: {}",
                    String::from_utf8_lossy(&self.failure)
                ),
                "what the script wrote before is in the log",
            )
        }
    }
}

impl Current for Resident<'_> {
    fn serving(&mut self) -> Option<Serving<'_>> {
        self.request.as_ref()?;
        Some(Serving {
            exchange: self.source.exchange()?,
            script: &self.script,
            target: 0,
            constants: self.constants,
            variables: self.variables,
            progress: &mut self.progress,
        })
    }

    fn own_variables(&mut self) -> &[Variable] {
        self.variables.boot(self.constants, &self.booted)
    }

    fn next(&mut self) -> Option<NonNull<Request>> {
        if !self.is_ready {
            self.is_ready = true;
            self.source.ready();
        }
        if !std::mem::take(&mut self.is_kept) && !self.source.next() {
            return None;
        }
        let exchange = self.source.exchange()?;
        self.script = Script::for_path(&self.booted, exchange.path());
        self.variables.reset();
        self.progress = Progress::default();
        let time = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let request = describe(self.strings, exchange, &self.script, time.as_secs_f64());
        Some(NonNull::from(self.request.insert(request)))
    }

    fn keep(&mut self) {
        self.request = None;
        self.is_kept = true;
    }

    fn done(&mut self, is_recycled: bool) {
        self.request = None;
        self.variables.reset();
        if let Some(exchange) = self.source.exchange() {
            if !self.progress.is_started {
                answer(exchange, 500, None);
            } else if !self.progress.is_finished {
                exchange.finish();
            }
        }
        self.source.done();
        if is_recycled {
            self.source.leave();
        }
    }

    fn boot_failed(&mut self, message: &[u8]) {
        self.failure = message.to_vec();
    }
}
