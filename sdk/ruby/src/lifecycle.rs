//! An application: its options, ruby, and when its script is loaded.
//!
//! The script is loaded in each worker, or with `preload` once in the prototype, so that the workers share its memory and start at once.
//! Requests are served by Ruby threads, also where there is one only: ruby's main thread waits for their end, and so runs the
//! handlers of signals at once.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use serde_json::Value;
use tutti_options::Options as _;
use tutti_options::application::{Common, Threads};
use tutti_options::ruby::Ruby as RubyOptions;
use tutti_sys::fork::set_variable;
use tutti_worker::{Process, StartError};

use crate::ffi::{Interpreter, Options};
use crate::serving::ThreadSlot;

/// The variable that sets the stack of ruby's threads (ruby's `vm_core.h`, `RUBY_VM_THREAD_MACHINE_STACK_SIZE`).
const STACK_VARIABLE: &CStr = c"RUBY_THREAD_MACHINE_STACK_SIZE";

/// An application with the ruby that it runs in.
#[derive(Debug)]
pub struct Ruby {
    interpreter: Interpreter,
    options: Options,
    is_loaded: bool,
}

impl Ruby {
    /// Starts ruby: in the prototype, once.
    ///
    /// # Errors
    /// When the configuration is not ours, ruby does not start, or with `preload` the application does not load.
    pub fn start(config: &Value, common: &Common) -> Result<Self, StartError> {
        let options = RubyOptions::from_json(config)?;
        let processes = common.processes.max();
        let script = text("script", options.script)?;
        let hooks = options.hooks.map(|path| text("hooks", path)).transpose()?;
        let hidden = set_stack(options.threads)?;
        let options = Options {
            script,
            hooks,
            multithread: options.threads.threads.get() > 1,
            multiprocess: processes > 1,
            hidden,
        };
        let interpreter = Interpreter::start(&options).map_err(|text| {
            StartError::new("starting ruby", text)
                .hint("the lines before this one in the log tell why")
        })?;
        let mut ruby = Self {
            interpreter,
            options,
            is_loaded: false,
        };
        if common.preload {
            ruby.load()?;
            ruby.interpreter.settle();
        }
        Ok(ruby)
    }

    fn load(&mut self) -> Result<(), StartError> {
        self.interpreter.load(&self.options).map_err(|text| {
            let script = self.options.script.to_string_lossy();
            let member = match text.contains("the hooks `") {
                true => "hooks",
                false => "script",
            };
            StartError::new(format!("loading `{script}`"), text).member(member)
        })?;
        self.is_loaded = true;
        Ok(())
    }

    /// To be called in each worker after its fork.
    ///
    /// # Errors
    /// When the application does not load, or its hook fails.
    pub fn worker_started(&mut self) -> Result<(), StartError> {
        self.interpreter.enter();
        if !self.is_loaded {
            self.load()?;
        }
        self.interpreter.boot().map_err(hook_failed)
    }

    /// Serves until all threads have to leave.
    pub fn serve(&mut self, process: &mut Process) -> Result<(), StartError> {
        let most_taken_over = process.concurrency();
        for thread in process.take_threads() {
            let place = ThreadSlot {
                thread,
                most_taken_over,
            };
            if let Err(text) = self.interpreter.start_thread(place) {
                Process::stop();
                self.interpreter.join();
                return Err(hook_failed(text));
            }
        }
        process.ready();
        self.interpreter.join();
        Ok(())
    }
}

fn hook_failed(text: String) -> StartError {
    let member = match text.contains("the hook `") {
        true => "hooks",
        false => "threads",
    };
    StartError::new("starting the worker", text).member(member)
}

fn text(option: &str, path: PathBuf) -> Result<CString, StartError> {
    CString::new(path.into_os_string().into_vec()).map_err(|_| {
        StartError::new("configuration", format!("`{option}` contains a NUL byte")).member(option)
    })
}

/// Tells ruby the stack of the threads it will start; it looks once, when it starts. The variable that was set for it.
fn set_stack(threads: Threads) -> Result<Option<&'static CStr>, StartError> {
    let Some(size) = threads.thread_stack_size else {
        return Ok(None);
    };
    let name = STACK_VARIABLE.to_string_lossy();
    set_variable(&name, &size.to_string())
        .map_err(|error| StartError::new("setting the stack of threads", error))?;
    Ok(Some(STACK_VARIABLE))
}
