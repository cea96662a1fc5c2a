//! One connection: requests in, replies out. Every wait has an end, and everything read a bound.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;
use tutti_control::{Answered, Client, Patience};
use tutti_http::{BodyDecoder, Limits, Method, RequestView, Version};

use crate::reply::{Reply, Request};
use crate::site::Site;

/// A form with a token has less than this.
const PATIENCE: Patience = Patience {
    wait: Duration::from_secs(30),
    max_body: 16 << 10,
    linger_bytes: 1 << 20,
    linger: Duration::from_secs(2),
};

/// Time for a whole head, with what passes between two requests.
const HEAD: Duration = Duration::from_secs(30);

/// Time for a whole body.
const BODY: Duration = Duration::from_secs(10);

/// The browser is told to take nothing from elsewhere, to run no script but the one of ours, and to show the pages in no frame.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
    form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Fields of every reply.
const FIELDS: [(&str, &str); 7] = [
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    // With `no-referrer` browsers would send `Origin: null` with the form.
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cache-Control", "no-store"),
];

/// Serves a connection until it ends.
pub(crate) async fn run<S>(
    stream: S,
    peer: String,
    site: Arc<Site>,
    is_known: Arc<AtomicBool>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut connection = Connection {
        client: Client::new(stream, PATIENCE),
    };
    loop {
        let opening = match connection.open(&peer).await? {
            None => return Ok(()),
            Some(Ok(opening)) => opening,
            Some(Err(reply)) => return connection.refuse(&reply).await,
        };
        let (version, method) = (opening.version, opening.request.method);
        let keep_alive = opening.keep_alive;
        let request = match connection.body(opening).await? {
            Ok(request) => request,
            Err(reply) => return connection.refuse(&reply).await,
        };
        let (reply, lets_in) = site.reply(request).await;
        // Files are for everybody: they do not make a stranger of who has logged in.
        is_known.fetch_or(lets_in, Ordering::Relaxed);
        connection
            .write(&reply, (version, method), keep_alive)
            .await?;
        if !keep_alive {
            return connection.client.close().await;
        }
    }
}

fn refusal(status: u16, why: &dyn std::fmt::Display) -> Box<Reply> {
    Box::new(Reply::text(status, format!("{why}\n")))
}

struct Connection<S> {
    client: Client<S>,
}

/// How a request began.
struct Opening {
    request: Request,
    decoder: BodyDecoder,
    version: Version,
    keep_alive: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Reads a request head; `None` when the client has left between requests.
    async fn open(&mut self, peer: &str) -> io::Result<Option<Result<Opening, Box<Reply>>>> {
        let read = self.client.head(|view, limits| opening(view, limits, peer));
        match timeout(HEAD, read).await {
            Ok(read) => Ok(read?.map(|opened| match opened {
                Ok(opening) => opening,
                Err(error) => Err(refusal(error.status(), &error)),
            })),
            // Slow or idle: either way there is nobody to be told.
            Err(_) => Ok(None),
        }
    }

    /// Reads the body.
    async fn body(&mut self, opening: Opening) -> io::Result<Result<Request, Box<Reply>>> {
        let Opening {
            mut request,
            mut decoder,
            ..
        } = opening;
        match timeout(BODY, self.client.body(&mut decoder)).await?? {
            Ok(body) => {
                request.body = body;
                Ok(Ok(request))
            }
            Err(error) => Ok(Err(refusal(error.status(), &error))),
        }
    }

    async fn write(
        &mut self,
        reply: &Reply,
        (version, method): (Version, Method),
        keep_alive: bool,
    ) -> io::Result<()> {
        let answered = Answered {
            version,
            method,
            status: reply.status,
            keep_alive,
            body: &reply.body,
        };
        let own = [
            ("Content-Type", Some(reply.media_type)),
            ("Set-Cookie", reply.cookie.as_deref()),
            ("Location", reply.location.as_deref()),
            ("Allow", reply.allow),
            ("WWW-Authenticate", reply.authenticate),
        ];
        let own = own
            .iter()
            .filter_map(|(name, value)| Some((*name, (*value)?)));
        self.client.answer(&answered, own.chain(FIELDS)).await
    }

    /// Answers and closes.
    async fn refuse(&mut self, reply: &Reply) -> io::Result<()> {
        self.write(reply, (Version::Http11, Method::Get), false)
            .await?;
        self.client.close_refused().await
    }
}

/// Reads what a head asks; the reply to one that cannot be answered.
fn opening(view: &RequestView<'_>, limits: &Limits, peer: &str) -> Result<Opening, Box<Reply>> {
    let decoder = BodyDecoder::new(view.body_length(), limits)
        .map_err(|error| refusal(error.status(), &error))?;
    let target = view.origin_target();
    let mut parts = target.splitn(2, |&byte| byte == b'?');
    let mut text = || String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
    let (path, query) = (text(), text());
    let first = |name: &[u8]| view.get_all(name).next().map(<[u8]>::to_vec);
    // Two of them, and somebody is tricked.
    if view.get_all(b"authorization").count() > 1 {
        return Err(refusal(400, &"there is more than one `Authorization`"));
    }
    let cookies: Vec<&[u8]> = view.get_all(b"cookie").collect();
    let accept = first(b"accept").unwrap_or_default();
    let facts = view.facts();
    Ok(Opening {
        request: Request {
            method: view.method(),
            path,
            query,
            host: view.host().to_vec(),
            origin: first(b"origin"),
            fetch_site: first(b"sec-fetch-site"),
            authorization: first(b"authorization"),
            cookies: cookies.join(&b"; "[..]),
            is_browser: String::from_utf8_lossy(&accept).contains("text/html"),
            body: Vec::new(),
            peer: peer.to_owned(),
        },
        decoder,
        version: view.version(),
        keep_alive: facts.keep_alive,
    })
}
