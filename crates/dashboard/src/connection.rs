//! One connection: requests in, replies out. Every wait has an end, and everything read a bound.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tutti_http::{
    BodyDecoder, DeclaredBody, Limits, Method, OutgoingHead, Progress, RequestHead,
    ResponseFraming, ResponseQuestion, Version, format_date, frame_response,
};

use crate::reply::{Reply, Request};
use crate::site::Site;

/// Time for a head, for a body, and for the client to take a reply.
const PATIENCE: Duration = Duration::from_secs(10);

/// Time between two requests.
const IDLE: Duration = Duration::from_secs(30);

/// A form with a token has less.
const MAX_BODY: u64 = 16 << 10;

/// How much of a refused request is still read, so that the client sees the reply instead of a reset.
const LINGER_BYTES: usize = 1 << 20;
const LINGER_TIME: Duration = Duration::from_secs(2);

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
        stream,
        input: Vec::new(),
        head: RequestHead::new(),
        limits: Limits {
            max_body_size: MAX_BODY,
            ..Limits::default()
        },
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
            return connection.stream.shutdown().await;
        }
    }
}

fn refusal(status: u16, why: &dyn std::fmt::Display) -> Box<Reply> {
    Box::new(Reply::text(status, format!("{why}\n")))
}

struct Connection<S> {
    stream: S,
    input: Vec<u8>,
    head: RequestHead,
    limits: Limits,
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
        let reading = async {
            loop {
                match self.head.parse(&self.input, &self.limits) {
                    Ok(Progress::Complete { length }) => {
                        let opening = self.opening(peer);
                        self.input.drain(..length.min(self.input.len()));
                        return Ok(Some(opening));
                    }
                    Ok(Progress::Incomplete) => {}
                    Err(error) => {
                        return Ok(Some(Err(refusal(error.status(), &error))));
                    }
                }
                if self.stream.read_buf(&mut self.input).await? == 0 {
                    return Ok(None);
                }
            }
        };
        match timeout(IDLE, reading).await {
            Ok(done) => done,
            // Slow or idle: either way there is nobody to be told.
            Err(_) => Ok(None),
        }
    }

    fn opening(&self, peer: &str) -> Result<Opening, Box<Reply>> {
        let view = self.head.view(&self.input);
        let decoder = BodyDecoder::new(view.body_length(), &self.limits)
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

    /// Reads the body.
    async fn body(&mut self, opening: Opening) -> io::Result<Result<Request, Box<Reply>>> {
        let Opening {
            mut request,
            mut decoder,
            ..
        } = opening;
        let reading = async {
            loop {
                let body = &mut request.body;
                let step = decoder.decode_all(&self.input, |bytes| body.extend_from_slice(bytes));
                match step {
                    Ok((consumed, is_finished)) => {
                        self.input.drain(..consumed.min(self.input.len()));
                        if is_finished || decoder.is_finished() {
                            return Ok(Ok(()));
                        }
                    }
                    Err(error) => {
                        return Ok(Err(refusal(error.status(), &error)));
                    }
                }
                if self.stream.read_buf(&mut self.input).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        };
        let read: io::Result<Result<(), Box<Reply>>> = timeout(PATIENCE, reading).await?;
        Ok(read?.map(|()| request))
    }

    async fn write(
        &mut self,
        reply: &Reply,
        (version, method): (Version, Method),
        keep_alive: bool,
    ) -> io::Result<()> {
        let decision = frame_response(&ResponseQuestion {
            version,
            method,
            status: reply.status,
            body: DeclaredBody::Length(reply.body.len() as u64),
            keep_alive,
        });
        let mut head = OutgoingHead::new(reply.status);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let date = format_date(now.as_secs());
        let own = [
            ("Date", std::str::from_utf8(&date).ok()),
            ("Content-Type", Some(reply.media_type)),
            ("Set-Cookie", reply.cookie.as_deref()),
            ("Location", reply.location.as_deref()),
            ("Allow", reply.allow),
            ("WWW-Authenticate", reply.authenticate),
        ];
        let own = own
            .iter()
            .filter_map(|(name, value)| Some((*name, (*value)?)));
        for (name, value) in own.chain(FIELDS) {
            head.fields
                .try_push(name.as_bytes(), value.as_bytes())
                .map_err(io::Error::other)?;
        }
        head.frame(&decision);
        let mut out = Vec::with_capacity(1024 + reply.body.len());
        head.write_http1(&mut out);
        if decision.framing != ResponseFraming::NoBody {
            out.extend_from_slice(&reply.body);
        }
        let mut left = out.as_slice();
        while !left.is_empty() {
            let written = timeout(PATIENCE, self.stream.write(left)).await??;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            left = left.get(written..).unwrap_or_default();
        }
        timeout(PATIENCE, self.stream.flush()).await?
    }

    /// Answers and closes. What the client still sends is read for a while: closing with unread bytes would reset the connection and take
    /// the reply with it.
    async fn refuse(&mut self, reply: &Reply) -> io::Result<()> {
        self.write(reply, (Version::Http11, Method::Get), false)
            .await?;
        self.stream.shutdown().await?;
        let drain = async {
            let mut left = LINGER_BYTES;
            let mut buffer = vec![0; 16 * 1024];
            while left > 0 {
                match self.stream.read(&mut buffer).await {
                    Ok(count) if count > 0 => left = left.saturating_sub(count),
                    _ => break,
                }
            }
        };
        // Longer than this nobody is owed.
        let _ = timeout(LINGER_TIME, drain).await;
        Ok(())
    }
}
