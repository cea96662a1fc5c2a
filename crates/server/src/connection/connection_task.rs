//! The task of a connection: waits for requests and answers at once those that need no waiting.
//!
//! When bytes arrive, a buffer is taken from the thread and read into, and [`http1`] answers complete requests. Everything else (an
//! incomplete head or body, a large file, an application, a full socket) moves into [`http1::start`], a boxed future that lives until the
//! connection is idle again: an idle one does not pay for it.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::Interest;
use tutti_config::model::Http2;
use tutti_conn::listener::Accepted;
use tutti_conn::output::Output;
use tutti_conn::socket::{self, ReadResult};
use tutti_conn::tls::{TlsRecords, TlsSocket};
use tutti_conn::transport::Transport;
use tutti_http::Method;
use tutti_pool::Level;

use crate::connection::handshake;
use crate::connection::http1::{self, Next, Reader, Work};
use crate::connection::http2;
use crate::connection::passthrough;
use crate::connection::proxy_header;
use crate::connection::{Counted, TcpConnection};
use crate::exchange::channel::Channel;
use crate::exchange::client::{ClientSide, Ends};
use crate::exchange::respond::{self, Persistence};
use crate::exchange_step::ExchangeStep;
use crate::local::Local;
use crate::pipeline::Ending;

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
    let channel = Channel::Transport(Transport::Plain(io));
    let counted = Counted::new(&local);
    let ends = Rc::new(Ends::new(local, accepted.listener, accepted.peer));
    let mut connection = TcpConnection {
        client: ClientSide::new(channel, ends, waker),
        counted,
        has_served: false,
        is_hurried: false,
    };
    connection.set_idle();
    if !proxy_header::receive(&mut connection).await {
        return;
    }
    if !passthrough::is_http(&connection).await {
        return;
    }
    if let Err(error) = begin_tls(&mut connection.client) {
        let line = format!("cannot begin TLS: {error}");
        connection.client.local.log(Level::Alert, &line);
        return;
    }
    if connection.client.channel.is_tls() && !Box::pin(handshake::shake(&connection.client)).await {
        return;
    }
    if has_answered_authority(&connection.client) {
        // The authority has what it needs (RFC 8737 §3).
        connection.client.channel.close();
        return;
    }
    if let Some(options) = agreed_on_http2(&connection.client) {
        Box::pin(http2::serve(connection, Vec::new(), options)).await;
        return;
    }
    loop {
        let ending = match poll_fn(|cx| poll_requests(&mut connection, cx)).await {
            Ok(mut work) => {
                let ending = http1::start(&connection.client, &mut work).await;
                work.reader.give_back(&connection.client.local);
                ending
            }
            Err(ending) => ending,
        };
        match ending {
            Ending::Idle => connection.set_idle(),
            Ending::Close => {
                connection.client.channel.close();
                return;
            }
            Ending::Abort => return,
            Ending::Http2(input) => {
                let snapshot = connection
                    .client
                    .local
                    .snapshot_of(&connection.client.listener);
                if let Some(options) = snapshot.http2_of(connection.client.listener.id) {
                    drop(snapshot);
                    Box::pin(http2::serve(connection, input, options)).await;
                }
                return;
            }
            Ending::Linger => {
                Box::pin(connection.client.linger()).await;
                return;
            }
        }
    }
}

/// True for a handshake by which an authority has checked a name.
fn has_answered_authority(client: &ClientSide) -> bool {
    let transport = client.channel.transport();
    let tls = transport.and_then(Transport::tls);
    tls.is_some_and(|tls| tls.has_agreed_on(tutti_tls::ACME_PROTOCOL))
}

/// The limits of HTTP/2, if it was negotiated.
fn agreed_on_http2(client: &ClientSide) -> Option<Http2> {
    let tls = client.channel.transport()?.tls()?;
    if !tls.has_agreed_on(b"h2") {
        return None;
    }
    let snapshot = client.local.snapshot_of(&client.listener);
    snapshot.http2_of(client.listener.id)
}

/// Puts TLS on the socket of a connection, if the listener has it now.
fn begin_tls(client: &mut ClientSide) -> Result<(), rustls::Error> {
    let snapshot = client.local.snapshot_of(&client.listener);
    let Some(offer) = snapshot.offer_of(client.listener.id) else {
        return Ok(());
    };
    let challenges = client.local.shared.challenges.load();
    let buffers = Rc::clone(&client.local.buffers);
    let session = TlsRecords::new(offer, buffers, Some(&challenges.tls))?;
    client.channel = match std::mem::replace(&mut client.channel, Channel::Discard) {
        Channel::Transport(Transport::Plain(io)) => {
            Channel::Transport(Transport::Tls(Box::new(TlsSocket::new(io, session))))
        }
        other => other,
    };
    Ok(())
}

