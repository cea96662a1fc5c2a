//! The task of a connection: waits for requests and answers at once what can be answered at once.
//!
//! When bytes come, a buffer is taken from the thread and read into, and [`pipeline`](crate::pipeline) answers what is complete. Whatever
//! cannot be finished like that (a head or body still to come, a large file, an application, a full socket) moves into
//! [`waiting`](crate::waiting), a future in a box that lives until the connection is idle again: an idle one does not pay for it.

use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tutti_config::model::Http2;
use tutti_conn::tls::{Session, TlsSocket};
use tutti_conn::transport::Transport;
use tutti_http::Method;
use tutti_pool::Level;

use crate::channel::Channel;
use crate::connection::{Connection, LAST_MOMENT};
use crate::handshake;
use crate::http2;
use crate::local::Local;
use crate::pipeline::Pipeline;
use crate::proxy_header;
use crate::respond::{self, Persistence};
use crate::step::Step;
use crate::waiting::{self, Ending};
use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::listener::{Accepted, Listener};
use tutti_conn::output::Output;
use tutti_conn::socket::{self, Received};

/// Of [`Server::drain_gently`](crate::Server::drain_gently): after this long without a request a kept connection is closed where an upgrade drains it: nearly all clients that have more
/// to ask do so sooner.
pub const LAST_REQUEST: Duration = Duration::from_secs(10);

/// Starts the task of a connection.
pub(crate) fn spawn(local: Rc<Local>, accepted: Accepted) {
    tokio::task::spawn_local(run(local, accepted));
}

async fn run(local: Rc<Local>, accepted: Accepted) {
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    let io = match socket::watch(accepted.socket, Interest::READABLE | Interest::WRITABLE) {
        Ok(io) => io,
        Err(error) => {
            local.log(Level::Alert, &format!("cannot watch a connection: {error}"));
            local.connection_ended();
            return;
        }
    };
    let channel = match channel(io, &accepted.listener, &local) {
        Ok(channel) => channel,
        Err(error) => {
            local.log(Level::Alert, &format!("cannot begin TLS: {error}"));
            local.connection_ended();
            return;
        }
    };
    let mut connection = Connection::new(channel, accepted.peer, accepted.listener, local, waker);
    connection.set_idle();
    if !proxy_header::receive(&mut connection).await {
        return;
    }
    if connection.channel.is_tls() && !Box::pin(handshake::shake(&connection)).await {
        return;
    }
    if has_answered_authority(&connection) {
        // It has seen all that it asked for (RFC 8737 §3).
        connection.channel.close();
        return;
    }
    if let Some(options) = agreed_on_http2(&connection) {
        Box::pin(http2::serve(connection, Vec::new(), options)).await;
        return;
    }
    loop {
        let ending = match poll_fn(|cx| poll_requests(&mut connection, cx)).await {
            Ok(mut pipeline) => {
                // In a box, so that an idle connection does not pay for it.
                let ending = Box::pin(waiting::run(&connection, &mut pipeline)).await;
                pipeline.give_back(&connection.local);
                ending
            }
            Err(ending) => ending,
        };
        match ending {
            Ending::Idle => connection.set_idle(),
            Ending::Close => {
                connection.channel.close();
                return;
            }
            Ending::Abort => return,
            Ending::Http2(input) => {
                let snapshot = connection.local.snapshot_of(&connection.listener);
                if let Some(options) = snapshot.http2_of(connection.listener.id) {
                    drop(snapshot);
                    Box::pin(http2::serve(connection, input, options)).await;
                }
                return;
            }
            Ending::Linger => {
                Box::pin(waiting::linger(&connection)).await;
                return;
            }
        }
    }
}

/// True for a handshake by which an authority has looked whether a name is ours.
fn has_answered_authority(connection: &Connection) -> bool {
    let transport = connection.channel.transport();
    let tls = transport.and_then(Transport::tls);
    tls.is_some_and(|tls| tls.has_agreed_on(tutti_tls::ACME_PROTOCOL))
}

/// The limits of HTTP/2, if the client and the listener have agreed to speak it.
fn agreed_on_http2(connection: &Connection) -> Option<Http2> {
    let tls = connection.channel.transport()?.tls()?;
    if !tls.has_agreed_on(b"h2") {
        return None;
    }
    let snapshot = connection.local.snapshot_of(&connection.listener);
    snapshot.http2_of(connection.listener.id)
}

