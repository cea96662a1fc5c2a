//! The typed configuration: what the server, the router and the pool work with.
//!
//! Owned by [`crate::validate`], which is the only one to build it; read by everybody else. It is total: every
//! default is applied, every string that has a grammar (address, pattern, template, destination) is parsed, and each
//! object remembers the [`Pointer`] of the place it was written at, so that what fails later, while applying, is
//! reported against the same place. Nothing in here may refer back to the bytes that were sent.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

mod compression;
mod external;
mod forwarded;
mod http2;
mod perl;
mod php;
mod python;
mod settings;
mod telemetry;
mod tls;
mod upstream;

pub use self::compression::{Compression, Compressor, Encoding};
pub use self::external::{External, ExternalHttp};
pub use self::forwarded::Forwarded;
pub use self::http2::Http2;
pub use self::perl::Perl;
pub use self::php::{Php, PhpTarget};
pub use self::python::{Python, PythonProtocol, PythonTarget};
pub use self::settings::{Http, Settings, WebSocket};
pub use self::telemetry::{Telemetry, TelemetryProtocol};
pub use self::tls::*;
pub use self::upstream::{
    Balance, ForwardedHeaders, Gateway, GatewayKind, GatewayParameter, HealthCheck, HealthQuestion,
    HttpVersion, ProxyVersion, RequestHeader, RequestHeaderChange, Resolver, Scripts, Upstream,
    UpstreamAddress, UpstreamOptions, UpstreamProtocol, UpstreamServer,
};
pub use crate::address::{AddressPattern, AddressSet, IpRange};
pub use crate::isolation::{Automount, IdMap, Isolation, Namespaces};
pub use crate::pattern::{OutOfSteps, Pattern, PatternKind, Patterns};
pub use crate::pointer::Pointer;
pub use crate::template::{PLAIN_VARIABLES, Part, Template, TlsVariable, Variable};

/// The whole configuration, validated, with defaults applied.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// In the order they were written.
    pub listeners: Vec<Listener>,
    /// Every route, named or not.
    pub routes: Routes,
    /// By name.
    pub applications: BTreeMap<String, Arc<Application>>,
    /// By name.
    pub upstreams: BTreeMap<String, Arc<Upstream>>,
    /// Instance-wide settings.
    pub settings: Settings,
    /// `None`: no access log.
    pub access_log: Option<AccessLog>,
}

/// One listening socket and where its requests go.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// Where it was written, `/listeners/NAME`.
    pub pointer: Pointer,
    /// The member name as written: `*:8080`, `127.0.0.1:80`, `[::1]:80`, `unix:/run/site.sock`, `unix:@name`.
    pub name: String,
    /// The parsed name.
    pub address: ListenAddress,
    /// Where requests go.
    pub pass: Pass,
    /// From whom each connection begins with a PROXY protocol header.
    pub proxy_protocol: Option<AddressSet>,
    /// `backlog` of listen(2); `None` (also for -1): the kernel's maximum.
    pub backlog: Option<i32>,
    /// `None`: nothing about the client is taken from header fields.
    pub forwarded: Option<Forwarded>,
    /// `None`: it speaks plain HTTP.
    pub tls: Option<Tls>,
    /// Limits of HTTP/2; `None`: it is not spoken.
    pub http2: Option<Http2>,
}

/// What a listener binds to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListenAddress {
    /// `*:PORT`: any address of this machine.
    Any(u16),
    /// A certain address and port.
    Ip(SocketAddr),
    /// `unix:/path`.
    Unix(PathBuf),
    /// `unix:@name`: a name in the abstract namespace, without the `@`.
    Abstract(String),
}

/// The destination of a `pass`: known now, or computed from each request.
#[derive(Clone, Debug, PartialEq)]
pub enum Pass {
    /// It has no variables; what it names exists in this configuration.
    Fixed(Destination),
    /// It has variables; what comes out may exist or not (then the answer is 404).
    Computed(Template),
}

