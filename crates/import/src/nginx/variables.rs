//! Texts of nginx, with its variables, as [`Text`].

use std::collections::{BTreeMap, BTreeSet};

use super::tree::Statement;
use crate::template::{Piece, Text, script_of};
pub(super) use crate::template::{captures, script_text};

/// The meaning of variables where a text stands.
#[derive(Clone, Debug, Default)]
pub(super) struct Meaning {
    /// Variables of `set`, `map` and of the server itself.
    pub(super) named: BTreeMap<String, Text>,
    /// The expression whose captures are `$1` and the like: JavaScript that gives an array or null.
    pub(super) captures: Option<String>,
    /// The variables that are expressions of names in a match: `(?<name>…)`.
    pub(super) groups: BTreeMap<String, String>,
    /// Variables whose value is not known.
    pub(super) unknown: BTreeSet<String>,
    /// Captures stand in the query of a redirect.
    pub(super) is_in_query: bool,
    /// Maps whose value depends on the user.
    pub(super) user_maps: BTreeSet<String>,
    /// All values that a variable may have, where they are known.
    pub(super) values: BTreeMap<String, Vec<String>>,
}

/// The most values of a variable for which there are steps of their own.
const MOST_VALUES: usize = 64;

/// The most pieces and bytes of a text: variables of `set` that contain each other double it with each line.
const MOST_PIECES: usize = 1024;
const LONGEST_TEXT: usize = 64 << 10;

/// A variable that has no counterpart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unknown(pub(super) String);

fn length(text: &Text) -> usize {
    let pieces = text.0.iter();
    let lengths = pieces.map(|piece| match piece {
        Piece::Text(text) | Piece::Variable(text) | Piece::Script(text) => text.len(),
    });
    lengths.sum()
}

impl Meaning {
    /// Reads a text.
    pub(super) fn text(&self, source: &str) -> Result<Text, Unknown> {
        let mut text = Text::default();
        let mut rest = source;
        while let Some((before, after)) = rest.split_once('$') {
            text.push(before);
            let (name, tail) = name(after);
            rest = tail;
            if name.is_empty() {
                text.push("$");
                continue;
            }
            text.extend(self.variable(name)?);
            if text.0.len() > MOST_PIECES || length(&text) > LONGEST_TEXT {
                return Err(Unknown(name.to_owned()));
            }
        }
        text.push(rest);
        Ok(text)
    }

    /// The same for a text that is evaluated before `authenticate`, where the user is not known.
    pub(super) fn early_text(&self, source: &str) -> Result<Text, Unknown> {
        let text = self.text(source)?;
        let template = text.template();
        let mut maps = self.user_maps.iter();
        let has_user = template.contains("remote_user")
            || maps.any(|name| template.contains(&format!("map_{name}")));
        match has_user {
            true => Err(Unknown("remote_user".to_owned())),
            false => Ok(text),
        }
    }

    /// The variable with several known values on which the server in an address depends, if it is the only one.
    pub(super) fn choice(&self, address: &str) -> Option<(String, Vec<String>)> {
        let at = address.find("://").map_or(0, |at| at + 3);
        let path = address.get(at..)?.find('/').map(|end| at + end);
        let server = address.get(..path.unwrap_or(address.len()))?;
        let mut found = None;
        for part in server.split('$').skip(1) {
            let (name, _) = name(part);
            if self
                .text(&format!("${{{name}}}"))
                .ok()?
                .as_literal()
                .is_some()
            {
                continue;
            }
            let values = self.values.get(name)?;
            if found.is_some() {
                return None;
            }
            found = Some((name.to_owned(), values.clone()));
        }
        found
    }

