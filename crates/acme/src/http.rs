//! Requests to authorities, with limits on time and size.
//!
//! The URLs come from an authority: only HTTPS is used, and the server must have a valid certificate.

use std::error::Error as StdError;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{HeaderValue, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Limited};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use tutti_dialer::{
    HttpUse, authorities, client_config, error_chain, http_client, system_authorities,
};

use crate::failure::OrderError;
use crate::schedule::LONGEST_ASKED;

/// Time limit of a request.
const LONGEST_REQUEST: Duration = Duration::from_secs(30);

/// More than the size of any chain or order.
const MOST_BYTES: usize = 1 << 20;

/// The user agent.
pub(crate) const NAME: &str = concat!("tutti/", env!("CARGO_PKG_VERSION"));

/// The client of one attempt. Clones share the same state.
#[derive(Clone)]
pub(crate) struct Authority {
    client: tutti_dialer::HttpClient<BodyWrapper<Bytes>>,
    /// The pause requested by the last rejection.
    pause: Arc<Mutex<Option<Duration>>>,
}

impl Authority {
    /// Creates a client that trusts the certificates in the file `roots`, or the system's.
    pub(crate) fn new(roots: Option<&Path>) -> Result<Authority, OrderError> {
        let roots = match roots {
            None => system_authorities().map_err(|why| format!("{why}, or name a file in `roots`")),
            Some(path) => std::fs::read(path)
                .map_err(|error| error.to_string())
                .and_then(|pem| authorities(&pem))
                .map_err(|why| format!("`{}` of `roots` cannot be used: {why}", path.display())),
        };
        let tls = roots.and_then(|roots| client_config(roots, None));
        let tls = tls.map_err(OrderError::new)?;
        let client = http_client(tls, HttpUse::HttpsOnly, usize::MAX);
        Ok(Authority {
            client,
            pause: Arc::default(),
        })
    }

    /// Returns the pause requested by the last rejection, if any.
    pub(crate) fn take_pause(&self) -> Option<Duration> {
        self.pause
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    async fn send(self, request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Error> {
        let answer = tokio::time::timeout(LONGEST_REQUEST, async {
            let (parts, body) = self.client.request(request).await?.into_parts();
            let body = Limited::new(body, MOST_BYTES).collect().await?.to_bytes();
            Ok::<_, Box<dyn StdError + Send + Sync>>((parts, body))
        });
        let (mut parts, body) = match answer.await {
            Ok(answer) => answer.map_err(|error| unreachable(&*error))?,
            Err(_) => {
                let text = format!("no answer within {} seconds", LONGEST_REQUEST.as_secs());
                return Err(Error::Other(text.into()));
            }
        };
        bound_pause(&mut parts.headers);
        if !parts.status.is_success() {
            *self.pause.lock().unwrap_or_else(PoisonError::into_inner) = pause(&parts.headers);
            if body.first().is_none_or(|first| *first != b'{') {
                let text = format!("the authority answers {}", parts.status);
                return Err(Error::Other(text.into()));
            }
        }
        Ok(BytesResponse {
            parts,
            body: Box::new(body),
        })
    }
}

impl HttpClient for Authority {
    fn request(
        &self,
        mut request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        request
            .headers_mut()
            .insert(USER_AGENT, HeaderValue::from_static(NAME));
        Box::pin(self.clone().send(request))
    }
}

fn unreachable(error: &(dyn StdError + 'static)) -> Error {
    Error::Other(format!("the authority cannot be reached: {}", error_chain(error)).into())
}

/// Limits `Retry-After` so that it can be added to any time: another reader of the field adds it to the clock, which
/// would overflow.
fn bound_pause(fields: &mut HeaderMap) {
    let asked = pause(fields);
    fields.remove(RETRY_AFTER);
    if let Some(asked) = asked {
        fields.insert(RETRY_AFTER, asked.min(LONGEST_ASKED).as_secs().into());
    }
}

/// `Retry-After`: seconds, or a date (RFC 9110 §10.2.3).
fn pause(fields: &HeaderMap) -> Option<Duration> {
    let value = fields.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = value.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    date.duration_since(SystemTime::now()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_seconds_or_a_date() {
        let of = |value: &str| {
            let mut fields = HeaderMap::new();
            fields.insert(RETRY_AFTER, HeaderValue::from_str(value).unwrap());
            pause(&fields)
        };
        assert_eq!(of("120"), Some(Duration::from_secs(120)));
        assert_eq!(of("soon"), None);
        assert_eq!(of("-1"), None);
        // A date in the past.
        assert_eq!(of("Fri, 31 Dec 1999 23:59:59 GMT"), None);
        let later = SystemTime::now() + Duration::from_secs(1000);
        let later = of(&httpdate::fmt_http_date(later)).unwrap();
        assert!((900..=1000).contains(&later.as_secs()), "{later:?}");
        let bounded = |value: &str| {
            let mut fields = HeaderMap::new();
            fields.insert(RETRY_AFTER, HeaderValue::from_str(value).unwrap());
            bound_pause(&mut fields);
            fields
                .get(RETRY_AFTER)
                .map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(bounded("120").as_deref(), Some("120"));
        assert_eq!(bounded(&u64::MAX.to_string()).as_deref(), Some("604800"));
        assert_eq!(bounded("soon"), None);
    }
}