/// The channel that the listener has for its connections at this moment.
fn channel(
    io: AsyncFd<OwnedFd>,
    listener: &Listener,
    local: &Rc<Local>,
) -> Result<Channel, rustls::Error> {
    let snapshot = local.snapshot_of(listener);
    let transport = match snapshot.offer_of(listener.id) {
        None => Transport::Plain(io),
        Some(offer) => {
            let challenges = local.shared.challenges.load();
            let session = Session::new(offer, Rc::clone(&local.buffers), Some(&challenges.tls))?;
            Transport::Tls(Box::new(TlsSocket::new(io, session)))
        }
    };
    Ok(Channel::Transport(transport))
}

/// Waits for requests and answers them, until there is work that takes longer (`Ok`) or the connection ends (`Err`).
fn poll_requests(
    connection: &mut Connection,
    cx: &mut Context<'_>,
) -> Poll<Result<Box<Pipeline>, Ending>> {
    loop {
        let mut input = connection.local.buffers.take();
        let received = connection.channel.poll_receive(&mut input, cx);
        match received {
            Poll::Ready(Ok(Received::Bytes(_))) => {}
            Poll::Ready(_) => {
                connection.local.buffers.give(input);
                return Poll::Ready(Err(Ending::Close));
            }
            Poll::Pending => {
                connection.local.buffers.give(input);
                return poll_idle(connection);
            }
        }
        connection.set_active();
        match answer(connection, input) {
            Ok(None) => connection.set_idle(),
            Ok(Some(pipeline)) => return Poll::Ready(Ok(pipeline)),
            Err(ending) => return Poll::Ready(Err(ending)),
        }
    }
}

/// Nothing came: has it waited too long, or is it to go?
fn poll_idle(connection: &mut Connection) -> Poll<Result<Box<Pipeline>, Ending>> {
    if connection.is_ending() {
        // One accepted a moment ago may have its first request on the way; where the server stops, one kept open its next. Nobody is to
        // answer by a listener that is no longer there.
        let is_gentle = connection.local.drains_gently();
        let may_wait = !connection.has_served || connection.local.is_draining();
        if !may_wait || (connection.is_hurried && connection.is_overdue()) {
            return Poll::Ready(Err(Ending::Close));
        }
        if !connection.is_hurried {
            connection.is_hurried = true;
            let patience = if is_gentle {
                LAST_REQUEST.as_millis() as Millis
            } else {
                LAST_MOMENT
            };
            connection.set_deadline(now_millis().saturating_add(patience));
        }
        return Poll::Pending;
    }
    if connection.is_overdue() {
        // As Unit documents `header_read_timeout` and `idle_timeout`, also for a connection that has sent nothing.
        let mut output = Output::default();
        let snapshot = connection.local.snapshot();
        respond::refusal(connection, &snapshot, 408, Method::Other).put(connection, &mut output);
        let _ = connection.channel.try_send(&mut output);
        return Poll::Ready(Err(Ending::Close));
    }
    Poll::Pending
}

/// Answers the requests in `input`.
fn answer(connection: &mut Connection, input: Vec<u8>) -> Result<Option<Box<Pipeline>>, Ending> {
    connection.has_served = true;
    let snapshot = connection.local.snapshot_of(&connection.listener);
    let output = Output::new(connection.local.buffers.take());
    let head = connection.local.take_head();
    let step = Step::ReadHead { deadline: None };
    // On the stack until it turns out that it must live longer.
    let mut pipeline = Pipeline {
        snapshot,
        input,
        position: 0,
        head,
        output,
        step,
        substitute: None,
    };
    pipeline.answer_complete(connection);
    let ending = match pipeline.step {
        Step::ReadHead { .. } if pipeline.position >= pipeline.input.len() => Ending::Idle,
        Step::End(Persistence::Close) => Ending::Close,
        Step::Linger => Ending::Linger,
        Step::Http2 => return Err(Ending::Http2(std::mem::take(&mut pipeline.input))),
        _ => return Ok(Some(Box::new(pipeline))),
    };
    match connection.channel.try_send(&mut pipeline.output) {
        Ok(true) => {}
        Ok(false) => return Ok(Some(Box::new(pipeline))),
        Err(_) => return Err(Ending::Abort),
    }
    pipeline.give_back(&connection.local);
    match ending {
        Ending::Idle => Ok(None),
        other => Err(other),
    }
}