    /// Learns the values of a variable.
    pub(super) fn learn<'t>(&mut self, name: &str, texts: impl Iterator<Item = &'t Text>) {
        let mut values = Vec::new();
        for text in texts {
            match text.as_literal() {
                Some(value) if values.contains(&value) || value.is_empty() => {}
                Some(value) if values.len() < MOST_VALUES => values.push(value),
                _ => {
                    self.values.remove(name);
                    return;
                }
            }
        }
        self.values.insert(name.to_owned(), values);
    }

    /// Variables that only an `if` sets are empty where its condition does not hold.
    pub(super) fn declare(&mut self, inner: &[Statement]) {
        for set in inner.iter().filter(|one| one.name() == "set") {
            let name = set.argument(0).trim_start_matches('$');
            if !self.unknown.contains(name) && self.variable(name).is_err() {
                self.named.insert(name.to_owned(), Text::default());
            }
        }
    }

    fn variable(&self, name: &str) -> Result<Text, Unknown> {
        if self.unknown.contains(name) {
            return Err(Unknown(name.to_owned()));
        }
        if let Some(text) = self.named.get(name) {
            return Ok(text.clone());
        }
        if let Some(script) = self.groups.get(name) {
            return Ok(script_text(script.clone()));
        }
        if let ([digit @ b'0'..=b'9'], Some(captures)) = (name.as_bytes(), &self.captures) {
            let digit = char::from(*digit);
            let script = format!("({captures} ?? [])[{digit}] ?? ''");
            return Ok(script_text(match self.is_in_query {
                true => encoded(&script),
                false => script,
            }));
        }
        if let Some(same) = same_elsewhere(name) {
            return Ok(Text(vec![Piece::Variable(same)]));
        }
        scripted(name)
            .map(script_text)
            .ok_or_else(|| Unknown(name.to_owned()))
    }
}

/// A capture in the query of a redirect: nginx encodes it where something of the path was encoded, or has a plus.
fn encoded(script: &str) -> String {
    let path = format!("{}.split('?')[0]", script_of("request_uri"));
    let odd = r"/[\x00-\x20#%&+?\x7f-\u{10ffff}]/gu";
    format!(
        "((value) => /[%+]/.test({path}) ? value.replace({odd}, encodeURIComponent) : value)({script})"
    )
}

/// The name behind a `$`, and the rest.
fn name(after: &str) -> (&str, &str) {
    if let Some(braced) = after.strip_prefix('{')
        && let Some((name, rest)) = braced.split_once('}')
    {
        return (name, rest);
    }
    // `$1` is one digit, whatever comes next.
    if after.starts_with(|first: char| first.is_ascii_digit()) {
        return after.split_at(1);
    }
    let end = after
        .find(|character: char| !(character.is_ascii_alphanumeric() || character == '_'))
        .unwrap_or(after.len());
    after.split_at(end)
}

/// The names of the variables in a text.
pub(super) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split('$').skip(1).map(|after| name(after).0)
}

/// Variables that have another name here.
fn same_elsewhere(name: &str) -> Option<String> {
    let same = match name {
        "uri" | "document_uri" => "uri",
        "args" | "query_string" => "query",
        "upstream_cache_status" => "cache_status",
        "ssl_session_reused" => "tls_session_reused",
        "realip_remote_addr" => "peer_addr",
        "realip_remote_port" => "peer_port",
        "scheme"
        | "hostname"
        | "remote_port"
        | "server_addr"
        | "server_port"
        | "connection"
        | "connection_requests"
        | "bytes_sent"
        | "request_length"
        | "proxy_protocol_addr"
        | "proxy_protocol_port"
        | "proxy_protocol_server_addr"
        | "proxy_protocol_server_port"
        | "upstream_addr"
        | "upstream_status"
        | "upstream_connect_time"
        | "upstream_header_time"
        | "upstream_response_time"
        | "upstream_response_length" => name,
        "host" => "host",
        "http_host" => "header_host",
        "content_type" => "header_content_type",
        "content_length" => "header_content_length",
        "fastcgi_script_name" => "uri",
        "request_uri" => "request_uri",
        "request_method" => "method",
        "remote_addr" | "binary_remote_addr" => "remote_addr",
        "remote_user" => "remote_user",
        "request_id" => "request_id",
        "server_protocol" => "protocol",
        "request" => "request_line",
        "status" => "status",
        "body_bytes_sent" => "body_bytes_sent",
        "request_time" => "request_time",
        "time_local" => "time_local",
        "time_iso8601" => "time_iso8601",
        "msec" => "msec",
        "ssl_protocol" => "tls_protocol",
        "ssl_cipher" => "tls_cipher",
        "ssl_server_name" => "tls_server_name",
        "ssl_client_verify" => "tls_client_verify",
        "ssl_client_s_dn" => "tls_client_subject",
        "ssl_client_i_dn" => "tls_client_issuer",
        "ssl_client_serial" => "tls_client_serial",
        other => {
            let begins = |prefix: &str, with: &str| {
                let rest = other.strip_prefix(prefix)?;
                (!rest.is_empty()).then(|| format!("{with}{rest}"))
            };
            return begins("http_", "header_")
                .or_else(|| begins("sent_http_", "response_header_"))
                .or_else(|| begins("upstream_http_", "response_header_"))
                .or_else(|| begins("arg_", "raw_arg_"));
        }
    };
    Some(same.to_owned())
}

