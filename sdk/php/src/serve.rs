//! One request: find the script, run it, complete the response. And the state of PHP in a process.
//!
//! Called by the worker's loop. Whatever the script does, exactly one complete response is given, unless the process dies.

use std::{
    ffi::{CStr, CString},
    os::unix::ffi::OsStrExt,
    rc::Rc,
    time::{SystemTime, UNIX_EPOCH},
};

use tutti_worker::{StartError, warn_of_option};

use crate::{
    abi::PhpField,
    adapters,
    exchange::PhpRequest,
    ffi,
    options::{LoadError, Mode, PhpOptions},
    running,
    script::{Resolved, Script, Scripts},
    serving::{Current, Progress, Serving, describe},
    variables::{Constants, Variables},
};

/// The name of PHP in messages.
pub const VERSION: &str = env!("TUTTI_PHP_VERSION");

/// A started PHP with the targets of one application.
pub struct PhpInstance {
    pub(crate) targets: Vec<Scripts>,
    pub(crate) constants: Constants,
    pub(crate) variables: Variables,
    /// Memory for the NUL-terminated strings of the request.
    pub(crate) strings: Vec<u8>,
    mode: Mode,
    /// For how many seconds a script once found need not be looked for.
    keep_for: i64,
}

/// The worker's next step after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Serve on.
    Again,
    /// Leave: PHP asked for it, or its state is in doubt.
    Recycle,
}

impl PhpInstance {
    /// Starts PHP: in the prototype, once.
    ///
    /// # Errors
    /// When a root or a script is missing, or PHP does not start.
    pub fn start(config: &serde_json::Value) -> Result<Self, LoadError> {
        let options = PhpOptions::parse(config)?;
        let targets = options.targets()?;
        let ini = options.ini()?;
        let entries: &'static CStr = Box::leak(ini.entries.into_boxed_c_str());
        let file: Option<&'static CStr> = ini.file.map(|file| &*Box::leak(file.into_boxed_c_str()));
        let mode = options.mode();
        if !ffi::startup(file, entries, mode == Mode::Resident, adapters::folder()) {
            return Err(LoadError {
                step: "php",
                message: format!("PHP {VERSION} did not start"),
                hint: "the lines before this one in the log tell why".to_owned(),
                member: String::new(),
            });
        }
        for (name, place) in &ini.named {
            if !ffi::has_directive(name) {
                let message = format!("PHP does not know the directive `{name}` in `options`");
                let warning = StartError::new("php", message).member(place.as_str());
                warn_of_option(
                    warning.hint("correct its name, or install the extension that it belongs to"),
                );
            }
        }
        for name in &ini.locked {
            ffi::lock_directive(name);
        }
        let keep_for = match (
            ffi::is_opcache_enabled(),
            ffi::directive("opcache.validate_timestamps"),
        ) {
            (false, _) => 0,
            (true, 0) => i64::MAX,
            (true, _) => ffi::directive("opcache.revalidate_freq"),
        };
        let constants = Constants::new(
            targets.iter().map(|target| target.root.as_slice()),
            &options.environment(),
        );
        Ok(Self {
            targets: targets.into_iter().map(Scripts::new).collect(),
            constants,
            variables: Variables::default(),
            mode,
            strings: Vec::with_capacity(1024),
            keep_for,
        })
    }

    /// Its script boots once and asks for requests: see [`PhpInstance::reside`].
    #[must_use]
    pub fn is_resident(&self) -> bool {
        self.mode == Mode::Resident
    }

    /// Compiles the entry script of each target into opcache: in the prototype, once.
    pub fn preload(&self) -> Result<(), LoadError> {
        for scripts in &self.targets {
            let Some(script) = scripts.target().entry() else {
                continue;
            };
            let Ok(path) = CString::new(script.as_os_str().as_bytes()) else {
                continue;
            };
            if !ffi::preload(&path) {
                return Err(LoadError {
                    step: "preload",
                    message: format!("`{}` does not compile", script.display()),
                    hint: "its output tells why; without `preload` only its requests would fail"
                        .to_owned(),
                    member: "preload".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// To be called in each worker after its fork.
    pub fn worker_started(&mut self, worker: u32) {
        ffi::worker_started(worker);
    }

    /// Serves one request to its end.
    pub fn serve(&mut self, exchange: &mut dyn PhpRequest) -> After {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let seconds = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        let Some(target) = self
            .targets
            .iter()
            .position(|scripts| scripts.target().name.as_bytes() == exchange.target_name())
        else {
            answer(exchange, 404, None);
            return After::Again;
        };
        let Some(scripts) = self.targets.get_mut(target) else {
            return After::Again;
        };
        match scripts.resolve(exchange.path(), seconds, self.keep_for) {
            Resolved::Script(script) => self.run(exchange, &script, target, now.as_secs_f64()),
            Resolved::NotFound => {
                answer(exchange, 404, None);
                After::Again
            }
            Resolved::Forbidden => {
                answer(exchange, 403, None);
                After::Again
            }
            Resolved::Redirect(mut location) => {
                if !exchange.query().is_empty() {
                    location.push(b'?');
                    location.extend_from_slice(exchange.query());
                }
                answer(exchange, 301, Some(&location));
                After::Again
            }
        }
    }

    fn run(
        &mut self,
        exchange: &mut dyn PhpRequest,
        script: &Rc<Script>,
        target: usize,
        time: f64,
    ) -> After {
        self.variables.reset();
        let request = describe(&mut self.strings, exchange, script, time);
        let mut classic = Classic {
            exchange,
            script,
            target,
            constants: &self.constants,
            variables: &mut self.variables,
            progress: Progress::default(),
        };
        let result = running::serve(&request, &mut classic);
        let Classic {
            exchange, progress, ..
        } = classic;
        if !progress.is_started {
            answer(exchange, 500, None);
        } else if !progress.is_finished {
            exchange.finish();
        }
        if result == running::SERVED {
            After::Again
        } else {
            After::Recycle
        }
    }
}

impl Drop for PhpInstance {
    fn drop(&mut self) {
        ffi::shutdown();
    }
}

/// A script that runs once for its request.
struct Classic<'a> {
    exchange: &'a mut dyn PhpRequest,
    script: &'a Script,
    target: usize,
    constants: &'a Constants,
    variables: &'a mut Variables,
    progress: Progress,
}

impl Current for Classic<'_> {
    fn serving(&mut self) -> Option<Serving<'_>> {
        Some(Serving {
            exchange: self.exchange,
            script: self.script,
            target: self.target,
            constants: self.constants,
            variables: self.variables,
            progress: &mut self.progress,
        })
    }
}

/// Answers without PHP.
pub(crate) fn answer(exchange: &mut dyn PhpRequest, status: u16, location: Option<&[u8]>) {
    let reason = match status {
        301 => "Moved Permanently",
        403 => "Forbidden",
        404 => "Not Found",
        _ => "Internal Server Error",
    };
    let page =
        format!("<!DOCTYPE html><title>{status} {reason}</title><h1>{status} {reason}</h1>\n");
    let length = page.len().to_string();
    let fields = [
        PhpField::new(b"Content-Type", b"text/html"),
        PhpField::new(b"Content-Length", length.as_bytes()),
        PhpField::new(b"Location", location.unwrap_or_default()),
    ];
    let count = if location.is_some() { 3 } else { 2 };
    exchange.start(status, fields.get(..count).unwrap_or_default());
    if exchange.method() != b"HEAD" {
        // A client that has gone needs no page.
        let _ = exchange.write(page.as_bytes());
    }
    exchange.finish();
}