/// Something a request can be passed to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// `routes` (then the name is `None`) or `routes/NAME`.
    Route(Option<String>),
    /// `applications/NAME` or `applications/NAME/TARGET`.
    Application {
        /// Key of [`Config::applications`].
        name: String,
        /// Key of the application's targets.
        target: Option<String>,
    },
    /// `upstreams/NAME`.
    Upstream(String),
}

/// All routes. An array in the configuration is one route without a name; an object, named routes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routes {
    /// In the order they were written.
    pub list: Vec<Route>,
}

impl Routes {
    /// The route called `name` (`None`: the array form).
    pub fn get(&self, name: Option<&str>) -> Option<&Route> {
        self.list.iter().find(|route| route.name.as_deref() == name)
    }
}

/// Steps, tried in order; the first that matches acts.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// Where it was written.
    pub pointer: Pointer,
    /// `None` for the array form.
    pub name: Option<String>,
    /// In order.
    pub steps: Vec<Step>,
}

/// One step of a route.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Where it was written.
    pub pointer: Pointer,
    /// All must hold; the default holds for every request.
    pub conditions: Conditions,
    /// What to do then.
    pub action: Action,
}

/// The `match` object. What is `None` is not asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Path, decoded and normalised; case matters.
    pub uri: Option<Patterns>,
    /// Host, lower case, without port and trailing period; patterns are lower-cased.
    pub host: Option<Patterns>,
    /// Method; patterns are upper-cased.
    pub method: Option<Patterns>,
    /// The query string as a whole, decoded.
    pub query: Option<Patterns>,
    /// `Some(true)` asks for https, `Some(false)` for http.
    pub https: Option<bool>,
    /// Arguments of the query string, decoded.
    pub arguments: Option<FieldSets>,
    /// Cookies.
    pub cookies: Option<FieldSets>,
    /// Header fields; names are lower-cased, patterns compare without case.
    pub headers: Option<FieldSets>,
    /// Address and port the request comes from.
    pub source: Option<AddressSet>,
    /// Address and port the request came to.
    pub destination: Option<AddressSet>,
    /// A template that must not be empty, `0`, `false`, `null` or `undefined`.
    pub condition: Option<Condition>,
}

impl Conditions {
    /// True if every request fulfils it.
    pub fn is_always(&self) -> bool {
        *self == Conditions::default()
    }
}

/// Array of objects: one object must match, and in it, all its fields.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldSets(pub Vec<Vec<FieldPatterns>>);

/// One named field and what its value must match.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldPatterns {
    /// Name, decoded (arguments) or lower-cased (headers).
    pub name: Vec<u8>,
    /// Every value of that name must match.
    pub patterns: Patterns,
}

/// `if`: a template tested for truth.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// A leading `!` was there.
    pub negated: bool,
    /// What is tested.
    pub template: Template,
}

/// What a step, or a `fallback`, does.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// Where it was written.
    pub pointer: Pointer,
    /// What it does.
    pub kind: ActionKind,
    /// New path, before acting; the query string stays.
    pub rewrite: Option<Template>,
    /// Changes to a 2xx or 3xx response.
    pub response_headers: Vec<ResponseHeader>,
    /// Changes to the request, where it goes to an upstream.
    pub request_headers: Vec<RequestHeader>,
}

/// The kinds of actions.
#[derive(Clone, Debug, PartialEq)]
pub enum ActionKind {
    /// Hand it on.
    Pass(Pass),
    /// Answer with a status.
    Return(Return),
    /// Serve a file.
    Share(Share),
    /// Send it to a server: an upstream of one, called as the URL was written.
    Proxy(Arc<Upstream>),
}

/// `return`, with its `location`.
#[derive(Clone, Debug, PartialEq)]
pub struct Return {
    /// 0 to 999.
    pub status: u16,
    /// Value of the `Location` field.
    pub location: Option<Template>,
}