/// Waits for requests and answers them, until work takes longer (`Ok`) or the connection ends (`Err`).
fn poll_requests(
    connection: &mut TcpConnection,
    cx: &mut Context<'_>,
) -> Poll<Result<Box<Work>, Ending>> {
    let mut input = connection.client.local.buffers.take();
    loop {
        let received = connection.client.channel.poll_receive(&mut input, cx);
        match received {
            Poll::Ready(Ok(ReadResult::Bytes(_))) => {}
            Poll::Ready(_) => {
                connection.client.local.buffers.give(input);
                return Poll::Ready(Err(Ending::Close));
            }
            Poll::Pending => {
                connection.client.local.buffers.give(input);
                return poll_idle(connection);
            }
        }
        connection.counted.set_active(true);
        match answer(connection, &mut input) {
            Ok(None) => {
                input.clear();
                connection.set_idle();
            }
            Ok(Some(work)) => return Poll::Ready(Ok(work)),
            Err(ending) => return Poll::Ready(Err(ending)),
        }
    }
}

/// Called when no bytes arrived: checks the deadline and whether the connection must end.
fn poll_idle(connection: &mut TcpConnection) -> Poll<Result<Box<Work>, Ending>> {
    let client = &connection.client;
    let (is_overdue, is_ending) = (client.is_overdue(), client.is_ending());
    if (is_overdue || is_ending) && client.channel.has_unread() {
        // The request arrived in time, and this thread ran too late: the event that wakes this task is on its way.
        return Poll::Pending;
    }
    if is_ending {
        // A connection accepted a moment ago may have its first request in transit; when the server stops, a kept one its next. A kept
        // connection of a listener that was removed waits for no request.
        let may_wait = !connection.has_served || connection.client.local.is_draining();
        if !may_wait || (connection.is_hurried && is_overdue) {
            return Poll::Ready(Err(Ending::Close));
        }
        if !connection.is_hurried {
            connection.is_hurried = true;
            connection.client.set_last_deadline();
        }
        return Poll::Pending;
    }
    if is_overdue {
        // As Unit documents `header_read_timeout` and `idle_timeout`, even for a connection that has sent nothing.
        let client = &connection.client;
        let mut output = Output::default();
        let snapshot = client.local.snapshot();
        let settings = snapshot
            .settings
            .get(snapshot.settings_of(client.listener.id));
        respond::refusal(client, settings, 408, Method::Other).put(client, &mut output);
        let _ = client.channel.try_send(&mut output);
        return Poll::Ready(Err(Ending::Close));
    }
    Poll::Pending
}

/// Answers the requests in `input`, and leaves its buffer there if the connection is idle after them.
fn answer(
    connection: &mut TcpConnection,
    input: &mut Vec<u8>,
) -> Result<Option<Box<Work>>, Ending> {
    let is_first = !std::mem::replace(&mut connection.has_served, true);
    let client = &connection.client;
    // On the stack until it must live longer.
    let mut work = Work {
        reader: Reader::new(client, std::mem::take(input), is_first),
        next: Next::Read,
    };
    work.next = work.reader.answer_complete(client);
    let messages = &mut work.reader.messages;
    let ending = match &work.next {
        Next::Read if messages.is_done() => Ending::Idle,
        Next::Exchange(_, ExchangeStep::End(Persistence::Close)) => Ending::Close,
        Next::Exchange(_, ExchangeStep::Linger) => Ending::Linger,
        Next::Http2 => return Err(Ending::Http2(std::mem::take(&mut messages.input))),
        _ => return Ok(Some(Box::new(work))),
    };
    match client.channel.try_send(&mut messages.output) {
        Ok(true) => {}
        Ok(false) => return Ok(Some(Box::new(work))),
        Err(_) => return Err(Ending::Abort),
    }
    let local = &client.local;
    match ending {
        Ending::Idle => {
            *input = work.reader.messages.give_back_to_reuse_input(local);
            Ok(None)
        }
        other => {
            work.reader.give_back(local);
            Err(other)
        }
    }
}
