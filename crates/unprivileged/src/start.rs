//! The first steps of every process that main starts for itself: hide, become another user, give up rights.
//!
//! Such a process is executed as main's user, root, with its line to main open, and nobody else's process can look into one of
//! root's. It hides its memory before it becomes the unprivileged user, and reads nothing before that is done. What must never
//! happen: that it is at once its user's, dumpable, and in possession of the line. Whoever else runs as that user could take the
//! descriptor then (`pidfd_getfd(2)`) and speak for it.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::ExitCode;

use tutti_log::Level;
use tutti_log::Log;
use tutti_protocol::{BECOME, LINE, read_user};
use tutti_sys::credentials;
use tutti_sys::spawn::inherited;
use tutti_sys::{process, sandbox};

/// Set to `off`, it leaves the process the rights of its user: for systems where giving them up goes wrong.
const SANDBOX: &str = "TUTTI_SANDBOX";

/// Runs a role from its first step to its end; `name` begins the message when it fails.
pub fn run<F>(name: &str, serve: impl FnOnce(OwnedFd) -> F) -> ExitCode
where
    F: Future<Output = io::Result<()>>,
{
    let done = enter().and_then(|line| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(serve(line))
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            use std::io::Write;
            let _ = writeln!(io::stderr(), "tutti: {name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Hides, then becomes the user. Returns the line to main.
///
/// # Errors
/// It is not that user then: nothing may be read.
pub fn enter() -> io::Result<OwnedFd> {
    // It was executed as `/proc/self/exe`.
    process::set_name("tutti");
    process::hide_memory()?;
    let line = inherited(LINE)?;
    if let Some(text) = std::env::var_os(BECOME) {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "no user to become");
        credentials::become_for_good(&read_user(&text).ok_or_else(invalid)?)?;
    }
    Ok(line)
}

/// Gives up what an attacker who gets into this process would miss. What the kernel cannot do is told, and left. To be called
/// before there are other threads: what this one gives up they never have.
pub fn give_up_rights(name: &str, writable: Option<&Path>, log: &Log) {
    if std::env::var_os(SANDBOX).is_some_and(|value| value == "off") {
        let text = format!("the {name} keeps all rights of its user: TUTTI_SANDBOX is `off`");
        return log.line(Level::Warn, &text);
    }
    let warn = |error: &io::Error| {
        let text = format!("the {name} cannot give up rights it does not need: {error}");
        log.line(Level::Warn, &text);
    };
    if let Err(error) = sandbox::drop_capabilities() {
        warn(&error);
    }
    if let Err(error) = process::forbid_new_privileges()
        .and_then(|()| sandbox::forbid_calls(sandbox::Network::Allowed))
    {
        warn(&error);
    }
    match sandbox::confine_writing(writable.as_slice()) {
        Ok(true) => {}
        Ok(false) => {
            let text =
                format!("this kernel has no Landlock: the {name} may write where its user may");
            log.line(Level::Info, &text);
        }
        Err(error) => warn(&error),
    }
}

/// A panic is a fault of ours: it belongs in the log with its place.
pub fn report_panics(name: &'static str, log: &Log) {
    let log = log.clone();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.to_string().replace('\n', " ");
        log.line(Level::Alert, &format!("{name}: {text}"));
    }));
}
