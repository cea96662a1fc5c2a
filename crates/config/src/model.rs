//! The typed configuration, as used by the server, the router and the pool.
//!
//! Built only by [`crate::validate`]. It is complete: every default is applied, every string with a grammar (address,
//! pattern, template, destination) is parsed, and each object has the [`Pointer`] of its place, so that a later failure
//! to apply it is reported at the same place. Nothing in it may refer to the bytes that were sent.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

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
mod response_rewrite;
mod scope;
mod settings;
mod source;
mod stored;
mod stream;
mod telemetry;
mod tls;
mod upstream;
mod written_at;

pub use tutti_document::Pointer;
pub use tutti_options::Switch;
pub use tutti_options::application::Common;
pub use tutti_options::log_target::LogTarget;
pub use tutti_options::password::{HashKind, PasswordHash};
pub use tutti_options::prefix::under;
pub use tutti_options::source::{LiveNode, LiveNodes};
pub use tutti_options::types::Special;

pub use self::acme::{AcmeAccount, AcmeCertificate, Eab};
pub use self::cache::{Cache, CacheDisk, CacheStore};
pub use self::compression::{Compression, CompressionLevel, Compressor};
pub use self::condition::Condition;
pub use self::dashboard::Dashboard;
pub use self::delivery::{ErrorStatus, InternalRoute, Maintenance, Mirror, PageStatus};
pub use self::destination::{Destination, Pass};
pub use self::forwarded::Forwarded;
pub use self::guard::{
    AuthRequest, Authenticate, Basic, Cors, ForwardAuth, Guard, GuardFile, Jwt, KeySource,
    LEAST_LINK_SECRET, Limit, SignedLink,
};
pub use self::kubernetes::Kubernetes;
pub use self::limit_store::{LimitStore, ValkeyAddress};
pub use self::logs::{AccessLog, LogFormat, LogValue, SlowLog};
pub use self::response_rewrite::ResponseRewrite;
pub use self::scope::{Replacement, Scope};
pub use self::settings::{Http, HttpLevel, RequestId, Settings};
pub use self::source::Source;
pub use self::stored::StoredName;
pub use self::stream::{Stream, StreamAction, StreamStep};
pub use self::telemetry::Telemetry;
pub use self::tls::*;
pub use self::upstream::{
    Balance, ComputedServer, ComputedServerError, Gateway, GatewayParameter, RequestHeader,
    RequestHeaderChange, Resolver, Scripts, Upstream, UpstreamProtocol, UpstreamServer,
};
pub use self::written_at::WrittenAt;
pub use crate::address::{
    AddressPattern, AddressSet, GatewayKind, IpRange, ListenAddress, ServicePort, UpstreamAddress,
    parse_name_server,
};
pub use crate::cron::{Timetable, written};
pub use crate::pattern::{CapturedGroups, OutOfSteps, Pattern, PatternKind, Patterns};
pub use crate::referer::Referers;
pub use crate::table::{
    Backlog, ChallengeWord, CollectorProtocol, CookieAttributes, EarlyHints, EncodedSlashes,
    Encoding, ForwardMethod, ForwardedHeaders, ForwardedOptions, HealthCheckOptions,
    HealthQuestion, Http2, Http3, HttpVersion, JwtAlgorithm, LimitFallback, LimitScope, LinkMethod,
    ListenerOptions, ListingFormat, MirrorOptions, Missed, NameserverOptions, OnDemandOptions,
    ProxyVersion, Rate, RetryFailure, SameSite, ScheduleOptions, SetCookie, ShareOptions,
    SlowLogFormat, SlowLogOptions, SpoolerOptions, StickyOptions, TsigAlgorithm, UdpOptions,
    UpstreamOptions, WebSocket,
};
use crate::table::{HttpRequestOptions, Opt};
pub use crate::template::{
    AddressCases, Group, GroupOwner, HostCases, MapCases, MapReference, ScriptPart, Template,
    TemplatePart, TextCases, VariableMap,
};
pub use crate::variables::{PLAIN_VARIABLES, TlsVariable, UpstreamVariable, Variable};

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
    /// Each gets a line for each request.
    pub access_logs: Vec<AccessLog>,
    /// The settings of listeners and actions.
    pub scopes: Vec<Scope>,
    /// `None`: slow requests are not logged.
    pub slow_log: Option<SlowLog>,
    /// Certificates that are named by file, each once.
    pub certificate_files: Vec<CertificateFile>,
    /// Certificates that the server obtains automatically, each once.
    pub acme_certificates: Vec<AcmeCertificate>,
}

