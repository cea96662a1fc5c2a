//! A request, from the wire's form to the component's.

use http::header::{EXPECT, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use tutti_worker::{Exchange, WireRequestView, target};

use crate::body::{self, Body, Feed};

/// The request, and where the pieces of its body are to go. `Err`: what the component could not be given.
pub(crate) fn build(exchange: &Exchange) -> Result<(http::Request<Body>, Feed), String> {
    let view = exchange.request();
    let mut request = http::Request::new(Body::Empty);
    *request.method_mut() =
        http::Method::from_bytes(view.method()).map_err(|_| "its method is no token".to_owned())?;
    *request.uri_mut() = uri(&view)?;
    for (name, value) in view.fields() {
        let name = HeaderName::from_bytes(name)
            .map_err(|_| "a field has a name that is no token".to_owned())?;
        let value = HeaderValue::from_bytes(value)
            .map_err(|_| format!("the value of `{name}` is no text"))?;
        // The server has dealt with it.
        if name != EXPECT {
            request.headers_mut().append(name, value);
        }
    }
    let (body, feed) = body::of(exchange);
    *request.body_mut() = body;
    Ok((request, feed))
}

/// The URI: of the field `Host`, or what the server calls itself.
fn uri(view: &WireRequestView<'_>) -> Result<Uri, String> {
    let told = view.field(b"host").unwrap_or_default();
    let authority = [told, view.server_name(), b"localhost"]
        .into_iter()
        .find_map(|name| Authority::try_from(name).ok());
    let target = target(view);
    let path = PathAndQuery::try_from(&*target).map_err(|_| "its target is no URI".to_owned())?;
    let mut parts = http::uri::Parts::default();
    parts.scheme = Some(if view.tls() {
        Scheme::HTTPS
    } else {
        Scheme::HTTP
    });
    parts.authority = authority;
    parts.path_and_query = Some(path);
    Uri::from_parts(parts).map_err(|error| format!("its target: {error}"))
}
