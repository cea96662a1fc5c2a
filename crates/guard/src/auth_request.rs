//! A question to a service before a request continues: its fields, and the exchange over a connection of the server to itself.
//!
//! Must never: wait longer than its timeout, read more of an answer than its limit, or present a client's statement as the server's.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http::header::{HOST, HeaderName, HeaderValue};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tutti_config::model::{self, ForwardMethod};
use tutti_http::edits::{begins_as, is_alias};
use tutti_http::{FieldLines, Known, PerConnection, RequestView, encode_path};

/// The longest page of an authentication service.
const MOST_OF_PAGE: usize = 256 * 1024;

/// The longest set of keys.
const MOST_OF_KEYS: usize = 1 << 20;

/// An answer.
pub struct AuthResponse {
    /// Its status.
    pub status: u16,
    /// Its fields.
    pub fields: FieldLines,
    /// Its content, whole.
    pub body: Vec<u8>,
}

/// Why there is no answer.
pub struct AuthError {
    /// The status for the client.
    pub status: u16,
    /// The reason, for the log.
    pub reason: String,
}

/// A failure that the client gets as 502.
pub fn failed(reason: impl Into<String>) -> AuthError {
    AuthError {
        status: 502,
        reason: reason.into(),
    }
}

/// The client of a request, as the server describes it.
pub struct AuthClient<'t> {
    /// Its address.
    pub client: &'t str,
    /// It uses https.
    pub is_https: bool,
    /// Fields that only guards may set.
    pub own: &'t [String],
    /// Path and query of the question, if they have variables.
    pub target: Option<&'t [u8]>,
    /// Fields of the question as configured; `None` removes one.
    pub headers: &'t [(&'t str, Option<Vec<u8>>)],
}

/// Makes the question about a request.
pub fn about(
    model: &model::ForwardAuth,
    view: &RequestView<'_>,
    source: &AuthClient<'_>,
) -> Result<Outgoing, AuthError> {
    let target = match source.target {
        None => model.question.uri.as_str(),
        Some(target) => std::str::from_utf8(target).map_err(|error| failed(error.to_string()))?,
    };
    let mut asking = outgoing(target)?;
    *asking.method_mut() = match model.options.method {
        ForwardMethod::Get => Method::GET,
        ForwardMethod::Head => Method::HEAD,
        ForwardMethod::Post => Method::POST,
        ForwardMethod::Options => Method::OPTIONS,
    };
    let fields = asking.headers_mut();
    let mut put = |name: &[u8], value: &[u8]| {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            fields.append(name, value);
        }
    };
    let is_own = |name: &[u8]| source.own.iter().any(|own| is_alias(own.as_bytes(), name));
    let is_configured = |name: &[u8]| {
        let mut names = source.headers.iter().map(|(own, _)| own.as_bytes());
        names.any(|own| is_alias(own, name))
    };
    let is_wanted = |name: &[u8]| match &model.options.send {
        None => true,
        Some(wanted) => wanted
            .iter()
            .any(|one| name.eq_ignore_ascii_case(one.as_bytes())),
    };
    let per_connection = PerConnection::of_request(view);
    for field in view.fields() {
        let is_left_out = per_connection.has(field.name, field.known)
            || is_about_body(field.known)
            || is_said_of_client(field.name)
            || is_own(field.name)
            || is_configured(field.name);
        if !is_left_out && is_wanted(field.name) {
            put(field.name, field.value);
        }
    }
    let host = view.host();
    put(
        HOST.as_str().as_bytes(),
        if host.is_empty() { b"localhost" } else { host },
    );
    put(b"x-forwarded-for", source.client.as_bytes());
    let scheme: &[u8] = if source.is_https { b"https" } else { b"http" };
    put(b"x-forwarded-proto", scheme);
    put(b"x-forwarded-host", host);
    put(b"x-forwarded-method", view.method_text());
    put(b"x-forwarded-uri", &checked(view));
    put(b"x-forwarded-raw-uri", view.target());
    for (name, value) in source.headers {
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else {
            continue;
        };
        fields.remove(&name);
        if let Some(value) = value {
            // The value of a variable must not break the line.
            let value = HeaderValue::from_bytes(value);
            let value = value.map_err(|_| {
                failed(format!(
                    "the value of the field `{name}` has a control character"
                ))
            })?;
            fields.insert(name, value);
        }
    }
    Ok(Outgoing {
        request: asking,
        most: MOST_OF_PAGE,
    })
}

