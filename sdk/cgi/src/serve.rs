//! One request: its script is found and started, its answer is passed on, and it is ended.
//!
//! Whatever the script does, the request ends with a whole answer, or with one that cannot be taken for whole.

use std::io;
use std::path::Path;
use std::time::Duration;

use tutti_http::{ERROR_PAGE_TYPE, write_error_page};
use tutti_sys::proc;
use tutti_sys::process::Ended;
use tutti_sys::spawn::{Spawn, SpawnError};
use tutti_worker::log::{line, title};
use tutti_worker::{Exchange, Level};

use crate::answer::{Failure, pass_on};
use crate::application::Application;
use crate::process::{ScriptProcess, end_orphans};
use crate::scripts::{Resolved, Script, Target};
use crate::variables::each_variable;

/// The interval at which the memory of a script is measured: that of the server for workers.
const MEASURE_INTERVAL: Duration = Duration::from_millis(100);

/// Serves one request to its end, which is also that of its script.
pub(crate) async fn serve(application: &Application, mut exchange: Exchange) {
    let request = exchange.request();
    let mut targets = application.targets.iter();
    let Some(target) = targets.find(|target| target.name.as_bytes() == request.target_name())
    else {
        return page(&mut exchange, 404, None);
    };
    match target.resolve(request.path()) {
        Resolved::Script(script) => run(application, target, &script, &mut exchange).await,
        Resolved::Redirect(mut location) => {
            let query = request.query();
            if !query.is_empty() {
                location.push(b'?');
                location.extend_from_slice(query);
            }
            page(&mut exchange, 301, Some(&location));
        }
        Resolved::Status(status) => page(&mut exchange, status, None),
    }
}

async fn run(application: &Application, target: &Target, script: &Script, exchange: &mut Exchange) {
    let log = |level, message: String| {
        let title = title(exchange);
        let message = format!("{title}: the script `{}` {message}", script.file.display());
        line(level, "", message.as_bytes());
    };
    let mut process = match start(application, target, script, exchange) {
        Ok(process) => process,
        Err(error) => {
            log(
                Level::Error,
                format!("cannot be started: {error}{}", hint(&error.source)),
            );
            return page(exchange, status(&error.source), None);
        }
    };
    let pid = process.pid();
    let outcome = tokio::select! {
        biased;
        outcome = pass_on(exchange, &mut process) => outcome,
        used = exceeded(pid, application.memory_max) => Err(Failure::Memory(used)),
    };
    if matches!(outcome, Err(Failure::Memory(_))) {
        process.kill();
    }
    match &outcome {
        Ok(Ended::Code(0)) => {}
        Ok(end) => log(Level::Warn, format!("{end} after its answer")),
        Err(Failure::Gone) => log(
            Level::Info,
            format!(
                "(process {}) was stopped: the client disconnected, or the request timed out",
                pid
            ),
        ),
        Err(failure) => log(Level::Error, format!("failed: {failure}")),
    }
    // Before the request ends, so that there are never more scripts than requests.
    process.stop().await;
    // A process that lives on is counted by no limit.
    if application.memory_max.is_some() && !end_orphans(&application.running).await {
        log(
            Level::Warn,
            "has left processes that do not end when they are killed".to_owned(),
        );
    }
    match outcome {
        Ok(_) => exchange.finish(),
        // 502 where nothing was sent yet; otherwise the answer is broken off, and cannot be taken for whole.
        Err(_) => exchange.abort(),
    }
}

/// Waits until a script and what it has started use more than this memory; returns how much. The server itself could only kill the worker,
/// which may be at another request by then.
async fn exceeded(pid: i32, limit: Option<u64>) -> u64 {
    let Some(limit) = limit else {
        return std::future::pending().await;
    };
    loop {
        tokio::time::sleep(MEASURE_INTERVAL).await;
        match proc::rss_of_family(pid) {
            Ok(used) if used > limit => return used,
            // One that has just ended uses none.
            _ => {}
        }
    }
}

fn start(
    application: &Application,
    target: &Target,
    script: &Script,
    exchange: &Exchange,
) -> Result<ScriptProcess, SpawnError> {
    let prepared = prepare(application, target, script, exchange).map_err(|source| SpawnError {
        step: "preparing it",
        subject: None,
        source,
    })?;
    let own = script.file.parent().unwrap_or(Path::new("/"));
    let folder = application.working_directory.as_deref().unwrap_or(own);
    ScriptProcess::start(prepared, folder, &application.running)
}

/// The program and its environment. It has no arguments: a query is never one.
fn prepare(
    application: &Application,
    target: &Target,
    script: &Script,
    exchange: &Exchange,
) -> io::Result<Spawn> {
    let given = &application.environment;
    let is_given = |name: &[u8]| given.iter().any(|(given, _)| given.as_bytes() == name);
    let mut prepared = Spawn::new(&script.file)?;
    if application.memory_max.is_some() {
        // Processes that have left its group, and whose parents have ended, are still of its family.
        prepared = prepared.subreaper();
    }
    if !is_given(b"PATH") {
        prepared = prepared.variable("PATH", &application.path)?;
    }
    for (name, value) in given {
        prepared = prepared.variable(name, value)?;
    }
    let mut outcome = Ok(prepared);
    each_variable(
        &exchange.request(),
        target,
        script,
        is_given,
        &mut |name, value| {
            use std::ffi::OsStr;
            use std::os::unix::ffi::OsStrExt;
            let so_far = std::mem::replace(&mut outcome, Err(io::ErrorKind::Other.into()));
            outcome = so_far.and_then(|spawn| {
                spawn.variable(OsStr::from_bytes(name), OsStr::from_bytes(value))
            });
        },
    );
    outcome
}

/// The status of a request whose script cannot be started: that of a server that lacks something for now, or that is set up wrongly.
fn status(error: &io::Error) -> u16 {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::ENOMEM | libc::EMFILE | libc::ENFILE) => 503,
        _ => 500,
    }
}

fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOEXEC) => {
            " (hint: its first line must name its interpreter, as in `#!/usr/bin/perl`)"
        }
        Some(libc::ENOENT) => {
            " (hint: the interpreter that its first line names does not exist, or the line ends in a carriage return)"
        }
        Some(libc::EAGAIN) => {
            " (hint: the application's user has as many processes as its limits allow)"
        }
        _ => "",
    }
}

/// Answers without a script.
fn page(exchange: &mut Exchange, status: u16, location: Option<&[u8]>) {
    let mut page = Vec::new();
    write_error_page(status, &mut page);
    let length = page.len().to_string();
    let fields = [
        (&b"Content-Type"[..], ERROR_PAGE_TYPE),
        (b"Content-Length", length.as_bytes()),
    ];
    let location = location.map(|location| (&b"Location"[..], location));
    let fields = fields.into_iter().chain(location);
    let has_body = exchange.request().method() != b"HEAD";
    // A client that has gone needs no page; its room is empty, so that nothing is waited for.
    if exchange.start(status, fields).is_ok() && has_body {
        let _ = exchange.write(&page);
    }
    exchange.finish();
}
