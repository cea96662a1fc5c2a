//! Strings with variables, `/var/www$uri`, `routes/${method}_route`, and JavaScript template literals, in backticks.
//!
//! Owned by the typed model; parsed here once, rendered by `tutti-routing`. A variable that does not exist is an error
//! when the configuration is checked; one that has no value in a request is empty.

use std::fmt;

use tutti_script::Fault;

use crate::suggest;

/// A parsed template. Two templates are equal if they were written alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Template {
    source: Box<str>,
    parts: Box<[Part]>,
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Text.
    Literal(Box<str>),
    /// The value of a variable.
    Variable(Variable),
    /// A JavaScript template literal, backticks included; always the only part.
    Script(Box<str>),
}

/// Every variable of the configuration language. `$dollar` is a literal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Variable {
    /// `$uri`: path, decoded and normalised.
    Uri,
    /// `$host`: host, lower case, without port.
    Host,
    /// `$method`.
    Method,
    /// `$request_uri`: path as sent, normalised, with the query string.
    RequestUri,
    /// `$remote_addr`.
    RemoteAddr,
    /// `$request_id`: 32 random hexadecimal digits, the same all through a request.
    RequestId,
    /// `$request_line`.
    RequestLine,
    /// `$request_time`: seconds with milliseconds.
    RequestTime,
    /// `$status`.
    Status,
    /// `$body_bytes_sent`.
    BodyBytesSent,
    /// `$time_local`.
    TimeLocal,
    /// `$tls_NAME`.
    Tls(TlsVariable),
    /// `$arg_NAME`: the last argument of that name.
    Argument(Box<str>),
    /// `$cookie_NAME`.
    Cookie(Box<str>),
    /// `$header_NAME`: lower case, hyphens for underscores.
    Header(Box<str>),
    /// `$response_header_NAME`: lower case, hyphens for underscores.
    ResponseHeader(Box<str>),
}

/// Facts about a connection with TLS and its client. Without TLS all are empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlsVariable {
    /// `$tls_protocol`: `TLSv1.3`.
    Protocol,
    /// `$tls_cipher`: IANA's name.
    Cipher,
    /// `$tls_server_name`: what the client asked for.
    ServerName,
    /// `$tls_client_verify`: `SUCCESS` or `NONE`; empty where clients are not asked.
    ClientVerify,
    /// `$tls_client_subject`, as in RFC 4514.
    ClientSubject,
    /// `$tls_client_issuer`, as in RFC 4514.
    ClientIssuer,
    /// `$tls_client_serial`: hexadecimal, upper case.
    ClientSerial,
    /// `$tls_client_fingerprint`: SHA-256 of the certificate, hexadecimal.
    ClientFingerprint,
}

/// Variables without a part of their own in the name.
pub const PLAIN_VARIABLES: &[(&str, Variable)] = &[
    ("uri", Variable::Uri),
    ("host", Variable::Host),
    ("method", Variable::Method),
    ("request_uri", Variable::RequestUri),
    ("remote_addr", Variable::RemoteAddr),
    ("request_id", Variable::RequestId),
    ("request_line", Variable::RequestLine),
    ("request_time", Variable::RequestTime),
    ("status", Variable::Status),
    ("body_bytes_sent", Variable::BodyBytesSent),
    ("time_local", Variable::TimeLocal),
    ("tls_protocol", Variable::Tls(TlsVariable::Protocol)),
    ("tls_cipher", Variable::Tls(TlsVariable::Cipher)),
    ("tls_server_name", Variable::Tls(TlsVariable::ServerName)),
    (
        "tls_client_verify",
        Variable::Tls(TlsVariable::ClientVerify),
    ),
    (
        "tls_client_subject",
        Variable::Tls(TlsVariable::ClientSubject),
    ),
    (
        "tls_client_issuer",
        Variable::Tls(TlsVariable::ClientIssuer),
    ),
    (
        "tls_client_serial",
        Variable::Tls(TlsVariable::ClientSerial),
    ),
    (
        "tls_client_fingerprint",
        Variable::Tls(TlsVariable::ClientFingerprint),
    ),
];

/// Why a template cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// `$` with no name after it.
    #[error("a `$` is not followed by the name of a variable")]
    LoneDollar,
    /// `${` without `}`.
    #[error("a `${{` is never closed by `}}`")]
    Unclosed,
    /// No such variable.
    #[error("there is no variable `${name}`")]
    Unknown {
        /// The name that was written.
        name: String,
        /// The nearest there is.
        nearest: Option<String>,
    },
    /// A JavaScript template literal that cannot be compiled.
    #[error("{}{}", .0.message, placed(.0))]
    Script(Fault),
}

