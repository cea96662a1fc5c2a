//! Certificates that prove control of a name to an authority (RFC 8737): shown only in handshakes for `acme-tls/1`.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::sign;
use rustls::server::ClientHello;
use rustls::sign::CertifiedKey;

use crate::error::BundleError;
use crate::pem;

/// The ALPN protocol of authorities (RFC 8737 §6.2).
pub const ACME_PROTOCOL: &[u8] = b"acme-tls/1";

/// All answers for authorities, to requests (RFC 8555 §8.3) and handshakes (RFC 8737). They precede routes; unknown tokens are left to the
/// routes.
#[derive(Debug, Default)]
pub struct AuthorityAnswers {
    /// Content by token.
    pub http: BTreeMap<String, String>,
    /// Certificates by name.
    pub tls: Arc<Challenges>,
}

/// Certificates by name.
#[derive(Debug, Default)]
pub struct Challenges(BTreeMap<String, Arc<CertifiedKey>>);

impl Challenges {
    /// Adds the answer for a name: a certificate and its key in PEM.
    pub fn add(&mut self, name: &str, pem: &[u8]) -> Result<(), BundleError> {
        let contents = pem::read(pem)?;
        let Some(key) = contents.key else {
            return Err(BundleError::NoKey);
        };
        let key =
            sign::any_supported_type(&key).map_err(|error| BundleError::Key(error.to_string()))?;
        let certificate = CertifiedKey::new(contents.certificates, key);
        self.0
            .insert(name.to_ascii_lowercase(), Arc::new(certificate));
        Ok(())
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The answer to a ClientHello: `None` if it is not from an authority, `Some(None)` if there is no answer.
    pub(crate) fn answer(&self, client: &ClientHello<'_>) -> Option<Option<Arc<CertifiedKey>>> {
        // Exactly this protocol (RFC 8737 §3).
        if !client.alpn()?.eq([ACME_PROTOCOL]) {
            return None;
        }
        let name = client.server_name().map(str::to_ascii_lowercase);
        Some(name.and_then(|name| self.0.get(&name).cloned()))
    }
}
