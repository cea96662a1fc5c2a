//! The texts of mod_rewrite and of expressions, with their variables.

use std::collections::{BTreeMap, BTreeSet};

use super::section::Mapping;
use crate::template::{Piece, Text, script_text};

/// The meaning of texts at a place.
#[derive(Clone, Debug)]
pub(super) struct Meaning {
    pub(super) mapping: Mapping,
    /// Variables of `E=`.
    pub(super) environment: BTreeMap<String, Text>,
    /// Those that a rule of the list sets; until then, they are empty.
    pub(super) set_later: BTreeSet<String>,
    /// Those that a rule set in a way that cannot be written.
    pub(super) unknown: BTreeSet<String>,
    /// The client's address may differ from the one that the source means.
    pub(super) doubts_address: bool,
    /// The name of the server.
    pub(super) server: String,
    /// Maps of `RewriteMap`, as functions of JavaScript that give a text or null.
    pub(super) maps: BTreeMap<String, String>,
    /// There is a response, whose status and fields may be looked at.
    pub(super) has_response: bool,
}

/// The captures that a text may use, as expressions that give an array or null.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Captures<'c> {
    /// `$1`: those of the rule.
    pub(super) rule: Option<&'c str>,
    /// `%1`: those of the condition before.
    pub(super) condition: Option<&'c str>,
}

impl Meaning {
    /// Reads a text. The error is the variable that is not known.
    pub(super) fn text(&self, source: &str, captures: Captures<'_>) -> Result<Text, String> {
        let mut text = Text::default();
        let mut characters = source.chars().peekable();
        while let Some(character) = characters.next() {
            let next = characters.peek().copied();
            match (character, next) {
                ('\\', Some(escaped)) => {
                    text.push(&escaped.to_string());
                    characters.next();
                }
                ('$' | '%', Some(digit)) if digit.is_ascii_digit() => {
                    characters.next();
                    let groups = if character == '$' {
                        captures.rule
                    } else {
                        captures.condition
                    };
                    let groups = groups.ok_or_else(|| format!("{character}{digit}"))?;
                    text.extend(script_text(format!("({groups} ?? [])[{digit}] ?? ''")));
                }
                ('%', Some('{')) => {
                    characters.next();
                    let name = braced(&mut characters).ok_or_else(|| "%{…".to_owned())?;
                    text.extend(self.variable(&name)?);
                }
                ('$', Some('{')) => {
                    characters.next();
                    let inner = braced(&mut characters).ok_or_else(|| "${…".to_owned())?;
                    text.extend(self.looked_up(&inner, captures)?);
                }
                (other, _) => text.push(&other.to_string()),
            }
        }
        Ok(text)
    }

    /// `${MAP:KEY|DEFAULT}`
    fn looked_up(&self, inner: &str, captures: Captures<'_>) -> Result<Text, String> {
        let (map, key) = inner.split_once(':').unwrap_or((inner, ""));
        let (key, default) = key.split_once('|').unwrap_or((key, ""));
        let unknown = || format!("${{{map}:…}}");
        let function = self.maps.get(map).ok_or_else(unknown)?;
        let key = self.text(key, captures)?.expression();
        let default = self.text(default, captures)?.expression();
        Ok(script_text(format!("({function})({key}) ?? {default}")))
    }

