//! The answers to authorities that ask whether names are ours, by requests (RFC 8555 §8.3) and by handshakes (RFC 8737).
//!
//! They go before routes: a token that nobody has set is nobody's business here, and the routes decide. Set by the router on main's
//! word, read by listen threads.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The answers that are given now.
#[derive(Debug, Default)]
pub struct Challenges {
    /// Content by token.
    pub http: BTreeMap<String, String>,
    /// Certificates by name.
    pub tls: Arc<tutti_tls::Challenges>,
}
