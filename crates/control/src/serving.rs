//! HTTP/1.1 on one connection, by hyper, for the control API and the dashboard. Every wait for the client has a time
//! limit, and everything read has a size limit.
//!
//! hyper responds to a malformed head with a status and no body, and to a head that is not received in time not at all.
//! Both get a response of the caller here instead.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, HOST};
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::{Instant, Sleep, timeout};

/// Largest head. hyper buffers this much for each connection; a path of the control API may contain anything in the
/// configuration.
const LARGEST_HEAD: usize = 128 << 10;

/// Limit of the bytes read after the last response, so that the client sees it instead of a reset, and of the time.
const LINGER_BYTES: u64 = 16 << 20;
const LINGER: Duration = Duration::from_secs(5);

/// A request whose body has not been read.
pub type ApiRequest = http::Request<Incoming>;

/// A whole response.
pub type Response = http::Response<Full<Bytes>>;

/// Why a body was not read.
#[derive(Debug)]
pub enum BodyReadError {
    /// It has more bytes than it may.
    TooLarge,
    /// No data was received in time.
    TooSlow,
    /// It is malformed, or the client has disconnected.
    Broken(hyper::Error),
}

/// Creates a response from a status, its fields and a body. Fields with invalid values are left out.
pub fn response<'f>(
    status: u16,
    fields: impl IntoIterator<Item = (HeaderName, &'f str)>,
    body: Vec<u8>,
) -> Response {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for (name, value) in fields {
        if let Ok(value) = HeaderValue::from_str(value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// The same response, after which the connection is closed.
pub fn closing(mut response: Response) -> Response {
    let close = HeaderValue::from_static("close");
    response.headers_mut().insert(CONNECTION, close);
    response
}

/// Returns the host that a request is for: the target's authority, or else that of `Host` (RFC 9112 §3.2). Empty in
/// HTTP/1.0 without one.
///
/// # Errors
/// There is none, or more than one; as a message.
pub fn host(head: &Parts) -> Result<&[u8], &'static str> {
    let mut fields = head.headers.get_all(HOST).iter();
    let host = match (fields.next(), fields.next()) {
        (Some(_), Some(_)) => return Err("there is more than one `Host`"),
        (Some(host), None) => host.as_bytes(),
        (None, _) if head.version < Version::HTTP_11 => b"",
        (None, _) => return Err("`Host` is missing"),
    };
    let authority = head.uri.authority();
    Ok(authority.map_or(host, |authority| authority.as_str().as_bytes()))
}

/// Reads a whole body of at most `most` bytes; each part must be received within `wait`.
///
/// # Errors
/// It cannot be read; the rest of it is discarded, and the connection must be closed.
pub async fn read_body(
    mut body: Incoming,
    most: u64,
    wait: Duration,
) -> Result<Vec<u8>, BodyReadError> {
    // A body that announces too much is rejected before it is sent.
    if body.size_hint().lower() > most {
        return Err(BodyReadError::TooLarge);
    }
    let mut bytes = Vec::new();
    loop {
        let frame = timeout(wait, body.frame()).await;
        let Some(frame) = frame.map_err(|_| BodyReadError::TooSlow)? else {
            return Ok(bytes);
        };
        let frame = frame.map_err(BodyReadError::Broken)?;
        let piece = frame.into_data().unwrap_or_default();
        if bytes.len() as u64 + piece.len() as u64 > most {
            return Err(BodyReadError::TooLarge);
        }
        bytes.extend_from_slice(&piece);
    }
}

/// Serves a connection until it ends. The client has `patience` for a whole head, including the pause between two
/// requests, and for progress in reading a response. `answer` returns the response to a request, and a value that is
/// dropped once the response has been written. `refuse` creates the response to a head that is malformed or incomplete.
pub async fn serve_connection<S, K, F>(
    stream: S,
    patience: Duration,
    answer: impl Fn(ApiRequest) -> F,
    refuse: impl Fn(u16, &str) -> Response,
) where
    S: AsyncRead + AsyncWrite + Unpin,
    K: Send,
    F: Future<Output = (Response, K)> + Send,
{
    let stage = Arc::new(Mutex::new(Stage::Head(Vec::new())));
    let watched = Watched {
        stream,
        patience,
        stalled: None,
        stage: Arc::clone(&stage),
    };
    let service = service_fn(|request| {
        *lock(&stage) = Stage::Request;
        let answer = answer(request);
        let stage = &stage;
        Box::pin(async move {
            let (response, held) = answer.await;
            *lock(stage) = Stage::Response(held);
            Ok::<_, Infallible>(response)
        })
    });
    let mut connection = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience)
        .max_buf_size(LARGEST_HEAD)
        // A client may close its sending side before it has the response (`nc`, `socat`).
        .half_close(true)
        .title_case_headers(true)
        .serve_connection(TokioIo::new(watched), service);
    let outcome = std::future::poll_fn(|context| connection.poll_without_shutdown(context)).await;
    let parts = connection.into_parts();
    let mut stream = parts.io.into_inner().stream;
    let refusal = match outcome {
        Ok(()) => None,
        Err(error) if error.is_parse() => Some((lock(&stage).refused(), error.to_string())),
        // Without a byte of a head the client is idle, not slow.
        Err(error) if error.is_timeout() && !parts.read_buf.is_empty() => {
            Some((408, "the request was not received in time".to_owned()))
        }
        Err(_) => return,
    };
    if let Some((status, why)) = refusal {
        let bytes = written(refuse(status, &why)).await;
        let sent = timeout(patience, stream.write_all(&bytes)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
    }
    // Closing with unread bytes would reset the connection and take the response with it.
    let lingering = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(LINGER_BYTES), &mut tokio::io::sink()).await
    };
    let _ = timeout(LINGER, lingering).await;
}

