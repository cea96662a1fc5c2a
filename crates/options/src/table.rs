//! The vocabulary in which an option is described: objects, rows, kinds of values.
//!
//! Everything that depends on the configuration language reads tables of these: checking of types, ranges and names,
//! suggestions for misspelt keys, the JSON Schema and the reference page.

/// An object with certain keys.
#[derive(Debug)]
pub struct Object {
    /// Its name in the schema and the reference: a word or two.
    pub name: &'static str,
    /// Its purpose, in a sentence.
    pub summary: &'static str,
    /// Its options; several lists, so that they can be shared.
    pub options: &'static [&'static [Opt]],
    /// Exactly one of these keys must be present; empty: no such rule.
    pub exactly_one: &'static [&'static str],
    /// None of those keys is needed if one of these is present.
    pub unless: &'static [&'static str],
    /// An absent option has the value of an outer object, not the default of its row.
    pub inherits: bool,
}

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// The key.
    pub name: &'static str,
    /// The values it may have.
    pub kind: ValueKind,
    /// Its effect, in a sentence.
    pub effect: &'static str,
    /// The option must be present.
    pub required: bool,
    /// The default value, as JSON; empty: there is none.
    pub default: &'static str,
    /// The unit of a number.
    pub unit: &'static str,
    /// One of these keys must be present too; empty: no such rule.
    pub needs: &'static [&'static str],
    /// True if NGINX Unit has the option too.
    pub origin: Origin,
    /// It is an older name, which no message suggests.
    pub older: bool,
    /// First version that supports it, shown in the reference.
    pub since: &'static str,
    /// It is accepted for compatibility and has no effect; using it is a warning.
    pub is_ignored: bool,
    /// A value, as JSON, that removes a protection, and the consequence; using it is a warning.
    pub risk: Option<(&'static str, &'static str)>,
}

/// Where an option comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It is one of NGINX Unit's, and means the same.
    Unit,
    /// NGINX Unit does not know it.
    Beyond,
}

/// The values that are allowed.
#[derive(Clone, Copy, Debug)]
pub enum ValueKind {
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
    Array(&'static ValueKind),
    /// One of these; no two have the same JSON type.
    OneOf(&'static [ValueKind]),
    /// An object with certain keys. It is a function because an object may contain itself.
    Object(fn() -> &'static Object),
    /// An object with keys of the user's choice.
    Map(Names, &'static ValueKind),
    /// An application: the keys depend on its `type`.
    Application,
    /// Any value, in which each string is a text with variables.
    Json,
}

/// The strings that are allowed.
#[derive(Clone, Copy, Debug)]
pub enum Text {
    /// Anything.
    Any,
    /// Anything without NUL: an argument, the value of a variable of the environment.
    Argument,
    /// Any string except the empty one, without NUL.
    NotEmpty,
    /// A path of the file system.
    Path,
    /// A path of the file system, or the empty string, which means that the option is not set.
    PathOrEmpty,
    /// One of these words.
    Word(&'static [&'static str]),
    /// One of these words, in any case of letters.
    AnyCase(&'static [&'static str]),
    /// Text with variables, not empty.
    Template,
    /// Text with variables.
    TemplateOrEmpty,
    /// Text with variables for the value of a header field.
    FieldTemplate,
    /// Text with variables, and with groups of a regular expression.
    MapValue,
    /// A template that is tested for truth; `!` negates it.
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
    /// A file for log lines, or a syslog server.
    Log,
    /// The name of a header field that the server may set, in requests and in responses.
    WrittenHeader,
    /// A host name or address.
    HostName,
    /// A media type, with parameters.
    MediaType,
    /// The address of a name server.
    NameServer,
    /// Path and query of a request.
    Target,
    /// The name of another object.
    Name(Referent),
}

/// The objects that a string can name. [`Text::Pass`] and [`Text::Module`] name objects, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Referent {
    /// An application, `/applications/NAME`.
    Application,
    /// A destination without variables, such as `routes/NAME` or `upstreams/NAME`.
    Destination,
    /// A limit that actions share, `/limits/NAME`.
    Limit,
    /// A store of limits, `/settings/limit_stores/NAME`.
    LimitStore,
    /// A store of responses, `/settings/cache/NAME`.
    CacheStore,
    /// An account with an authority, `/settings/acme/NAME`.
    AcmeAccount,
    /// A certificate bundle, which is stored beside the configuration; or the path of a PEM file.
    Certificate,
    /// A script module, which is stored beside the configuration.
    ScriptModule,
}

/// The keys that a map may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Anything.
    Any,
    /// Anything except the empty string.
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
    /// The status of an error, or a class of them: `404`, `5xx`.
    ErrorStatus,
    /// The beginning of a path.
    Path,
    /// The last part of the name of a variable.
    Variable,
    /// A range of addresses, without ports.
    Addresses,
}

/// The comparison of the letters of pattern and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Case {
    /// As they are.
    #[default]
    Exact,
    /// ASCII letters without case.
    Ignore,
}

/// The syntax of the patterns of some property.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Syntax {
    /// Case-sensitive or not.
    pub case: Case,
    /// `%XX` is decoded (`uri`, `query`, `arguments`); never in a regular expression.
    pub percent: bool,
    /// `+` matches `+` and a space, which a query writes as `+` (`query`, `arguments`); never in a regular expression.
    pub plus: bool,
}

/// Patterns of `uri`.
pub const DECODED: Syntax = Syntax {
    case: Case::Exact,
    percent: true,
    plus: false,
};
/// Patterns of `query` and `arguments`.
pub const QUERY: Syntax = Syntax {
    plus: true,
    ..DECODED
};
/// Patterns of `cookies`.
pub const PLAIN: Syntax = Syntax {
    case: Case::Exact,
    percent: false,
    plus: false,
};
/// Patterns of `host`, `method`, `headers`, and of MIME types (RFC 9110 §8.3.1).
pub const CASELESS: Syntax = Syntax {
    case: Case::Ignore,
    percent: false,
    plus: false,
};