/// `share`, with its options.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Paths, tried in order.
    pub paths: Vec<Template>,
    /// File tried in a directory.
    pub index: String,
    /// MIME types that may be served; an unknown type is the empty string.
    pub types: Option<Patterns>,
    /// Paths of requests that there is nothing for.
    pub deny: Option<Patterns>,
    /// What to do where no file can be served.
    pub fallback: Option<Box<Action>>,
    /// Directory that confines path resolution.
    pub chroot: Option<Template>,
    /// Follow symbolic links.
    pub follow_symlinks: bool,
    /// Cross mount points.
    pub traverse_mounts: bool,
}

/// One member of `response_headers`.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseHeader {
    /// As written.
    pub name: String,
    /// `None` removes the field.
    pub value: Option<Template>,
}

/// An application: what runs, how many, as whom.
///
/// Two applications that compare equal behave the same: a new configuration keeps the processes of one that did not
/// change. (Name and pointer are part of the comparison; both are the same for the same entry.)
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// Where it was written, `/applications/NAME`.
    pub pointer: Pointer,
    /// Its name.
    pub name: String,
    /// The module that runs it.
    pub module: ModuleReference,
    /// What the language needs.
    pub kind: ApplicationKind,
    /// How many processes.
    pub processes: Processes,
    /// Limits of a process.
    pub limits: Limits,
    /// A request's body is read whole before the application gets the request.
    pub request_buffering: bool,
    /// Loaded once, before the processes are forked.
    pub preload: bool,
    /// Restarted when one of its files changes.
    pub watch: bool,
    /// Environment variables set on top of the server's own.
    pub environment: BTreeMap<String, String>,
    /// User name; `None`: the default one.
    pub user: Option<String>,
    /// Group name; `None`: the user's primary group.
    pub group: Option<String>,
    /// `None`: that of the main process.
    pub working_directory: Option<PathBuf>,
    /// File that receives standard output; `None`: the default.
    pub stdout: Option<PathBuf>,
    /// File that receives standard error; `None`: the log.
    pub stderr: Option<PathBuf>,
    /// `None`: nothing is separated.
    pub isolation: Option<Isolation>,
}

/// The `type` of an application, resolved among the installed modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleReference {
    /// First word of `type`.
    pub kind: String,
    /// What was asked for after it (`8.2`), if anything.
    pub requested: Option<String>,
    /// Version of the module that was chosen; empty where there are no versions (`external`).
    pub version: String,
}

/// What is special to a language.
#[derive(Clone, Debug, PartialEq)]
pub enum ApplicationKind {
    /// `php`.
    Php(Php),
    /// `python`.
    Python(Python),
    /// `perl`.
    Perl(Perl),
    /// `external`: a program that speaks the worker protocol itself.
    External(External),
}

/// How many processes an application has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// Always so many.
    Fixed(u32),
    /// As many as are needed.
    Dynamic {
        /// Never more than this; at least 1.
        max: u32,
        /// Idle ones kept ready; at most `max`.
        spare: u32,
        /// How long a surplus one stays idle before it is ended.
        idle_timeout: Duration,
    },
}

impl Processes {
    /// The most processes there can be.
    pub fn max(&self) -> u32 {
        match self {
            Processes::Fixed(count) => *count,
            Processes::Dynamic { max, .. } => *max,
        }
    }

    /// The processes to start with.
    pub fn initial(&self) -> u32 {
        match self {
            Processes::Fixed(count) => *count,
            Processes::Dynamic { spare, .. } => *spare,
        }
    }
}

impl Default for Processes {
    fn default() -> Self {
        Processes::Fixed(1)
    }
}

