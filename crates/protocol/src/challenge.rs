//! Answers to authorities that check the control of names.

use serde::{Deserialize, Serialize};

/// An answer that the server gives to an authority that checks a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Challenge {
    /// To a request for `/.well-known/acme-challenge/TOKEN` (RFC 8555 §8.3).
    Http {
        /// The last part of the path.
        token: String,
        answer: String,
    },
    /// To a handshake for `acme-tls/1` (RFC 8737).
    TlsAlpn {
        /// The name that is asked for.
        name: String,
        /// Certificate and key.
        pem: String,
    },
}
