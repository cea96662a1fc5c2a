//! One application behind an address: the common ground of uWSGI, gunicorn and Puma.

use serde_json::{Map, Value, json};

use crate::fate::Fate;
use crate::finding::{Findings, SourceLocation};
use crate::output::{Output, when};
use crate::units::USUAL_BODY;

/// A server of one application.
#[derive(Default)]
pub(crate) struct Program {
    /// Addresses, as listeners are named, with the options that only this listener has; `null` for one that must stay closed.
    pub(crate) addresses: Map<String, Value>,
    /// It must not listen anywhere.
    pub(crate) is_closed: bool,
    /// Methods that are served; others get 501. Empty: all are served.
    pub(crate) methods: Vec<String>,
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

/// The fate of an option for which nothing is written.
pub(crate) const fn needless() -> Fate {
    Fate::harmless(
        "it has no counterpart or is not needed; `docs/reference/command-line.md` lists the flags of the server",
    )
}

impl Program {
    /// The configuration: files first, then the application.
    pub(crate) fn into_json(mut self, name: &str) -> Value {
        let mut out = Output::default();
        if self.is_closed {
            self.addresses.clear();
        }
        for (option, part) in [
            ("limits", std::mem::take(&mut self.limits)),
            ("environment", std::mem::take(&mut self.environment)),
            ("mules", std::mem::take(&mut self.mules)),
        ] {
            if !part.is_empty() {
                self.options.insert(option.to_owned(), part.into());
            }
        }
        out.applications
            .insert(name.to_owned(), std::mem::take(&mut self.options).into());
        for schedule in self.schedules.values_mut().filter_map(Value::as_object_mut) {
            schedule.insert("application".to_owned(), name.into());
        }
        out.schedules = std::mem::take(&mut self.schedules);
        let application = format!("applications/{name}");
        let mut steps = self.steps(&application);
        let pass = if steps.is_empty() {
            application
        } else {
            steps.push(json!({"action": {"pass": application}}));
            out.add_route("main", steps)
        };
        for (address, options) in self.addresses {
            let Value::Object(options) = options else {
                continue;
            };
            let mut listener = when("pass", pass.clone());
            listener.extend(self.listener.clone());
            listener.extend(options);
            out.listeners.insert(address, listener.into());
        }
        // None of these servers has a limit of its own.
        self.http
            .entry("max_body_size")
            .or_insert_with(|| USUAL_BODY.into());
        out.http = self.http;
        out.access_log = self.access_log;
        out.into_json()
    }

    /// The steps before the application.
    fn steps(&self, application: &str) -> Vec<Value> {
        let mut steps = Vec::new();
        if !self.methods.is_empty() {
            let others: Vec<String> = self.methods.iter().map(|one| format!("!{one}")).collect();
            steps.push(json!({"match": {"method": others}, "action": {"return": 501}}));
        }
        for (path, folder) in &self.files {
            let bare = path.trim_end_matches('/');
            let folder = folder.trim_end_matches('/').replace('$', "${dollar}");
            let mut share = when("share", format!("{folder}$uri"));
            // uWSGI serves no file outside of the folder that a link leads to.
            share.insert("chroot".to_owned(), format!("{folder}/").into());
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
        steps
    }

    /// Adds an address with options of its own; reports one that is not valid.
    ///
    /// An address that is bound twice in different ways stays closed: the source does not start with it.
    pub(crate) fn listen(
        &mut self,
        text: &str,
        options: &Map<String, Value>,
        (place, directive): (&SourceLocation, &str),
        findings: &mut Findings,
    ) {
        let names = listeners(text);
        if names.is_empty() {
            findings.lost(
                place,
                directive,
                &format!("`{text}` is not an address"),
                "write numbers: `127.0.0.1:8000`, or `unix:/run/site.sock`",
            );
        }
        for address in names {
            let own = Value::Object(options.clone());
            match self.addresses.get_mut(&address) {
                Some(known) if *known == own => {}
                Some(known) => {
                    *known = Value::Null;
                    findings.lost(
                        place,
                        directive,
                        &format!("`{address}` has different options elsewhere: Tutti does not listen there"),
                        "remove one of the two, and import again",
                    );
                }
                None => drop(self.addresses.insert(address, own)),
            }
        }
    }

    /// Adds the address of a source that names none. `binding` is where it names one, or may do so: if no address could be read there,
    /// nothing listens, and that is reported.
    pub(crate) fn listen_by_default(
        &mut self,
        address: &str,
        binding: Option<&SourceLocation>,
        findings: &mut Findings,
    ) {
        match binding {
            None => drop(self.addresses.insert(address.to_owned(), json!({}))),
            Some(place) if self.addresses.is_empty() => findings.lost(
                place,
                "bind",
                "no address can be read: Tutti does not listen",
                "write a literal, or add a listener to the result",
            ),
            Some(_) => {}
        }
    }

    /// Keeps an address closed.
    pub(crate) fn close(&mut self, text: &str) {
        for address in listeners(text) {
            self.addresses.insert(address, Value::Null);
        }
    }

    /// True if one of the addresses is a Unix socket.
    pub(crate) fn has_unix(&self) -> bool {
        self.addresses
            .keys()
            .any(|address| address.starts_with("unix:"))
    }
}

/// Reports that the mode or the owner of a socket file is not carried over.
pub(crate) fn report_socket_mode(
    (place, directive): (&SourceLocation, &str),
    findings: &mut Findings,
) {
    let problem = "every user of the machine may connect to a socket of Tutti";
    findings.lost(place, directive, problem, SOCKET_HINT);
}

/// The cure where the mode of a socket file kept users of the machine out.
pub(crate) const SOCKET_HINT: &str =
    "put the socket into a folder that only the user of the server in front may enter";

/// Has clients' certificates checked. Without a file of authorities, a known check or TLS it is false and reported: then nothing may
/// listen there.
pub(crate) fn check_clients(
    tls: Option<&mut Map<String, Value>>,
    (authorities, verify): (Option<&str>, Option<&str>),
    (place, directive): (&SourceLocation, &str),
    findings: &mut Findings,
) -> bool {
    let authorities = authorities.filter(|file| file.starts_with('/'));
    if let (Some(authorities), Some(verify), Some(tls)) = (authorities, verify, tls) {
        tls.insert("client_ca".to_owned(), authorities.into());
        tls.insert("client_verify".to_owned(), verify.into());
        return true;
    }
    findings.lost(
        place,
        directive,
        "client certificates cannot be checked as before: Tutti does not listen",
        "set `client_ca` of the listener's `tls` before clients can connect",
    );
    false
}

/// The listeners for an address; none if it is not valid. On all addresses of IPv6, these servers take connections over IPv4, too.
fn listeners(text: &str) -> Vec<String> {
    let Some(own) = address(text) else {
        return Vec::new();
    };
    match own.strip_prefix("[::]:").map(|port| format!("*:{port}")) {
        Some(other) => vec![own, other],
        None => vec![own],
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
