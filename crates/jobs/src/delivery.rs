//! One delivery of a job: its request as HTTP/1.1 over a connection of the server to itself.
//!
//! Must never: count an incomplete answer as a success.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Method, Uri};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tutti_config::model::SCHEDULE_PREFIX;

use crate::queue::written;
use crate::store::JobRequest;

/// The field with the number of a job: the same in each delivery.
const ID: &str = "x-tutti-job-id";
/// The field with the number of the delivery, from 1.
const ATTEMPT: &str = "x-tutti-job-attempt";
/// The field with the name of the spooler.
const SPOOLER: &str = "x-tutti-job-spooler";

/// The field with the name of the schedule, instead of the spooler.
const SCHEDULE: &str = "x-tutti-job-schedule";

/// The longest `Retry-After` that is honoured: a day.
const LONGEST_WISH: u64 = 86_400;

/// A failed delivery.
#[derive(Debug, Default)]
pub(crate) struct DeliveryError {
    /// The reason, for the log.
    pub(crate) why: String,
    /// The receiver's `Retry-After`.
    pub(crate) retry_after: Option<Duration>,
    /// The server itself cancelled it because it stops, which does not count against the job.
    pub(crate) is_ours: bool,
}

impl DeliveryError {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        DeliveryError {
            why: why.into(),
            ..DeliveryError::default()
        }
    }
}

/// Identifies a delivery.
pub(crate) struct Label<'a> {
    pub(crate) spooler: &'a str,
    pub(crate) id: u64,
    /// Counted from 1.
    pub(crate) attempt: u32,
}

/// True if the request can be delivered at all.
pub(crate) fn is_deliverable(request: &JobRequest) -> bool {
    head(request).is_some()
}

fn head(request: &JobRequest) -> Option<(Method, Uri)> {
    let method = Method::from_bytes(request.method.as_bytes()).ok()?;
    let target = Uri::try_from(request.target.as_slice()).ok()?;
    Some((method, target))
}

/// Delivers a request; `Ok` is a complete answer of 2xx.
pub(crate) async fn deliver(
    connection: io::Result<OwnedFd>,
    label: &Label<'_>,
    request: JobRequest,
    timeout: Duration,
) -> Result<(), DeliveryError> {
    match tokio::time::timeout(timeout, exchange(connection, label, request)).await {
        Ok(outcome) => outcome,
        Err(_) => {
            let why = format!("no answer in {} seconds (`timeout`)", timeout.as_secs_f64());
            Err(DeliveryError::new(why))
        }
    }
}

async fn exchange(
    connection: io::Result<OwnedFd>,
    label: &Label<'_>,
    request: JobRequest,
) -> Result<(), DeliveryError> {
    let broken = |error: &dyn std::fmt::Display| DeliveryError::new(format!("no answer: {error}"));
    let stream = UnixStream::from(connection.map_err(|e| broken(&e))?);
    let stream = tokio::net::UnixStream::from_std(stream).map_err(|e| broken(&e))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| broken(&e))?;
    // Ends with this delivery: each has its own connection.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let request =
        outgoing(label, request).ok_or_else(|| DeliveryError::new("its request is malformed"))?;
    let mut answer = sender.send_request(request).await.map_err(|e| broken(&e))?;
    while let Some(frame) = answer.body_mut().frame().await {
        frame.map_err(|e| DeliveryError::new(format!("the answer was cut short: {e}")))?;
    }
    if answer.status().is_success() {
        return Ok(());
    }
    let wish = answer
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok());
    let wish: Option<u64> = wish.and_then(|text| text.trim().parse().ok());
    Err(DeliveryError {
        why: format!("answered {}", answer.status().as_u16()),
        retry_after: wish.map(|seconds| Duration::from_secs(seconds.min(LONGEST_WISH))),
        is_ours: false,
    })
}

fn outgoing(label: &Label<'_>, request: JobRequest) -> Option<http::Request<Full<Bytes>>> {
    let (method, target) = head(&request)?;
    let mut outgoing = http::Request::new(Full::new(Bytes::from(request.body)));
    *outgoing.method_mut() = method;
    *outgoing.uri_mut() = target;
    let fields = outgoing.headers_mut();
    for (name, value) in &request.fields {
        // The server has parsed them as fields; hyper refuses only names and values that no application reads.
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        {
            fields.append(name, value);
        }
    }
    if !fields.contains_key(HOST) {
        fields.insert(HOST, HeaderValue::from_static("localhost"));
    }
    fields.insert(ID, HeaderValue::try_from(written(label.id)).ok()?);
    fields.insert(ATTEMPT, HeaderValue::from(label.attempt));
    let (field, name) = match label.spooler.strip_prefix(SCHEDULE_PREFIX) {
        Some(schedule) => (SCHEDULE, schedule),
        None => (SPOOLER, label.spooler),
    };
    // Percent-encoded, because a name may contain any characters.
    let name: String = name.bytes().map(encoded).collect();
    fields.insert(field, HeaderValue::try_from(name).ok()?);
    Some(outgoing)
}

fn encoded(byte: u8) -> String {
    match byte.is_ascii_graphic() && byte != b'%' {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn request() -> JobRequest {
        JobRequest {
            method: "POST".into(),
            target: b"/send?to=a".to_vec(),
            fields: vec![
                (b"Host".to_vec(), b"app".to_vec()),
                (b"X-Two".to_vec(), b"1".to_vec()),
                (b"X-Two".to_vec(), b"\xff2".to_vec()),
            ],
            body: b"body".to_vec(),
        }
    }

    /// Delivers to a server with this answer; returns the received request, and the result.
    async fn delivered(answer: &'static [u8]) -> (String, Result<(), DeliveryError>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        theirs.set_nonblocking(true).unwrap();
        let label = Label {
            spooler: "ma il",
            id: 255,
            attempt: 3,
        };
        let serving = async {
            let mut theirs = tokio::net::UnixStream::from_std(theirs).unwrap();
            let mut got = Vec::new();
            while !got.ends_with(b"body") {
                theirs.read_buf(&mut got).await.unwrap();
            }
            theirs.write_all(answer).await.unwrap();
            drop(theirs);
            String::from_utf8_lossy(&got).into_owned()
        };
        let delivering = deliver(Ok(ours.into()), &label, request(), Duration::from_secs(30));
        tokio::join!(serving, delivering)
    }

    #[tokio::test]
    async fn a_job_is_its_request_with_its_number() {
        let (got, outcome) = delivered(b"HTTP/1.1 204 No Content\r\n\r\n").await;
        outcome.unwrap();
        assert!(got.starts_with("POST /send?to=a HTTP/1.1\r\n"), "{got}");
        for line in [
            "host: app",
            "x-two: 1",
            "content-length: 4",
            "x-tutti-job-id: 00000000000000ff",
            "x-tutti-job-attempt: 3",
            "x-tutti-job-spooler: ma%20il",
        ] {
            assert!(got.contains(&format!("\r\n{line}\r\n")), "{line} in {got}");
        }
    }

    #[tokio::test]
    async fn only_a_whole_answer_of_2xx_is_a_delivery() {
        let busy = b"HTTP/1.1 503 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n";
        let failure = delivered(busy).await.1.unwrap_err();
        assert_eq!(failure.why, "answered 503");
        assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
        let part = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc";
        let failure = delivered(part).await.1.unwrap_err();
        assert!(
            failure.why.starts_with("the answer was cut short"),
            "{failure:?}"
        );
        let failure = delivered(b"").await.1.unwrap_err();
        assert!(failure.why.starts_with("no answer"), "{failure:?}");
    }
}
