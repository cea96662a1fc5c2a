//! Checks by HTTP: a request that must be answered, or a call of gRPC's health checking protocol.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::task::JoinSet;
use tutti_config::model::HttpVersion;
use tutti_dialer::error_chain;
use tutti_upstream::{ServerGroup, UpstreamConnection};

/// Most bytes that are read of an answer's body.
const BODY_BYTES: usize = 64 * 1024;

/// The name that the server sees in its log.
const AGENT: &str = concat!("Tutti/", env!("CARGO_PKG_VERSION"), " (health check)");

/// The status that `SERVING` has in the protocol.
const SERVING: u64 = 1;

/// Sends the request of a check; the status of the answer.
pub(crate) async fn ask(
    upstream: &ServerGroup,
    connection: UpstreamConnection,
    (uri, authority): (&str, &str),
) -> Result<u16, String> {
    let version = upstream.options().http_version;
    let mut request = Request::builder()
        .method(Method::GET)
        .header(header::USER_AGENT, AGENT)
        .header(header::ACCEPT, "*/*");
    request = if version == HttpVersion::Http2 {
        request.uri(format!("{}://{authority}{uri}", scheme(upstream)))
    } else {
        let request = request.uri(uri).header(header::HOST, authority);
        request.header(header::CONNECTION, "close")
    };
    let request = request.body(Full::new(Bytes::new()));
    let request = request.map_err(|error| error.to_string())?;
    let (answer, _driver) = send(upstream, connection, request, version).await?;
    let status = answer.status().as_u16();
    // Read to its end, so that no server complains of a client that has gone.
    let body = Limited::new(answer.into_body(), BODY_BYTES).collect().await;
    match body {
        Err(error) if error.is::<hyper::Error>() => {
            Err(format!("its answer is cut short: {}", error_chain(&*error)))
        }
        _ => Ok(status),
    }
}

/// Asks by `grpc.health.v1.Health/Check`.
pub(crate) async fn ask_grpc(
    upstream: &ServerGroup,
    connection: UpstreamConnection,
    (service, authority): (&str, &str),
) -> Result<(), String> {
    let uri = format!(
        "{}://{authority}/grpc.health.v1.Health/Check",
        scheme(upstream)
    );
    let request = Request::post(uri)
        .header(header::USER_AGENT, AGENT)
        .header(header::CONTENT_TYPE, "application/grpc")
        .header(header::TE, "trailers")
        .body(Full::new(message(service)));
    let request = request.map_err(|error| error.to_string())?;
    let (answer, _driver) = send(upstream, connection, request, HttpVersion::Http2).await?;
    if answer.status() != 200 {
        return Err(format!("its answer is {}", answer.status().as_u16()));
    }
    let early = answer.headers().get("grpc-status").cloned();
    let body = Limited::new(answer.into_body(), BODY_BYTES).collect().await;
    let body = body.map_err(|error| format!("its answer is cut short: {error}"))?;
    let status = early.or_else(|| body.trailers()?.get("grpc-status").cloned());
    let status = status.as_ref().map(HeaderValue::as_bytes);
    match status {
        Some(b"0") => {}
        Some(b"5") => return Err("it does not know the service".to_owned()),
        Some(b"12") => return Err("it has no `grpc.health.v1.Health`".to_owned()),
        Some(other) => {
            return Err(format!("its `grpc-status` is {}", other.escape_ascii()));
        }
        None => return Err("its answer has no `grpc-status`".to_owned()),
    }
    match serving_status(&body.to_bytes()) {
        Some(SERVING) => Ok(()),
        Some(2) => Err("it says NOT_SERVING".to_owned()),
        Some(3) => Err("it says SERVICE_UNKNOWN".to_owned()),
        Some(_) => Err("it says UNKNOWN".to_owned()),
        None => Err("its answer is no `HealthCheckResponse`".to_owned()),
    }
}

fn scheme(upstream: &ServerGroup) -> &'static str {
    if upstream.tls().is_some() {
        "https"
    } else {
        "http"
    }
}

/// Sends a request and waits for the head of its answer. The connection ends with the second of what is returned, also when nobody waits
/// any more.
async fn send(
    upstream: &ServerGroup,
    connection: UpstreamConnection,
    request: Request<Full<Bytes>>,
    version: HttpVersion,
) -> Result<(Response<Incoming>, JoinSet<hyper::Result<()>>), String> {
    let is_http2 = version == HttpVersion::Http2;
    let words = |error: hyper::Error| error_chain(&error);
    if is_http2 && upstream.tls().is_some() && connection.protocol() != Some(b"h2") {
        return Err("it does not agree to speak HTTP/2 (ALPN `h2`)".to_owned());
    }
    let io = TokioIo::new(connection.into_io());
    let mut driver = JoinSet::new();
    let answer = if is_http2 {
        let begun = http2::handshake(TokioExecutor::new(), io).await;
        let (mut sender, connection) = begun.map_err(words)?;
        driver.spawn(connection);
        sender.send_request(request).await
    } else {
        let (mut sender, connection) = http1::handshake(io).await.map_err(words)?;
        driver.spawn(connection);
        sender.send_request(request).await
    };
    Ok((answer.map_err(words)?, driver))
}

/// A `HealthCheckRequest` (a string, field 1), as gRPC frames it: not compressed, and its length.
fn message(service: &str) -> Bytes {
    let mut fields = BytesMut::new();
    if !service.is_empty() {
        fields.put_u8(1 << 3 | 2);
        let mut length = service.len();
        while length >= 0x80 {
            fields.put_u8((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        fields.put_u8(length as u8);
        fields.put_slice(service.as_bytes());
    }
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(fields.len()).unwrap_or(u32::MAX));
    framed.put(fields);
    framed.freeze()
}

/// The status in a framed `HealthCheckResponse` (an enumeration, field 1; 0 where it is left out).
fn serving_status(framed: &[u8]) -> Option<u64> {
    let (head, fields) = framed.split_at_checked(5)?;
    let length = u32::from_be_bytes(head.get(1..)?.try_into().ok()?);
    if head.first() != Some(&0) || fields.len() != length as usize {
        return None;
    }
    match fields {
        [] => Some(0),
        [8, status] if *status < 0x80 => Some(u64::from(*status)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_the_health_checking_protocol() {
        assert_eq!(&message("")[..], b"\0\0\0\0\0");
        assert_eq!(&message("a.B")[..], b"\0\0\0\0\x05\x0a\x03a.B");
        let long = message(&"x".repeat(300));
        assert_eq!(long.get(..8), Some(&b"\0\0\0\x01\x2f\x0a\xac\x02"[..]));
        assert_eq!(serving_status(b"\0\0\0\0\x02\x08\x01"), Some(SERVING));
        assert_eq!(serving_status(b"\0\0\0\0\0"), Some(0));
        for bad in [
            &b""[..],
            b"\0\0\0\0",
            b"\x01\0\0\0\0",
            b"\0\0\0\0\x02\x08",
            b"\0\0\0\0\x02\x10\x01",
        ] {
            assert_eq!(serving_status(bad), None, "{bad:?}");
        }
    }
}
