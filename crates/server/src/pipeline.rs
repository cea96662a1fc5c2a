//! The stages of an exchange, in their order.
//!
//! [`start`] takes a request through them on the stack, until it is answered or has to wait; [`run`] waits, and continues with the later
//! stages. Each stage is a file of its own, called only from here, and passes its result to the next one: a [`Plan`] from the route on, a
//! [`ExchangeStep`] when a response has begun.
//!
//! Must never: begin an action before all stages before it have let the request pass.

use std::time::Instant;

use tutti_conn::output::{Gone, Output};

use crate::action;
use crate::boxed::boxed;
use crate::cache::{self, Found};
use crate::challenge;
use crate::client_certificate;
use crate::early_hints;
use crate::exchange::Exchange;
use crate::exchange::client::ClientSide;
use crate::exchange::collector::{ActionBody, Collected};
use crate::exchange::messages::Messages;
use crate::exchange::request::Request;
use crate::exchange_step::ExchangeStep;
use crate::guard::{self, Entrance};
use crate::handshake_check;
use crate::internal_redirect;
use crate::mirror;
use crate::plan::Plan;
use crate::request_body;
use crate::route;
use crate::slices::{self, Sliced};
use crate::tunnel;
use crate::websocket;

/// The outcome of an exchange.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Its connection takes the next one.
    Idle,
    /// Close the connection: everything has been sent.
    Close,
    /// Close it abruptly, so that what has been sent does not look complete.
    Abort,
    /// A response has been sent that the client may not have read, because it is still sending: read on for a while, then close.
    Linger,
    /// The client speaks HTTP/2; these are its first bytes.
    Http2(Vec<u8>),
}

impl Ending {
    /// The end after a last response; `is_sending`: the client may still be sending.
    fn after(is_sending: bool) -> Self {
        match is_sending {
            true => Self::Linger,
            false => Self::Close,
        }
    }
}

/// The stages at which a request can begin, or continue after waiting.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Head,
    Route,
    Body,
    Mirror,
    Hints,
}

/// Takes a request with a complete head as far as possible without waiting.
pub(crate) fn start(request: &Request<'_>, output: &mut Output) -> ExchangeStep {
    stages(request, Stage::Head, None, Collected::None, output)
}

/// The stages from `from` on. A request that has waited brings its plan and its body.
fn stages(
    request: &Request<'_>,
    from: Stage,
    plan: Option<Box<Plan>>,
    body: Collected,
    output: &mut Output,
) -> ExchangeStep {
    if from <= Stage::Head {
        if let Err(status) = request_body::check(request) {
            return internal_redirect::refuse(request, status, output);
        }
        if let Some(step) = challenge::answer(request, output) {
            return step;
        }
    }
    let mut plan = match plan {
        None => client_certificate::refuse(request).unwrap_or_else(|| route::plan(request)),
        Some(plan) => *plan,
    };
    if from <= Stage::Route && !plan.guards.is_empty() {
        match guard::enter(request, &plan) {
            Entrance::Open => {}
            Entrance::Closed(answer) => {
                return guard::response::page(request, &answer, &plan.changes, output);
            }
            Entrance::Waits(pause) => {
                let plan = Box::new(plan);
                return ExchangeStep::Guard { plan, pause };
            }
        }
    }
    if from <= Stage::Body {
        match request_body::expect(request, &plan) {
            Ok(false) => {}
            Ok(true) => return ExchangeStep::Body(Box::new(plan)),
            Err(status) => return internal_redirect::refuse(request, status, output),
        }
    }
    if from <= Stage::Mirror {
        mirror::copy(request, &body);
        if let Some(asked) = &mut plan.asked {
            // A response to an authenticated user is for others only if it permits that itself, also after an internal redirect.
            asked.is_authorized |= request.exchange.admission.is_authenticated();
            return cache::look(request, plan, output);
        }
        if let Err(refusal) = handshake_check::check(request, &mut plan) {
            return refusal.answer(request, output);
        }
    }
    early_hints::send(request, &mut plan, output);
    action::run_now(request, plan, body, output)
}

/// Runs until the exchange has ended; [`Ending::Idle`]: the connection continues after its request.
pub(crate) async fn run(
    client: &ClientSide,
    messages: &mut Messages,
    exchange: &mut Exchange,
    mut next: ExchangeStep,
) -> Ending {
    loop {
        // One that holds a permit counts as under way until its client has the response.
        if let ExchangeStep::End(persistence) = &next
            && persistence.is_open()
            && !exchange.admission.holds_permits()
        {
            return Ending::Idle;
        }
        next = match step(client, messages, exchange, next).await {
            Ok(Ok(step)) => step,
            Ok(Err(ending)) => return ending,
            Err(gone) => {
                if !exchange.is_logged() {
                    messages.request(client, exchange).left(gone);
                }
                return Ending::Abort;
            }
        };
    }
}

