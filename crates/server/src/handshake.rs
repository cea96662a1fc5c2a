//! From a connection that has been accepted to one with TLS on it, or to the reason why not.
//!
//! Must never: wait for a client without a deadline, or let one that only tries the port fill the log.

use std::future::poll_fn;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll};

use rustix::net::Shutdown;
use tokio::io::unix::AsyncFd;
use tutti_pool::Level;

use crate::channel::Channel;
use crate::clock::{Millis, now_millis};
use crate::connection::Connection;
use crate::output::Output;
use crate::refusals::Unread;
use crate::respond;
use crate::socket::{Attempt, Received, poll_attempt, poll_receive, try_send};
use crate::tls::channel::TlsChannel;
use crate::tls::session::{End, Session};

/// What a client that speaks plain HTTP is told.
const HINT: &str = "This port speaks HTTPS: the address begins with https://\n";

/// How long a handshake may still take when the listener is being closed.
const LAST_MOMENT: Millis = 500;

/// How long a client that was told so is listened to.
const LISTEN_ON: Millis = 2_000;

/// Why there is no TLS on a connection.
enum Failure {
    /// It broke, before anything came or in the middle.
    Gone { has_begun: bool },
    /// It took too long.
    TimedOut,
    /// The client speaks HTTP without TLS.
    Plain,
    /// What rustls says of it.
    Tls(rustls::Error),
}

/// Shakes hands, within the deadline that the connection has; false if it ends, the reason being logged.
pub(crate) async fn shake(connection: &Connection) -> bool {
    let Channel::Tls(tls) = &connection.channel else {
        return true;
    };
    let mut is_hurried = false;
    let outcome = poll_fn(|cx| {
        if connection.is_ending() && !std::mem::replace(&mut is_hurried, true) {
            connection.set_deadline(now_millis().saturating_add(LAST_MOMENT));
        }
        match poll(tls.io(), &mut tls.session.borrow_mut(), cx) {
            Poll::Pending if connection.is_overdue() => Poll::Ready(Err(Failure::TimedOut)),
            polled => polled,
        }
    })
    .await;
    let Err(failure) = outcome else {
        return true;
    };
    log(connection, &failure);
    if matches!(failure, Failure::Plain) {
        answer_plain(connection, tls).await;
    }
    false
}

/// Tells a client that speaks plain HTTP, and listens for a moment to what it still sends, or the reset might overtake the answer.
async fn answer_plain(connection: &Connection, tls: &TlsChannel) {
    let mut output = Output::default();
    let snapshot = connection.local.snapshot();
    respond::hint(&mut output.bytes, &connection.local, &snapshot, HINT);
    connection.note_request();
    let head_bytes = output.bytes.len().saturating_sub(HINT.len());
    Unread {
        connection,
        snapshot: &snapshot,
        status: 400,
        reason: "",
        head: output.bytes.get(..head_bytes).unwrap_or_default(),
        body_bytes: HINT.len() as u64,
    }
    .log_access();
    // Whoever does not take it does not wait for it.
    let _ = try_send(tls.socket(), &mut output);
    if rustix::net::shutdown(tls.socket(), Shutdown::Write).is_err() {
        return;
    }
    connection.set_deadline(now_millis().saturating_add(LISTEN_ON));
    poll_fn(|cx| {
        let session = &mut *tls.session.borrow_mut();
        loop {
            session.incoming.clear();
            match poll_receive(tls.io(), session.room(), cx) {
                Poll::Ready(Ok(Received::Bytes(_))) if !connection.is_overdue() => {}
                Poll::Pending if !connection.is_overdue() => return Poll::Pending,
                _ => return Poll::Ready(()),
            }
        }
    })
    .await;
}

/// Goes on with the handshake as far as the client does.
fn poll(
    io: &AsyncFd<OwnedFd>,
    session: &mut Session,
    cx: &mut Context<'_>,
) -> Poll<Result<(), Failure>> {
    loop {
        if let Err(error) = session.process(None) {
            // The client is told by an alert, if it takes it at once.
            let _ = try_send(io.get_ref(), &mut session.outgoing);
            return Poll::Ready(Err(Failure::Tls(error)));
        }
        let has_begun = session.has_begun;
        while !session.outgoing.is_empty() {
            let sent = poll_attempt(io, cx, |socket| {
                Ok(match try_send(socket, &mut session.outgoing)? {
                    true => Attempt::Progress,
                    false => Attempt::Full,
                })
            });
            match sent {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(Err(Failure::Gone { has_begun })),
                Poll::Pending => return Poll::Pending,
            }
        }
        if !session.is_handshaking() {
            session.let_go();
            return Poll::Ready(Ok(()));
        }
        if session.end != End::Open {
            return Poll::Ready(Err(Failure::Gone { has_begun }));
        }
        match poll_receive(io, session.room(), cx) {
            Poll::Ready(Ok(Received::Bytes(_))) => {}
            Poll::Ready(_) => return Poll::Ready(Err(Failure::Gone { has_begun })),
            Poll::Pending => {
                session.let_go();
                return Poll::Pending;
            }
        }
        // A record of a handshake begins with 22 (RFC 8446 §5.1), a request with a method.
        let first = session.incoming.first();
        if !has_begun && first.is_some_and(u8::is_ascii_uppercase) {
            return Poll::Ready(Err(Failure::Plain));
        }
        session.has_begun = true;
    }
}

/// Says why to the log.
fn log(connection: &Connection, failure: &Failure) {
    let reason = match failure {
        // Something that only looks whether the port is open.
        Failure::Gone { has_begun: false } => return,
        Failure::Gone { has_begun: true } => "the client went away".to_owned(),
        Failure::TimedOut => "the client took too long".to_owned(),
        Failure::Plain => "the client speaks HTTP without TLS".to_owned(),
        Failure::Tls(error) => error.to_string(),
    };
    let client = connection
        .peer
        .address()
        .map_or_else(|| "unix:".to_owned(), |address| address.to_string());
    let listener = &connection.listener.name;
    let message = format!("no TLS with {client} on \"{listener}\": {reason}");
    connection.local.mention(Level::Info, &message);
}
