//! The request of one HTTP/2 or HTTP/3 stream: answered at once, or by a separate task.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use tutti_http::http2::WebSocketKey;
use tutti_http::websocket::handshake;
use tutti_http::{HeadError, MessageLimits, RequestHead};

use crate::exchange::Exchange;
use crate::exchange::arrival;
use crate::exchange::channel::Channel;
use crate::exchange::client::ClientSide;
use crate::exchange::messages::Messages;
use crate::exchange_step::ExchangeStep;
use crate::local::Local;
use crate::pipeline::{self, Ending};

/// Facts about a request beside its fields.
pub(crate) struct StreamRequest {
    /// A body follows.
    pub(crate) has_body: bool,
    /// It is an extended `CONNECT` for WebSocket.
    pub(crate) is_websocket: bool,
    /// It is an extended `CONNECT` for another protocol.
    pub(crate) is_unknown: bool,
}

/// The same, for the code that composes the head.
pub(crate) struct Writing<'a> {
    pub(crate) has_body: bool,
    /// The key of the handshake that replaces the extended `CONNECT`.
    pub(crate) websocket: Option<&'a WebSocketKey>,
}

/// Begins the request of a stream, whose head `compose` writes: answers it, or starts a task that will.
pub(crate) fn begin(
    client: ClientSide,
    asked: &StreamRequest,
    compose: impl FnOnce(
        &mut RequestHead,
        &mut Vec<u8>,
        &MessageLimits,
        &Writing<'_>,
    ) -> Result<(), HeadError>,
) {
    let mut messages = messages(&client);
    let exchange = Exchange::new(&client, messages.settings, None);
    if asked.is_unknown {
        let reason = "CONNECT for an unknown protocol";
        messages.refuse(&client, &exchange, 501, reason);
        return finish_or_spawn(client, messages, exchange, ExchangeStep::Linger);
    }
    let key = asked
        .is_websocket
        .then(|| handshake::key(exchange.request_id(&client.local).to_be_bytes()));
    let writing = Writing {
        has_body: asked.has_body,
        websocket: key.as_ref(),
    };
    let Messages {
        head,
        input,
        snapshot,
        settings,
        ..
    } = &mut messages;
    let limits = &snapshot.settings.get(*settings).limits;
    let step = match compose(head, input, limits, &writing) {
        Err(error) => {
            messages.refuse(&client, &exchange, error.status(), &error.to_string());
            ExchangeStep::Linger
        }
        Ok(()) => {
            let (request, output) = messages.parts(&client, &exchange);
            if let Channel::Stream(stream) = &client.channel {
                let length = request.view.facts().content_length;
                if stream.expect(length).is_err() {
                    return messages.give_back(&client.local);
                }
            }
            arrival::note(&request);
            pipeline::start(&request, output)
        }
    };
    finish_or_spawn(client, messages, exchange, step);
}

/// Answers a request whose head cannot be accepted.
pub(crate) fn refuse(client: ClientSide, status: u16, reason: &str) {
    let mut messages = messages(&client);
    let exchange = Exchange::new(&client, messages.settings, None);
    messages.refuse(&client, &exchange, status, reason);
    finish_or_spawn(client, messages, exchange, ExchangeStep::Linger);
}

fn messages(client: &ClientSide) -> Messages {
    Messages::new(client, client.local.buffers.take())
}

/// Ends a stream that has its response, or starts a task for it.
fn finish_or_spawn(
    client: ClientSide,
    mut messages: Messages,
    exchange: Exchange,
    step: ExchangeStep,
) {
    if matches!(step, ExchangeStep::End(_) | ExchangeStep::Linger) {
        match client.channel.try_send(&mut messages.output) {
            Ok(true) => {
                finish(&client, &Ending::Close);
                messages.give_back(&client.local);
                return;
            }
            Ok(false) => {}
            Err(_) => return,
        }
    }
    // Beside the task, which would have them twice, and be too large for the lists of the allocator.
    let parts = Box::new((client, messages, exchange));
    tokio::task::spawn_local(run(parts, step));
}

/// The task of a request that takes longer.
async fn run(mut parts: Box<(ClientSide, Messages, Exchange)>, step: ExchangeStep) {
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    let (client, messages, exchange) = &mut *parts;
    client.enter(waker);
    let ending = pipeline::run(client, messages, exchange, step).await;
    finish(client, &ending);
    let (client, messages, _exchange) = *parts;
    let local: Rc<Local> = Rc::clone(&client.local);
    drop(client);
    messages.give_back(&local);
}

/// Ends a stream according to its response.
fn finish(client: &ClientSide, ending: &Ending) {
    if let Channel::Stream(stream) = &client.channel {
        match ending {
            Ending::Abort => stream.abort(),
            _ => stream.finish(),
        }
    }
}
