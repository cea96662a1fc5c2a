//! The controller role: unprivileged, serves the control API, and alone decides what the configuration is.
//!
//! It has one thread, with the connection to main and the connections of the control socket. It edits, parses and
//! checks, and computes the grants of a configuration; main stores it, and makes the router apply it. Must never
//! happen: that a client gets a response that differs from the actual result of its change, or that a byte of a
//! listener's clients is read here.

#![forbid(unsafe_code)]

mod acme;
mod beginning;
mod certificate_files;
mod check;
mod control;
mod dashboard;
mod dashboard_keeper;
mod files;
mod fleet;
mod fleet_certificates;
mod fleet_faults;
mod line;
mod log_place;
mod service;
mod source;
mod stored;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;

pub use check::check;
use tutti_config::Document;
use tutti_log::Level;
use tutti_log::Log;
use tutti_protocol::{ControllerHello, FromController, ToController};
use tutti_sys::daemon;
use tutti_unprivileged::{log_faults, log_remarks, own_log, start};

use self::control::{Control, Sockets};
use self::line::Link;
use self::service::ControllerService;

/// Runs until main stops it.
pub fn run() -> ExitCode {
    start::run("controller", serve)
}

/// The whole controller, in one function.
async fn serve(line: OwnedFd) -> io::Result<()> {
    let link = Arc::new(Link::new(line)?);
    let (hello, sockets, log) = greeting(&link).await?;
    start::report_panics("controller", &log);
    start::give_up_rights("controller", None, &log);
    tokio::spawn({
        let link = Arc::clone(&link);
        async move { link.write_waiting().await }
    });
    let service = ControllerService::new(Arc::clone(&link), log.clone(), &hello);
    let control = Control::new(sockets, hello.access.clone(), service.clone());
    begin(&service, &link, hello, &log);
    loop {
        let Some((news, descriptors)) = link.news().await? else {
            return Ok(());
        };
        match news {
            ToController::Serve => {
                control.serve()?;
                link.send(&FromController::Serving);
                tokio::spawn(service.clone().watch_certificates());
                // The order matters: it must be known whether a fleet shares certificates before the first one is
                // ordered.
                service.plan_source();
                service.plan_certificates();
            }
            ToController::Freeze => {
                control.rest();
                let (service, link) = (service.clone(), Arc::clone(&link));
                tokio::spawn(async move {
                    service.freeze().await;
                    link.send(&FromController::Frozen);
                });
            }
            ToController::Thaw => {
                service.thaw();
                control.serve()?;
                service.plan_source();
                service.plan_certificates();
            }
            ToController::Reload { by } => {
                let (control, log) = (control.clone(), log.clone());
                tokio::spawn(async move { reload(&control, &log, &by).await });
            }
            ToController::Acme { id, message } => {
                tokio::spawn(service.clone().obey_acme(id, message));
            }
            ToController::Fleet { id, request } => {
                tokio::spawn(service.clone().obey_fleet(control.clone(), id, request));
            }
            ToController::Probe { number } => link.send(&FromController::Alive { number }),
            ToController::LogReopened => own_log::reopen(&log, descriptors),
            ToController::Stopping => service.stop(),
            ToController::End => break,
            ToController::Hello(_) | ToController::Done { .. } | ToController::Failed { .. } => {}
        }
    }
    // The remaining responses are already on their way, or come with main's next message.
    let listening = async { while let Ok(Some(_)) = link.news().await {} };
    tokio::select! {
        () = control.end() => {}
        () = listening => {}
    }
    Ok(())
}

async fn greeting(link: &Link) -> io::Result<(ControllerHello, Sockets, Log)> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let Some((ToController::Hello(hello), descriptors)) = link.news().await? else {
        return Err(invalid("main did not greet"));
    };
    let mut descriptors = descriptors.into_iter();
    match (descriptors.next(), descriptors.next(), descriptors.next()) {
        (Some(control), Some(status), Some(log)) => {
            // Crash reports go to standard error.
            daemon::redirect_stderr(log.as_fd())?;
            let log = Log::of_threads(log, &hello.log, "controller");
            Ok((*hello, Sockets { control, status }, log))
        }
        _ => Err(invalid("main's greeting came without its descriptors")),
    }
}

/// Continues with the configuration in force, or chooses the one to start with and sends it to main.
fn begin(service: &ControllerService, link: &Arc<Link>, hello: ControllerHello, log: &Log) {
    let (stored, set_aside) = stored_configuration(&hello, log);
    if hello.has_begun {
        return service.begin_with(stored.unwrap_or_default());
    }
    if let Err(faults) = source::given(hello.source.as_ref()) {
        let message = format!("`--source` cannot be used:\n{faults}");
        return link.send(&FromController::Unfit { message });
    }
    if hello.is_upgrade && set_aside {
        let message = "the configuration in force cannot be read by this version".to_owned();
        return link.send(&FromController::Unfit { message });
    }
    let (service, link, log) = (service.clone(), Arc::clone(link), log.clone());
    // Meanwhile main answers requests: it reads certificates.
    tokio::spawn(async move {
        let news = beginning::of(&service, &hello, stored, set_aside, &log).await;
        link.send(&news);
    });
}

/// Parses the stored configuration, and returns whether it must be set aside because it cannot be read; the server then
/// starts with an empty one.
fn stored_configuration(hello: &ControllerHello, log: &Log) -> (Option<Document>, bool) {
    let Some(text) = &hello.configuration else {
        return (None, false);
    };
    match tutti_config::parse(text.as_bytes()) {
        Ok(mut document) => {
            log_remarks(log, &document);
            document.forget_source();
            (Some(document), false)
        }
        Err(faults) => {
            log.line(
                Level::Alert,
                "the stored configuration cannot be read; starting with an empty one",
            );
            log_faults(log, &faults);
            (None, true)
        }
    }
}

/// Applies the current configuration files, or changes nothing.
async fn reload(control: &Control, log: &Log, by: &str) {
    match control.reload(by).await {
        // Its warnings have been logged already.
        Ok(Some(_)) => log.line(Level::Notice, "the configuration files are in force"),
        Ok(None) => log.line(
            Level::Notice,
            "the configuration files match the configuration in force",
        ),
        Err(faults) => {
            log.line(
                Level::Alert,
                "the configuration files cannot be used; nothing has changed",
            );
            log_faults(log, &faults);
        }
    }
}
