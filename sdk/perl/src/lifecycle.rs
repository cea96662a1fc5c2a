//! An application: its options, its interpreter, and when its script is loaded.
//!
//! The script is loaded in each worker, or with `preload` once in the prototype, so that the workers share its memory and start at once.

use std::ffi::CString;

use serde::Deserialize;
use serde_json::Value;
use tutti_worker::{Exchange, Served, StartError};

use crate::ffi::Interpreter;
use crate::request::Memory;

/// The members of an application object that concern Perl.
#[derive(Debug, Deserialize)]
struct Options {
    script: String,
    #[serde(default)]
    threads: Option<u32>,
    #[serde(default)]
    processes: Processes,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Processes {
    Fixed(u32),
    Dynamic { max: u32 },
}

impl Default for Processes {
    fn default() -> Self {
        Self::Fixed(1)
    }
}

/// An application with the interpreter it runs in.
#[derive(Debug)]
pub struct Perl {
    interpreter: Interpreter,
    script: CString,
    is_loaded: bool,
    memory: Memory,
}

impl Perl {
    /// Starts the interpreter: in the prototype, once.
    ///
    /// # Errors
    /// When the configuration is not ours, perl does not start, or with `preload` the script does not load.
    pub fn start(config: &Value, preload: bool) -> Result<Self, StartError> {
        let options = Options::deserialize(config)
            .map_err(|error| StartError::new("reading the configuration", error))?;
        let script = CString::new(options.script)
            .map_err(|_| StartError::new("configuration", "`script` contains a NUL byte"))?;
        let processes = match options.processes {
            Processes::Fixed(count) => count,
            Processes::Dynamic { max } => max,
        };
        let interpreter = Interpreter::new(options.threads.unwrap_or(1) > 1, processes > 1)
            .map_err(|text| {
                StartError::new("starting perl", text)
                    .hint("the lines before this one in the log tell why")
            })?;
        let mut perl = Self {
            interpreter,
            script,
            is_loaded: false,
            memory: Memory::default(),
        };
        if preload {
            perl.load()?;
        }
        Ok(perl)
    }

    fn load(&mut self) -> Result<(), StartError> {
        self.interpreter.load(&self.script).map_err(|text| {
            let step = format!("loading `{}`", self.script.to_string_lossy());
            StartError::new(step, text).member("script")
        })?;
        self.is_loaded = true;
        Ok(())
    }

    /// To be called in each worker after its fork.
    ///
    /// # Errors
    /// When the script does not load.
    pub fn worker_started(&mut self) -> Result<(), StartError> {
        self.interpreter.worker_started();
        if self.is_loaded {
            return Ok(());
        }
        self.load()
    }

    /// Serves one request to its end.
    pub fn serve(&mut self, exchange: &mut Exchange) -> Served {
        let request = self.memory.describe(exchange);
        if self.interpreter.serve(exchange, &request) {
            Served::Recycle
        } else {
            Served::Again
        }
    }
}
