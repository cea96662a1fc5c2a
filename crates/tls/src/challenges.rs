//! Certificates that answer an authority's question whether a name is ours (RFC 8737): shown to who asks by `acme-tls/1` and to nobody else.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs::sign;
use rustls::server::ClientHello;
use rustls::sign::CertifiedKey;

use crate::error::BundleError;
use crate::pem;

/// The protocol inside TLS by which authorities ask (RFC 8737 §6.2).
pub const ACME_PROTOCOL: &[u8] = b"acme-tls/1";

/// All answers that authorities are given, by requests (RFC 8555 §8.3) and by handshakes (RFC 8737). They go before routes: a token that
/// nobody has set is nobody's business here, and the routes decide.
#[derive(Debug, Default)]
pub struct AuthorityAnswers {
    /// Content by token.
    pub http: BTreeMap<String, String>,
    /// Certificates by name.
    pub tls: Arc<Challenges>,
}

/// Answers by the name that is asked for.
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

    /// The answer to a hello: `None` where it asks nothing of the kind, `Some(None)` where there is no answer.
    pub(crate) fn answer(&self, client: &ClientHello<'_>) -> Option<Option<Arc<CertifiedKey>>> {
        // Exactly this one (RFC 8737 §3).
        if !client.alpn()?.eq([ACME_PROTOCOL]) {
            return None;
        }
        let name = client.server_name().map(str::to_ascii_lowercase);
        Some(name.and_then(|name| self.0.get(&name).cloned()))
    }
}
