//! The typed configuration: what the server, the router and the pool work with.
//!
//! Owned by [`crate::validate`], which is the only one to build it; read by everybody else. It is total: every
//! default is applied, every string that has a grammar (address, pattern, template, destination) is parsed, and each
//! object remembers the [`Pointer`] of the place it was written at, so that what fails later, while applying, is
//! reported against the same place. Nothing in here may refer back to the bytes that were sent.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

mod acme;
mod cache;
mod compression;
mod condition;
mod dashboard;
mod delivery;
mod destination;
mod forwarded;
mod guard;
mod kubernetes;
mod limit_store;
mod logs;
mod settings;
mod source;
mod stored;
mod telemetry;
mod tls;
mod upstream;
mod written_at;

pub use self::acme::{AcmeAccount, AcmeCertificate, Eab};
pub use self::cache::{Cache, CacheDisk, CacheStore};
pub use self::compression::{Compression, Compressor};
pub use self::condition::Condition;
pub use self::dashboard::Dashboard;
pub use self::delivery::{ErrorStatus, InternalRoute, Maintenance, Mirror, PageStatus};
pub use self::destination::{Destination, Pass};
pub use self::forwarded::Forwarded;
pub use self::guard::{
    AuthRequest, Authenticate, Basic, Cors, ForwardAuth, Guard, GuardFile, Jwt, KeySource, Limit,
};
pub use self::kubernetes::Kubernetes;
pub use self::limit_store::{LimitStore, ValkeyAddress};
pub use self::logs::{AccessLog, LogFormat, LogValue, SlowLog};
pub use self::settings::{Http, RequestId, Settings};
pub use self::source::Source;
pub use self::stored::StoredName;
pub use self::telemetry::Telemetry;
pub use self::tls::*;
pub use self::upstream::{
    Balance, Gateway, GatewayParameter, RequestHeader, RequestHeaderChange, Resolver, Scripts,
    Upstream, UpstreamProtocol, UpstreamServer,
};
pub use self::written_at::WrittenAt;
pub use crate::address::{
    AddressPattern, AddressSet, GatewayKind, IpRange, ListenAddress, ServicePort, UpstreamAddress,
    parse_name_server,
};
pub use crate::cron::{Timetable, written};
pub use crate::pattern::{OutOfSteps, Pattern, PatternKind, Patterns};
pub use crate::table::{
    Backlog, ChallengeWord, CollectorProtocol, EarlyHints, EncodedSlashes, Encoding,
    ForwardedHeaders, ForwardedOptions, HealthCheckOptions, HealthQuestion, Http2, Http3,
    HttpVersion, JwtAlgorithm, LimitFallback, LimitScope, ListenerOptions, ListingFormat,
    MirrorOptions, Missed, NameserverOptions, OnDemandOptions, ProxyVersion, Rate, ScheduleOptions,
    SetCookie, ShareOptions, SlowLogFormat, SlowLogOptions, SpoolerOptions, TsigAlgorithm,
    UpstreamOptions, WebSocket,
};
pub use tutti_document::Pointer;
pub use tutti_options::Switch;
pub use tutti_options::application::Common;
pub use tutti_options::log_target::LogTarget;
pub use tutti_options::password::{HashKind, PasswordHash};
pub use tutti_options::prefix::under;
pub use tutti_options::source::{LiveNode, LiveNodes};
pub use tutti_options::types::Special;

pub use crate::template::{Template, TemplatePart};
pub use crate::variables::{PLAIN_VARIABLES, TlsVariable, Variable};

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
    /// By name.
    pub spoolers: BTreeMap<String, Arc<Spooler>>,
    /// By name.
    pub schedules: BTreeMap<String, Arc<Schedule>>,
    /// Instance-wide settings.
    pub settings: Settings,
    /// Each gets its line of each request.
    pub access_logs: Vec<AccessLog>,
    /// `None`: slow requests are not told of.
    pub slow_log: Option<SlowLog>,
    /// Certificates that are named by their files, each once.
    pub certificate_files: Vec<CertificateFile>,
    /// Certificates that the server gets by itself, each once.
    pub acme_certificates: Vec<AcmeCertificate>,
}

