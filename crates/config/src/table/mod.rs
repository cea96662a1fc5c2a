//! The option table: every key of the configuration language, once.
//!
//! Everything that has to know the language reads it here: checking of types, ranges and names, suggestions for
//! misspelt keys, defaults of the typed configuration, the JSON Schema and the reference page. A type of applications that
//! this version does not run yet has [`Support::Later`] and is refused; the change that makes it work turns that into
//! [`Support::Now`].

mod applications;
mod gateways;
mod routes;
mod settings;
mod tls;
mod upstreams;

pub(crate) use applications::COMMON;
pub use applications::{AUTOMOUNT, CGROUP, ID_MAP, ISOLATION, NAMESPACES};
pub use applications::{
    ApplicationType, EXTERNAL, LIMITS, PHP, PHP_OPTIONS, PHP_TARGET, PROCESSES, PYTHON_TARGET,
    QUEUE, TYPES,
};
pub use gateways::{FASTCGI, SCGI, UWSGI};
pub use routes::{ACTION, CONDITIONS, STEP};
pub use settings::{
    ACCESS_LOG, COMPRESSION, COMPRESSOR, HTTP, RESOLVER, SETTINGS, TELEMETRY, WEBSOCKET,
};
pub use tls::{TLS, TLS_SESSION};
pub use upstreams::{HEALTH_CHECK, PROXY_OPTIONS, SERVER, UPSTREAM, UPSTREAM_TLS};

use crate::pattern::{Case, Syntax};

/// An object with certain keys.
#[derive(Debug)]
pub struct Object {
    /// What it is called in the schema and the reference: a word or two.
    pub name: &'static str,
    /// What it is for.
    pub summary: &'static str,
    /// Its options; several lists, so that they can be shared.
    pub options: &'static [&'static [Opt]],
    /// Exactly one of these keys must be there; empty: no such rule.
    pub exactly_one: &'static [&'static str],
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// The key.
    pub name: &'static str,
    /// What its value may be.
    pub kind: Kind,
    /// What it does.
    pub effect: &'static str,
    /// It must be there.
    pub required: bool,
    /// The value used where it is not there, as JSON; empty: there is none.
    pub default: &'static str,
    /// What a number counts.
    pub unit: &'static str,
    /// One of these keys must be there too; empty: no such rule.
    pub needs: &'static [&'static str],
    /// Whether NGINX Unit has it.
    pub origin: Origin,
    /// It is an older name; where it is missing nobody is told to write it.
    pub older: bool,
    /// First version that acts on it; told in the reference.
    pub since: &'static str,
    /// Taken, so that older configurations work, and of no effect: told as a warning.
    pub is_ignored: bool,
}

/// Where an option comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is one of NGINX Unit's, and means the same.
    Unit,
    /// NGINX Unit does not know it.
    Beyond,
}

/// Whether this version runs applications of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It does.
    Now,
    /// It does not yet.
    Later,
}

