//! The grammar of strings and names, and the remedies for faults.

use std::net::IpAddr;

use tutti_document::{shorten, suggest};
use tutti_options::source::is_label;
use tutti_options::syslog::SyslogTarget;

use crate::address::{
    AddressPattern, IpRange, Ports, SERVER_FORMS, is_host_name, parse_name_server, parse_proxy,
    service_hint,
};
use crate::model::{ErrorStatus, ListenAddress, UpstreamAddress};
use crate::pattern::{Pattern, percent_decode};
use crate::table::{Names, Text};
use crate::template::Template;

/// Checks that the literal parts of a template can be in the value of a header field (RFC 9110 §5.5). A script has no
/// literal parts.
fn field_value(value: &str) -> Grammar {
    let is_control = |letter: char| letter.is_ascii_control() && letter != '\t';
    if value.starts_with('`') || !value.contains(is_control) {
        return Ok(());
    }
    Err((
        "the value of a header field cannot have control characters".to_owned(),
        Some("write it in one line; a tab is the only control character allowed".to_owned()),
    ))
}

/// The fault, and its remedy.
pub(crate) type Grammar = Result<(), (String, Option<String>)>;

/// Checks a string.
pub(crate) fn of_text(text: &Text, value: &str) -> Grammar {
    let bad = |message: &str| Err((message.to_owned(), None));
    match text {
        Text::NotEmpty | Text::Name(_) if value.is_empty() => bad("the string is empty"),
        Text::Argument | Text::NotEmpty | Text::Name(_) if value.contains('\0') => {
            bad("the string contains NUL")
        }
        Text::Any | Text::Module | Text::Argument | Text::NotEmpty | Text::Name(_) => Ok(()),
        Text::ProxyTarget => parse_proxy(value)
            .map(drop)
            .map_err(|(error, hint)| (error.to_string(), hint)),
        Text::Path if value.is_empty() => bad("the path is empty"),
        Text::Path | Text::PathOrEmpty if value.contains('\0') => bad("a path cannot contain NUL"),
        Text::Path | Text::PathOrEmpty => Ok(()),
        Text::Word(words) if words.contains(&value) => Ok(()),
        Text::AnyCase(words) if words.iter().any(|word| word.eq_ignore_ascii_case(value)) => Ok(()),
        Text::Word(words) | Text::AnyCase(words) => {
            let hint = suggest::nearest(value, words.iter().copied())
                .map(|word| format!("did you mean `{word}`?"));
            Err((format!("`{}` is not a known value", shorten(value)), hint))
        }
        Text::Template | Text::Pass if value.is_empty() => bad("the string is empty"),
        // A path or a destination that would end early.
        Text::Template | Text::TemplateOrEmpty | Text::Pass if value.contains('\0') => {
            bad("the string contains NUL")
        }
        Text::Template | Text::TemplateOrEmpty | Text::Pass => template(value),
        Text::FieldTemplate => template(value).and_then(|()| field_value(value)),
        Text::MapValue => map_value(value),
        Text::Condition => template(value.strip_prefix('!').unwrap_or(value)),
        Text::Pattern(syntax) => Pattern::parse(value, *syntax).map(drop).map_err(|error| {
            let hint = match error {
                crate::pattern::PatternError::Percent => {
                    Some("write `%25` for the character itself".to_owned())
                }
                crate::pattern::PatternError::TooLarge => Some(
                    "write it without large numbers in `{…}`, or as several patterns".to_owned(),
                ),
                crate::pattern::PatternError::TooMany => {
                    Some("use fewer regular expressions, or patterns with `*`".to_owned())
                }
                crate::pattern::PatternError::Regex(_) => None,
            };
            (error.to_string(), hint)
        }),
        Text::Address => AddressPattern::parse(value).map(drop).map_err(|error| {
            (
                error.to_string(),
                Some(
                    "write for example `10.0.0.0/8`, `::1`, `192.0.2.1-192.0.2.9:80`, `unix`"
                        .to_owned(),
                ),
            )
        }),
        Text::HeaderName if is_token(value) => Ok(()),
        Text::HeaderName => bad("this is not the name of a header field"),
        Text::Log => match SyslogTarget::parse(value) {
            Some(Err(error)) => Err((error.message, error.hint)),
            Some(Ok(_)) => Ok(()),
            None => of_text(&Text::Path, value),
        },
        Text::WrittenHeader => of_name(Names::RequestHeader, value)
            .and_then(|()| of_name(Names::ResponseHeader, value))
            .and_then(|()| match value.eq_ignore_ascii_case("server") {
                true => bad(&format!("`{value}` is set by the server itself")),
                false => Ok(()),
            }),
        Text::NameServer if parse_name_server(value).is_some() => Ok(()),
        Text::NameServer => {
            bad("this is not the address of a name server, such as `10.0.0.2` or `[::1]:53`")
        }
        Text::Target if !value.starts_with('/') => bad("it does not begin with `/`"),
        Text::Target => match value
            .chars()
            .find(|one| !one.is_ascii_graphic() || *one == '#')
        {
            None => Ok(()),
            Some('#') => bad("the part after `#` is never sent"),
            Some(one) => {
                let mut bytes = [0; 4];
                let bytes = one.encode_utf8(&mut bytes).bytes();
                let encoded: String = bytes.map(|byte| format!("%{byte:02X}")).collect();
                Err((
                    format!("{one:?} cannot be in a request's target"),
                    Some(format!("write `{encoded}`")),
                ))
            }
        },
        Text::MediaType if is_media_type(value) => Ok(()),
        Text::MediaType => Err((
            "this is not a media type".to_owned(),
            Some("write for example `text/html; charset=utf-8`".to_owned()),
        )),
        Text::HostName if is_host_name(value) || value.parse::<IpAddr>().is_ok() => Ok(()),
        Text::HostName => Err((
            "this is neither a host name nor an address".to_owned(),
            (!value.is_ascii()).then(|| {
                "write names with other letters as the DNS does, as `xn--bcher-kva.example`"
                    .to_owned()
            }),
        )),
    }
}

