//! TLS as a client: trusted root certificates, and the client certificate. Texts are PEM.
//!
//! For upstreams, which have options for versions, ciphers and stored bundles, `tutti-tls` creates the configuration.

use std::sync::{Arc, OnceLock};

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// AWS-LC with its default ciphers and groups: the cryptography of all TLS in this process.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    Arc::clone(PROVIDER.get_or_init(|| Arc::new(aws_lc_rs::default_provider())))
}

/// Loads the system's root certificates (`SSL_CERT_FILE` and `SSL_CERT_DIR` override them). Those that cannot be read
/// are skipped: among the many there may be an odd one.
///
/// # Errors
/// There are none, with a remedy.
pub fn system_roots() -> Result<Vec<CertificateDer<'static>>, String> {
    let found = rustls_native_certs::load_native_certs();
    if found.certs.is_empty() {
        let why = found.errors.first().map(|error| format!(": {error}"));
        return Err(format!(
            "the system has no root certificates{}; hint: install `ca-certificates`",
            why.unwrap_or_default()
        ));
    }
    Ok(found.certs)
}

/// Loads the system's root certificates into a store.
pub fn system_authorities() -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(system_roots()?);
    Ok(store)
}

/// Parses the root certificates in a text.
pub fn authorities(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut store = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        store.add(certificate).map_err(|error| error.to_string())?;
    }
    match store.is_empty() {
        true => Err("it contains no certificate".to_owned()),
        false => Ok(store),
    }
}

/// Creates a client configuration that trusts these authorities, and presents a certificate with its chain and key if
/// there is one. Without authorities it trusts no server.
pub fn client_config(
    roots: RootCertStore,
    identity: Option<(&[u8], &[u8])>,
) -> Result<ClientConfig, String> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(roots);
    let Some((chain, key)) = identity else {
        return Ok(builder.with_no_client_auth());
    };
    let unusable = |error: &dyn std::fmt::Display| format!("the client's certificate: {error}");
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = chain.map_err(|error| unusable(&error))?;
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the client's key: {error}"))?;
    let config = builder.with_client_auth_cert(chain, key);
    config.map_err(|error| unusable(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_without_certificates_is_refused() {
        assert!(authorities(b"").unwrap_err().contains("no certificate"));
        let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(authorities(broken).is_err());
    }
}