/// What a value may be.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `true` or `false`.
    Boolean,
    /// A whole number in this range.
    Integer(i64, i64),
    /// A number of bytes in this range, or a text with a unit: `"10M"`.
    Size(i64, i64),
    /// A number in this range.
    Number(f64, f64),
    /// A string.
    String(Text),
    /// `null`.
    Null,
    /// An array of these.
    Array(&'static Kind),
    /// One of these; no two have the same JSON type.
    OneOf(&'static [Kind]),
    /// An object with certain keys.
    Object(&'static Object),
    /// An object with keys of the user's choice.
    Map(Names, &'static Kind),
    /// An application: the keys depend on its `type`.
    Application,
}

/// What a string may be.
#[derive(Clone, Copy, Debug)]
pub enum Text {
    /// Anything.
    Any,
    /// Anything without NUL: an argument, the value of a variable of the environment.
    Argument,
    /// Anything without NUL but nothing.
    NotEmpty,
    /// A path of the file system.
    Path,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, in any case of letters.
    AnyCase(&'static [&'static str]),
    /// Text with variables, not empty.
    Template,
    /// Text with variables.
    TemplateOrEmpty,
    /// The same, for the value of a header field.
    FieldTemplate,
    /// A template tested for truth; `!` for the opposite.
    Condition,
    /// A destination, with variables.
    Pass,
    /// A pattern.
    Pattern(Syntax),
    /// An address pattern.
    Address,
    /// The `type` of an application.
    Module,
    /// `http://` and the address of a server.
    ProxyTarget,
    /// The name of a header field.
    HeaderName,
    /// A host's name or address.
    HostName,
    /// The address of a name server.
    NameServer,
    /// Path and query of a request.
    Target,
    /// Names for things this version does not know: a certificate, a script module.
    Reference,
}

/// What the keys of a map may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Anything.
    Any,
    /// Anything but nothing.
    NotEmpty,
    /// An address to listen on.
    Listener,
    /// A header field that may be changed in a response.
    ResponseHeader,
    /// A header field of a request.
    HeaderName,
    /// A header field that may be changed in a request to an upstream.
    RequestHeader,
    /// The address of a server of an upstream.
    Server,
    /// An argument: `%XX` is decoded.
    Argument,
    /// A variable of the environment.
    Environment,
    /// A MIME type.
    MimeType,
}

/// Patterns of `uri`, `query` and `arguments`.
pub const DECODED: Syntax = Syntax {
    case: Case::Exact,
    percent: true,
};
/// Patterns of `cookies`.
pub const PLAIN: Syntax = Syntax {
    case: Case::Exact,
    percent: false,
};
/// Patterns of `host`, `method`, `headers`, and of MIME types (RFC 9110 §8.3.1).
pub const CASELESS: Syntax = Syntax {
    case: Case::Ignore,
    percent: false,
};

/// The whole configuration.
pub static ROOT: Object = Object {
    name: "configuration",
    summary: "The whole configuration",
    options: &[&[
        opt(
            "$schema",
            Kind::String(Text::Any),
            "For editors: where the schema of this file is; the server does nothing with it",
        )
        .beyond(),
        opt(
            "listeners",
            Kind::Map(Names::Listener, &Kind::Object(&LISTENER)),
            "Sockets to accept requests on, by address",
        ),
        opt(
            "routes",
            Kind::OneOf(&[
                Kind::Array(&Kind::Object(&STEP)),
                Kind::Map(Names::Any, &Kind::Array(&Kind::Object(&STEP))),
            ]),
            "The route called `routes` (an array of steps), or several with names (an object of arrays)",
        ),
        opt(
            "applications",
            Kind::Map(Names::NotEmpty, &Kind::Application),
            "Applications, by name",
        ),
        opt(
            "upstreams",
            Kind::Map(Names::NotEmpty, &Kind::Object(&UPSTREAM)),
            "Groups of servers to balance requests between, by name",
        ),
        opt(
            "settings",
            Kind::Object(&SETTINGS),
            "Settings of the whole server",
        ),
        opt(
            "access_log",
            Kind::OneOf(&[Kind::String(Text::Path), Kind::Object(&ACCESS_LOG)]),
            "The file that gets a line for each request, and what is in it",
        ),
    ]],
    exactly_one: &[],
};

/// One of `listeners`.
pub static LISTENER: Object = Object {
    name: "listener",
    summary: "A socket to accept requests on. Its name is the address: `*:80`, `127.0.0.1:8080`, `[::1]:8080`, \
              `unix:/path` or `unix:@name`",
    options: &[&[
        opt("pass", Kind::String(Text::Pass), "Where requests go"),
        opt(
            "application",
            Kind::String(Text::NotEmpty),
            "Older form of `pass`: the name of an application",
        )
        .older(),
        opt(
            "backlog",
            Kind::Integer(-1, 0x7fff_ffff),
            "Connections that may wait to be accepted; -1: as many as the system allows",
        )
        .default("-1"),
        opt(
            "http2",
            Kind::OneOf(&[Kind::Boolean, Kind::Object(&HTTP2)]),
            "Speak HTTP/2 with clients that do (by ALPN over TLS, else by its preface); limits",
        )
        .beyond()
        .default("true"),
        opt("tls", Kind::Object(&TLS), "Speak TLS on it"),
        opt(
            "proxy_protocol",
            Kind::Object(&PROXY_PROTOCOL),
            "Who must say whom each connection is from, with a PROXY protocol header",
        )
        .beyond(),
        opt(
            "forwarded",
            Kind::Object(&FORWARDED),
            "Whom to believe about the client's address and protocol",
        ),
        opt(
            "client_ip",
            Kind::Object(&CLIENT_IP),
            "Older form of `forwarded`",
        )
        .older(),
    ]],
    exactly_one: &["pass", "application"],
};

/// `http2` of a listener.
pub static HTTP2: Object = Object {
    name: "http2",
    summary: "Limits of a client's HTTP/2 connection",
    options: &[&[
        opt(
            "max_concurrent_streams",
            Kind::Integer(1, 10_000),
            "Requests that a client may have under way at once on one connection",
        )
        .beyond()
        .default("100")
        .unit("requests"),
        opt(
            "stream_window_size",
            Kind::Size(16_384, 0x7fff_ffff),
            "What a client may send of one body ahead of what has been taken from it",
        )
        .beyond()
        .default("262144")
        .unit("bytes"),
        opt(
            "connection_window_size",
            Kind::Size(65_535, 0x7fff_ffff),
            "The same of all bodies on one connection together",
        )
        .beyond()
        .default("1048576")
        .unit("bytes"),
    ]],
    exactly_one: &[],
};

/// `proxy_protocol` of a listener.
pub static PROXY_PROTOCOL: Object = Object {
    name: "proxy_protocol",
    summary: "PROXY protocol headers, versions 1 and 2, at the start of connections from proxies",
    options: &[&[opt(
        "source",
        ADDRESSES,
        "Proxies: each of their connections must begin with a header, and is then taken to be from the address in it",
    ).beyond()
    .required()]],
    exactly_one: &[],
};

/// `forwarded` of a listener.
pub static FORWARDED: Object = Object {
    name: "forwarded",
    summary: "Header fields that tell the client's address and protocol, and who may send them",
    options: &[&[
        opt(
            "source",
            ADDRESSES,
            "Addresses that are believed; an empty array: none",
        )
        .required(),
        opt(
            "client_ip",
            Kind::String(Text::HeaderName),
            "Field with the client's address; of several, the last, or what `recursive` finds",
        ),
        opt(
            "protocol",
            Kind::String(Text::HeaderName),
            "Field that says `http`, `https` or `on`; of a list, the last",
        ),
        opt(
            "recursive",
            Kind::Boolean,
            "Take the last address that is not in `source`; where all are, the first",
        )
        .default("false"),
    ]],
    exactly_one: &[],
};

/// `client_ip` of a listener.
pub static CLIENT_IP: Object = Object {
    name: "client_ip",
    summary: "Older form of `forwarded`",
    options: &[&[
        opt(
            "source",
            ADDRESSES,
            "Addresses that are believed; an empty array: none",
        )
        .required(),
        opt(
            "header",
            Kind::String(Text::HeaderName),
            "Field with the client's address",
        )
        .required(),
        opt(
            "recursive",
            Kind::Boolean,
            "Take the last address that is not in `source`; where all are, the first",
        )
        .default("false"),
    ]],
    exactly_one: &[],
};

/// A string, or an array of them.
const STRINGS: Kind = Kind::OneOf(&[
    Kind::String(Text::Reference),
    Kind::Array(&Kind::String(Text::Reference)),
]);
/// An address pattern, or an array of them.
const ADDRESSES: Kind = Kind::OneOf(&[
    Kind::String(Text::Address),
    Kind::Array(&Kind::String(Text::Address)),
]);

/// An option with no default that this version acts on.
const fn opt(name: &'static str, kind: Kind, effect: &'static str) -> Opt {
    Opt {
        name,
        kind,
        effect,
        required: false,
        default: "",
        unit: "",
        needs: &[],
        origin: Origin::Unit,
        older: false,
        since: "0.1",
        is_ignored: false,
    }
}

impl Opt {
    const fn required(mut self) -> Opt {
        self.required = true;
        self
    }

    const fn default(mut self, json: &'static str) -> Opt {
        self.default = json;
        self
    }

    const fn unit(mut self, unit: &'static str) -> Opt {
        self.unit = unit;
        self
    }

    const fn needs(mut self, keys: &'static [&'static str]) -> Opt {
        self.needs = keys;
        self
    }

    /// A newer option says the same, and more.
    const fn older(mut self) -> Opt {
        self.older = true;
        self
    }

    /// Without effect.
    const fn ignored(mut self) -> Opt {
        self.is_ignored = true;
        self
    }

    /// Unknown to NGINX Unit.
    const fn beyond(mut self) -> Opt {
        self.origin = Origin::Beyond;
        self
    }
}

