//! The TLS handshake of an accepted connection: within its deadline, and with a line in the log when it fails.
//!
//! Must never: wait for a client without a deadline, or let port checks fill the log.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::Poll;

use rustix::net::Shutdown;
use tokio::sync::oneshot;
use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::counters::NoTls;
use tutti_conn::output::Output;
use tutti_conn::socket::try_send;
use tutti_conn::tls::{HandshakeError, TlsSocket};
use tutti_conn::transport::Transport;
use tutti_pool::Level;
use tutti_tls::{CertificateResult, Hello, Offer};

use crate::exchange::Exchange;
use crate::exchange::client::ClientSide;
use crate::exchange::refusals::Unread;
use crate::exchange::respond;

/// The text for a client that speaks plain HTTP.
const HINT: &str = "This port speaks HTTPS: the address begins with https://\n";

/// Maximum time of a handshake after its certificate has been issued.
const AFTER_CERTIFICATE: Millis = 10_000;

/// Time for which the connection of a client that is refused is still read.
const LISTEN_ON: Millis = 2_000;

/// Does the handshake, within the connection's deadline; false if it fails, which has been logged.
pub(crate) async fn shake(client: &ClientSide) -> bool {
    let Some(tls) = client.channel.transport().and_then(Transport::tls) else {
        return true;
    };
    let refusal = certificate(client, tls).await;
    let mut is_hurried = false;
    // `Err(None)`: it took too long.
    let outcome = poll_fn(|cx| {
        if client.is_ending() && !std::mem::replace(&mut is_hurried, true) {
            client.set_last_deadline();
        }
        match tls.poll_handshake(cx) {
            Poll::Pending if client.is_overdue() => Poll::Ready(Err(None)),
            polled => polled.map_err(Some),
        }
    })
    .await;
    let counters = &client.listener.counters;
    match outcome {
        Ok(()) => {
            counters.handshakes.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        // A port check.
        Err(Some(HandshakeError::Untouched)) => {}
        Err(None) => {
            counters.note_no_tls(NoTls::Timeout);
            log(client, "the client took too long");
        }
        Err(Some(error)) => {
            counters.note_no_tls(match error {
                HandshakeError::Plain => NoTls::Plain,
                HandshakeError::Gone => NoTls::Closed,
                _ => NoTls::Protocol,
            });
            match refusal.filter(|_| matches!(error, HandshakeError::NoCertificate)) {
                Some(refusal) => log(client, &refusal),
                None => log(client, &error.to_string()),
            }
            match error {
                HandshakeError::Plain => answer_plain(client, tls).await,
                HandshakeError::Gone => {}
                // It has been sent an alert.
                _ => discard(client, tls).await,
            }
        }
    }
    false
}

/// Waits for the certificate of the requested name, if it is obtained on demand. Returns why there is none.
async fn certificate(client: &ClientSide, tls: &TlsSocket) -> Option<String> {
    let snapshot = client.local.snapshot_of(&client.listener);
    let on_demand = snapshot.offer_of(client.listener.id)?.on_demand()?;
    let timeout = on_demand.timeout();
    let mut hello = Hello::default();
    let name = poll_fn(|cx| match tls.poll_hello(&mut hello, cx) {
        Poll::Pending if client.is_overdue() || client.is_ending() => Poll::Ready(None),
        polled => polled,
    });
    let name = name.await?;
    let address = client.client_address();
    let offer = snapshot.offer_of(client.listener.id)?;
    let outcome = offer.want(&name, address.map(|address| address.ip()))?;
    drop(snapshot);
    let timeout = Millis::try_from(timeout.as_millis()).unwrap_or(Millis::MAX);
    client.set_deadline(now_millis().saturating_add(timeout));
    let outcome = outcome_of(client, outcome).await;
    client.set_deadline(now_millis().saturating_add(AFTER_CERTIFICATE));
    let snapshot = client.local.snapshot_of(&client.listener);
    let challenges = client.local.shared.challenges.load();
    let renew = |offer: &Offer| tls.renew(offer, Some(&challenges.tls));
    match outcome {
        // The listener may be gone: the handshake continues as it began.
        Ok(()) => snapshot
            .offer_of(client.listener.id)
            .map(renew)?
            .err()
            .map(|error| error.to_string()),
        Err(why) => Some(format!("no certificate for `{name}`: {why}")),
    }
}

/// Waits for a certificate, until the deadline of the connection or its end.
async fn outcome_of(
    client: &ClientSide,
    mut outcome: oneshot::Receiver<CertificateResult>,
) -> CertificateResult {
    poll_fn(|cx| match Pin::new(&mut outcome).poll(cx) {
        Poll::Ready(outcome) => Poll::Ready(
            outcome.unwrap_or_else(|_| Err("the server does not obtain it any more".to_owned())),
        ),
        Poll::Pending if client.is_overdue() => Poll::Ready(Err(
            "it was not issued in time; its order continues".to_owned(),
        )),
        Poll::Pending if client.is_ending() => {
            Poll::Ready(Err("the listener is being closed".to_owned()))
        }
        Poll::Pending => Poll::Pending,
    })
    .await
}

/// Answers a client that speaks plain HTTP.
async fn answer_plain(client: &ClientSide, tls: &TlsSocket) {
    let mut output = Output::default();
    let snapshot = client.local.snapshot();
    let settings = snapshot.settings_of(client.listener.id);
    let head = respond::hint(&client.local, snapshot.settings.get(settings), HINT);
    let exchange = Exchange::new(client, settings, None);
    Unread {
        client,
        exchange: &exchange,
        snapshot: &snapshot,
        status: 400,
        reason: "",
        head: &head.fields,
        body_bytes: HINT.len() as u64,
    }
    .log_access();
    head.write_http1(&mut output.bytes);
    output.bytes.extend_from_slice(HINT.as_bytes());
    // It is not waited for.
    let _ = try_send(tls.socket(), &mut output);
    discard(client, tls).await;
}

/// Shuts down the sending side, and reads for a moment: closing a socket with unread bytes resets the connection, and the reset may overtake
/// what was sent.
async fn discard(client: &ClientSide, tls: &TlsSocket) {
    if rustix::net::shutdown(tls.socket(), Shutdown::Write).is_err() {
        return;
    }
    client.set_deadline(now_millis().saturating_add(LISTEN_ON));
    poll_fn(|cx| {
        loop {
            match tls.poll_discard(cx) {
                Poll::Ready(true) if !client.is_overdue() => {}
                Poll::Pending if !client.is_overdue() => return Poll::Pending,
                _ => return Poll::Ready(()),
            }
        }
    })
    .await;
}

/// Logs that the handshake failed.
fn log(client: &ClientSide, reason: &str) {
    let address = client
        .peer
        .address()
        .map_or_else(|| "unix:".to_owned(), |address| address.to_string());
    let listener = &client.listener.name;
    let message = format!("no TLS with {address} on \"{listener}\": {reason}");
    client.local.log_client_error(Level::Info, &message);
}
