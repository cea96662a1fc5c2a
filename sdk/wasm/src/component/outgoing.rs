//! Requests that the component sends: only where `access.network` allows them.
//!
//! HTTP/1.1, a connection for each; TLS with the system's certificates. What must never happen: a request to a host that the configuration does not name.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::uri::{PathAndQuery, Scheme, Uri};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use rustls::ClientConfig;
use tokio::time::{Sleep, timeout};
use tutti_dialer::{client_config, dial, system_authorities};
use tutti_options::wasm::NetworkDestination;
use tutti_worker::Level;
use wasmtime_wasi_http::io::TokioIo;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use crate::log;

/// Time for a connection, for the first byte of an answer, and between two pieces of it, unless the component says otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Where requests may go, and how TLS is begun.
#[derive(Clone)]
pub(crate) struct Network {
    allowed: Arc<[NetworkDestination]>,
    /// Made for the first request that needs it.
    tls: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl Network {
    pub(crate) fn new(allowed: Arc<[NetworkDestination]>) -> Self {
        let tls = Arc::default();
        Self { allowed, tls }
    }

    /// Trusts the root certificates of the system.
    fn tls(&self) -> Result<&Arc<ClientConfig>, Error> {
        if let Some(config) = self.tls.get() {
            return Ok(config);
        }
        let config = system_authorities().and_then(|roots| client_config(roots, None));
        let config = config.map_err(|why| Error::Tls(io::Error::other(why)))?;
        Ok(self.tls.get_or_init(|| Arc::new(config)))
    }
}

/// The way out of one instance.
pub(crate) struct Outgoing {
    network: Network,
    /// The request that it serves, as the log names it.
    title: Arc<str>,
}

impl Outgoing {
    pub(crate) fn new(network: Network, title: Arc<str>) -> Self {
        Self { network, title }
    }

    /// Begins another request of the same instance.
    pub(crate) fn serves(&mut self, title: Arc<str>) {
        self.title = title;
    }

    /// Where the request goes, if it may.
    fn destination(&self, uri: &Uri) -> Result<Target, Error> {
        let host = uri.host().ok_or(Error::HttpRequestUriInvalid)?.to_owned();
        let is_tls = uri.scheme() == Some(&Scheme::HTTPS);
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        if self
            .network
            .allowed
            .iter()
            .any(|allowed| allowed.allows(&host, port))
        {
            return Ok(Target { host, port, is_tls });
        }
        let entry = match port {
            80 | 443 => host.clone(),
            port => format!("{host}:{port}"),
        };
        let message = format!(
            "{}: the component was refused a request to {host}, port {port}; `\"access\": {{\"network\": [\"{entry}\"]}}` allows it",
            self.title
        );
        log::write(Level::Error, &message);
        Err(Error::HttpRequestDenied)
    }
}

type Outcome = Result<
    (
        Response<WasiBody>,
        Box<dyn Future<Output = Result<(), Error>> + Send>,
    ),
    Error,
>;

impl WasiHttpHooks for Outgoing {
    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _sent: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Outcome> + Send> {
        let target = self.destination(request.uri());
        let network = self.network.clone();
        let times = Times::of(options);
        Box::new(async move { send(&network, target?, request, times).await })
    }
}

/// A server.
struct Target {
    host: String,
    port: u16,
    is_tls: bool,
}

#[derive(Clone, Copy)]
struct Times {
    connect: Duration,
    first_byte: Duration,
    between_bytes: Duration,
}

impl Times {
    fn of(options: Option<RequestOptions>) -> Self {
        let options = options.unwrap_or_default();
        Self {
            connect: options.connect_timeout.unwrap_or(DEFAULT_TIMEOUT),
            first_byte: options.first_byte_timeout.unwrap_or(DEFAULT_TIMEOUT),
            between_bytes: options.between_bytes_timeout.unwrap_or(DEFAULT_TIMEOUT),
        }
    }
}

async fn send(
    network: &Network,
    target: Target,
    mut request: Request<WasiBody>,
    times: Times,
) -> Outcome {
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", PathAndQuery::as_str);
    // The form of a request to a server (RFC 9112 §3.2.1).
    let path = Uri::try_from(path).map_err(|_| Error::HttpRequestUriInvalid)?;
    *request.uri_mut() = path;
    let connecting = connect(network, &target);
    let (mut sender, mut connection) = timeout(times.connect, connecting)
        .await
        .map_err(|_| Error::ConnectionTimeout)??;
    let mut answer = pin!(timeout(times.first_byte, sender.send_request(request)));
    let mut has_ended = false;
    let answer = std::future::poll_fn(|context| {
        if !has_ended && let Poll::Ready(outcome) = connection.as_mut().poll(context) {
            has_ended = true;
            if let Err(error) = outcome {
                return Poll::Ready(Err(error));
            }
        }
        answer.as_mut().poll(context).map(|answer| match answer {
            Ok(answer) => answer.map_err(Error::from),
            Err(_) => Err(Error::ConnectionReadTimeout),
        })
    })
    .await?;
    let answer = answer.map(|body| Timed::new(body, times.between_bytes).boxed_unsync());
    let goes_on = async move {
        match has_ended {
            true => Ok(()),
            false => connection.await,
        }
    };
    Ok((answer, Box::new(goes_on)))
}

type ConnectionTask = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

async fn connect(
    network: &Network,
    target: &Target,
) -> Result<(http1::SendRequest<WasiBody>, ConnectionTask), Error> {
    let tls = match target.is_tls {
        true => Some(network.tls()?),
        false => None,
    };
    let peer = tutti_dialer::DialTarget {
        host: &target.host,
        port: target.port,
        addresses: None,
        tls,
        server_name: None,
        patience: None,
    };
    let stream = dial(&peer).await.map_err(|error| match error {
        tutti_dialer::DialError::Connect(error) => Error::Connect(error),
        tutti_dialer::DialError::Tls(error) => Error::Tls(error),
        _ => Error::DnsError {
            rcode: Some("not a valid name".to_owned()),
            info_code: None,
        },
    })?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    Ok((
        sender,
        Box::pin(async move { connection.await.map_err(Error::from) }),
    ))
}

/// A body that may pause for so long.
struct Timed {
    body: Incoming,
    pause: Duration,
    until: Pin<Box<Sleep>>,
}

impl Timed {
    fn new(body: Incoming, pause: Duration) -> Self {
        let until = Box::pin(tokio::time::sleep(pause));
        Self { body, pause, until }
    }
}

impl Body for Timed {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            let again = tokio::time::Instant::now() + this.pause;
            this.until.as_mut().reset(again);
            return Poll::Ready(frame.map(|frame| frame.map_err(Error::from)));
        }
        ready!(this.until.as_mut().poll(context));
        Poll::Ready(Some(Err(Error::ConnectionReadTimeout)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