impl Object {
    /// All options.
    pub fn all(&self) -> impl Iterator<Item = &'static Opt> + use<> {
        self.options.iter().flat_map(|list| list.iter())
    }

    /// The option of that name.
    pub fn option(&self, name: &str) -> Option<&'static Opt> {
        self.all().find(|option| option.name == name)
    }
}

impl Kind {
    /// In words, for "expected …".
    pub fn words(&self) -> String {
        match self {
            Kind::Boolean => "`true` or `false`".to_owned(),
            Kind::Integer(min, max) => match *max {
                i64::MAX | 0x7fff_ffff => format!("an integer of at least {min}"),
                max => format!("an integer from {min} to {max}"),
            },
            Kind::Size(min, max) => match *max {
                i64::MAX | 0x7fff_ffff => {
                    format!("a number of bytes of at least {min}, or a size such as `\"10M\"`")
                }
                max => {
                    format!("a number of bytes from {min} to {max}, or a size such as `\"10M\"`")
                }
            },
            Kind::Number(min, max) => format!("a number from {min} to {max}"),
            Kind::String(text) => text.words(),
            Kind::Null => "`null`".to_owned(),
            Kind::Array(Kind::String(_)) => "an array of strings".to_owned(),
            Kind::Array(_) => "an array".to_owned(),
            Kind::OneOf(kinds) => {
                let words: Vec<String> = kinds.iter().map(Kind::words).collect();
                words.join(" or ")
            }
            Kind::Object(_) | Kind::Map(..) | Kind::Application => "an object".to_owned(),
        }
    }
}

