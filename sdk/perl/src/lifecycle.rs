//! An application: its options, its interpreter, and when its script is loaded.
//!
//! The script is loaded in each worker, or with `preload` once in the prototype, so that the workers share its memory and start at once.

use std::ffi::CString;
use std::os::unix::ffi::OsStringExt as _;
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use tutti_options::Options as _;
use tutti_options::application::Common;
use tutti_options::perl::Perl as PerlOptions;
use tutti_seam::Memory;
use tutti_worker::{Exchange, Process, Requests, Served, StartError};

use crate::ffi::{Concurrency, Interpreter};

/// An application with the interpreter it runs in.
#[derive(Debug)]
pub struct Perl {
    first: ThreadState,
    script: CString,
    is_loaded: bool,
    thread_stack_size: Option<usize>,
}

/// The objects that a thread serves with.
#[derive(Debug)]
struct ThreadState {
    interpreter: Interpreter,
    memory: Memory,
}

impl Perl {
    /// Starts the interpreter: in the prototype, once.
    ///
    /// # Errors
    /// When the configuration is not ours, perl does not start, or with `preload` the script does not load.
    pub fn start(config: &Value, common: &Common) -> Result<Self, StartError> {
        let options = PerlOptions::from_json(config)?;
        // `do FILE` looks for a relative one in `@INC`, where the working directory is not (perl5260delta).
        let script = std::path::absolute(&options.script)
            .map_err(|error| StartError::new("looking for the script", error).member("script"))?;
        let script = CString::new(script.into_os_string().into_vec())
            .map_err(|_| StartError::new("configuration", "`script` contains a NUL byte"))?;
        let threads = options.threads;
        let concurrency = Concurrency {
            multithread: threads.threads.get() > 1,
            multiprocess: common.processes.max() > 1,
        };
        let interpreter = Interpreter::new(concurrency).map_err(|text| {
            StartError::new("starting perl", text)
                .hint("the lines before this one in the log tell why")
        })?;
        let mut perl = Self {
            first: ThreadState::new(interpreter),
            script,
            is_loaded: false,
            thread_stack_size: threads.thread_stack_size,
        };
        if common.preload {
            perl.load()?;
        }
        Ok(perl)
    }

    fn load(&mut self) -> Result<(), StartError> {
        self.first.interpreter.load(&self.script).map_err(|text| {
            let step = format!("loading `{}`", self.script.to_string_lossy());
            StartError::new(step, text).member("script")
        })?;
        self.is_loaded = true;
        Ok(())
    }

    /// To be called in each worker after its fork.
    pub fn worker_started(&mut self) -> Result<(), StartError> {
        self.first.interpreter.worker_started();
        if self.is_loaded {
            return Ok(());
        }
        self.load()
    }

    /// Serves one request to its end.
    pub fn serve(&mut self, exchange: &mut Exchange) -> Served {
        self.first.serve(exchange)
    }

    /// Serves with as many threads as the process is to have, each with an interpreter of its own.
    ///
    /// # Errors
    /// When this perl has no threads, or one cannot be started.
    pub fn serve_threads(&mut self, process: &mut Process) -> Result<(), StartError> {
        let mut others = Vec::new();
        for _ in 1..process.threads() {
            let interpreter = self.first.interpreter.duplicate().ok_or_else(|| {
                StartError::new("starting threads", "this perl was built without threads")
                    .hint("take `threads` out and use more `processes`")
                    .member("threads")
            })?;
            others.push(Mutex::new(ThreadState::new(interpreter)));
        }
        let first = Mutex::new(&mut self.first);
        process.serve_threads(self.thread_stack_size, |index, requests| {
            // Each lock is taken by one thread, once.
            match index
                .checked_sub(1)
                .and_then(|other| others.get(other as usize))
            {
                Some(other) => other
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .run(requests),
                None => first
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .run(requests),
            }
        })?;
        // Back to the first, whose `END` blocks run when it is dropped.
        drop(others);
        self.first.interpreter.enter();
        Ok(())
    }
}

impl ThreadState {
    fn new(interpreter: Interpreter) -> Self {
        Self {
            interpreter,
            memory: Memory::default(),
        }
    }

    fn run(&mut self, requests: &mut Requests<'_>) {
        self.interpreter.enter();
        while let Some(mut exchange) = requests.next_request() {
            let then = self.serve(&mut exchange);
            requests.done(exchange, then);
        }
    }

    fn serve(&mut self, exchange: &mut Exchange) -> Served {
        let request = self.memory.describe(exchange);
        if self.interpreter.serve(exchange, &request) {
            Served::Recycle
        } else {
            Served::Again
        }
    }
}
