//! Why there is no connection, and errors in one line.

use std::fmt::Write as _;
use std::io;

/// Why there is no connection. Never the fault of a client of this server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// The name that the peer's certificate would be for is not valid. Another attempt does not help.
    #[error("`{0}` is not a valid name of a server")]
    Name(String),
    /// There is no address, or no address takes a connection.
    #[error("{0}")]
    Connect(io::Error),
    /// The handshake of TLS failed.
    #[error("TLS: {0}")]
    Tls(io::Error),
}

/// An error with its sources: the outermost seldom says what was wrong. A source that its error quotes is not repeated.
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
    fn an_error_is_told_with_its_sources_once() {
        let error = Outer(Middle(io::Error::other("no route")));
        assert_eq!(
            error_chain(&error),
            "the request failed: connecting: no route"
        );
    }
}
