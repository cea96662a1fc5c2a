//! The interpreter of this process: started once, in the prototype, and forked with it.
//!
//! The main thread is attached to it from the start on, also across the fork; it detaches where it waits. What must never
//! happen: a start that leaves threads behind, or signal handlers of Python's in place of the worker's.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyList;
use tutti_worker::StartError;

use crate::options::Program;

/// Version of the Python this host is built for.
pub(crate) const VERSION: &str = env!("TUTTI_PYTHON_VERSION");

/// That Python's program: what finds its standard library.
pub(crate) const PROGRAM: &str = env!("TUTTI_PYTHON_PROGRAM");

/// `3.11` of `3.11.2`.
pub(crate) fn short_version() -> String {
    VERSION.splitn(3, '.').take(2).collect::<Vec<_>>().join(".")
}

/// A `PyConfig` that is cleared in the end.
struct Config(ffi::PyConfig);

impl Config {
    fn new() -> Self {
        // SAFETY: a C structure of numbers and pointers that may be null.
        let mut config: ffi::PyConfig = unsafe { std::mem::zeroed() };
        // SAFETY: fills in the whole structure.
        unsafe { ffi::PyConfig_InitPythonConfig(&raw mut config) };
        Self(config)
    }

    fn program(&mut self, program: &Program) -> Result<(), StartError> {
        let (path, is_home) = match program {
            Program::Named(path) => (path, false),
            Program::Home(path) => (path, true),
        };
        let text = c_string(path)?;
        let config = &raw mut self.0;
        // SAFETY: only the member's address is taken.
        let name = unsafe { &raw mut (*config).program_name };
        // SAFETY: only the member's address is taken.
        let home = unsafe { &raw mut (*config).home };
        let member = if is_home { home } else { name };
        // SAFETY: `member` is one of the structure's strings, and `text` ends with a NUL.
        checked(unsafe { ffi::PyConfig_SetBytesString(config, member, text.as_ptr()) })
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        // SAFETY: made by `PyConfig_InitPythonConfig`, and cleared once.
        unsafe { ffi::PyConfig_Clear(&raw mut self.0) };
    }
}

/// Stands in for a `sitecustomize` of the application while the interpreter starts: see [`customize`].
#[pymodule]
fn sitecustomize(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}

/// Starts the interpreter; the calling thread is its main thread and stays attached.
pub(crate) fn start(program: &Program) -> Result<(), StartError> {
    // Built-in modules are found before those in files.
    pyo3::append_to_inittab!(sitecustomize);
    let mut config = Config::new();
    config.0.parse_argv = 0;
    // Stop signals are the worker's.
    config.0.install_signal_handlers = 0;
    config.program(program)?;
    // SAFETY: the configuration is complete, and no interpreter has been started in this process.
    checked(unsafe { ffi::Py_InitializeFromConfig(&raw const config.0) })?;
    Python::attach(flush_lines)
        .map_err(|error| StartError::new("preparing the standard streams", error))
}

/// The lines that applications print are to be in the log at once, one at a time: output goes to files and pipes.
fn flush_lines(py: Python<'_>) -> PyResult<()> {
    let sys = py.import("sys")?;
    for name in ["stdout", "stderr"] {
        let stream = sys.getattr(name)?;
        if !stream.is_none() {
            let keywords = pyo3::types::PyDict::new(py);
            keywords.set_item("line_buffering", true)?;
            stream.call_method("reconfigure", (), Some(&keywords))?;
        }
    }
    Ok(())
}

/// Runs the application's `sitecustomize`, right before the application is imported: commands such as
/// `opentelemetry-instrument` put an agent there, which starts threads, and a process with threads cannot be forked.
/// One that fails is reported and changes nothing else, as Python does it. The first `own` folders of the search path are
/// the application's: Python does not know them yet when it starts.
pub(crate) fn customize(py: Python<'_>, own: usize) {
    const NAME: &str = "sitecustomize";
    let run = || -> PyResult<()> {
        let sys = py.import("sys")?;
        let modules = sys.getattr("modules")?;
        let path = sys.getattr("path")?.cast_into::<PyList>()?;
        let path = path.get_slice(own, path.len());
        modules.call_method1("pop", (NAME, py.None()))?;
        let finder = py.import("importlib.machinery")?.getattr("PathFinder")?;
        let spec = finder.call_method1("find_spec", (NAME, path))?;
        if spec.is_none() {
            return Ok(());
        }
        let util = py.import("importlib.util")?;
        let module = util.call_method1("module_from_spec", (&spec,))?;
        modules.set_item(NAME, &module)?;
        spec.getattr("loader")?
            .call_method1("exec_module", (module,))?;
        Ok(())
    };
    if let Err(error) = run() {
        crate::log::exception(py, "running `sitecustomize`", &error);
    }
}

fn checked(status: ffi::PyStatus) -> Result<(), StartError> {
    // SAFETY: a plain look at the status.
    if unsafe { ffi::PyStatus_Exception(status) } == 0 {
        return Ok(());
    }
    let message = if status.err_msg.is_null() {
        format!("exit code {}", status.exitcode)
    } else {
        // SAFETY: a static text that ends with a NUL.
        let text = unsafe { std::ffi::CStr::from_ptr(status.err_msg) };
        text.to_string_lossy().into_owned()
    };
    Err(StartError::new("starting the interpreter", message).hint(format!(
        "Python {VERSION} must find its standard library: are `home`, PYTHONHOME and PYTHONPATH right, and may the \
         application's user read {PROGRAM}'s library folder?"
    )))
}

fn c_string(path: &Path) -> Result<CString, StartError> {
    CString::new(path.as_os_str().as_bytes())
        .map_err(|_| StartError::new("reading `home`", "it contains a NUL byte"))
}

/// To be called right before a fork, attached.
pub(crate) fn before_fork() {
    // SAFETY: the calling thread is attached.
    unsafe { ffi::PyOS_BeforeFork() };
}

/// To be called after a fork where we are the parent still.
pub(crate) fn after_fork_in_parent() {
    // SAFETY: the calling thread is attached, and called `before_fork`.
    unsafe { ffi::PyOS_AfterFork_Parent() };
}

/// To be called after a fork in the new process.
pub(crate) fn after_fork_in_child() {
    // SAFETY: the calling thread is attached, as the one that forked was, and is the only one of this process.
    unsafe { ffi::PyOS_AfterFork_Child() };
}

/// The time between two requests, when the interpreter belongs to the application's own threads.
#[derive(Debug)]
pub(crate) struct Away(*mut ffi::PyThreadState);

impl Away {
    /// Detaches the calling thread.
    pub(crate) fn detach() -> Self {
        // SAFETY: the main thread is attached whenever our code runs.
        Self(unsafe { ffi::PyEval_SaveThread() })
    }

    /// Attaches it again; waits for its turn.
    pub(crate) fn attach(self) {
        // SAFETY: the state that `detach` gave, on the same thread, once.
        unsafe { ffi::PyEval_RestoreThread(self.0) };
    }
}

/// The process ends: what the application registered with `atexit` runs, and what it has printed is written.
pub(crate) fn finish(py: Python<'_>) {
    let run = || -> PyResult<()> {
        py.import("atexit")?.call_method0("_run_exitfuncs")?;
        let sys = py.import("sys")?;
        for name in ["stdout", "stderr"] {
            let stream = sys.getattr(name)?;
            if !stream.is_none() {
                stream.call_method0("flush")?;
            }
        }
        Ok(())
    };
    if let Err(error) = run() {
        crate::log::exception(py, "ending the process", &error);
    }
}