/// Variables that an expression computes.
fn scripted(name: &str) -> Option<String> {
    Some(match name {
        "is_args" => "vars.query ? '?' : ''".to_owned(),
        "https" => "vars.scheme === 'https' ? 'on' : ''".to_owned(),
        "proxy_add_x_forwarded_for" => {
            "headers['X-Forwarded-For'] ? headers['X-Forwarded-For'] + ', ' + remoteAddr : remoteAddr".to_owned()
        }
        // The case of its name does not count, and of several the first one does.
        other => {
            let cookie = other.strip_prefix("cookie_")?;
            let sent = script_of("header_cookie");
            format!("(/(?:^|[;,]) *{cookie} *= *([^;]*)/i.exec({sent}) ?? [])[1] ?? ''")
        }
    })
}

/// The expressions for the groups with names of a regular expression.
pub(super) fn groups(pattern: &str, captures: &str) -> BTreeMap<String, String> {
    let mut groups = BTreeMap::new();
    for part in pattern.split("(?").skip(1) {
        let part = part.strip_prefix('P').unwrap_or(part);
        let named = part.strip_prefix('<').and_then(|rest| rest.split_once('>'));
        if let Some((name, _)) = named
            && !name.is_empty()
            && !name.starts_with(['=', '!'])
        {
            let script = format!("({captures} ?? {{groups: {{}}}}).groups.{name} ?? ''");
            groups.insert(name.to_owned(), script);
        }
    }
    groups
}

/// The client's query behind `joint`, if there is one.
pub(super) fn query_behind(joint: char) -> Piece {
    let query = script_of("query");
    Piece::Script(format!("{query} !== '' ? '{joint}' + {query} : ''"))
}

#[cfg(test)]
mod tests {
    use tutti_config::pattern::Case;

    use super::*;

    fn template(source: &str) -> String {
        Meaning::default()
            .text(source)
            .expect("its variables are known")
            .template()
    }

    #[test]
    fn variables_have_their_names_here() {
        assert_eq!(
            template("https://$host$request_uri"),
            "https://$host$request_uri"
        );
        assert_eq!(template("$document_uri/x"), "$uri/x");
        assert_eq!(template("${http_user_agent}x"), "${header_user_agent}x");
        assert!(template("/a$is_args$args").starts_with("`/a${"));
        let unknown = Meaning::default().text("$geoip_country");
        assert_eq!(unknown, Err(Unknown("geoip_country".to_owned())));
    }

    #[test]
    fn captures_are_those_of_the_expression() {
        let subject = Text(vec![Piece::Variable("uri".to_owned())]);
        let meaning = Meaning {
            captures: captures("^/a/(.*)$", Case::Exact, &subject),
            ..Meaning::default()
        };
        let text = meaning.text("/b/$1").expect("it is known");
        assert_eq!(
            text.template(),
            "`/b/${(/^\\/a\\/(.*)$/.exec((vars.uri ?? '')) ?? [])[1] ?? ''}`"
        );
    }
}
