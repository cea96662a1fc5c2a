//! PROXY protocol headers: who a connection is from, said by a proxy before us at its start.
//!
//! Looked for only on connections from the proxies that the listener names; those must have one. The bytes are looked at before they
//! are taken, so that whatever follows the header (a request, a TLS handshake) is found where it always is.
//!
//! Must never: believe anybody else, or serve a connection from a proxy whose header did not come whole and in time.

use std::future::poll_fn;
use std::task::{Context, Poll};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use tutti_gateway::proxy_protocol::{self, Announced, MAX_BYTES, Malformed, Progress};
use tutti_pool::Level;

use crate::clock::now_millis;
use crate::connection::{Connection, LAST_MOMENT};

/// What stands against serving the connection.
enum Fault {
    Malformed(Malformed),
    Overdue,
    /// It has been closed; whoever did knows why.
    Closed,
}

impl From<Errno> for Fault {
    fn from(_: Errno) -> Self {
        Self::Closed
    }
}

/// Reads the header, if the connection must have one. False: it cannot be served.
pub(crate) async fn receive(connection: &mut Connection) -> bool {
    let snapshot = connection.local.snapshot_of(&connection.listener);
    let entry = snapshot
        .position_of(connection.listener.id)
        .and_then(|position| snapshot.listeners.get(position));
    let proxies = entry.and_then(|entry| entry.proxy_protocol.as_ref());
    if !proxies.is_some_and(|proxies| proxies.matches(connection.peer.address())) {
        return true;
    }
    match poll_fn(|cx| poll(connection, cx)).await {
        Ok(announced) => {
            connection.announced = announced;
            true
        }
        Err(fault) => {
            let what = match fault {
                Fault::Malformed(malformed) => malformed.to_string(),
                Fault::Overdue => "its PROXY header did not come in time".to_owned(),
                Fault::Closed => return false,
            };
            let from = connection
                .peer
                .address()
                .map_or_else(|| "unix:".to_owned(), |peer| peer.to_string());
            let name = &connection.listener.name;
            let text = format!("connection from proxy {from} on \"{name}\" closed: {what}");
            connection.local.complain(Level::Error, &text);
            false
        }
    }
}

fn poll(
    connection: &mut Connection,
    cx: &mut Context<'_>,
) -> Poll<Result<Option<Announced>, Fault>> {
    let Some(io) = connection.channel.io() else {
        return Poll::Ready(Err(Fault::Closed));
    };
    while let Poll::Ready(ready) = io.poll_read_ready(cx) {
        let Ok(mut guard) = ready else {
            return Poll::Ready(Err(Fault::Closed));
        };
        let mut bytes = [0; MAX_BYTES];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(io.get_ref(), &mut bytes, flags) {
            Ok((_, 0)) => return Poll::Ready(Err(Fault::Closed)),
            Ok((_, count)) => {
                let bytes = bytes.get(..count).unwrap_or_default();
                match proxy_protocol::read(bytes).map_err(Fault::Malformed)? {
                    Progress::Complete { announced, length } => {
                        let mut header = vec![0; length];
                        // They are there: this takes exactly the header.
                        rustix::net::recv(io.get_ref(), &mut *header, RecvFlags::DONTWAIT)?;
                        return Poll::Ready(Ok(Some(announced)));
                    }
                    // What has been looked at stays; more of it wakes this task.
                    Progress::Incomplete => guard.clear_ready(),
                }
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => guard.clear_ready(),
            Err(errno) => return Poll::Ready(Err(errno.into())),
        }
    }
    if connection.is_overdue() {
        return Poll::Ready(Err(Fault::Overdue));
    }
    if connection.is_ending() && !connection.is_hurried {
        connection.is_hurried = true;
        connection.set_deadline(now_millis().saturating_add(LAST_MOMENT));
    }
    Poll::Pending
}
