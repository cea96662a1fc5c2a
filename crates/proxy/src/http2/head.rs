//! A request's head for `h2`.

use http::header::{CONTENT_LENGTH, HOST};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version};
use tutti_http::http2::is_connection_specific;
use tutti_http::{Known, RequestFraming};

use crate::head::HeadWriter;
use crate::request::Unsendable;

/// A head that is being written.
#[derive(Default)]
pub(crate) struct RequestHead {
    method: Option<Method>,
    target: Option<PathAndQuery>,
    authority: Option<Authority>,
    fields: HeaderMap,
}

impl HeadWriter for RequestHead {
    fn line(&mut self, method: &[u8], target: &[u8]) {
        self.method = Method::from_bytes(method).ok();
        self.target = PathAndQuery::try_from(target).ok();
    }

    /// Adds a field, unless it belongs to the connection (RFC 9113 §8.2.2).
    fn field(&mut self, name: &[u8], value: &[u8]) {
        if is_connection_specific(Known::from_name(name)) {
            return;
        }
        let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value))
        else {
            return;
        };
        if name == HOST {
            self.authority = Authority::try_from(value.as_bytes()).ok();
        } else {
            self.fields.append(name, value);
        }
    }

    /// Adds the length if it is known: otherwise the end of the stream ends the body.
    fn framing(&mut self, framing: RequestFraming) {
        if let RequestFraming::Length(length) = framing {
            self.fields
                .append(CONTENT_LENGTH, HeaderValue::from(length));
        }
    }

    fn end(&mut self) {}
}

impl RequestHead {
    pub(crate) fn into_request(self, scheme: Scheme) -> Result<http::Request<()>, Unsendable> {
        let unsendable = |part: &str| Unsendable {
            status: 400,
            reason: format!("its {part} cannot be sent in HTTP/2"),
        };
        let uri = Uri::builder()
            .scheme(scheme)
            .authority(self.authority.ok_or_else(|| unsendable("`Host`"))?)
            .path_and_query(self.target.ok_or_else(|| unsendable("path"))?)
            .build()
            .map_err(|_| unsendable("target"))?;
        let mut request = http::Request::new(());
        *request.method_mut() = self.method.ok_or_else(|| unsendable("method"))?;
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_2;
        *request.headers_mut() = self.fields;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_connection_are_left_out_and_the_host_is_the_authority() {
        let mut head = RequestHead::default();
        head.line(b"POST", b"/a?b");
        for (name, value) in [("Host", "h:1"), ("Connection", "TE"), ("TE", "trailers")] {
            head.field(name.as_bytes(), value.as_bytes());
        }
        head.framing(RequestFraming::Length(5));
        head.end();
        let request = head.into_request(Scheme::HTTPS).unwrap();
        assert_eq!(request.method(), "POST");
        assert_eq!(request.uri(), "https://h:1/a?b");
        let fields: Vec<_> = request.headers().iter().collect();
        assert_eq!(fields.len(), 2, "{fields:?}");
        assert_eq!(request.headers()["te"], "trailers");
        assert_eq!(request.headers()["content-length"], "5");
    }

    #[test]
    fn a_head_without_a_host_cannot_be_sent() {
        let mut head = RequestHead::default();
        head.line(b"GET", b"/");
        let refused = head.into_request(Scheme::HTTP).unwrap_err();
        assert_eq!(
            (refused.status, &*refused.reason),
            (400, "its `Host` cannot be sent in HTTP/2")
        );
    }
}
