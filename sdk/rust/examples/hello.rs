//! An axum application that Tutti runs: `{"type": "external", "executable": ".../hello"}`.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::extract::{Path, RawQuery};
use axum::response::Response;
use axum::routing::{any, get, post};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;

async fn hello(Path(name): Path<String>) -> String {
    format!("Hello, {name}\n")
}

async fn echo(body: axum::body::Body) -> axum::body::Body {
    body
}

/// A line now and then, without end.
async fn clock() -> axum::body::Body {
    let ticks = futures_util::stream::unfold(1, |count| async move {
        if count > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Some((Ok::<_, Infallible>(format!("tick {count}\n")), count + 1))
    });
    axum::body::Body::from_stream(ticks)
}

/// Requests that wait.
static WAITING: AtomicU32 = AtomicU32::new(0);

struct Waiting;

impl Drop for Waiting {
    fn drop(&mut self) {
        WAITING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits for something that never happens, until its client goes.
async fn never() {
    WAITING.fetch_add(1, Ordering::Relaxed);
    let _guard = Waiting;
    std::future::pending().await
}

async fn waiting() -> String {
    WAITING.load(Ordering::Relaxed).to_string()
}

/// A body, and a field behind it.
struct Summed(VecDeque<Frame<Bytes>>);

impl http_body::Body for Summed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

/// A body with its sum behind it, as services of gRPC have a status there. Clients of HTTP/1 get it if the head has a field `Trailer`.
async fn summed(RawQuery(query): RawQuery) -> Response {
    let whole = Frame::data(Bytes::from_static(b"whole"));
    let sum = HeaderMap::from_iter([(SUM, HeaderValue::from(5))]);
    let body = Summed([whole, Frame::trailers(sum)].into());
    let mut response = Response::new(axum::body::Body::new(body));
    if query.as_deref() == Some("announced") {
        let name = HeaderValue::from_static("X-Sum");
        response.headers_mut().insert(http::header::TRAILER, name);
    }
    response
}

const SUM: HeaderName = HeaderName::from_static("x-sum");

/// Says back what it hears, until the client closes.
async fn talk(upgrade: WebSocketUpgrade) -> Response {
    let upgrade = upgrade
        .protocols(["echo"])
        .max_message_size(LONGEST_MESSAGE)
        .max_frame_size(LONGEST_MESSAGE);
    upgrade.on_upgrade(|mut socket| async move {
        while let Some(Ok(message)) = socket.recv().await {
            let is_data = matches!(message, Message::Text(_) | Message::Binary(_));
            if is_data && socket.send(message).await.is_err() {
                return;
            }
        }
        println!("the client has closed");
    })
}

/// axum's own limit is 16 MiB in a frame, and 64 in a message.
const LONGEST_MESSAGE: usize = 32 << 20;

fn main() -> ExitCode {
    let router = Router::new()
        .route("/hello/{name}", get(hello))
        .route("/echo", post(echo))
        .route("/clock", get(clock))
        .route("/never", any(never))
        .route("/waiting", get(waiting))
        .route("/summed", get(summed))
        .route("/talk", any(talk));
    tutti_rust::serve(router)
}
