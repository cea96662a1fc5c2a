//! TLS as a client of upstreams.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tutti_config::model::UpstreamTls;

use crate::bundle::Bundle;
use crate::offer::{Find, OfferError, authority_of, found};
use crate::possession;
use crate::provider;

/// The authorities that the system trusts, or why they cannot be read.
pub type SystemAuthorities<'a> =
    &'a mut dyn FnMut() -> Result<Vec<CertificateDer<'static>>, String>;

/// The TLS of an upstream, for connections of any thread.
#[derive(Debug)]
pub struct ClientTls {
    config: Arc<ClientConfig>,
    /// The same for connections that are passed on: what their clients speak is not known.
    of_streams: Arc<ClientConfig>,
    basis: Basis,
}

/// The options from which it was made.
#[derive(Debug)]
struct Basis {
    settings: UpstreamTls,
    roots: Vec<TrustAnchor<'static>>,
    certificate: Option<Arc<Bundle>>,
    protocols: Vec<Vec<u8>>,
}

impl Basis {
    fn is_same(&self, other: &Basis) -> bool {
        let is_same_certificate = match (&self.certificate, &other.certificate) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        is_same_certificate
            && self.settings == other.settings
            && self.roots == other.roots
            && self.protocols == other.protocols
    }
}

impl ClientTls {
    /// Makes the TLS for these options. `protocols` are the application protocols, the preferred first (RFC 7301). `previous` is returned
    /// if nothing has changed; otherwise its sessions are not resumed.
    ///
    /// # Errors
    /// Authorities that cannot be read or are invalid, a bundle that does not exist or has no key, no usable ciphers.
    pub fn new(
        tls: &UpstreamTls,
        (find, system): (Find<'_>, SystemAuthorities<'_>),
        protocols: &[&[u8]],
        previous: Option<&Arc<ClientTls>>,
    ) -> Result<Arc<ClientTls>, OfferError> {
        let certificate = match &tls.certificate {
            None => None,
            Some(name) => Some(found(name, find)?),
        };
        let basis = Basis {
            settings: tls.clone(),
            roots: if tls.options.verify {
                roots(tls, find, system)?
            } else {
                Vec::new()
            },
            certificate,
            protocols: protocols.iter().map(|protocol| protocol.to_vec()).collect(),
        };
        if let Some(previous) = previous
            && previous.basis.is_same(&basis)
        {
            return Ok(Arc::clone(previous));
        }
        let config = config(&basis)?;
        let mut of_streams = config.clone();
        of_streams.alpn_protocols.clear();
        Ok(Arc::new(ClientTls {
            config: Arc::new(config),
            of_streams: Arc::new(of_streams),
            basis,
        }))
    }

    /// The configuration for a new connection.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// The configuration for a new connection that carries another protocol than HTTP.
    pub fn config_of_streams(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.of_streams)
    }

    /// The server name to send, if it is not that of the server's address.
    pub fn server_name(&self) -> Option<&str> {
        self.basis.settings.options.server_name.as_deref()
    }
}

/// Makes the TLS of a client that accepts every certificate: for comparing what servers on one machine answer, where no byte of the
/// answer is believed. Not for upstreams.
///
/// # Errors
/// There are no usable ciphers.
pub fn unverified_client() -> Result<Arc<ClientConfig>, Error> {
    let provider = tutti_dialer::provider();
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?;
    let builder = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Unverified(provider)));
    Ok(Arc::new(builder.with_no_client_auth()))
}

fn config(basis: &Basis) -> Result<ClientConfig, OfferError> {
    let tls = &basis.settings;
    let fault = |error: Error| OfferError::at(&tls.pointer, error.to_string());
    let provider = provider::limited(&tls.protocol);
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&provider::versions(&tls.protocol))
        .map_err(fault)?;
    let builder = if tls.options.verify {
        let roots = RootCertStore {
            roots: basis.roots.clone(),
        };
        builder.with_root_certificates(roots)
    } else {
        let verifier = Arc::new(Unverified(provider));
        builder
            .dangerous()
            .with_custom_certificate_verifier(verifier)
    };
    let mut config = match &basis.certificate {
        None => builder.with_no_client_auth(),
        Some(bundle) => {
            let key = bundle.key().ok_or_else(|| {
                let name = tls.certificate.as_ref();
                let pointer = name.map_or(&tls.pointer, |name| &name.pointer);
                let name = name.map_or("", |name| &name.name);
                let message = format!(
                    "the certificate bundle `{name}` has no private key: it can only be used in `ca`"
                );
                OfferError::at(pointer, message)
            })?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(key))))
        }
    };
    if !tls.resumes {
        config.resumption = Resumption::disabled();
    }
    config.alpn_protocols.clone_from(&basis.protocols);
    Ok(config)
}

/// The trusted authorities.
fn roots(
    tls: &UpstreamTls,
    find: Find<'_>,
    system: SystemAuthorities<'_>,
) -> Result<Vec<TrustAnchor<'static>>, OfferError> {
    let mut store = RootCertStore::empty();
    let Some(authorities) = &tls.authorities else {
        let certificates = system()
            .map_err(|why| OfferError::at(&tls.pointer, format!("{why}, or name yours in `ca`")))?;
        // Some of many may be invalid, and are skipped.
        store.add_parsable_certificates(certificates);
        return Ok(store.roots);
    };
    for authority in authorities {
        let (pointer, bundle) = authority_of(authority, find)?;
        for certificate in bundle.chain() {
            store.add(certificate.clone()).map_err(|error| {
                let message =
                    format!("a certificate in it cannot be used to verify servers: {error}");
                OfferError::at(pointer, message)
            })?;
        }
    }
    Ok(store.roots)
}

/// Accepts any certificate, as long as the server has its key.
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        possession::verify_tls12(message, certificate, signed, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        possession::verify_tls13(message, certificate, signed, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