impl Config {
    /// Returns the access logs of the whole server, then those of listeners and actions.
    pub fn all_access_logs(&self) -> impl Iterator<Item = &AccessLog> {
        let inner = self.scopes.iter().flat_map(|scope| &scope.access_logs);
        self.access_logs.iter().chain(inner.flatten())
    }

    /// Returns an option of `http`, of the whole server and of each listener and action that has it.
    pub fn each_http<'c, T: 'c>(
        &'c self,
        option: &'c Opt,
        value: impl Fn(&'c HttpRequestOptions) -> T + 'c,
    ) -> impl Iterator<Item = T> + 'c {
        let scopes = self.scopes.iter().map(|scope| &scope.http);
        let inner = scopes.filter(|http| http.given.contains(&option.name));
        let own = std::iter::once(&self.settings.http.options.request);
        let all = own.chain(inner.map(|http| &http.options.request));
        all.map(value)
    }

    /// Returns the largest request body that any part accepts.
    pub fn largest_body(&self) -> u64 {
        let all = self.each_http(&HttpRequestOptions::max_body_size, |http| {
            http.max_body_size
        });
        all.max().unwrap_or(0)
    }

    /// Returns the most bytes of a response that any part stores for a slow client.
    pub fn largest_buffering(&self) -> u64 {
        let all = self.each_http(&HttpRequestOptions::response_buffering, |http| {
            http.response_buffering
        });
        all.max().unwrap_or(0)
    }

    /// Returns the files of logs with their places in the configuration; a file of several logs is returned several
    /// times.
    pub fn log_files(&self) -> impl Iterator<Item = (&Path, &Pointer)> {
        let access = self.all_access_logs();
        let access = access.map(|log| (&log.target, &log.pointer));
        let slow = self.slow_log.iter().map(|log| (&log.target, &log.pointer));
        access
            .chain(slow)
            .filter_map(|(target, pointer)| Some((target.path()?, pointer)))
    }
}

/// One listening socket and the destination of its requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    /// Where it was written, `/listeners/NAME`.
    pub pointer: Pointer,
    /// The member name as written: `*:8080`, `127.0.0.1:80`, `[::1]:80`, `unix:/run/site.sock`, `unix:@name`.
    pub name: String,
    /// The parsed name.
    pub address: ListenAddress,
    /// The destination of requests; `None`: it has none, because all connections are passed on.
    pub pass: Option<Pass>,
    /// The steps for its connections; `None`: all are read as HTTP.
    pub stream: Option<Arc<Stream>>,
    /// Peers whose connections begin with a PROXY protocol header.
    pub proxy_protocol: Option<AddressSet>,
    /// Numbers, switches and protocols.
    pub options: ListenerOptions,
    /// `None`: no header field with the client's address is trusted.
    pub forwarded: Option<Forwarded>,
    /// `None`: plain HTTP.
    pub tls: Option<Tls>,
    /// Rules for responses; `None`: none.
    pub delivery: Option<Box<Delivery>>,
    /// The number of its settings in [`Config::scopes`].
    pub scope: Option<usize>,
}

/// All routes. An array in the configuration is one unnamed route; an object contains named routes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routes {
    /// In the order they were written.
    pub list: Vec<Route>,
}

impl Routes {
    /// Returns the route called `name` (`None`: the array form).
    pub fn get(&self, name: Option<&str>) -> Option<&Route> {
        self.list.iter().find(|route| route.name.as_deref() == name)
    }
}

/// Steps, tried in order; the first one that matches acts.
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
    /// All must match; the default matches every request.
    pub conditions: Conditions,
    /// The action may use groups of the regular expressions in `conditions`.
    pub has_groups: bool,
    /// The action if they match.
    pub action: Action,
}

