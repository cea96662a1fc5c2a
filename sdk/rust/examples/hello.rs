//! An axum application that Tutti runs: `{"type": "external", "executable": ".../hello"}`.

use std::process::ExitCode;

use axum::Router;
use axum::extract::Path;
use axum::routing::{get, post};

async fn hello(Path(name): Path<String>) -> String {
    format!("Hello, {name}\n")
}

async fn echo(body: axum::body::Body) -> axum::body::Body {
    body
}

fn main() -> ExitCode {
    let router = Router::new()
        .route("/hello/{name}", get(hello))
        .route("/echo", post(echo));
    tutti_rust::serve(router)
}
