//! Request methods that some part of the server treats differently from the others.

/// A request method. Names are case-sensitive (RFC 9110 §9.1): `get` is [`Method::Other`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the variants are the methods of RFC 9110 §9.3, RFC 5789 and RFC 10008
pub enum Method {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Delete,
    Connect,
    Options,
    Trace,
    Patch,
    Query,
    /// Any other token; its text is in the head.
    Other,
}

impl Method {
    /// The method a token names.
    pub fn from_bytes(token: &[u8]) -> Self {
        match token {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"CONNECT" => Self::Connect,
            b"OPTIONS" => Self::Options,
            b"TRACE" => Self::Trace,
            b"PATCH" => Self::Patch,
            b"QUERY" => Self::Query,
            _ => Self::Other,
        }
    }

    /// Its token; `OTHER` for those without a meaning here.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Patch => "PATCH",
            Self::Query => "QUERY",
            Self::Other => "OTHER",
        }
    }
}

/// Returns true for methods that the IANA registry of HTTP methods lists as safe: a request only reads (RFC 9110 §9.2.1).
pub fn is_safe(method: &[u8]) -> bool {
    matches!(
        method,
        b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"QUERY" | b"PROPFIND" | b"REPORT" | b"SEARCH"
    )
}

/// Returns true for methods whose request may be sent again if its response was lost (RFC 9110 §9.2.2). Every safe method is idempotent.
pub fn is_idempotent(method: &[u8]) -> bool {
    is_safe(method) || matches!(method, b"PUT" | b"DELETE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_is_safe_and_idempotent() {
        assert_eq!(Method::from_bytes(b"QUERY").as_str(), "QUERY");
        assert!(is_safe(b"QUERY") && is_idempotent(b"QUERY"));
        assert!(!is_safe(b"query") && !is_safe(b"DELETE"));
        assert!(is_idempotent(b"DELETE") && !is_idempotent(b"POST"));
    }
}