/// The `match` object. Conditions that are `None` always match.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Conditions {
    /// Path, decoded and normalized; case-sensitive.
    pub uri: Option<Patterns>,
    /// Host, lower case, without port and trailing period; patterns are lower-cased.
    pub host: Option<Patterns>,
    /// Method; patterns are upper-cased.
    pub method: Option<Patterns>,
    /// The query string as a whole, decoded.
    pub query: Option<Patterns>,
    /// `Some(true)` requires https, `Some(false)` http.
    pub https: Option<bool>,
    /// Arguments of the query string, decoded.
    pub arguments: Option<FieldSets>,
    /// Cookies.
    pub cookies: Option<FieldSets>,
    /// Header fields; names are lower-cased, patterns are case-insensitive.
    pub headers: Option<FieldSets>,
    /// Pages that link here.
    pub referer: Option<Referers>,
    /// Address and port that the request comes from.
    pub source: Option<AddressSet>,
    /// Address and port that the request was sent to.
    pub destination: Option<AddressSet>,
    /// A template that must not be empty, `0`, `false`, `null` or `undefined`.
    pub condition: Option<Condition>,
}

impl Conditions {
    /// True if every request matches.
    pub fn is_always(&self) -> bool {
        *self == Conditions::default()
    }
}

/// Array of objects: one object must match, with all its fields.
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
    /// New path, applied before the action; the query string is kept.
    pub rewrite: Option<Template>,
    /// Changes to the response.
    pub response_headers: Vec<ResponseHeader>,
    /// Changes to the request, if it goes to an upstream.
    pub request_headers: Vec<RequestHeader>,
    /// The body of the request, if it goes to an upstream; `None`: the client's.
    pub request_body: Option<Template>,
    /// The method of the request, if it goes to an upstream; `None`: the client's.
    pub request_method: Option<String>,
    /// Everything that applies before the action.
    pub guard: Option<Arc<Guard>>,
    /// Caching of its responses.
    pub cache: Option<Arc<Cache>>,
    /// Rules for the response; `None`: none.
    pub delivery: Option<Box<Delivery>>,
    /// The number of its settings in [`Config::scopes`].
    pub scope: Option<usize>,
}

/// Rules for the responses of an action, or of all actions of a listener.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delivery {
    /// Actions that respond to errors.
    pub error_pages: Vec<ErrorPage>,
    /// True if they apply to error responses of applications and servers, too; `None`: as the enclosing rules set it.
    pub intercept_errors: Option<bool>,
    /// Routes that a response may redirect to.
    pub internal: Vec<InternalRoute>,
    /// Values of `Link` of a 103.
    pub early_hints: Vec<Template>,
    /// The destination of copies of requests.
    pub mirror: Option<Mirror>,
}

impl Delivery {
    /// Returns `None` if it has no rules.
    pub(crate) fn some(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// An action that responds to errors.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorPage {
    /// The errors.
    pub statuses: ErrorStatus,
    /// The action.
    pub action: Action,
    /// The status of its response.
    pub status: PageStatus,
}

/// The kinds of actions.
#[derive(Clone, Debug, PartialEq)]
pub enum ActionKind {
    /// Pass the request on.
    Pass(Pass),
    /// Respond with a status.
    Return(Return),
    /// Serve a file.
    Share(Arc<Share>),
    /// Send it to a server: an upstream with one server, named like the URL.
    Proxy(Arc<Upstream>),
}

/// `return`, with its `location`.
#[derive(Clone, Debug, PartialEq)]
pub struct Return {
    /// 0 to 999.
    pub status: u16,
    /// Value of the `Location` field.
    pub location: Option<Template>,
    /// `None`: the server's own page, or an empty body.
    pub content: Option<Arc<ReturnContent>>,
}

/// The body of a `return`.
#[derive(Clone, Debug, PartialEq)]
pub struct ReturnContent {
    /// Value of the `Content-Type` field.
    pub content_type: String,
    /// In order; a literal alone if it is the same for every request, and nothing if it is empty.
    pub parts: Vec<ContentPart>,
}

/// A piece of the body of a `return`.
#[derive(Clone, Debug, PartialEq)]
pub enum ContentPart {
    /// Bytes, never empty.
    Literal(Bytes),
    /// A text.
    Text(Template),
    /// A text inside a JSON string: its value is escaped.
    JsonText(Template),
}

/// `share`, with its options.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Paths, tried in order.
    pub paths: Vec<Template>,
    /// URL path of the folder, without a trailing slash; empty for none.
    pub prefix: String,
    /// MIME types that may be served; an unknown type is the empty string.
    pub types: Option<Patterns>,
    /// Request paths that get 404.
    pub deny: Option<Patterns>,
    /// The action if the file exists, instead of serving it.
    pub found: Option<Box<Action>>,
    /// The action for a folder that exists and has nothing to serve.
    pub folder: Option<Box<Action>>,
    /// The action if no file can be served.
    pub fallback: Option<Box<Action>>,
    /// Folder that paths cannot leave.
    pub chroot: Option<Template>,
    /// The remaining options.
    pub options: ShareOptions,
}

