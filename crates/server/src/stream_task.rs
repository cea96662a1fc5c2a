//! The request of one stream of HTTP/2 or 3: answered at once, or by a task of its own.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use tutti_http::http2::WebSocketKey;
use tutti_http::websocket::handshake;
use tutti_http::{HeadError, Limits, RequestHead};

use crate::arrival;
use crate::channel::Channel;
use crate::connection::Connection;
use crate::dispatch;
use crate::local::Local;
use crate::pipeline::Pipeline;
use crate::step::Step;
use crate::waiting::{self, Ending};
use tutti_conn::output::Output;

/// The facts about a request before its head is written down.
pub(crate) struct Asked {
    /// The stream does not end with the head.
    pub(crate) has_body: bool,
    /// It is an extended `CONNECT` for WebSocket.
    pub(crate) is_websocket: bool,
    /// It is one for another protocol.
    pub(crate) is_unknown: bool,
}

/// The same, for who writes the head down.
pub(crate) struct Writing<'a> {
    pub(crate) has_body: bool,
    /// The key of the handshake that stands for the extended `CONNECT`.
    pub(crate) websocket: Option<&'a WebSocketKey>,
}

/// Begins with the request of a stream, whose head `compose` writes down: answers it, or starts a task that will.
pub(crate) fn begin(
    connection: Connection,
    asked: &Asked,
    compose: impl FnOnce(&mut RequestHead, &mut Vec<u8>, &Limits, &Writing<'_>) -> Result<(), HeadError>,
) {
    let mut pipeline = pipeline(&connection);
    connection.note_request();
    if asked.is_unknown {
        pipeline.refuse(&connection, 501, "CONNECT for a protocol that is not known");
        return go_on(connection, pipeline);
    }
    let key = asked
        .is_websocket
        .then(|| handshake::key(connection.request_id().to_be_bytes()));
    let writing = Writing {
        has_body: asked.has_body,
        websocket: key.as_ref(),
    };
    let Pipeline {
        head,
        input,
        snapshot,
        ..
    } = &mut pipeline;
    match compose(head, input, &snapshot.limits, &writing) {
        Err(error) => pipeline.refuse(&connection, error.status(), &error.to_string()),
        Ok(()) => {
            let (request, output) = pipeline.parts(&connection);
            if let Channel::Stream(stream) = &connection.channel {
                let length = request.view.facts().content_length;
                if stream.expect(length).is_err() {
                    return pipeline.give_back(&connection.local);
                }
            }
            arrival::note(&request);
            pipeline.step = dispatch::start(&request, output);
        }
    }
    go_on(connection, pipeline);
}

/// Answers a request whose head cannot be taken.
pub(crate) fn refuse(connection: Connection, status: u16, reason: &str) {
    let mut pipeline = pipeline(&connection);
    connection.note_request();
    pipeline.refuse(&connection, status, reason);
    go_on(connection, pipeline);
}

fn pipeline(connection: &Connection) -> Pipeline {
    let local = &connection.local;
    Pipeline {
        snapshot: local.snapshot_of(&connection.listener),
        input: local.buffers.take(),
        position: 0,
        head: local.take_head(),
        output: Output::new(local.buffers.take()),
        step: Step::Flush,
        substitute: None,
    }
}

/// Ends a stream that has its answer, or starts a task for it.
fn go_on(connection: Connection, mut pipeline: Pipeline) {
    if matches!(pipeline.step, Step::End(_) | Step::Linger) {
        match connection.channel.try_send(&mut pipeline.output) {
            Ok(true) => {
                finish(&connection, Ending::Close);
                pipeline.give_back(&connection.local);
                return;
            }
            Ok(false) => {}
            Err(_) => return,
        }
    }
    tokio::task::spawn_local(run(connection, pipeline));
}

/// The task of a request that takes longer.
async fn run(connection: Connection, mut pipeline: Pipeline) {
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    connection.set_waker(waker);
    let ending = waiting::run(&connection, &mut pipeline).await;
    finish(&connection, ending);
    let local: Rc<Local> = Rc::clone(&connection.local);
    drop(connection);
    pipeline.give_back(&local);
}

/// Ends a stream as its response has ended.
fn finish(connection: &Connection, ending: Ending) {
    if let Channel::Stream(stream) = &connection.channel {
        match ending {
            Ending::Abort => stream.abort(),
            _ => stream.finish(),
        }
    }
}
