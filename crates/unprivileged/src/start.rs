//! The first steps of every process that main starts for itself: hide, switch to another user, drop privileges.
//!
//! Such a process is executed as main's user, root, with its connection to main open; other users' processes cannot
//! inspect a process of root. It makes its memory inaccessible before it switches to the unprivileged user, and reads
//! no data before that. Must never happen: that it is at the same time its user's, dumpable, and in possession of the
//! connection. Other processes of that user could then take the descriptor (`pidfd_getfd(2)`) and impersonate it.

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

/// If set to `off`, the process keeps the privileges of its user: for systems where dropping them fails.
const SANDBOX: &str = "TUTTI_SANDBOX";

/// Runs a role from its first step to its end; a failure message begins with `name`.
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

/// Hides, then switches to the user. Returns the connection to main.
///
/// # Errors
/// It still runs as another user: no data may be read.
pub fn enter() -> io::Result<OwnedFd> {
    // It was executed as `/proc/self/exe`.
    process::set_name("tutti");
    process::hide_memory()?;
    let line = inherited(LINE)?;
    if let Some(text) = std::env::var_os(BECOME) {
        let invalid = || io::Error::new(io::ErrorKind::InvalidData, "no user to switch to");
        credentials::become_for_good(&read_user(&text).ok_or_else(invalid)?)?;
    }
    Ok(line)
}

/// Drops privileges that would help an attacker in this process. What the kernel cannot drop is logged and kept. Must
/// be called before there are other threads, which then never have these privileges.
pub fn give_up_rights(name: &str, writable: Option<&Path>, log: &Log) {
    if std::env::var_os(SANDBOX).is_some_and(|value| value == "off") {
        let text = format!("the {name} keeps all privileges of its user: TUTTI_SANDBOX is `off`");
        return log.line(Level::Warn, &text);
    }
    let warn = |error: &io::Error| {
        let text = format!("the {name} cannot drop privileges that it does not need: {error}");
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
                format!("this kernel has no Landlock: the {name} can write wherever its user can");
            log.line(Level::Info, &text);
        }
        Err(error) => warn(&error),
    }
}

/// A panic is a bug in the server: it is logged with its position.
pub fn report_panics(name: &'static str, log: &Log) {
    let log = log.clone();
    std::panic::set_hook(Box::new(move |panic| {
        let text = panic.to_string().replace('\n', " ");
        log.line(Level::Alert, &format!("{name}: {text}"));
    }));
}
