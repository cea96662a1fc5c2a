//! Programs of the user's own: with the worker protocol, or HTTP servers.

use std::path::PathBuf;

use crate::application::{ApplicationSupport, Common};
use crate::table::{Text, ValueKind};
use crate::{Complaints, Options, options, words};

options! {
    /// A program that speaks the worker protocol (Go, Node.js)
    pub struct External: EXTERNAL = "external", beside [Common::ROWS] {
        /// The program, absolute or relative to `working_directory`
        executable: PathBuf [required()],
        /// Its arguments
        arguments: Vec<String> [kind(ValueKind::Array(&ValueKind::String(Text::Argument)))],
        /// `http`: the program is an ordinary HTTP server; if unset, it speaks the worker protocol
        protocol: Option<Protocol> [beyond()],
        /// With `protocol`: where the program must listen: on a port of 127.0.0.1 (in `PORT`), on a UNIX socket
        /// (path in `SOCKET`), or on descriptor 3 as under systemd
        listen: Listen [beyond(), default("\"port\"")],
        /// With `protocol`: a path that is requested from a new process until the status is below 500; only then does
        /// the process get requests
        probe: Option<String> [kind(ValueKind::String(Text::Path)), beyond()],
    }
}

words! {
    /// The protocol of a program that does not speak the worker protocol.
    pub enum Protocol {
        /// HTTP/1.1.
        Http = "http",
    }
}

words! {
    /// Where a program is to listen.
    pub enum Listen {
        /// A TCP port of 127.0.0.1, in `PORT`.
        Port = "port",
        /// A UNIX socket, its path in `SOCKET`.
        Unix = "unix",
        /// A listening UNIX socket is descriptor 3, announced as systemd does (`LISTEN_FDS`).
        Inherit = "inherit",
    }
}

impl ApplicationSupport for External {
    const HAS_VERSIONS: bool = false;
    const OLDER_NAME: Option<&'static str> = Some("go");
    const MAY_RUN_EVENT_LOOPS: bool = true;

    fn check(&self, complaints: &mut Complaints<'_>) {
        for name in [Self::listen.name, Self::probe.name] {
            if self.protocol.is_none() && complaints.is_written(name) {
                let message = "this needs a program that speaks HTTP";
                complaints.name(name, message, Some("add \"protocol\": \"http\""));
            }
        }
        if self
            .probe
            .as_ref()
            .is_some_and(|path| !path.starts_with('/'))
        {
            let message = "this is a path of a request, which starts with `/`";
            complaints.value(Self::probe.name, message);
        }
    }

    fn watched(&self) -> Vec<PathBuf> {
        vec![self.executable.clone()]
    }

    fn is_relayed(&self) -> bool {
        self.protocol == Some(Protocol::Http)
    }

    fn unready_hint(&self) -> Option<&'static str> {
        let hint = "a program that is an HTTP server of its own needs \"protocol\": \"http\"; without it, the program has to use one of Tutti's libraries (docs/languages/external.md)";
        (!self.is_relayed()).then_some(hint)
    }
}
