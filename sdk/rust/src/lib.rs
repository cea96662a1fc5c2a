//! Serves a [tower service](tower_service::Service), such as an axum router, as an application of type `external`.
//!
//! ```no_run
//! # async fn hello() -> &'static str { "Hello" }
//! # fn main() -> std::process::ExitCode {
//! let router = axum::Router::new().route("/", axum::routing::get(hello));
//! tutti_rust::serve(router)
//! # }
//! ```
//!
//! One thread, one event loop: tokio's current-thread runtime sleeps in its poll, and the worker's event is in it. More cores are
//! used by more `processes`. Bodies stream both ways; WebSockets are taken over as with hyper (axum's `WebSocketUpgrade`). What must never happen: a request taken and neither answered nor given up.

mod body;
mod error;
mod request;
mod response;
mod websocket;

use std::io;
use std::process::ExitCode;

use tower_service::Service;
use tutti_event_loop::{self as event_loop, Runtime, behind_the_others};
use tutti_worker::{Process, StartError};

pub use self::body::Body;
pub use self::error::Error;

/// Serves until the server tells the process to leave; its exit code. Says on standard error, and to the server, why it cannot.
pub fn serve<S, B>(service: S) -> ExitCode
where
    S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + 'static,
    S::Error: Into<Error>,
    B: http_body::Body + 'static,
    B::Data: bytes::Buf,
    B::Error: Into<Error>,
{
    let mut process = match Process::from_environment() {
        Ok(Some(process)) => process,
        Ok(None) => {
            eprintln!("this program is an application of Tutti: configure it as `external`");
            return ExitCode::FAILURE;
        }
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    match run(&mut process, service) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            process.fail(error);
            ExitCode::FAILURE
        }
    }
}

fn run<S, B>(process: &mut Process, service: S) -> Result<(), StartError>
where
    S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + 'static,
    S::Error: Into<Error>,
    B: http_body::Body + 'static,
    B::Data: bytes::Buf,
    B::Error: Into<Error>,
{
    let failed = |error: io::Error| StartError::new("starting the event loop", error);
    let Some(unstarted) = process.take_worker() else {
        return Ok(());
    };
    let mut worker = unstarted.into_worker();
    worker.enter_loop(process.concurrency()).map_err(failed)?;
    let runtime = Runtime::new(&worker).map_err(failed)?;
    worker.ready();
    process.ready();
    let served = runtime.serve(worker, async {
        // A task like the others: the runtime would look at the system's events each time before it called this one.
        let all_taken = tokio::task::spawn_local(take_all(service));
        all_taken.await.map_err(io::Error::other)
    });
    served.map_err(failed)
}

/// Takes requests until there are no more, and gives each to a task.
async fn take_all<S, B>(service: S)
where
    S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + 'static,
    S::Error: Into<Error>,
    B: http_body::Body + 'static,
    B::Data: bytes::Buf,
    B::Error: Into<Error>,
{
    while let Some(exchange) = event_loop::next_request().await {
        let service = service.clone();
        tokio::task::spawn_local(async move {
            let _ended = Ended;
            request::answer(exchange, service).await;
        });
        // It runs until it waits for something before the next is taken.
        behind_the_others().await;
    }
}

/// Dropped when an exchange has ended, also by a panic: a leaving worker may wait for that, or a full one.
struct Ended;

impl Drop for Ended {
    fn drop(&mut self) {
        event_loop::wake_taker();
    }
}
