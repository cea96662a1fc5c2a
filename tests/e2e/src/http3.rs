//! A client of HTTP/3 (quinn and h3, which share nothing with the server but QUIC's state machine), and one that says whatever a test likes.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3_quinn::OpenStreams;
use http::{HeaderMap, Request, StatusCode};
use quinn::crypto::rustls::QuicClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, Error, SignatureScheme};

/// An answer.
#[derive(Debug)]
pub struct Http3Response {
    /// Its status.
    pub status: StatusCode,
    /// Its fields.
    pub fields: HeaderMap,
    /// Its body.
    pub body: Vec<u8>,
    /// The fields behind that.
    pub trailers: Option<HeaderMap>,
}

impl Http3Response {
    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }
}

/// A request whose answer has not been read.
pub type PendingRequest = h3::client::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

/// A connection.
pub struct Http3Client {
    /// QUIC's side of it.
    pub quic: quinn::Connection,
    /// The socket that it is made with.
    pub endpoint: quinn::Endpoint,
    requests: SendRequest<OpenStreams, Bytes>,
}

/// QUIC alone, to a server whose certificate may be anybody's.
pub async fn connect_quic(address: SocketAddr) -> quinn::Connection {
    connected(&endpoint(false), address).await
}

async fn connected(endpoint: &quinn::Endpoint, address: SocketAddr) -> quinn::Connection {
    let connecting = endpoint
        .connect(address, "localhost")
        .expect("a connection");
    connecting.await.expect("a handshake")
}

/// A socket for connections to servers whose certificates may be anybody's; it remembers sessions, and `is_early` if it uses them to send at once.
pub fn endpoint(is_early: bool) -> quinn::Endpoint {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut endpoint = quinn::Endpoint::client(any).expect("a socket");
    endpoint.set_default_client_config(config(is_early));
    endpoint
}

/// The same for early requests, without the tokens that prove its address.
pub fn endpoint_without_tokens() -> quinn::Endpoint {
    let mut config = config(true);
    config.token_store(Arc::new(quinn::NoneTokenStore));
    let mut endpoint = endpoint(true);
    endpoint.set_default_client_config(config);
    endpoint
}

fn config(is_early: bool) -> quinn::ClientConfig {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("TLS 1.3")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    tls.enable_early_data = is_early;
    let tls = QuicClientConfig::try_from(tls).expect("a configuration");
    quinn::ClientConfig::new(Arc::new(tls))
}

impl Http3Client {
    /// Connects to a port of this machine.
    pub async fn connect(port: u16) -> Self {
        Self::connect_to(SocketAddr::from(([127, 0, 0, 1], port))).await
    }

    /// Connects to an address.
    pub async fn connect_to(address: SocketAddr) -> Self {
        Self::connect_from(endpoint(false), address).await
    }

    /// Connects to a port of this machine as a client that takes no more than `window` bytes on the connection before it has read them.
    pub async fn connect_with_window(port: u16, window: u32) -> Self {
        let mut transport = quinn::TransportConfig::default();
        transport.receive_window(window.into());
        let mut config = config(false);
        config.transport_config(Arc::new(transport));
        let mut endpoint = endpoint(false);
        endpoint.set_default_client_config(config);
        Self::connect_from(endpoint, SocketAddr::from(([127, 0, 0, 1], port))).await
    }

    async fn connect_from(endpoint: quinn::Endpoint, address: SocketAddr) -> Self {
        let quic = connected(&endpoint, address).await;
        let (mut driver, requests) = h3::client::new(h3_quinn::Connection::new(quic.clone()))
            .await
            .expect("HTTP/3");
        tokio::spawn(async move { std::future::poll_fn(|cx| driver.poll_close(cx)).await });
        Self {
            quic,
            endpoint,
            requests,
        }
    }

    /// The same connection, for another task.
    #[must_use]
    pub fn another(&self) -> Self {
        Self {
            quic: self.quic.clone(),
            endpoint: self.endpoint.clone(),
            requests: self.requests.clone(),
        }
    }

    /// GET.
    ///
    /// # Errors
    /// There is no whole answer.
    pub async fn get(&mut self, path: &str) -> Result<Http3Response, h3::error::StreamError> {
        self.send("GET", path, &[], None).await
    }

    /// Asks, and leaves the answer to the caller.
    ///
    /// # Errors
    /// The request cannot be sent.
    pub async fn ask(&mut self, path: &str) -> Result<PendingRequest, h3::error::StreamError> {
        let request = Request::get(format!("https://localhost{path}"));
        let request = request.body(()).expect("a request");
        let mut stream = self.requests.send_request(request).await?;
        stream.finish().await?;
        Ok(stream)
    }

    /// A request with these fields, and a body in pieces.
    ///
    /// # Errors
    /// There is no whole answer.
    pub async fn send(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: Option<&[Vec<u8>]>,
    ) -> Result<Http3Response, h3::error::StreamError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("https://localhost{path}"));
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let stream = self
            .requests
            .send_request(request.body(()).expect("a request"))
            .await?;
        let (mut sending, mut receiving) = stream.split();
        let pieces: Vec<Vec<u8>> = body.unwrap_or_default().to_vec();
        // Sent while the answer comes: a server may answer before it has all.
        let sent = tokio::spawn(async move {
            for piece in pieces {
                sending.send_data(piece.into()).await?;
            }
            sending.finish().await
        });
        let head = receiving.recv_response().await?;
        let mut body = Vec::new();
        while let Some(mut piece) = receiving.recv_data().await? {
            body.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
        }
        let trailers = receiving.recv_trailers().await?;
        sent.abort();
        let (head, ()) = head.into_parts();
        Ok(Http3Response {
            status: head.status,
            fields: head.headers,
            body,
            trailers,
        })
    }
}

/// Takes any certificate.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("QUIC has TLS 1.3".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