impl Share {
    /// The actions inside it.
    fn inner(&self) -> impl Iterator<Item = &Action> {
        let inner = [&self.found, &self.folder, &self.fallback];
        inner.into_iter().flatten().map(|action| &**action)
    }
}

/// One member of `response_headers`, or of `response_headers_always`.
#[derive(Clone, Debug, PartialEq)]
pub struct ResponseHeader {
    /// For responses with any status, instead of only 2xx and 3xx.
    pub always: bool,
    /// As written.
    pub name: String,
    /// `None` removes the field.
    pub value: Option<Template>,
    /// Fields of the same name stay.
    pub is_added: bool,
}

/// A spooler: the destination of its jobs, and their delivery.
#[derive(Clone, Debug, PartialEq)]
pub struct Spooler {
    /// Where it was written.
    pub pointer: Pointer,
    /// Its name.
    pub name: String,
    /// The destination of jobs, never a spooler. `None`: they are runs of a command.
    pub pass: Option<Pass>,
    /// Its limits.
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
    /// The remaining options, and the treatment of missed runs.
    pub options: ScheduleOptions,
    /// The command, if it is not a request.
    pub command: Option<Command>,
    /// Its runs are jobs, one at a time, of this spooler, whose name differs from those of all configured spoolers.
    pub runs: Arc<Spooler>,
}

/// When a schedule is due.
#[derive(Clone, Debug, PartialEq)]
pub enum Times {
    /// With this time from the beginning of one run to the next.
    Every(Duration),
    /// According to a calendar.
    Cron(Box<Timetable>),
}

/// Precedes the name of a schedule in the name of the spooler for its runs.
pub const SCHEDULE_PREFIX: &str = "schedule\0";

impl Config {
    /// Returns all spoolers: the configured ones, then those for runs of schedules.
    pub fn all_spoolers(&self) -> impl Iterator<Item = &Arc<Spooler>> {
        let schedules = self.schedules.values();
        self.spoolers.values().chain(schedules.map(|one| &one.runs))
    }

    /// Returns those of them whose jobs are requests.
    pub fn delivering_spoolers(&self) -> impl Iterator<Item = &Arc<Spooler>> {
        self.all_spoolers().filter(|one| one.pass.is_some())
    }
}

/// An application: its program, processes and user.
///
/// Applications that compare equal behave the same: a new configuration keeps the processes of an unchanged one. (Name
/// and pointer are part of the comparison; both are the same for the same entry.)
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
    /// Options of its type.
    pub special: Special,
}

/// The `type` of an application, resolved to an installed module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleReference {
    /// First word of `type`.
    pub kind: String,
    /// The requested version (`8.2`), if any.
    pub requested: Option<String>,
    /// Version of the selected module; empty if there are no versions (`external`).
    pub version: String,
}

impl Config {
    /// Returns the servers of every `proxy`, including those of actions in shares and error pages.
    pub fn proxies(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        self.actions().flat_map(Action::proxies)
    }

    /// True if a server of an upstream stands for nodes of the fleet.
    pub fn follows_nodes(&self) -> bool {
        self.has_server(|address| matches!(address, UpstreamAddress::Fleet { .. }))
    }

    /// True if a server of an upstream is a Kubernetes Service.
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

    /// Returns the files of secrets that requests need.
    pub fn secret_files(&self) -> impl Iterator<Item = &GuardFile> {
        let upstreams = self.upstreams.values();
        let keys = upstreams.filter_map(|upstream| upstream.sticky_key.as_ref());
        self.guards().filter_map(|guard| guard.file()).chain(keys)
    }

    /// Returns the guards of all actions, including those of actions in shares and error pages.
    pub fn guards(&self) -> impl Iterator<Item = &Arc<Guard>> {
        self.actions().flat_map(Action::guards)
    }

    /// Returns the actions of steps, and the error pages of listeners.
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
            guards.extend(share.inner().flat_map(|action| action.guards()));
        }
        guards
    }

    /// Returns the servers of its `proxy`, and of the actions inside it.
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
                found.extend(share.inner().flat_map(|action| action.proxies()));
            }
            ActionKind::Pass(_) | ActionKind::Return(_) => {}
        }
        found
    }
}