impl Text {
    /// What such a string is called in the reference, and what is refused; `None` where `words` says all.
    pub fn rules(&self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Text::Path => (
                "path",
                "A path of the file system. Refused: an empty one, one with NUL",
            ),
            Text::Template | Text::TemplateOrEmpty => (
                "template",
                "Text with variables, `$name` or `${name}`; `$dollar` is a dollar sign. Refused: unknown variables, a `${` \
                 that is not closed, and the empty text where nothing could be done with it",
            ),
            Text::FieldTemplate => (
                "field value",
                "Text with variables, as a template is, that can be the value of a header field. Refused: what a template refuses, and \
                 control characters but tabs",
            ),
            Text::Condition => (
                "condition",
                "A template that is tested for truth: empty, `0`, `false`, `null` and `undefined` are not true; `!` before \
                 it means the opposite. Refused as a template is",
            ),
            Text::Pass => (
                "destination",
                "`routes`, `routes/NAME`, `applications/NAME`, `applications/NAME/TARGET` or `upstreams/NAME`, each name \
                 percent-encoded; or a template that gives one. Refused: what does not exist, unless there are variables",
            ),
            Text::Pattern(_) => (
                "pattern",
                "Compared whole; `*` stands for any characters, `!` before it means the opposite, `~` a regular \
                 expression. Refused: a regular expression that does not compile, bad percent-encoding",
            ),
            Text::Address => (
                "address pattern",
                "`10.0.0.0/8`, `192.0.2.1-192.0.2.9:80-90`, `[::1]:80`, `*:443`, `unix`; `!` before it means the opposite. \
                 Refused: what is none of them, ranges that end before they begin",
            ),
            Text::Module => (
                "module",
                "A language, and its version if that matters. Refused: what is not installed; `config check` tells so only \
                 with `--modulesdir`",
            ),
            Text::HeaderName => (
                "field name",
                "The name of a header field. Refused: other characters than those of RFC 9110 §5.6.2",
            ),
            Text::NameServer => (
                "name server",
                "An IPv4 or IPv6 address, with or without a port: `10.0.0.2`, `10.0.0.2:5353`, `[::1]:53`. Refused: names",
            ),
            Text::Target => (
                "request target",
                "A path with a `/` at its front, and a query if there is one, as they are sent. Refused: spaces, control and other \
                 characters that must be percent-encoded, `#`",
            ),
            Text::HostName => (
                "host",
                "A name as in the DNS, or an IPv4 or IPv6 address. Refused: anything else",
            ),
            Text::Argument => ("argument", "Any string without NUL"),
            Text::NotEmpty | Text::Reference | Text::ProxyTarget => {
                ("text", "Any string but the empty one, without NUL")
            }
            _ => return None,
        })
    }

    /// In words, for "expected …".
    pub fn words(&self) -> String {
        match self {
            Text::Word(words) | Text::AnyCase(words) => {
                let words: Vec<String> = words.iter().map(|word| format!("`\"{word}\"`")).collect();
                words.join(" or ")
            }
            _ => "a string".to_owned(),
        }
    }
}
