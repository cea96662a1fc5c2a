//! A question that is asked before a request goes on: a request of the server to itself, over a connection that enters like a client's, so that
//! upstreams, routes and applications can all answer it.
//!
//! Must never: wait longer than its time, take more of an answer than its bound, or ask while a question is being answered.

use std::os::unix::net::UnixStream;

use bytes::Bytes;
use http::header::{HOST, HeaderName, HeaderValue};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_util::rt::TokioIo;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use tutti_config::model;
use tutti_guard::Guard;
use tutti_http::edits::is_alias;
use tutti_http::{FieldLines, Known, PerConnection};
use tutti_routing::RequestInfo as _;

use crate::local::Command;
use crate::refusals;
use crate::request::Request;
use tutti_conn::listener::{Accepted, ListenerHold, Peer};

/// The longest page of whoever is asked about a request.
const MOST_OF_PAGE: usize = 256 * 1024;

/// The longest set of keys.
const MOST_OF_KEYS: usize = 1 << 20;

/// An answer.
pub(super) struct Asked {
    pub(super) status: u16,
    pub(super) fields: FieldLines,
    pub(super) body: Vec<u8>,
}

/// Why there is none.
pub(super) struct Failure {
    /// The status for the client.
    pub(super) status: u16,
    /// For the log.
    pub(super) reason: String,
}

fn failed(reason: impl Into<String>) -> Failure {
    Failure {
        status: 502,
        reason: reason.into(),
    }
}

/// Asks about a request.
pub(super) async fn ask_about(
    request: &Request<'_>,
    guard: &Guard,
    model: &model::Forward,
) -> Result<Asked, Failure> {
    let question = &model.question;
    let mut asking = outgoing(&question.uri)?;
    let fields = asking.headers_mut();
    let mut put = |name: &[u8], value: &[u8]| {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            fields.append(name, value);
        }
    };
    let own = request.snapshot.guards.fields();
    let is_own = |name: &[u8]| own.iter().any(|own| is_alias(own.as_bytes(), name));
    let is_wanted = |name: &[u8]| match &model.options.send {
        None => true,
        Some(wanted) => wanted
            .iter()
            .any(|one| name.eq_ignore_ascii_case(one.as_bytes())),
    };
    let per_connection = PerConnection::of(request.view.fields());
    for field in request.view.fields() {
        let is_left_out = per_connection.has(field.name, field.known)
            || is_about_body(field.known)
            || is_said_of_client(field.name)
            || is_own(field.name);
        if !is_left_out && is_wanted(field.name) {
            put(field.name, field.value);
        }
    }
    let host = request.view.host();
    put(
        HOST.as_str().as_bytes(),
        if host.is_empty() { b"localhost" } else { host },
    );
    put(
        b"x-forwarded-for",
        refusals::client(request.remote()).as_bytes(),
    );
    let scheme: &[u8] = if request.is_https() {
        b"https"
    } else {
        b"http"
    };
    put(b"x-forwarded-proto", scheme);
    put(b"x-forwarded-host", host);
    put(b"x-forwarded-method", request.view.method_text());
    put(b"x-forwarded-uri", request.view.origin_target());
    ask(request, guard, question, (asking, MOST_OF_PAGE)).await
}

/// Asks for a set of keys.
pub(super) async fn ask_for_keys(
    request: &Request<'_>,
    guard: &Guard,
    question: &model::Question,
    host: &str,
) -> Result<Vec<u8>, Failure> {
    let mut asking = outgoing(&question.uri)?;
    let host = HeaderValue::try_from(host).map_err(|error| failed(error.to_string()))?;
    asking.headers_mut().insert(HOST, host);
    let asked = ask(request, guard, question, (asking, MOST_OF_KEYS)).await?;
    match asked.status {
        200 => Ok(asked.body),
        other => Err(failed(format!("who was asked answered {other}"))),
    }
}

type Outgoing = http::Request<Empty<Bytes>>;

fn outgoing(uri: &str) -> Result<Outgoing, Failure> {
    let request = http::Request::get(uri).body(Empty::new());
    request.map_err(|error| failed(error.to_string()))
}

/// Fields about a body, which the question does not have, or about an answer that somebody has already.
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

/// Fields in which the server speaks of the client. An encoded answer could not be given to every client.
fn is_said_of_client(name: &[u8]) -> bool {
    const SAID: [&str; 8] = [
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-forwarded-host",
        "x-forwarded-method",
        "x-forwarded-uri",
        "x-forwarded-port",
        "forwarded",
        "accept-encoding",
    ];
    SAID.iter().any(|said| is_alias(said.as_bytes(), name))
}

async fn ask(
    request: &Request<'_>,
    guard: &Guard,
    question: &model::Question,
    (outgoing, most): (Outgoing, usize),
) -> Result<Asked, Failure> {
    if request.snapshot.is_question(request.connection.listener.id) {
        return Err(Failure {
            status: 508,
            reason: "who is asked asks again; hint: its `pass` must lead past all `authenticate` that ask"
                .to_owned(),
        });
    }
    let stream = connect(request, guard)?;
    let answered = tokio::time::timeout(question.timeout, exchange(stream, outgoing, most)).await;
    answered.unwrap_or_else(|_| {
        let seconds = question.timeout.as_secs_f64();
        Err(failed(format!(
            "no answer in {seconds} seconds (`timeout`)"
        )))
    })
}

/// A connection of the server to itself, served by this thread.
fn connect(request: &Request<'_>, guard: &Guard) -> Result<UnixStream, Failure> {
    let local = &request.connection.local;
    let gone = || failed("the server ends");
    let number = guard.question.ok_or_else(gone)?;
    let listener = request
        .snapshot
        .question_entrance(number)
        .ok_or_else(gone)?;
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
        None,
    )
    .map_err(|errno| failed(format!("no connection: {errno}")))?;
    let accepted = Accepted {
        socket: theirs,
        peer: Peer::Unix,
        listener: ListenerHold::new(listener),
    };
    local.serve(Command::Serve(accepted)).map_err(|()| gone())?;
    Ok(UnixStream::from(ours))
}

async fn exchange(stream: UnixStream, outgoing: Outgoing, most: usize) -> Result<Asked, Failure> {
    let broken = |error: &dyn std::fmt::Display| failed(format!("no answer: {error}"));
    let stream = tokio::net::UnixStream::from_std(stream).map_err(|error| broken(&error))?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| broken(&error))?;
    // Ends with this question.
    let _connection = Ended(tokio::task::spawn_local(connection));
    let answer = sender.send_request(outgoing).await;
    let answer = answer.map_err(|error| broken(&error))?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, most).collect().await;
    let body = body.map_err(|error| failed(format!("the answer did not come whole: {error}")))?;
    let mut fields = FieldLines::new();
    for (name, value) in &head.headers {
        let _ = fields.try_push(name.as_str().as_bytes(), value.as_bytes());
    }
    Ok(Asked {
        status: head.status.as_u16(),
        fields,
        body: body.to_bytes().to_vec(),
    })
}

struct Ended<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for Ended<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
