//! An axum application that Tutti runs: `{"type": "external", "executable": ".../hello"}`.

use std::convert::Infallible;
use std::process::ExitCode;
use std::time::Duration;

use axum::Router;
use axum::extract::Path;
use axum::extract::ws::{Message, WebSocketUpgrade};
use axum::response::Response;
use axum::routing::{any, get, post};

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
        .route("/talk", any(talk));
    tutti_rust::serve(router)
}
