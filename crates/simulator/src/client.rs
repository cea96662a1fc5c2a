//! The clients: each sends one request after another, as a connection of the server does for its client.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use tutti_pool::{
    ApplicationExchange, ApplicationPool, ExchangeError, OutgoingBody, SubmitError, WireRequestHead,
};
use tutti_simulated::{note, sleep, timeout};
use tutti_wire::now;

use crate::oracle::Outcome;
use crate::plan::{Request, Sent, body_of, byte_of};
use crate::world::World;

enum Failed {
    Submit(SubmitError),
    Exchange(ExchangeError),
}

impl From<ExchangeError> for Failed {
    fn from(error: ExchangeError) -> Self {
        Failed::Exchange(error)
    }
}

/// A client from its first request to its last.
pub(crate) async fn run(world: Arc<World>, think: std::time::Duration) {
    while let Some(id) = world.next_request() {
        let request = world.plan.request(id);
        let Some(application) = world.state().application.clone() else {
            panic!("a client came before the application was there");
        };
        let sent = now();
        let served = serve(&world, &application, id, &request);
        let outcome = match request.patience {
            Some(patience) => timeout(patience, served).await.ok(),
            None => Some(served.await),
        };
        let outcome = match outcome {
            None => Outcome::Gone,
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
            sleep(think.max(std::time::Duration::from_micros(200))).await;
        }
    }
    world.state().clients -= 1;
}

/// One request. Returns the length of the response's body.
async fn serve(
    world: &Arc<World>,
    application: &ApplicationPool,
    id: u64,
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
    let submitted = application.submit(&head, body, now()).await;
    let mut exchange = submitted.map_err(Failed::Submit)?;
    world.state().oracle.accepted += 1;
    if request.sent == Sent::Streamed {
        send_body(&mut exchange, &content).await?;
    }
    let head = loop {
        let head = match request.restless {
            Some(interval) => loop {
                if let Ok(head) = timeout(interval, exchange.head()).await {
                    break head;
                }
            },
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
        for (place, byte) in bytes.iter().enumerate() {
            assert!(
                *byte == byte_of(id, received + place) || is_damaged,
                "byte {} of the response to request {id} is wrong",
                received + place
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
