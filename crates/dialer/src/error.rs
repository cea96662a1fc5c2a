//! Connection errors, and error chains in one line.

use std::fmt::Write as _;
use std::io;

/// Why connecting failed. Never the fault of a client of this server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// The name to verify the peer's certificate against is not valid. Retrying does not help.
    #[error("`{0}` is not a valid server name")]
    Name(String),
    /// There is no address, or none accepts a connection.
    #[error("{0}")]
    Connect(io::Error),
    /// The TLS handshake failed.
    #[error("TLS: {0}")]
    Tls(io::Error),
}

/// Formats an error with its sources, because the outermost rarely contains the cause. A source that its error already
/// quotes is not repeated.
pub fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let more = inner.to_string();
        if !text.ends_with(&more) {
            // Writing to a `String` cannot fail.
            let _ = write!(text, ": {more}");
        }
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the request failed")]
    struct Outer(#[source] Middle);

    #[derive(Debug, thiserror::Error)]
    #[error("connecting: {0}")]
    struct Middle(#[source] io::Error);

    #[test]
    fn an_error_is_shown_with_its_sources_once() {
        let error = Outer(Middle(io::Error::other("no route")));
        assert_eq!(
            error_chain(&error),
            "the request failed: connecting: no route"
        );
    }
}
