//! The base of the loads over TLS and QUIC: a client that takes any certificate, and knows whether it was shown one.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

/// The name that servers are asked for.
pub(crate) const NAME: &str = "localhost";

/// The settings of a client that speaks `alpn`, with X25519, which every server has; with `is_resuming` it comes back with its tickets.
/// `shown` counts the certificates: a server that resumes a session shows none.
pub(crate) fn tls(
    alpn: &[u8],
    is_resuming: bool,
    shown: &Arc<AtomicUsize>,
) -> Result<ClientConfig, String> {
    let mut provider = aws_lc_rs::default_provider();
    provider.kx_groups = vec![aws_lc_rs::kx_group::X25519];
    let provider = Arc::new(provider);
    let anybody = Anybody {
        provider: Arc::clone(&provider),
        shown: Arc::clone(shown),
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(anybody))
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    if !is_resuming {
        config.resumption = Resumption::disabled();
    }
    Ok(config)
}

/// A socket for connections of HTTP/3.
pub(crate) fn endpoint(
    is_resuming: bool,
    shown: &Arc<AtomicUsize>,
) -> Result<quinn::Endpoint, String> {
    let tls = tls(b"h3", is_resuming, shown)?;
    let tls = quinn::crypto::rustls::QuicClientConfig::try_from(tls)
        .map_err(|error| error.to_string())?;
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    let mut endpoint = quinn::Endpoint::client(any).map_err(|error| error.to_string())?;
    endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(tls)));
    Ok(endpoint)
}

/// Takes any certificate.
#[derive(Debug)]
struct Anybody {
    provider: Arc<CryptoProvider>,
    shown: Arc<AtomicUsize>,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.shown.fetch_add(1, Ordering::Relaxed);
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.3 was asked for".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
