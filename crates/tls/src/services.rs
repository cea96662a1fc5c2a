//! How this server speaks TLS as a client of what it runs with, a store or an API server. Texts are PEM.
//!
//! Not of upstreams: those have options, and bundles that are stored.

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use crate::provider;

/// The authorities in a text.
///
/// # Errors
/// One of them is no certificate of an authority.
pub fn authorities(pem: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem) {
        let certificate = certificate.map_err(|error| format!("`ca`: {error}"))?;
        let added = roots.add(certificate);
        added.map_err(|error| format!("`ca`: {error}"))?;
    }
    Ok(roots)
}

/// A client that trusts these authorities, and shows a certificate with its chain and key if it has one. `whom` is who is to be vouched
/// for, for the message where nobody does.
///
/// # Errors
/// There are no authorities, or the certificate or its key cannot be used.
pub fn client_config(
    roots: RootCertStore,
    identity: Option<(&[u8], &[u8])>,
    whom: &str,
) -> Result<ClientConfig, String> {
    if roots.is_empty() {
        return Err(format!(
            "there is no certificate that vouches for {whom}; hint: name a file with one in `ca`"
        ));
    }
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS: {error}"))?
        .with_root_certificates(roots);
    let Some((chain, key)) = identity else {
        return Ok(builder.with_no_client_auth());
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let chain = chain.map_err(|error| format!("the client's certificate: {error}"))?;
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|error| format!("the client's key: {error}"))?;
    builder
        .with_client_auth_cert(chain, key)
        .map_err(|error| format!("the client's certificate: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_authorities_nobody_is_trusted() {
        let none = authorities(b"").unwrap();
        let told = client_config(none, None, "etcd").unwrap_err();
        assert!(told.contains("vouches for etcd"), "{told}");
        let broken = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(authorities(broken).unwrap_err().starts_with("`ca`: "));
    }
}
