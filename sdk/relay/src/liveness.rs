//! A program whose event loop does not turn any more: it is made to say where it stands, and ended.
//!
//! The router asks where a worker is when one of its requests has run out of time (`tutti_worker::WHERE_SIGNAL`). A program that waits for
//! something answers at its `alive` socket and is left alone, for it serves others. One that does not answer serves no client.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};
use tutti_event_loop::readable;
use tutti_sys::signal::{self, Signals};
use tutti_worker::Level;
use tutti_worker::WHERE_SIGNAL;
use tutti_worker::log::line;

/// So long an event loop may be at one thing: by then every other request of the process has waited as long. It bounds the harm of ending a
/// program that would have come back.
const PATIENCE: Duration = Duration::from_secs(3);
/// The same for a worker that is leaving, which the server kills a second after it has asked.
const PATIENCE_OF_THE_LEAVING: Duration = Duration::from_millis(400);
/// The interval at which `moves` is called: the server kills an event loop that has not moved for a second.
const PACE: Duration = Duration::from_millis(200);
/// For the runtime to print its stack.
const TO_PRINT: Duration = Duration::from_secs(1);

/// The router's question, held back until it is [watched](watch) for. To be taken before the program starts: it would end this process
/// otherwise, or be lost.
pub(crate) fn question() -> io::Result<Signals> {
    Signals::take(&[WHERE_SIGNAL])
}

/// Looks at the program each time the router asks. `is_leaving`: the worker is; `moves` says that its event loop does, while it is found out
/// whether the program's does. Never returns, but for an error of the system.
pub(crate) async fn watch(
    question: &Signals,
    alive: &Path,
    program: i32,
    is_leaving: impl Fn() -> bool,
    moves: impl Fn(),
) -> io::Result<()> {
    let asked = readable(question.as_fd().try_clone_to_owned()?)?;
    loop {
        asked.readable().await?.clear_ready();
        if question.next().is_none() {
            continue;
        }
        while question.next().is_some() {}
        if meanwhile(&moves, answers(alive, is_leaving())).await {
            let message = format!(
                "process {program} waits: its event loop turns, and what the request waits for has not come"
            );
            line(Level::Warn, "", message.as_bytes());
            continue;
        }
        let message = format!("the event loop of process {program} is blocked; its stack:");
        line(Level::Error, "", message.as_bytes());
        // The runtime prints its stack and ends.
        let _ = signal::send(program, libc::SIGINT);
        meanwhile(&moves, sleep(TO_PRINT)).await;
        let _ = signal::send(program, libc::SIGKILL);
    }
}

/// Waits for `work`, and calls `moves` from time to time.
async fn meanwhile<T>(moves: &impl Fn(), work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        moves();
        if let Ok(value) = timeout(PACE, &mut work).await {
            return value;
        }
    }
}

/// True if the program's event loop takes the connection. Where nothing listens the program has closed its server, and nothing is known.
async fn answers(alive: &Path, is_leaving: bool) -> bool {
    let patience = match is_leaving {
        true => PATIENCE_OF_THE_LEAVING,
        false => PATIENCE,
    };
    let ask = async {
        if let Ok(mut stream) = UnixStream::connect(alive).await {
            // Its end is an answer, too.
            drop(stream.read_u8().await);
        }
    };
    timeout(patience, ask).await.is_ok()
}