impl Config {
    /// The files that logs are written to, with where they are configured; one of several logs comes as often.
    pub fn log_files(&self) -> impl Iterator<Item = (&Path, &Pointer)> {
        let access = self
            .access_logs
            .iter()
            .map(|log| (&log.target, &log.pointer));
        let slow = self.slow_log.iter().map(|log| (&log.target, &log.pointer));
        access
            .chain(slow)
            .filter_map(|(target, pointer)| Some((target.path()?, pointer)))
    }
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
    /// Numbers, switches and protocols.
    pub options: ListenerOptions,
    /// `None`: nothing about the client is taken from header fields.
    pub forwarded: Option<Forwarded>,
    /// `None`: it speaks plain HTTP.
    pub tls: Option<Tls>,
    /// Rules for the answers; `None`: there are none.
    pub delivery: Option<Box<Delivery>>,
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
    pub steps: Vec<RouteStep>,
}

/// One step of a route.
#[derive(Clone, Debug, PartialEq)]
pub struct RouteStep {
    /// Where it was written.
    pub pointer: Pointer,
    /// All must hold; the default holds for every request.
    pub conditions: Conditions,
    /// The action then.
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

/// The action of a step or a `fallback`.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    /// Where it was written.
    pub pointer: Pointer,
    /// The kind of action.
    pub kind: ActionKind,
    /// New path, before acting; the query string stays.
    pub rewrite: Option<Template>,
    /// Changes to the response.
    pub response_headers: Vec<ResponseHeader>,
    /// Changes to the request, where it goes to an upstream.
    pub request_headers: Vec<RequestHeader>,
    /// Everything that stands before it.
    pub guard: Option<Arc<Guard>>,
    /// The responses that are kept.
    pub cache: Option<Arc<Cache>>,
    /// Rules for the answer; `None`: there are none.
    pub delivery: Option<Box<Delivery>>,
}

/// The rules for the answers of an action, or of all actions behind a listener.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delivery {
    /// Actions that answer in place of errors.
    pub error_pages: Vec<ErrorPage>,
    /// They do so in place of errors of applications and servers, too; `None`: what is around it says so.
    pub intercept_errors: Option<bool>,
    /// Routes that an answer may lead to.
    pub internal: Vec<InternalRoute>,
    /// Values of `Link` of a 103.
    pub early_hints: Vec<Template>,
    /// Where copies of requests go.
    pub mirror: Option<Mirror>,
}

impl Delivery {
    /// `None` if it says nothing.
    pub(crate) fn some(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// An action that answers in place of errors.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorPage {
    /// The errors.
    pub statuses: ErrorStatus,
    /// The action.
    pub action: Action,
    /// The status of its answer.
    pub status: PageStatus,
}

/// The kinds of actions.
#[derive(Clone, Debug, PartialEq)]
pub enum ActionKind {
    /// Hand it on.
    Pass(Pass),
    /// Answer with a status.
    Return(Return),
    /// Serve a file.
    Share(Arc<Share>),
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
    /// Path that the folder stands at, without a slash at its end; empty for none.
    pub prefix: String,
    /// MIME types that may be served; an unknown type is the empty string.
    pub types: Option<Patterns>,
    /// Paths of requests that there is nothing for.
    pub deny: Option<Patterns>,
    /// The action where there is a file, instead of serving it.
    pub found: Option<Box<Action>>,
    /// The action where no file can be served.
    pub fallback: Option<Box<Action>>,
    /// Directory that confines path resolution.
    pub chroot: Option<Template>,
    /// The rest of it.
    pub options: ShareOptions,
}

/// One member of `response_headers`, or of `response_headers_always`.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseHeader {
    /// For a response of any status, else for a 2xx or 3xx one.
    pub always: bool,
    /// As written.
    pub name: String,
    /// `None` removes the field.
    pub value: Option<Template>,
}

/// A spooler: where its jobs go, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Spooler {
    /// Where it was written.
    pub pointer: Pointer,
    /// Its name.
    pub name: String,
    /// Where jobs are delivered to; no spooler. `None`: they are runs of a command.
    pub pass: Option<Pass>,
    /// Its bounds.
    pub options: SpoolerOptions,
}

/// A command of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Where it was written.
    pub pointer: Pointer,
    /// The application.
    pub application: String,
    /// The program and its arguments.
    pub words: Vec<String>,
}

/// A request that the server makes to itself at certain times, or a command that it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// Its name.
    pub name: String,
    /// The times.
    pub times: Times,
    /// The fields of the request.
    pub headers: Vec<(String, String)>,
    /// The rest of it, and what becomes of missed runs.
    pub options: ScheduleOptions,
    /// The command, where it is no request.
    pub command: Option<Command>,
    /// Its runs are jobs, one at a time: of this spooler, whose name no spooler of the configuration has.
    pub runs: Arc<Spooler>,
}

