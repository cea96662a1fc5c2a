//! A connection to the API server: HTTP/1.1 over TLS, one request after another.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use socket2::{SockRef, TcpKeepalive};
use tokio::task::JoinSet;
use tutti_dialer::{DialTarget, authorities, client_config, dial, error_chain};

use crate::failure::FollowError;
use crate::objects::Status;

/// Time limit for the API server to connect, to answer, and for each part of an answer other than a watch.
const PATIENCE: Duration = Duration::from_secs(15);

/// A peer that vanishes silently is noticed after 15 + 3 × 5 seconds.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(15), Duration::from_secs(5), 3);

/// The longest answer other than a watch.
const LONGEST_ANSWER: usize = 64 << 20;

/// The longest rejection that is read.
const LONGEST_REFUSAL: usize = 64 << 10;

/// The address of the API server, and the credentials for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterAccess {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The file with its CA certificates.
    pub ca: PathBuf,
    /// The file with the token that authenticates this server.
    pub token_file: PathBuf,
}

/// The current files that a connection needs.
pub(crate) struct Credentials {
    pub(crate) ca: Vec<u8>,
    pub(crate) token: String,
}

/// Dropping it ends the connection.
pub(crate) struct ApiConnection {
    sender: SendRequest<Empty<Bytes>>,
    _driver: JoinSet<hyper::Result<()>>,
    host: String,
}

impl ApiConnection {
    /// Connects to the first of the addresses that responds.
    pub(crate) async fn open(
        access: &ClusterAccess,
        addresses: &[IpAddr],
        ca: &[u8],
    ) -> Result<Self, FollowError> {
        let place = match access.host.contains(':') {
            true => format!("[{}]:{}", access.host, access.port),
            false => format!("{}:{}", access.host, access.port),
        };
        let roots = authorities(ca).map_err(|error| {
            let file = access.ca.display();
            FollowError::new(format!(
                "the certificates in `{file}` cannot be used: {error}"
            ))
        })?;
        let config = Arc::new(client_config(roots, None).map_err(FollowError::new)?);
        let target = DialTarget {
            host: &access.host,
            port: access.port,
            addresses: Some(addresses),
            tls: Some(&config),
            server_name: None,
            patience: Some(PATIENCE),
        };
        let failed = |why: String| {
            FollowError::new(format!("cannot connect to the API server {place}: {why}"))
        };
        let stream = dial(&target)
            .await
            .map_err(|error| failed(error.to_string()))?;
        let (idle, interval, probes) = KEEPALIVE;
        let keepalive = TcpKeepalive::new()
            .with_time(idle)
            .with_interval(interval)
            .with_retries(probes);
        SockRef::from(stream.socket())
            .set_tcp_keepalive(&keepalive)
            .map_err(|error| failed(error.to_string()))?;
        let shaken = handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|error| failed(error_chain(&error)))?;
        // The next request notices its end.
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        Ok(ApiConnection {
            sender,
            _driver: driver,
            host: place,
        })
    }

    /// Sends a request, and returns the head of a 200 response with its body to follow.
    pub(crate) async fn get(
        &mut self,
        target: &str,
        token: &str,
        namespace: &str,
    ) -> Result<Response<Incoming>, FollowError> {
        let request = Request::get(target)
            .header(header::HOST, &self.host)
            .header(header::ACCEPT, "application/json")
            .header(header::AUTHORIZATION, format!("Bearer {token}"))
            .header(header::USER_AGENT, "tutti")
            .body(Empty::new())
            // A token with characters that are not allowed in a field.
            .map_err(|_| FollowError::new("the token file does not contain a token"))?;
        let answer = async {
            self.sender.ready().await?;
            self.sender.send_request(request).await
        };
        let answer = tokio::time::timeout(PATIENCE, answer)
            .await
            .map_err(|_| silent())?
            .map_err(|error| {
                FollowError::new(format!("the API server: {}", error_chain(&error)))
            })?;
        if answer.status() == http::StatusCode::OK {
            return Ok(answer);
        }
        let status = answer.status().as_u16();
        let body = whole(answer, LONGEST_REFUSAL).await.unwrap_or_default();
        let refusal: Status = serde_json::from_slice(&body).unwrap_or_default();
        Err(FollowError::of_status(status, &refusal.message, namespace))
    }

    /// Sends a request, and returns the whole body of a 200 response.
    pub(crate) async fn get_whole(
        &mut self,
        target: &str,
        token: &str,
        namespace: &str,
    ) -> Result<Vec<u8>, FollowError> {
        whole(self.get(target, token, namespace).await?, LONGEST_ANSWER).await
    }
}

async fn whole(answer: Response<Incoming>, most: usize) -> Result<Vec<u8>, FollowError> {
    let mut body = answer.into_body();
    let mut bytes = Vec::new();
    while let Some(piece) = piece(&mut body, PATIENCE).await? {
        if bytes.len() + piece.len() > most {
            let limit = most >> 10;
            return Err(FollowError::new(format!(
                "the answer of the API server exceeds {limit} KiB"
            )));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

/// Returns the next part of a body, within a time limit.
pub(crate) async fn piece(
    body: &mut Incoming,
    patience: Duration,
) -> Result<Option<Bytes>, FollowError> {
    let frame = tokio::time::timeout(patience, body.frame()).await;
    match frame.map_err(|_| silent())? {
        None => Ok(None),
        Some(Ok(frame)) => Ok(Some(frame.into_data().unwrap_or_default())),
        Some(Err(error)) => Err(FollowError::new(format!(
            "the answer of the API server is cut short: {}",
            error_chain(&error)
        ))),
    }
}

fn silent() -> FollowError {
    FollowError::new("the API server does not answer in time")
}