/// Limits of an application's processes. `None`: no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests after which a process is replaced.
    pub requests: Option<u64>,
    /// Time a request may take, from its arrival.
    pub timeout: Option<Duration>,
    /// Time a process that is being replaced may take for the requests it has.
    pub drain_timeout: Option<Duration>,
    /// Time a process may take until it is ready.
    pub start_timeout: Duration,
    /// Resident bytes beyond which a process is replaced after its request.
    pub memory: Option<u64>,
    /// Resident bytes beyond which a process is killed.
    pub memory_max: Option<u64>,
    /// `queue.length`: requests that may wait.
    pub queue_length: u32,
    /// `queue.wait`: how long they may.
    pub queue_wait: Option<Duration>,
    /// Requests that one event loop has at once; `None`: the runtime's choice.
    pub concurrency: Option<u32>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            requests: None,
            timeout: None,
            drain_timeout: Some(Duration::from_secs(60)),
            start_timeout: Duration::from_secs(60),
            memory: None,
            memory_max: None,
            queue_length: 20_000,
            queue_wait: None,
            concurrency: None,
        }
    }
}

/// Something that is stored beside the configuration (a certificate bundle, a script module), and where it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredName {
    /// Where it was written.
    pub pointer: Pointer,
    /// Name under `/certificates` or `/js_modules`.
    pub name: String,
}

/// `access_log`.
#[derive(Clone, Debug, PartialEq)]
pub struct AccessLog {
    /// Where it was written.
    pub pointer: Pointer,
    /// The file.
    pub path: PathBuf,
    /// What a line looks like.
    pub format: LogFormat,
    /// Only requests for which this is true are logged.
    pub condition: Option<Condition>,
}

/// The shape of an access log line.
#[derive(Clone, Debug, PartialEq)]
pub enum LogFormat {
    /// Text with variables.
    Text(Template),
    /// One JSON object a line; members in order.
    Json(Vec<(String, Template)>),
}

/// The combined log format, default of `access_log.format`.
pub const DEFAULT_LOG_FORMAT: &str = "$remote_addr - - [$time_local] \"$request_line\" $status $body_bytes_sent \
    \"$header_referer\" \"$header_user_agent\"";

impl Application {
    /// The object a language host is started with: the application in the configuration's own shape, every default
    /// applied. (`spec/wire.md`, start document.)
    pub fn start_config(&self) -> Value {
        let mut config = json!({
            "type": self.module.kind,
            "version": self.module.version,
            "environment": self.environment,
            "user": self.user,
            "group": self.group,
            "working_directory": path(self.working_directory.as_ref()),
            "stdout": path(self.stdout.as_ref()),
            "stderr": path(self.stderr.as_ref()),
            "limits": {
                "requests": self.limits.requests.unwrap_or(0),
                "timeout": self.limits.timeout.map_or(0.0, |limit| limit.as_secs_f64()),
                "start_timeout": self.limits.start_timeout.as_secs(),
            },
            "processes": match self.processes {
                Processes::Fixed(count) => json!(count),
                Processes::Dynamic { max, spare, idle_timeout } => {
                    json!({"max": max, "spare": spare, "idle_timeout": idle_timeout.as_secs_f64()})
                }
            },
        });
        if let Some(isolation) = &self.isolation {
            config["isolation"] = isolation.start_config();
        }
        let special = match &self.kind {
            ApplicationKind::Php(php) => php.start_config(),
            ApplicationKind::Python(python) => python.start_config(),
            ApplicationKind::Perl(perl) => perl.start_config(),
            ApplicationKind::External(external) => external.start_config(),
        };
        if let (Value::Object(config), Value::Object(special)) = (&mut config, special) {
            config.extend(special);
        }
        config
    }

    /// Names of the targets; empty where there are none.
    pub fn target_names(&self) -> impl Iterator<Item = &str> {
        let names: Vec<_> = match &self.kind {
            ApplicationKind::Php(php) => php.targets.iter().map(|target| &target.name).collect(),
            ApplicationKind::Python(python) => {
                python.targets.iter().map(|target| &target.name).collect()
            }
            ApplicationKind::Perl(_) | ApplicationKind::External(_) => Vec::new(),
        };
        names.into_iter().filter_map(|name| name.as_deref())
    }
}

fn path(path: Option<&PathBuf>) -> Value {
    path.map_or(Value::Null, |path| Value::from(path.to_string_lossy()))
}
