//! PROXY protocol headers: a trusted proxy announces the client at the start of a connection.
//!
//! Expected only on connections from the proxies that the listener names; those must have one.
//!
//! Must never: trust another sender, or serve a connection from a proxy whose header was incomplete or late.

use std::future::poll_fn;
use std::task::Poll;

use tutti_conn::proxy_header::{ProxyHeaderError, poll_proxy_header};
use tutti_conn::transport::Transport;
use tutti_pool::Level;

use crate::connection::TcpConnection;

/// Reads the header, if the connection must have one. False: it cannot be served.
pub(crate) async fn receive(connection: &mut TcpConnection) -> bool {
    let snapshot = connection
        .client
        .local
        .snapshot_of(&connection.client.listener);
    let entry = snapshot
        .position_of(connection.client.listener.id)
        .and_then(|position| snapshot.listeners.get(position));
    let proxies = entry.and_then(|entry| entry.proxy_protocol.as_ref());
    if !proxies.is_some_and(|proxies| proxies.matches(connection.client.peer.address())) {
        return true;
    }
    // `Err(None)`: it did not arrive in time.
    let outcome = poll_fn(|cx| {
        let Some(io) = connection.client.channel.transport().map(Transport::io) else {
            return Poll::Ready(Err(Some(ProxyHeaderError::Closed)));
        };
        if let Poll::Ready(outcome) = poll_proxy_header(io, cx) {
            return Poll::Ready(outcome.map_err(Some));
        }
        if connection.client.is_overdue() {
            return Poll::Ready(Err(None));
        }
        if connection.client.is_ending() && !connection.is_hurried {
            connection.is_hurried = true;
            connection.client.set_last_deadline();
        }
        Poll::Pending
    })
    .await;
    let reason = match outcome {
        Ok(proxied) => {
            connection.client.note_proxied(proxied);
            return true;
        }
        Err(Some(ProxyHeaderError::Closed)) => return false,
        Err(Some(error)) => error.to_string(),
        Err(None) => "its PROXY header did not arrive in time".to_owned(),
    };
    let from = connection
        .client
        .peer
        .address()
        .map_or_else(|| "unix:".to_owned(), |peer| peer.to_string());
    let name = &connection.client.listener.name;
    let text = format!("connection from proxy {from} on \"{name}\" closed: {reason}");
    connection.client.local.log_failure(Level::Error, &text);
    false
}