/// Serializes a response for a client whose request hyper rejects.
async fn written(response: Response) -> Vec<u8> {
    let (head, body) = response.into_parts();
    let Ok(body) = body.collect().await;
    let body = body.to_bytes();
    let mut out = format!("HTTP/1.1 {}\r\n", head.status).into_bytes();
    for (name, value) in &head.headers {
        out.extend_from_slice(
            &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat(),
        );
    }
    out.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
    out.extend_from_slice(b"connection: close\r\n\r\n");
    out.extend_from_slice(&body);
    out
}

/// The progress of the request on a connection.
enum Stage<K> {
    /// Its head is being read. Anything that hyper writes now is its own rejection, which is not sent to the client.
    Head(Vec<u8>),
    /// It is being processed.
    Request,
    /// Its response is being sent.
    Response(K),
}

impl<K> Stage<K> {
    /// Returns the status of hyper's own rejection: the second word (RFC 9112 §4).
    fn refused(&self) -> u16 {
        let Stage::Head(written) = self else {
            return 400;
        };
        let status = written.get(b"HTTP/1.1 ".len()..).unwrap_or_default();
        let status = status
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        status.and_then(|digits| digits.parse().ok()).unwrap_or(400)
    }
}

fn lock<K>(stage: &Mutex<Stage<K>>) -> MutexGuard<'_, Stage<K>> {
    // Each change leaves the state consistent.
    stage.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A stream with a time limit for a client that does not read.
struct Watched<S, K> {
    stream: S,
    patience: Duration,
    /// Runs while the client does not read.
    stalled: Option<Pin<Box<Sleep>>>,
    stage: Arc<Mutex<Stage<K>>>,
}

impl<S, K> Watched<S, K> {
    /// Makes a wait for the client fail once it has taken too long.
    fn bounded<T>(
        &mut self,
        context: &mut Context<'_>,
        outcome: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.stalled = None;
            return outcome;
        }
        let patience = self.patience;
        let stalled = || Box::pin(tokio::time::sleep_until(Instant::now() + patience));
        ready!(
            self.stalled
                .get_or_insert_with(stalled)
                .as_mut()
                .poll(context)
        );
        // Not `TimedOut`, which would be mistaken for a head that was not received.
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }
}

impl<S: AsyncRead + Unpin, K> AsyncRead for Watched<S, K> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin, K> AsyncWrite for Watched<S, K> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Stage::Head(written) = &mut *lock(&self.stage) {
            written.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.bounded(context, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        let outcome = self.bounded(context, outcome);
        let mut stage = lock(&self.stage);
        if outcome.is_ready() && matches!(*stage, Stage::Response(_)) {
            // hyper flushes when it has written the whole response.
            *stage = Stage::Head(Vec::new());
        }
        outcome
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};

    use super::*;

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

    /// Answers every request with this many bytes, and returns `held` with each response.
    async fn serve<K: Clone + Send>(
        server: DuplexStream,
        patience: Duration,
        length: usize,
        held: K,
    ) {
        let body = |status, length| response(status, [], vec![b'.'; length]);
        let answer = |_| std::future::ready((body(200, length), held.clone()));
        let refuse = |status, _: &str| body(status, 1);
        serve_connection(server, patience, answer, refuse).await;
    }

    #[tokio::test]
    async fn a_late_head_is_answered_and_an_idle_client_is_not() {
        for (sent, answered) in [(&b"GET / HT"[..], "HTTP/1.1 408 "), (b"", "")] {
            let (mut client, server) = duplex(1024);
            let read = async move {
                client.write_all(sent).await.unwrap();
                let mut answer = String::new();
                client.read_to_string(&mut answer).await.unwrap();
                answer
            };
            let patience = Duration::from_millis(20);
            let (answer, ()) = tokio::join!(read, serve(server, patience, 1, ()));
            assert_eq!(answer.get(..answered.len()), Some(answered), "{answer}");
            assert_eq!(answer.is_empty(), sent.is_empty());
        }
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_left() {
        let (mut client, server) = duplex(64);
        client.write_all(REQUEST).await.unwrap();
        // Otherwise it would never end.
        serve(server, Duration::from_millis(20), 1000, ()).await;
    }

    #[tokio::test]
    async fn a_response_is_held_until_it_is_written() {
        let (mut client, server) = duplex(64);
        client.write_all(REQUEST).await.unwrap();
        let held = Arc::new(());
        let serving = tokio::spawn(serve(
            server,
            Duration::from_secs(60),
            1 << 20,
            Arc::clone(&held),
        ));
        let mut first = [0; 64];
        client.read_exact(&mut first).await.unwrap();
        // One of the test, one of the server, and one of this response.
        assert_eq!(Arc::strong_count(&held), 3);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        assert!(rest.len() > 1 << 20);
        assert!(Arc::strong_count(&held) < 3);
        drop(client);
        serving.await.unwrap();
    }
}
