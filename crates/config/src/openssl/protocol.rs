//! Versions, ciphers and groups that may be spoken.

/// Versions, ciphers and groups, by the numbers that IANA has given them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsProtocol {
    /// TLS 1.2 may be spoken.
    pub allows_tls12: bool,
    /// TLS 1.3 may be spoken.
    pub allows_tls13: bool,
    /// Cipher suites of TLS 1.2 in order of preference; `None`: all.
    pub tls12_suites: Option<Vec<u16>>,
    /// Cipher suites of TLS 1.3 in order of preference; `None`: all.
    pub tls13_suites: Option<Vec<u16>>,
    /// Groups for the exchange of keys in order of preference; `None`: all.
    pub groups: Option<Vec<u16>>,
    /// Our order of cipher suites counts, not the client's.
    pub is_server_preferred: bool,
}

impl Default for TlsProtocol {
    fn default() -> Self {
        TlsProtocol {
            allows_tls12: true,
            allows_tls13: true,
            tls12_suites: None,
            tls13_suites: None,
            groups: None,
            is_server_preferred: true,
        }
    }
}
