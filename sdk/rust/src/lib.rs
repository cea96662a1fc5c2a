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
mod waiting;
mod websocket;

use std::io;
use std::process::ExitCode;
use std::rc::Rc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, watch};
use tower_service::Service;
use tutti_worker::{Process, StartError, Worker};

pub use self::body::Body;
pub use self::error::Error;
use self::waiting::Waiting;

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
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let Some(unstarted) = process.take_worker() else {
        return Ok(());
    };
    let mut worker = unstarted.into_worker();
    worker.enter_loop(process.concurrency()).map_err(failed)?;
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let event = worker
            .event_fd()
            .ok_or_else(|| io::Error::other("there is no event"))
            .and_then(|event| event.try_clone_to_owned())
            .and_then(register)
            .map_err(failed)?;
        worker.ready();
        process.ready();
        turn(&mut worker, &event, &service).await.map_err(failed)
    })
}

#[expect(
    deprecated,
    reason = "the safe constructor is deprecated for types that can close or replace their descriptor while it is \
              registered; an `OwnedFd` that is only ever borrowed can do neither"
)]
fn register(event: std::os::fd::OwnedFd) -> io::Result<AsyncFd<std::os::fd::OwnedFd>> {
    AsyncFd::with_interest(event, Interest::READABLE)
}

/// Takes requests and passes news on, until the worker is to leave and has nothing left.
async fn turn<S, B>(
    worker: &mut Worker,
    event: &AsyncFd<std::os::fd::OwnedFd>,
    service: &S,
) -> io::Result<()>
where
    S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + 'static,
    S::Error: Into<Error>,
    B: http_body::Body + 'static,
    B::Data: bytes::Buf,
    B::Error: Into<Error>,
{
    let waiting = Waiting::default();
    // A full worker takes requests again when one has ended, and one that is to leave goes after the last.
    let ended = Rc::new(Notify::new());
    let (leaving, _) = watch::channel(false);
    loop {
        worker.drain_attention(|slot| {
            if let Some(waker) = waiting.borrow_mut().remove(&slot) {
                waker.wake();
            }
        });
        if let Some(exchange) = worker.try_next() {
            let answer = request::answer(
                exchange,
                service.clone(),
                Rc::clone(&waiting),
                leaving.subscribe(),
            );
            let ended = Rc::clone(&ended);
            tokio::task::spawn_local(async move {
                answer.await;
                ended.notify_one();
            });
            // It runs until it waits for something before the next is taken.
            tokio::task::yield_now().await;
            continue;
        }
        if worker.must_stop() {
            leaving.send_replace(true);
            if worker.open() == 0 {
                return Ok(());
            }
        }
        if worker.prepare_sleep() {
            // Edge-triggered: the counter need not be read back.
            tokio::select! {
                ready = event.readable() => ready?.clear_ready(),
                () = ended.notified() => {}
            }
            worker.woken();
        }
    }
}
