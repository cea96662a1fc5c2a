//! Allowed versions, ciphers and groups.

/// Versions, ciphers and groups, by their IANA numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsProtocol {
    /// TLS 1.2 is allowed.
    pub allows_tls12: bool,
    /// TLS 1.3 is allowed.
    pub allows_tls13: bool,
    /// Cipher suites of TLS 1.2 in order of preference; `None`: all.
    pub tls12_suites: Option<Vec<u16>>,
    /// Cipher suites of TLS 1.3 in order of preference; `None`: all.
    pub tls13_suites: Option<Vec<u16>>,
    /// Key exchange groups in order of preference; `None`: all.
    pub groups: Option<Vec<u16>>,
    /// The server's order of cipher suites is used, not the client's.
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
