//! Request methods that some part of the server treats differently from the others.

/// A request method. Names are case-sensitive (RFC 9110 §9.1): `get` is [`Method::Other`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // the variants are the methods of RFC 9110 §9.3 and RFC 5789
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
    /// Any other token; the text is in the head.
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
