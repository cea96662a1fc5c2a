//! One application behind an address: the common ground of uWSGI, gunicorn and Puma.

use serde_json::{Map, Value, json};

use crate::finding::{Findings, SourceLocation};
use crate::output::{Output, when};

/// A server of one application.
#[derive(Default)]
pub(crate) struct Program {
    /// Addresses, as listeners are named.
    pub(crate) addresses: Vec<String>,
    /// It must not listen anywhere.
    pub(crate) is_closed: bool,
    /// Options of the application.
    pub(crate) options: Map<String, Value>,
    pub(crate) limits: Map<String, Value>,
    pub(crate) environment: Map<String, Value>,
    /// Options of every listener.
    pub(crate) listener: Map<String, Value>,
    /// Folders of files: path and folder.
    pub(crate) files: Vec<(String, String)>,
    /// `settings.http`
    pub(crate) http: Map<String, Value>,
    pub(crate) access_log: Option<Value>,
    pub(crate) mules: Map<String, Value>,
    /// `schedules` of its commands, but for the name of the application.
    pub(crate) schedules: Map<String, Value>,
}

impl Program {
    /// The configuration: files first, then the application.
    pub(crate) fn into_json(mut self, name: &str) -> Value {
        let mut out = Output::default();
        if self.is_closed {
            self.addresses.clear();
        }
        for (option, part) in [
            ("limits", self.limits),
            ("environment", self.environment),
            ("mules", self.mules),
        ] {
            if !part.is_empty() {
                self.options.insert(option.to_owned(), part.into());
            }
        }
        out.applications
            .insert(name.to_owned(), self.options.into());
        for schedule in self.schedules.values_mut().filter_map(Value::as_object_mut) {
            schedule.insert("application".to_owned(), name.into());
        }
        out.schedules = self.schedules;
        let application = format!("applications/{name}");
        let pass = if self.files.is_empty() {
            application
        } else {
            let mut steps = Vec::new();
            for (path, folder) in self.files {
                let bare = path.trim_end_matches('/');
                let mut share = when(
                    "share",
                    format!(
                        "{}$uri",
                        folder.trim_end_matches('/').replace('$', "${dollar}")
                    ),
                );
                share.insert("index".to_owned(), "".into());
                if !bare.is_empty() {
                    share.insert("prefix".to_owned(), bare.into());
                }
                // As uWSGI does: the application answers where there is no file.
                let mut test = share.clone();
                test.insert("found".to_owned(), share.into());
                test.insert("fallback".to_owned(), json!({"pass": application}));
                let uri = format!("{}/*", crate::output::literal(bare));
                steps.push(json!({"match": {"uri": uri}, "action": test}));
            }
            steps.push(json!({"action": {"pass": application}}));
            out.add_route("main", steps)
        };
        for address in self.addresses {
            let mut listener = when("pass", pass.clone());
            listener.extend(self.listener.clone());
            out.listeners.insert(address, listener.into());
        }
        out.http = self.http;
        out.access_log = self.access_log;
        out.into_json()
    }

    /// Has clients' certificates checked; without a file of authorities, a known check or TLS, nothing listens.
    pub(crate) fn check_clients(
        &mut self,
        authorities: Option<&str>,
        verify: Option<&str>,
        (place, directive): (&SourceLocation, &str),
        findings: &mut Findings,
    ) {
        let authorities = authorities.filter(|file| file.starts_with('/'));
        let tls = self.listener.get_mut("tls").and_then(Value::as_object_mut);
        if let (Some(authorities), Some(verify), Some(tls)) = (authorities, verify, tls) {
            tls.insert("client_ca".to_owned(), authorities.into());
            tls.insert("client_verify".to_owned(), verify.into());
            return;
        }
        self.is_closed = true;
        findings.lost(
            place,
            directive,
            "client certificates cannot be checked as before: Tutti does not listen",
            "set `client_ca` of the listener's `tls` before clients can connect",
        );
    }

    /// Adds an address; reports one that is not valid.
    pub(crate) fn listen(
        &mut self,
        text: &str,
        place: &SourceLocation,
        directive: &str,
        findings: &mut Findings,
    ) {
        match address(text) {
            Some(address) if self.addresses.contains(&address) => {}
            Some(address) => self.addresses.push(address),
            None => findings.lost(
                place,
                directive,
                &format!("`{text}` is not an address"),
                "write numbers: `127.0.0.1:8000`, or `unix:/run/site.sock`",
            ),
        }
    }
}

/// An address as a listener's name: `:8000`, `0.0.0.0:8000`, `[::]:80`, `unix:/path`, `/path`, `localhost:80`.
pub(crate) fn address(text: &str) -> Option<String> {
    let text = text.trim();
    let text = text.strip_prefix("tcp://").unwrap_or(text);
    if let Some(path) = text.strip_prefix("unix:") {
        let path = path.strip_prefix("//").unwrap_or(path);
        return (!path.is_empty()).then(|| format!("unix:{path}"));
    }
    if text.starts_with('/') {
        return Some(format!("unix:{text}"));
    }
    let (host, port) = text.rsplit_once(':')?;
    listener(host, port)
}

/// The address of a listener; `None` if it has no valid port, or a name that would have to be resolved.
pub(crate) fn listener(host: &str, port: &str) -> Option<String> {
    port.parse::<u16>().ok()?;
    match host {
        "" | "*" | "0.0.0.0" => Some(format!("*:{port}")),
        "localhost" => Some(format!("127.0.0.1:{port}")),
        host => {
            let address = format!("{host}:{port}");
            address
                .parse::<std::net::SocketAddr>()
                .is_ok()
                .then_some(address)
        }
    }
}
