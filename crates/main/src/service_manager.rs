//! The service manager that started main, if there is one: notifications to it (sd_notify(3)), and sockets it has
//! opened (sd_listen_fds(3)).
//!
//! Without `NOTIFY_SOCKET` and `LISTEN_FDS` in the environment these functions do nothing. Must never happen: that a
//! child inherits either, or that the server fails because its notifications are not received.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;

use sd_notify::NotifyState;
use tutti_log::Level;
use tutti_log::Log;
use tutti_sys::listen::{SocketName, adopt};
use tutti_sys::spawn::inherited;

/// Variables between the service manager and main only, or between main and one process.
const OURS: [&str; 7] = [
    tutti_protocol::BECOME,
    "NOTIFY_SOCKET",
    "LISTEN_PID",
    "LISTEN_FDS",
    "LISTEN_FDNAMES",
    "WATCHDOG_PID",
    "WATCHDOG_USEC",
];

/// Returns the environment of children.
pub(crate) fn environment() -> impl Iterator<Item = (OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| OURS.iter().all(|ours| name != ours))
}

/// The service is up, or up again after [`reloading`].
pub(super) fn ready(log: &Log) {
    let status = concat!("version ", env!("CARGO_PKG_VERSION"), " serves");
    notify(log, &[NotifyState::Ready, NotifyState::Status(status)]);
}

/// An upgrade begins.
pub(super) fn reloading(log: &Log) {
    // Required by `Type=notify-reload`, and ignored by others.
    let now = NotifyState::monotonic_usec_now().ok();
    let states = [NotifyState::Reloading, NotifyState::Status("upgrading")];
    let states: Vec<NotifyState<'_>> = states.into_iter().chain(now).collect();
    notify(log, &states);
}

/// The service ends.
pub(super) fn stopping(log: &Log) {
    let status = NotifyState::Status("finishing the requests in progress");
    notify(log, &[NotifyState::Stopping, status]);
}

fn notify(log: &Log, states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        let text = format!("cannot report the state to the service manager: {error}");
        log.line(Level::Warn, &text);
    }
}

/// Returns the listening sockets that the service manager has opened.
pub(super) fn sockets(log: &Log) -> Vec<(SocketName, OwnedFd)> {
    let numbers = match sd_notify::listen_fds() {
        Ok(numbers) => numbers,
        Err(error) => {
            let text =
                format!("cannot use the sockets of the service manager (LISTEN_FDS): {error}");
            log.line(Level::Alert, &text);
            return Vec::new();
        }
    };
    let taken = |number| -> io::Result<(SocketName, OwnedFd)> {
        let socket = inherited(number)?;
        Ok((adopt(&socket)?, socket))
    };
    let mut sockets = Vec::new();
    for number in numbers {
        match taken(number) {
            Ok(socket) => sockets.push(socket),
            Err(error) => {
                let text =
                    format!("descriptor {number} of the service manager is not used: {error}");
                log.line(Level::Warn, &text);
            }
        }
    }
    sockets
}