/// An option with no default that this version acts on.
pub const fn opt(name: &'static str, kind: ValueKind, effect: &'static str) -> Opt {
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
        risk: None,
    }
}

impl Opt {
    /// Sets a name that differs from the field's, for example because it is a reserved word.
    pub const fn key(mut self, name: &'static str) -> Opt {
        self.name = name;
        self
    }

    /// Sets a kind that differs from the type's.
    pub const fn kind(mut self, kind: ValueKind) -> Opt {
        self.kind = kind;
        self
    }

    /// Makes the option required.
    pub const fn required(mut self) -> Opt {
        self.required = true;
        self
    }

    /// Sets the default value, as JSON.
    pub const fn default(mut self, json: &'static str) -> Opt {
        self.default = json;
        self
    }

    /// Sets the unit of a number.
    pub const fn unit(mut self, unit: &'static str) -> Opt {
        self.unit = unit;
        self
    }

    /// Requires one of these keys to be present too.
    pub const fn needs(mut self, keys: &'static [&'static str]) -> Opt {
        self.needs = keys;
        self
    }

    /// Marks an option that a newer one replaces.
    pub const fn older(mut self) -> Opt {
        self.older = true;
        self
    }

    /// Marks an option without effect.
    pub const fn ignored(mut self) -> Opt {
        self.is_ignored = true;
        self
    }

    /// Marks a value that removes a protection; `risk` is the consequence.
    pub const fn risky(mut self, value: &'static str, risk: &'static str) -> Opt {
        self.risk = Some((value, risk));
        self
    }

    /// Marks an option that NGINX Unit does not have.
    pub const fn beyond(mut self) -> Opt {
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

impl ValueKind {
    /// Describes the kind, for "expected …".
    pub fn words(&self) -> String {
        match self {
            ValueKind::Boolean => "`true` or `false`".to_owned(),
            ValueKind::Integer(min, max) => match *max {
                i64::MAX | 0x7fff_ffff => format!("an integer of at least {min}"),
                max => format!("an integer from {min} to {max}"),
            },
            ValueKind::Size(min, max) => match *max {
                i64::MAX | 0x7fff_ffff => {
                    format!("a number of bytes of at least {min}, or a size such as `\"10M\"`")
                }
                max => {
                    format!("a number of bytes from {min} to {max}, or a size such as `\"10M\"`")
                }
            },
            ValueKind::Number(min, max) => format!("a number from {min} to {max}"),
            ValueKind::String(text) => text.words(),
            ValueKind::Null => "`null`".to_owned(),
            ValueKind::Array(ValueKind::String(_)) => "an array of strings".to_owned(),
            ValueKind::Array(_) => "an array".to_owned(),
            ValueKind::OneOf(kinds) => {
                let words: Vec<String> = kinds.iter().map(ValueKind::words).collect();
                words.join(" or ")
            }
            ValueKind::Object(_) | ValueKind::Map(..) | ValueKind::Application => {
                "an object".to_owned()
            }
            ValueKind::Json => "any value".to_owned(),
        }
    }
}

impl Text {
    /// Returns the name of such strings in the reference and their rules; `None` if `words` says everything.
    pub fn rules(&self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Text::Path => (
                "path",
                "A path of the file system. Refused: an empty one, one with NUL",
            ),
            Text::PathOrEmpty => (
                "path or nothing",
                "A path of the file system. The empty string means the same as leaving the option out. Refused: a path with NUL",
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
            Text::MapValue => (
                "map value",
                "Text with variables, as a template is, and with `$match_1` or `$match_NAME` for the groups of the regular expression that it \
                 belongs to. Refused: what a template refuses, and groups that the expression does not have",
            ),
            Text::Condition => (
                "condition",
                "A template that is tested for truth: empty, `0`, `false`, `null` and `undefined` are not true; `!` before \
                 it means the opposite. Refused as a template is",
            ),
            Text::Pass => (
                "destination",
                "`routes`, `routes/NAME`, `applications/NAME`, `applications/NAME/TARGET` or `upstreams/NAME`, each name \
                 percent-encoded; or a template that gives one; or `metrics`. Refused: what does not exist, unless there are variables",
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
                "A language, and its version if that matters. Refused: what is not installed; `config check` reports this only \
                 with `--modulesdir`",
            ),
            Text::HeaderName => (
                "field name",
                "The name of a header field. Refused: other characters than those of RFC 9110 §5.6.2",
            ),
            Text::Log => (
                "log",
                "A file, `/dev/stdout`, `/dev/stderr`, or a syslog server: \
                 `syslog:server=unix:/dev/log,facility=local7,severity=info,tag=tutti`. Refused: an empty path, one with NUL, \
                 names of servers",
            ),
            Text::WrittenHeader => (
                "field name",
                "The name of a header field. Refused: other characters than those of RFC 9110 §5.6.2, and fields that belong to \
                 the connection or are the server's own (`Connection`, `Content-Length`, `Date`, …)",
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
            Text::MediaType => (
                "media type",
                "A type and a subtype, `text/html`, and parameters if there are any: `text/html; charset=utf-8`. Refused: anything \
                 else",
            ),
            Text::Argument => ("argument", "Any string without NUL"),
            Text::NotEmpty | Text::Name(_) | Text::ProxyTarget => {
                ("text", "Any string but the empty one, without NUL")
            }
            _ => return None,
        })
    }

    /// Describes the string, for "expected …".
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