fn template(value: &str) -> Grammar {
    Template::parse(value)
        .map(drop)
        .map_err(|error| (error.to_string(), error.hint()))
}

fn map_value(value: &str) -> Grammar {
    match value.contains('\0') {
        true => Err(("the string contains NUL".to_owned(), None)),
        false => template(value),
    }
}

/// Checks a key of a map.
pub(super) fn of_name(names: Names, value: &str) -> Grammar {
    let bad = |message: &str| Err((message.to_owned(), None));
    match names {
        Names::Any => Ok(()),
        Names::NotEmpty | Names::Argument if value.is_empty() => bad("the name is empty"),
        Names::NotEmpty if value.contains('\0') => bad("the name contains NUL"),
        Names::NotEmpty => Ok(()),
        Names::Listener => value.parse::<ListenAddress>().map(drop).map_err(|error| {
            let hint = "write `*:PORT`, `ADDRESS:PORT`, `[IPV6]:PORT`, `unix:PATH`, `unix:@NAME` or `udp:ADDRESS:PORT`";
            (
                format!(
                    "`{}` is not an address to listen on: {error}",
                    shorten(value)
                ),
                Some(hint.to_owned()),
            )
        }),
        Names::Argument => percent_decode(value)
            .map(drop)
            .map_err(|error| (error.to_string(), None)),
        Names::HeaderName | Names::ResponseHeader | Names::RequestHeader if !is_token(value) => {
            bad("this is not the name of a header field")
        }
        Names::HeaderName => Ok(()),
        Names::ResponseHeader => {
            // `Server` may be removed, which its value says.
            let forbidden =
                ["date", "content-length"].contains(&value.to_ascii_lowercase().as_str());
            if forbidden {
                bad(&format!("`{value}` is set by the server itself"))
            } else {
                Ok(())
            }
        }
        Names::RequestHeader => {
            if PER_CONNECTION.contains(&value.to_ascii_lowercase().as_str()) {
                bad(&format!("`{value}` is set by the server itself"))
            } else {
                Ok(())
            }
        }
        // The default port depends on the protocol, which `build` knows.
        Names::Server if is_label(value) => Ok(()),
        Names::Server => UpstreamAddress::parse(value, Ports::HTTPS)
            .map(drop)
            .map_err(|error| {
                let hint = service_hint(value).unwrap_or_else(|| SERVER_FORMS.to_owned());
                (error.to_string(), Some(hint))
            }),
        Names::Environment if value.is_empty() || value.contains(['=', '\0']) => {
            bad("the name of an environment variable must not be empty or contain `=` or NUL")
        }
        Names::Environment => Ok(()),
        Names::MimeType
            if value
                .split_once('/')
                .is_none_or(|(kind, rest)| kind.is_empty() || rest.is_empty()) =>
        {
            bad("this is not a MIME type, such as `text/html`")
        }
        Names::MimeType => Ok(()),
        Names::ErrorStatus if ErrorStatus::parse(value).is_none() => {
            let hint = "write a status from `400` to `599`, or `4xx` or `5xx` for all of a class";
            Err((
                format!("`{}` is not an error status", shorten(value)),
                Some(hint.to_owned()),
            ))
        }
        Names::ErrorStatus => Ok(()),
        Names::Path if !value.starts_with('/') || value.contains('\0') => {
            bad("the prefix of a path must begin with `/`")
        }
        Names::Path => Ok(()),
        Names::Variable => {
            let is_part = |one: char| one.is_ascii_alphanumeric() || one == '_';
            match !value.is_empty() && value.chars().all(is_part) {
                true => Ok(()),
                false => bad("names of variables consist of letters, digits and `_`"),
            }
        }
        Names::Addresses => match AddressPattern::parse(value) {
            Ok(AddressPattern {
                negated: false,
                range: IpRange::V4(..) | IpRange::V6(..),
                ports: None,
            }) => Ok(()),
            _ => Err((
                format!("`{}` is not a range of addresses", shorten(value)),
                Some("write for example `10.0.0.0/8`, `192.0.2.1`, `2001:db8::/32`".to_owned()),
            )),
        },
    }
}

/// Request fields that define its framing, or belong to one connection (RFC 9110 §7.6.1, RFC 9112 §6).
const PER_CONNECTION: [&str; 9] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// RFC 9110 §8.3.1; parameters are only checked to be one line of ASCII.
fn is_media_type(value: &str) -> bool {
    let (kind, parameters) = value.split_once(';').unwrap_or((value, ""));
    let parts = kind.trim_end_matches(' ').split_once('/');
    parts.is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype))
        && parameters
            .chars()
            .all(|one| one == ' ' || one.is_ascii_graphic())
}

/// RFC 9110 §5.6.2.
fn is_token(value: &str) -> bool {
    http::HeaderName::from_bytes(value.as_bytes()).is_ok()
}
