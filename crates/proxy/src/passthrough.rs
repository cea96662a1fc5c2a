//! Connections and datagrams that are passed to a server as they are: selects the server, connects, and makes the tunnel.
//!
//! Retries, rest times and the queue are those of requests. No byte of the client is sent before there is a connection,
//! so that another server can be tried when one does not accept it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tutti_conn::clock::{Millis, millis, now_millis};
use tutti_gateway::proxy_protocol::{self, Addresses};
use tutti_log::Level;
use tutti_upstream::{
    GroupServer, ServerClaim, ServerGroup, Tried, UpstreamConnection, UpstreamError, WhenFull,
};

use crate::cgi::frame::write_announcement;
use crate::forward::{rest_line, status};
use crate::tunnel::Tunnel;

/// A connection that is to be passed on.
#[derive(Clone, Copy, Debug)]
pub struct PassedConnection<'c> {
    /// The servers.
    pub upstream: &'c Arc<ServerGroup>,
    /// The value that a hash uses.
    pub key: &'c [u8],
    /// The addresses of the client and of this server, for a PROXY protocol header.
    pub ends: Option<(SocketAddr, SocketAddr)>,
}

/// Receives the events on the way to a server.
pub trait PassedClient {
    /// This server is tried.
    fn note_attempt(&self, server: &Arc<GroupServer>);
    /// It has accepted the connection.
    fn note_connected(&self);
    /// It has not, which means this status.
    fn note_failed(&self, status: u16);
    /// Logs a line.
    fn log(&self, level: Level, line: &str);
    /// Logs a line about a failure, which may occur for very many connections at once.
    fn log_limited(&self, line: &str);
}

/// The search for a server of an upstream that takes a connection, or the datagrams of a client.
pub struct ServerSearch<'c> {
    connection: PassedConnection<'c>,
    /// When no further server is tried.
    until: Option<Millis>,
    tried: Tried,
    last_failure: Option<u16>,
}

impl<'c> ServerSearch<'c> {
    /// Begins the search.
    pub fn new(connection: PassedConnection<'c>) -> Self {
        let until = connection.upstream.options().retry_timeout.0;
        Self {
            connection,
            until: until.map(|time| now_millis().saturating_add(millis(time))),
            tried: Tried::new(),
            last_failure: None,
        }
    }

    /// Claims the next server.
    ///
    /// # Errors
    /// There is none: the status that this means.
    pub async fn next(&mut self, client: &impl PassedClient) -> Result<ServerClaim, u16> {
        let PassedConnection { upstream, key, .. } = self.connection;
        let claiming = upstream.claim_in_time(key, &self.tried, WhenFull::Wait, now_millis);
        match claiming.await {
            Ok(claim) => {
                client.note_attempt(claim.server());
                Ok(claim)
            }
            Err(unavailable) => {
                if self.last_failure.is_none() {
                    let name = upstream.name();
                    client.log_limited(&format!("upstream \"{name}\" {unavailable}"));
                }
                Err(self.last_failure.unwrap_or_else(|| status(unavailable)))
            }
        }
    }

    /// Tries no other server from now on.
    pub fn end(&mut self) {
        self.until = Some(0);
    }

    /// Notes that the server has failed.
    ///
    /// # Errors
    /// No other server is to be tried: the status that the failure means.
    pub fn failed(
        &mut self,
        client: &impl PassedClient,
        claim: &ServerClaim,
        failure: &UpstreamError,
    ) -> Result<(), u16> {
        let upstream = self.connection.upstream;
        let (name, server) = (upstream.name(), claim.server().name());
        client.log_limited(&format!("upstream \"{name}\": server {server}: {failure}"));
        if !failure.spares_server() && claim.failed(now_millis()) {
            client.log(Level::Warn, &rest_line(upstream, claim));
        }
        let status = failure.status();
        client.note_failed(status);
        let has_time = self.until.is_none_or(|until| now_millis() < until);
        if !has_time || !upstream.retries_after(failure, &self.tried) {
            return Err(status);
        }
        upstream.note_retry();
        self.last_failure = Some(status);
        self.tried.push(claim.server().id());
        Ok(())
    }
}

/// Connects to a server.
///
/// # Errors
/// No server accepted the connection: the status that this means.
pub async fn open_tunnel(
    connection: PassedConnection<'_>,
    client: &impl PassedClient,
) -> Result<Tunnel, u16> {
    let options = connection.upstream.options();
    let mut search = ServerSearch::new(connection);
    loop {
        let claim = search.next(client).await?;
        match connect(&connection, &claim).await {
            Ok(opened) => {
                client.note_connected();
                claim.succeeded(now_millis());
                return Ok(Tunnel {
                    claim,
                    connection: opened,
                    received: Vec::new(),
                    timeout: millis(options.tunnel_timeout),
                    frames: None,
                });
            }
            Err(failure) => search.failed(client, &claim, &failure)?,
        }
    }
}

/// The PROXY protocol header that precedes the first datagram for a server of this upstream.
pub fn datagram_header(connection: &PassedConnection<'_>) -> Vec<u8> {
    let mut header = Vec::new();
    if connection.upstream.options().proxy_protocol.is_some()
        && let Some((source, destination)) = connection.ends
    {
        let addresses = Addresses {
            source,
            destination,
        };
        proxy_protocol::write_for_datagrams(&mut header, addresses);
    }
    header
}

async fn connect(
    connection: &PassedConnection<'_>,
    claim: &ServerClaim,
) -> Result<UpstreamConnection, UpstreamError> {
    let options = connection.upstream.options();
    let mut greeting = Vec::new();
    if let Some(version) = options.proxy_protocol {
        write_announcement(&mut greeting, version, connection.ends);
    }
    let limit: Duration = options.connect_timeout;
    let opening = UpstreamConnection::open_stream(claim.server(), &greeting);
    let opened = timeout(limit, opening).await;
    opened.unwrap_or(Err(UpstreamError::ConnectTimeout(limit)))
}
