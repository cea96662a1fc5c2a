//! The clients: each sends one request after another, as a connection of the server does for its client.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tutti_pool::{
    ApplicationExchange, ApplicationPool, ExchangeError, OutgoingBody, SubmitError,
    WireRequestHead, WireResponseHead,
};
use tutti_simulated::{note, sleep, timeout};
use tutti_wire::now;

use crate::oracle::Outcome;
use crate::plan::{Request, Sent, body_of, byte_of};
use crate::world::World;

enum Failed {
    /// The client has gone.
    Gone,
    Submit(SubmitError),
    Exchange(ExchangeError),
}

impl From<ExchangeError> for Failed {
    fn from(error: ExchangeError) -> Self {
        Failed::Exchange(error)
    }
}

/// A client from its first request to its last.
pub(crate) async fn run(world: Arc<World>, think: Duration) {
    while let Some(id) = world.next_request() {
        let request = world.plan.request(id);
        let (application, _use) = {
            let state = world.state();
            (state.application.clone(), Arc::clone(&state.uses))
        };
        let Some(application) = application else {
            panic!("a client came before the application was there");
        };
        let sent = now().checked_sub(request.age).unwrap_or_else(now);
        let served = serve(&world, &application, (id, sent), &request);
        let outcome = match request.patience {
            Some(patience) => timeout(patience, served).await.ok(),
            None => Some(served.await),
        };
        let outcome = match outcome {
            None | Some(Err(Failed::Gone)) => Outcome::Gone,
            Some(Ok(length)) => Outcome::Response(length),
            Some(Err(Failed::Submit(error))) => Outcome::Refused(error),
            Some(Err(Failed::Exchange(error))) => Outcome::Error(error),
        };
        note!("request {id} ends for its client: {outcome:?}");
        let is_refused = matches!(outcome, Outcome::Refused(_) | Outcome::Error(_));
        world
            .state()
            .oracle
            .ends(&world.plan, id, sent, now(), &outcome);
        if !think.is_zero() || is_refused {
            // It does not come back at once after an error.
            sleep(think.max(Duration::from_micros(200))).await;
        }
    }
    world.state().clients -= 1;
}

/// One request. Returns the length of the response's body.
async fn serve(
    world: &Arc<World>,
    application: &ApplicationPool,
    (id, arrived): (u64, Instant),
    request: &Request,
) -> Result<usize, Failed> {
    let target = format!("/{id}");
    let content = match request.sent {
        Sent::Not => Vec::new(),
        _ => body_of(id, request.length),
    };
    let head = WireRequestHead {
        method: b"GET",
        target: target.as_bytes(),
        path: target.as_bytes(),
        version_minor: 1,
        scheme: b"http",
        ..WireRequestHead::default()
    };
    let body = match request.sent {
        Sent::Not => OutgoingBody::None,
        Sent::Inline => OutgoingBody::Inline(&content),
        Sent::Spooled => {
            let spooled = application.spool().allocate().and_then(|mut region| {
                region.append(&content)?;
                Ok(region)
            });
            OutgoingBody::Spooled(spooled.map_err(|error| Failed::Submit(error.into()))?)
        }
        Sent::Streamed => OutgoingBody::Stream {
            len: Some(content.len() as u64),
        },
    };
    let submitted = application.submit(&head, body, arrived).await;
    let mut exchange = submitted.map_err(Failed::Submit)?;
    world.state().oracle.accepted += 1;
    if request.is_cut {
        let part = content.get(..content.len() / 2).unwrap_or_default();
        exchange.write_body(part);
        sleep(request.pause.unwrap_or_default()).await;
        return Err(Failed::Gone);
    }
    if request.sent == Sent::Streamed {
        send_body(&mut exchange, &content).await?;
    }
    let head = loop {
        let head = match request.restless {
            Some(interval) => restless_head(&mut exchange, interval).await,
            None => exchange.head().await,
        }?;
        if !head.is_interim() {
            break head;
        }
    };
    world.state().oracle.sees_head(id, head.status);
    let is_damaged = world.plan.is_damaged();
    receive_body(&mut exchange, id, request, is_damaged).await
}

/// Wakes of a restless client's task while it waits for one head. More of them would only take time.
const WAKES: u32 = 12;

/// The head, for a task that its connection wakes meanwhile.
async fn restless_head(
    exchange: &mut ApplicationExchange,
    interval: Duration,
) -> Result<WireResponseHead, ExchangeError> {
    for _ in 0..WAKES {
        if let Ok(head) = timeout(interval, exchange.head()).await {
            return head;
        }
    }
    exchange.head().await
}

async fn send_body(exchange: &mut ApplicationExchange, content: &[u8]) -> Result<(), Failed> {
    let mut rest = content;
    while !rest.is_empty() {
        let count = exchange.write_body(rest);
        rest = &rest[count..];
        if !rest.is_empty() {
            exchange.changed().await?;
        }
    }
    exchange.finish_body();
    Ok(())
}

async fn receive_body(
    exchange: &mut ApplicationExchange,
    id: u64,
    request: &Request,
    is_damaged: bool,
) -> Result<usize, Failed> {
    let mut received = 0;
    let mut bytes = Vec::new();
    loop {
        let readable = exchange.ready()?;
        bytes.clear();
        readable.copy_to(&mut bytes);
        let is_finished = readable.finished;
        let is_wrong = |(place, byte): (usize, &u8)| *byte != byte_of(id, received + place);
        if let Some(place) = bytes.iter().enumerate().position(is_wrong) {
            let place = received + place;
            assert!(
                is_damaged,
                "byte {place} of the response to request {id} is wrong"
            );
        }
        received += bytes.len();
        exchange.consume(bytes.len());
        if is_finished {
            return Ok(received);
        }
        if let Some(pause) = request.slowness {
            sleep(pause).await;
        }
        if bytes.is_empty() {
            exchange.more().await?;
        } else {
            yield_once().await;
        }
    }
}

/// Lets other tasks run.
async fn yield_once() {
    let mut has_yielded = false;
    poll_fn(|context| match std::mem::replace(&mut has_yielded, true) {
        true => Poll::Ready(()),
        false => {
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}
