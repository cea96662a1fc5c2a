//! How a program is told where to listen, from the application's object.

use std::time::Duration;

use tutti_worker::{Start, StartError};

/// What the configuration says where it says nothing.
const DEFAULT_START_LIMIT: Duration = Duration::from_secs(60);

/// Where a program is to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// A TCP port of 127.0.0.1, in `PORT`.
    Port,
    /// A UNIX socket, its path in `SOCKET`.
    Unix,
    /// A listening UNIX socket is descriptor 3, announced as systemd does (`LISTEN_FDS`).
    Inherit,
}

/// `listen`, `probe` and `limits.start_timeout`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) listen: Listen,
    /// A path that is asked for until it is answered with less than 500.
    pub(crate) probe: Option<String>,
    /// How long a program may take to listen.
    pub(crate) start_limit: Duration,
}

impl Options {
    /// `None` where `protocol` is not `http`.
    pub(crate) fn of(start: &Start) -> Result<Option<Options>, StartError> {
        let text = |member: &str| start.config.get(member).and_then(|value| value.as_str());
        if text("protocol") != Some("http") {
            return Ok(None);
        }
        let listen = match text("listen").unwrap_or("port") {
            "port" => Listen::Port,
            "unix" => Listen::Unix,
            "inherit" => Listen::Inherit,
            // The configuration is checked before; a newer router may know more.
            other => {
                let message = format!("`{other}` is no way to listen that this host knows");
                return Err(StartError::new("reading the options", message)
                    .member("listen")
                    .hint("it is `port`, `unix` or `inherit`"));
            }
        };
        let seconds = start
            .config
            .get("limits")
            .and_then(|limits| limits.get("start_timeout"));
        let seconds = seconds.and_then(|seconds| seconds.as_u64());
        Ok(Some(Options {
            listen,
            start_limit: seconds.map_or(DEFAULT_START_LIMIT, Duration::from_secs),
            probe: text("probe").map(str::to_owned),
        }))
    }
}