impl TemplateError {
    /// The cure.
    pub fn hint(&self) -> Option<String> {
        match self {
            TemplateError::LoneDollar => {
                Some("write `$dollar` for the character itself".to_owned())
            }
            TemplateError::Unclosed => Some("add the missing `}`".to_owned()),
            TemplateError::Unknown { nearest, .. } => nearest
                .as_ref()
                .map(|name| format!("did you mean `${name}`?")),
            TemplateError::Script(fault) => fault.hint.map(str::to_owned),
        }
    }
}

impl Template {
    /// Parses `source`.
    pub fn parse(source: &str) -> Result<Template, TemplateError> {
        if source.starts_with('`') {
            tutti_script::check_template(source).map_err(TemplateError::Script)?;
            return Ok(Template {
                source: source.into(),
                parts: [Part::Script(source.into())].into(),
            });
        }
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = source;
        while let Some((before, after)) = rest.split_once('$') {
            literal.push_str(before);
            let (name, tail) = split_name(after)?;
            rest = tail;
            match variable(name)? {
                None => literal.push('$'),
                Some(variable) => {
                    if !literal.is_empty() {
                        parts.push(Part::Literal(std::mem::take(&mut literal).into()));
                    }
                    parts.push(Part::Variable(variable));
                }
            }
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal.into()));
        }
        Ok(Template {
            source: source.into(),
            parts: parts.into(),
        })
    }

    /// As it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Its pieces; empty for the empty string.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// True if it is a JavaScript template literal.
    pub fn is_script(&self) -> bool {
        matches!(&*self.parts, [Part::Script(_)])
    }

    /// The text, if there are no variables.
    pub fn as_literal(&self) -> Option<&str> {
        match &*self.parts {
            [] => Some(""),
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

/// Where in the script it is, in the string after JSON's escapes.
pub(crate) fn placed(fault: &Fault) -> String {
    let of = match fault.module {
        Some(_) => "module",
        None => "script",
    };
    match fault.place {
        Some((line, column)) => format!(" (line {line}, column {column} of the {of})"),
        None => String::new(),
    }
}

/// Splits what follows a `$` into the variable's name and the rest.
fn split_name(after: &str) -> Result<(&str, &str), TemplateError> {
    if let Some(braced) = after.strip_prefix('{') {
        let (name, tail) = braced.split_once('}').ok_or(TemplateError::Unclosed)?;
        return if name.is_empty() {
            Err(TemplateError::LoneDollar)
        } else {
            Ok((name, tail))
        };
    }
    // "Variable names can contain letters and underscores"; argument and cookie names have digits in practice, and
    // `$header_accept-encoding` is documented, so that a hyphen belongs to the name there.
    let dashes = after.starts_with("header_") || after.starts_with("response_header_");
    let named = after.starts_with("arg_") || after.starts_with("cookie_");
    let end = after
        .find(|c: char| {
            !(c.is_ascii_alphabetic()
                || c == '_'
                || (dashes && c == '-')
                || ((dashes || named) && c.is_ascii_digit()))
        })
        .unwrap_or(after.len());
    match after.split_at(end) {
        ("", _) => Err(TemplateError::LoneDollar),
        split => Ok(split),
    }
}

/// The variable of that name; `None` for `$dollar`.
fn variable(name: &str) -> Result<Option<Variable>, TemplateError> {
    if name == "dollar" {
        return Ok(None);
    }
    if let Some((_, variable)) = PLAIN_VARIABLES.iter().find(|(known, _)| *known == name) {
        return Ok(Some(variable.clone()));
    }
    let field = |name: &str| name.to_ascii_lowercase().replace('_', "-").into_boxed_str();
    if let Some(name) = name.strip_prefix("arg_").filter(|name| !name.is_empty()) {
        Ok(Some(Variable::Argument(name.into())))
    } else if let Some(name) = name.strip_prefix("cookie_").filter(|name| !name.is_empty()) {
        Ok(Some(Variable::Cookie(name.into())))
    } else if let Some(name) = name.strip_prefix("header_").filter(|name| !name.is_empty()) {
        Ok(Some(Variable::Header(field(name))))
    } else if let Some(name) = name
        .strip_prefix("response_header_")
        .filter(|name| !name.is_empty())
    {
        Ok(Some(Variable::ResponseHeader(field(name))))
    } else {
        let known = PLAIN_VARIABLES
            .iter()
            .map(|(name, _)| *name)
            .chain(["dollar", "arg_", "cookie_", "header_"]);
        Err(TemplateError::Unknown {
            name: name.to_owned(),
            nearest: suggest::nearest(name, known).map(str::to_owned),
        })
    }
}