    fn variable(&self, name: &str) -> Result<Text, String> {
        let plain = |name: &str| Ok(Text(vec![Piece::Variable(name.to_owned())]));
        let field = |name: &str| {
            plain(&format!(
                "header_{}",
                name.to_ascii_lowercase().replace('-', "_")
            ))
        };
        if let Some((kind, name)) = name.split_once(':') {
            return match kind.to_ascii_uppercase().as_str() {
                "HTTP" | "REQ" => field(name),
                "RESP" if self.has_response => plain(&format!(
                    "response_header_{}",
                    name.to_ascii_lowercase().replace('-', "_")
                )),
                "ENV" | "REQENV" => self.environment(name),
                "SSL" => match name {
                    "HTTPS" | "SSL_PROTOCOL" | "SSL_CIPHER" | "SSL_TLS_SNI"
                    | "SSL_CLIENT_VERIFY" => self.variable(name),
                    _ => Err(format!("%{{{kind}:{name}}}")),
                },
                "TOLOWER" => {
                    let text = self.variable(name)?;
                    Ok(script_text(format!("{}.toLowerCase()", text.expression())))
                }
                _ => Err(format!("%{{{kind}:{name}}}")),
            };
        }
        match name.to_ascii_uppercase().as_str() {
            "REQUEST_URI" => plain("uri"),
            "REQUEST_FILENAME" | "SCRIPT_FILENAME" => Ok(self.file()),
            "DOCUMENT_ROOT" => Ok(Text::literal(self.mapping.folder.clone())),
            "HTTP_HOST" => field("host"),
            "HTTP_USER_AGENT" => field("user-agent"),
            "HTTP_REFERER" => field("referer"),
            "HTTP_COOKIE" => field("cookie"),
            "HTTP_ACCEPT" => field("accept"),
            "HTTP_FORWARDED" => field("forwarded"),
            "QUERY_STRING" => plain("query"),
            "REQUEST_METHOD" => plain("method"),
            "REQUEST_SCHEME" => Ok(script_text(
                "vars.tls_protocol ? 'https' : 'http'".to_owned(),
            )),
            "HTTPS" => Ok(script_text("vars.tls_protocol ? 'on' : 'off'".to_owned())),
            "REMOTE_ADDR" if !self.doubts_address => plain("remote_addr"),
            "SERVER_NAME" => Ok(if self.server.is_empty() {
                Text(vec![Piece::Variable("host".to_owned())])
            } else {
                Text::literal(self.server.clone())
            }),
            "THE_REQUEST" => plain("request_line"),
            "CONTENT_TYPE" if self.has_response => plain("response_header_content_type"),
            "REQUEST_STATUS" if self.has_response => plain("status"),
            "REMOTE_USER" if self.has_response => plain("remote_user"),
            "SERVER_PORT" => plain("server_port"),
            "SERVER_ADDR" => plain("server_addr"),
            "REMOTE_PORT" => plain("remote_port"),
            "SSL_PROTOCOL" => plain("tls_protocol"),
            "SSL_TLS_SNI" => plain("tls_server_name"),
            "SSL_CLIENT_VERIFY" => plain("tls_client_verify"),
            // A later protocol has another number than that of HTTP/1.
            "SERVER_PROTOCOL" => plain("protocol"),
            "IS_SUBREQ" => Ok(Text::literal("false")),
            "REMOTE_IDENT" => Ok(Text::literal("")),
            other => Err(format!("%{{{other}}}")),
        }
    }

    /// Returns a variable of the environment. `REDIRECT_…` are empty, but for the status of a request that has another path than the
    /// client's; other modules may have set the rest.
    fn environment(&self, name: &str) -> Result<Text, String> {
        let is_empty = || self.set_later.contains(name) || name.starts_with("REDIRECT_");
        match (self.environment.get(name), name) {
            _ if self.unknown.contains(name) => Err(format!("%{{ENV:{name}}}")),
            (Some(text), _) => Ok(text.clone()),
            (None, "HTTPS") => Ok(script_text("vars.tls_protocol ? 'on' : ''".to_owned())),
            (None, "REDIRECT_STATUS") => Ok(script_text(redirect_status())),
            (None, _) if is_empty() => Ok(Text::literal("")),
            (None, _) => Err(format!("%{{ENV:{name}}}")),
        }
    }

    /// Returns the path of the requested file.
    fn file(&self) -> Text {
        let mut text = Text::literal(self.mapping.folder.clone());
        if self.mapping.at.is_empty() {
            text.0.push(Piece::Variable("uri".to_owned()));
        } else {
            text.extend(script_text(format!(
                "(vars.uri ?? '').slice({})",
                self.mapping.at.chars().count()
            )));
        }
        text
    }
}

/// `REDIRECT_STATUS`: it is set where rules or modules have led a request to another path, and the rules of its folder begin anew.
///
/// A path that can be written in other ways, such as `/a/../b`, counts as the client's: rules that refuse paths to clients refuse it.
fn redirect_status() -> String {
    let odd = r"/^[^/]|%2f|%5c|%25|\/(?:\.|%2e){1,2}(?:\/|$)/i";
    // A sequence that is no UTF-8 stays encoded.
    let decoded = r"raw.replace(/(?:%[0-9a-f]{2})+/gi, (part) => { try { return decodeURIComponent(part); } catch { return part; } })";
    let merged = r".replace(/\/+/g, '/')";
    let is_clients =
        format!("{odd}.test(raw) || /%/.test(path) || path === (vars.uri ?? ''){merged}");
    format!(
        "((raw) => ((path) => {is_clients} ? '' : '200')({decoded}{merged}))((vars.request_uri ?? '').split('?')[0])"
    )
}

/// The inside of braces.
fn braced(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<String> {
    let mut inner = String::new();
    let mut depth = 0_usize;
    loop {
        match characters.next()? {
            '}' if depth == 0 => return Some(inner),
            letter => {
                match letter {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                inner.push(letter);
            }
        }
    }
}