/// When a schedule is due.
#[derive(Clone, Debug, PartialEq)]
pub enum Times {
    /// With so much time between two beginnings.
    Every(Duration),
    /// By the calendar.
    Cron(Box<Timetable>),
}

/// Before the name of a schedule, in the name of the spooler that its runs are jobs of.
pub const SCHEDULE_PREFIX: &str = "schedule\0";

impl Config {
    /// All spoolers: those of the configuration, then those that runs of schedules are jobs of.
    pub fn all_spoolers(&self) -> impl Iterator<Item = &Arc<Spooler>> {
        let schedules = self.schedules.values();
        self.spoolers.values().chain(schedules.map(|one| &one.runs))
    }

    /// Those of them whose jobs are requests.
    pub fn delivering_spoolers(&self) -> impl Iterator<Item = &Arc<Spooler>> {
        self.all_spoolers().filter(|one| one.pass.is_some())
    }
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
    /// Options that every type has.
    pub common: Common,
    /// Options that are special to the type.
    pub special: Special,
}

/// The `type` of an application, resolved among the installed modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleReference {
    /// First word of `type`.
    pub kind: String,
    /// The version that was asked for (`8.2`), if any.
    pub requested: Option<String>,
    /// Version of the module that was chosen; empty where there are no versions (`external`).
    pub version: String,
}

impl Config {
    /// The servers of every `proxy`, those of actions in a share and of error pages among them.
    pub fn proxies(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.actions().flat_map(Action::proxies)
    }

    /// True if a server of an upstream is nodes of the fleet.
    pub fn follows_nodes(&self) -> bool {
        self.has_server(|address| matches!(address, UpstreamAddress::Fleet { .. }))
    }

    /// True if a server of an upstream is a Service of Kubernetes.
    pub fn follows_kubernetes(&self) -> bool {
        self.has_server(|address| matches!(address, UpstreamAddress::Kubernetes { .. }))
    }

    fn has_server(&self, is_meant: impl Fn(&UpstreamAddress) -> bool) -> bool {
        let mut servers = self
            .upstreams
            .values()
            .flat_map(|upstream| &upstream.servers);
        servers.any(|server| is_meant(&server.address))
    }

    /// The guards of all actions, those of actions in a share and of error pages among them.
    pub fn guards(&self) -> impl Iterator<Item = &Arc<Guard>> {
        self.actions().flat_map(Action::guards)
    }

    /// The actions of steps, and those for errors of listeners.
    fn actions(&self) -> impl Iterator<Item = &Action> {
        let steps = self.routes.list.iter().flat_map(|route| &route.steps);
        let listeners = self.listeners.iter();
        let pages = listeners.filter_map(|listener| listener.delivery.as_deref());
        let pages = pages.flat_map(|delivery| &delivery.error_pages);
        steps
            .map(|step| &step.action)
            .chain(pages.map(|page| &page.action))
    }
}

impl Action {
    fn guards(&self) -> Vec<&Arc<Guard>> {
        let pages = self
            .delivery
            .iter()
            .flat_map(|delivery| &delivery.error_pages);
        let pages = pages.flat_map(|page| page.action.guards());
        let mut guards: Vec<_> = self.guard.iter().chain(pages).collect();
        if let ActionKind::Share(share) = &self.kind {
            let inner = share.found.iter().chain(&share.fallback);
            guards.extend(inner.flat_map(|action| action.guards()));
        }
        guards
    }

    /// The servers of its `proxy`, and of those of the actions in it.
    fn proxies(&self) -> Vec<&Arc<Upstream>> {
        let pages = self
            .delivery
            .iter()
            .flat_map(|delivery| &delivery.error_pages);
        let inner = pages.map(|page| &page.action);
        let mut found: Vec<_> = inner.flat_map(Action::proxies).collect();
        match &self.kind {
            ActionKind::Proxy(upstream) => found.push(upstream),
            ActionKind::Share(share) => {
                let inner = share.found.iter().chain(&share.fallback);
                found.extend(inner.flat_map(|action| action.proxies()));
            }
            ActionKind::Pass(_) | ActionKind::Return(_) => {}
        }
        found
    }
}