/// Waits for what the request needs next, and runs the later stages.
async fn step(
    client: &ClientSide,
    messages: &mut Messages,
    exchange: &mut Exchange,
    step: ExchangeStep,
) -> Result<Result<ExchangeStep, Ending>, Gone> {
    // Holds the bytes of a streamed body and those after it.
    let mut input = Vec::new();
    let (request, mut plan, body, output) = match step {
        ExchangeStep::Action(plan, body) => {
            let (request, output) = messages.parts(client, exchange);
            (request, plan, ActionBody::Collected(body), output)
        }
        ExchangeStep::Body(plan)
            if request_body::is_streamed(&messages.request(client, exchange), &plan) =>
        {
            let decoder = match request_body::decoder(&messages.request(client, exchange)) {
                Ok(decoder) => decoder,
                Err(status) => {
                    let (request, output) = messages.parts(client, exchange);
                    return Ok(Ok(internal_redirect::refuse(&request, status, output)));
                }
            };
            input = client.local.buffers.take();
            let (request, body, output) =
                messages.detach_body(client, exchange, decoder, &mut input);
            // The body is not available for a copy or for the cache.
            match stages(&request, Stage::Mirror, Some(plan), Collected::None, output) {
                ExchangeStep::Action(plan, _) => {
                    (request, plan, ActionBody::Stream(Box::new(body)), output)
                }
                step => {
                    messages.take_back(client, input);
                    return Ok(Ok(step));
                }
            }
        }
        step => return boxed(|| wait(client, messages, exchange, step)).await,
    };
    let outcome = action::run(&request, &plan, body, output).await;
    // A stored response may replace the result.
    let step = cache::settle(&request, &mut plan, outcome, output)?;
    messages.take_back(client, input);
    Ok(Ok(step))
}

/// The same for a request that waits for something other than its action.
async fn wait(
    client: &ClientSide,
    messages: &mut Messages,
    exchange: &mut Exchange,
    step: ExchangeStep,
) -> Result<Result<ExchangeStep, Ending>, Gone> {
    if let ExchangeStep::Substitute(substitute) = step {
        exchange.substitute = Some(substitute);
        let (request, output) = messages.parts(client, exchange);
        let step = stages(&request, Stage::Route, None, Collected::None, output);
        return Ok(Ok(step));
    }
    let exchange = &*exchange;
    if let ExchangeStep::Body(plan) = step {
        let received = request_body::receive((client, exchange), messages, &plan).await?;
        exchange.collected.set(Some(Instant::now()));
        let (request, output) = messages.parts(client, exchange);
        return Ok(Ok(match received {
            Ok(body) => stages(&request, Stage::Mirror, Some(plan), body, output),
            Err(status) => internal_redirect::refuse(&request, status, output),
        }));
    }
    let (request, output) = messages.parts(client, exchange);
    Ok(Ok(match step {
        ExchangeStep::Substitute(_) | ExchangeStep::Body(_) | ExchangeStep::Action(..) => {
            return Ok(Err(Ending::Abort));
        }
        ExchangeStep::Guard { plan, pause } => {
            match guard::wait(&request, plan, pause, output).await? {
                Ok(plan) => stages(&request, Stage::Body, Some(plan), Collected::None, output),
                Err(step) => step,
            }
        }
        ExchangeStep::Cache(fetch) => {
            match boxed(|| cache::wait(&request, *fetch, output)).await? {
                Found::Answer(step) => step,
                Found::Miss(plan) => {
                    stages(&request, Stage::Hints, Some(plan), Collected::None, output)
                }
            }
        }
        ExchangeStep::Slices(plan) => {
            match boxed(|| slices::send(&request, *plan, output)).await? {
                Sliced::Sent(step) => step,
                Sliced::Whole(plan) => cache::look_whole(&request, plan, output),
            }
        }
        ExchangeStep::Send(response) => response.send(&request, output).await?.into(),
        ExchangeStep::Tunnel(tunnel) => {
            boxed(|| tunnel::run(client, messages, exchange, *tunnel)).await;
            return Ok(Err(Ending::Close));
        }
        ExchangeStep::WebSocket(upgraded) => {
            let is_sending =
                boxed(|| websocket::run(client, messages, exchange, *upgraded)).await?;
            return Ok(Err(Ending::after(is_sending)));
        }
        ExchangeStep::End(persistence) if persistence.is_open() => {
            request.flush(output).await?;
            return Ok(Err(Ending::Idle));
        }
        ExchangeStep::End(_) => {
            request.flush(output).await?;
            return Ok(Err(Ending::after(exchange.lingers())));
        }
        ExchangeStep::Linger => {
            request.flush(output).await?;
            return Ok(Err(Ending::Linger));
        }
    }))
}