/// The path that conditions saw, and the query. Decoded and encoded again, so that the service cannot interpret an encoded slash
/// differently.
fn checked(view: &RequestView<'_>) -> Vec<u8> {
    let path = view.request_path();
    let mut target = Vec::with_capacity(path.target().len());
    encode_path(path.path(), &mut target);
    if let Some(query) = path.query() {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    target
}

/// Makes the question for a set of keys.
pub fn for_keys(question: &model::AuthRequest, host: &str) -> Result<Outgoing, AuthError> {
    let mut request = outgoing(&question.uri)?;
    let host = HeaderValue::try_from(host).map_err(|error| failed(error.to_string()))?;
    request.headers_mut().insert(HOST, host);
    Ok(Outgoing {
        request,
        most: MOST_OF_KEYS,
    })
}

/// A question, and the limit of its answer.
pub struct Outgoing {
    request: http::Request<Empty<Bytes>>,
    most: usize,
}

fn outgoing(uri: &str) -> Result<http::Request<Empty<Bytes>>, AuthError> {
    let request = http::Request::get(uri).body(Empty::new());
    request.map_err(|error| failed(error.to_string()))
}

/// Fields about a body, which the question lacks, or conditions about a cached response.
fn is_about_body(known: Known) -> bool {
    matches!(
        known,
        Known::Host
            | Known::Expect
            | Known::ContentLength
            | Known::TransferEncoding
            | Known::IfMatch
            | Known::IfNoneMatch
            | Known::IfModifiedSince
            | Known::IfUnmodifiedSince
            | Known::IfRange
            | Known::Range
    )
}

/// Fields about the client and its request, which the server sets. Services read several of those that proxies usually set, so none of them
/// may come from the client. An encoded answer could not be sent to every client.
fn is_said_of_client(name: &[u8]) -> bool {
    const PREFIXES: [&[u8]; 2] = [b"x-forwarded-", b"x-original-"];
    const NAMES: [&[u8]; 3] = [b"forwarded", b"x-real-ip", b"accept-encoding"];
    PREFIXES.iter().any(|start| begins_as(name, start))
        || NAMES.iter().any(|said| is_alias(said, name))
}

impl AuthResponse {
    /// The fields without those of the connection, and without the server's own.
    pub fn for_the_client(&self) -> FieldLines {
        let is_left_out = |name: &[u8]| {
            matches!(
                Known::from_name(name),
                Known::Connection | Known::TransferEncoding | Known::ContentLength
            ) || [&b"date"[..], b"server", b"keep-alive"]
                .iter()
                .any(|own| name.eq_ignore_ascii_case(own))
        };
        let kept = self.fields.iter().filter(|(name, _)| !is_left_out(name));
        kept.collect()
    }
}

/// Asks over a connection of the server to itself, on a thread that runs local tasks.
///
/// # Errors
/// There is no complete answer in time.
pub async fn ask(
    stream: UnixStream,
    outgoing: Outgoing,
    timeout: Duration,
) -> Result<AuthResponse, AuthError> {
    let answered = tokio::time::timeout(timeout, exchange(stream, outgoing)).await;
    answered.unwrap_or_else(|_| {
        let seconds = timeout.as_secs_f64();
        Err(failed(format!(
            "no answer in {seconds} seconds (`timeout`)"
        )))
    })
}

async fn exchange(stream: UnixStream, outgoing: Outgoing) -> Result<AuthResponse, AuthError> {
    let Outgoing { request, most } = outgoing;
    let broken = |error: &dyn std::fmt::Display| failed(format!("no answer: {error}"));
    let stream = tokio::net::UnixStream::from_std(stream).map_err(|error| broken(&error))?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| broken(&error))?;
    // Ends with this question.
    let mut driver = JoinSet::new();
    driver.spawn_local(connection);
    let answer = sender.send_request(request).await;
    let answer = answer.map_err(|error| broken(&error))?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, most).collect().await;
    let body = body.map_err(|error| failed(format!("the answer was cut short: {error}")))?;
    let mut fields = FieldLines::new();
    for (name, value) in &head.headers {
        let _ = fields.try_push(name.as_str().as_bytes(), value.as_bytes());
    }
    Ok(AuthResponse {
        status: head.status.as_u16(),
        fields,
        body: body.to_bytes().to_vec(),
    })
}
