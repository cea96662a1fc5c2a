//! One connection: reads requests, writes replies. Every wait has a time limit, and everything read a size limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::{
    ACCEPT, ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE,
    HeaderName, HeaderValue, LOCATION, ORIGIN, REFERRER_POLICY, SET_COOKIE, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use tokio::io::{AsyncRead, AsyncWrite};
use tutti_control::{BodyReadError, Response};
use tutti_http::Method;

use crate::reply::{Reply, Request, Security};
use crate::site::{MISDIRECTED, Site};

/// Time for a whole head, including the pause between two requests, and for progress in reading a reply.
const PATIENCE: Duration = Duration::from_secs(30);

/// A form with a token is smaller than this.
const MAX_BODY: u64 = 16 << 10;

/// Time for a whole body.
const BODY: Duration = Duration::from_secs(10);

/// The browser must load nothing from other sites, run only our script, and not show the pages in a frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Fields of every reply.
const FIELDS: [(HeaderName, &str); 7] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    // With `no-referrer` browsers would send `Origin: null` with the form.
    (REFERRER_POLICY, "same-origin"),
    (
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    ),
    (CACHE_CONTROL, "no-store"),
];

/// The client of a connection.
pub(crate) struct Client {
    /// Its address, for the log.
    pub(crate) peer: String,
    pub(crate) security: Security,
}

/// Serves a connection until it ends.
pub(crate) async fn run<S>(stream: S, client: Client, site: Arc<Site>, is_known: Arc<AtomicBool>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (client, site, is_known) = (&client, &*site, &*is_known);
    let respond = |request| async move {
        let response = match read(request, client).await {
            Ok(request) => {
                let (reply, lets_in) = site.reply(request).await;
                // Files are public: requesting one does not turn a logged-in client into a stranger.
                is_known.fetch_or(lets_in, Ordering::Relaxed);
                match reply.status {
                    MISDIRECTED => tutti_control::closing(response(reply)),
                    _ => response(reply),
                }
            }
            Err(reply) => tutti_control::closing(response(*reply)),
        };
        (response, ())
    };
    let refuse = |status, why: &str| response(*refusal(status, why));
    tutti_control::serve_connection(stream, PATIENCE, respond, refuse).await;
}

fn refusal(status: u16, why: &str) -> Box<Reply> {
    Box::new(Reply::text(status, format!("{why}\n")))
}

fn response(reply: Reply) -> Response {
    let own = [
        (CONTENT_TYPE, Some(reply.media_type)),
        (SET_COOKIE, reply.cookie.as_deref()),
        (LOCATION, reply.location.as_deref()),
        (ALLOW, reply.allow),
        (WWW_AUTHENTICATE, reply.authenticate),
    ];
    let own = own
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    tutti_control::response(reply.status, own.chain(FIELDS), reply.body)
}

/// Reads a whole request; otherwise returns the reply to one that cannot be processed.
async fn read(request: tutti_control::ApiRequest, client: &Client) -> Result<Request, Box<Reply>> {
    let (head, body) = request.into_parts();
    let host = tutti_control::host(&head).map_err(|why| refusal(400, why))?;
    let lines = |name| head.headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let first = |name| lines(name).next().map(<[u8]>::to_vec);
    // Two of them are a sign of an attack.
    if lines(AUTHORIZATION).count() > 1 {
        return Err(refusal(400, "there is more than one `Authorization`"));
    }
    let body = tutti_control::read_body(body, MAX_BODY, BODY);
    let body = tokio::time::timeout(BODY, body)
        .await
        .unwrap_or(Err(BodyReadError::TooSlow));
    let body = body.map_err(|fault| match fault {
        BodyReadError::TooLarge => refusal(413, "the form is too large"),
        BodyReadError::TooSlow => refusal(408, "the form was not received in time"),
        BodyReadError::Broken(error) => refusal(400, &error.to_string()),
    })?;
    let accept = first(ACCEPT).unwrap_or_default();
    Ok(Request {
        method: Method::from_bytes(head.method.as_str().as_bytes()),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        host: host.to_vec(),
        origin: first(ORIGIN),
        fetch_site: first(HeaderName::from_static("sec-fetch-site")),
        authorization: first(AUTHORIZATION),
        cookies: lines(COOKIE).collect::<Vec<_>>().join(&b"; "[..]),
        is_browser: String::from_utf8_lossy(&accept).contains("text/html"),
        body,
        peer: client.peer.clone(),
        security: client.security,
    })
}
