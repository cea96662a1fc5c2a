//! One connection of the control socket: requests in, answers out.
//!
//! Each has its own task, so a client that is slow or silent holds up nobody; every wait for it has an end.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tutti_config::Format;
use tutti_http::{
    BodyDecoder, DeclaredBody, Limits, Method, OutgoingHead, Progress, RequestHead,
    ResponseQuestion, Version, format_date, frame_response,
};
use tutti_protocol::Access;

use crate::access;
use crate::answer::Answer;
use crate::api::{Api, Request};
use crate::etag::{Condition, Conditions};

/// Longest wait for the next bytes of a request, for the next request, and for a client to take an answer. People type
/// requests by hand here, hence more generous than for listeners.
const PATIENCE: Duration = Duration::from_secs(60);

/// Largest body. A configuration of 100 applications with names of a megabyte each fits.
const MAX_BODY: u64 = 128 << 20;

/// Characters of `User-Agent` that the history keeps.
const LONGEST_AGENT: usize = 80;

/// How much of a refused request is still read, so that the client gets to see the answer instead of a reset.
const LINGER_BYTES: usize = 16 << 20;
const LINGER_TIME: Duration = Duration::from_secs(5);

/// Who has connected.
pub(crate) struct Caller {
    /// As far as the system can tell.
    pub(crate) name: String,
    pub(crate) access: Arc<Access>,
    /// The answer to everything, for whom the API is not there.
    pub(crate) refusal: Option<Answer>,
}

impl Caller {
    pub(crate) fn new(name: String, access: &Arc<Access>) -> Caller {
        Caller {
            name,
            access: Arc::clone(access),
            refusal: None,
        }
    }
}

/// Serves a connection until it ends.
pub(crate) async fn run<S>(stream: S, caller: Caller, api: Arc<Api>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut connection = Connection {
        stream,
        caller,
        input: Vec::new(),
        head: RequestHead::new(),
        limits: Limits {
            max_body_size: MAX_BODY,
            ..Limits::default()
        },
    };
    // An error here is a client that has left: nobody to tell.
    let _ = connection.serve(&api).await;
}

struct Connection<S> {
    stream: S,
    caller: Caller,
    input: Vec<u8>,
    head: RequestHead,
    limits: Limits,
}

/// How a request began.
struct Opening {
    request: Request,
    decoder: BodyDecoder,
    expects_continue: bool,
    version: Version,
    keep_alive: bool,
}

/// A request that is answered without being looked at, and ends the connection.
struct Refusal(Answer);

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    async fn serve(&mut self, api: &Api) -> io::Result<()> {
        if let Some(answer) = self.caller.refusal.take() {
            return self.refuse(api, &answer).await;
        }
        loop {
            let opening = match self.open().await? {
                None => return Ok(()),
                Some(Ok(opening)) => opening,
                Some(Err(Refusal(answer))) => return self.refuse(api, &answer).await,
            };
            let framing = (opening.version, opening.request.method);
            let keep_alive = opening.keep_alive;
            let request = match self.body(opening).await? {
                Ok(request) => request,
                Err(Refusal(answer)) => return self.refuse(api, &answer).await,
            };
            let _due = api.changes.owe();
            let answer = api.answer(request).await;
            self.write(api, &answer, framing, keep_alive).await?;
            if !keep_alive {
                return self.stream.shutdown().await;
            }
        }
    }

    /// Reads a request head; `None` when the client has left between requests.
    async fn open(&mut self) -> io::Result<Option<Result<Opening, Refusal>>> {
        loop {
            match self.head.parse(&self.input, &self.limits) {
                Ok(Progress::Complete { length }) => {
                    let opening = self.opening();
                    self.input.drain(..length.min(self.input.len()));
                    return Ok(Some(opening));
                }
                Ok(Progress::Incomplete) => {}
                Err(error) => {
                    let detail = format!("{error}.");
                    let answer = Answer::error(error.status(), "Invalid request.", Some(&detail));
                    return Ok(Some(Err(Refusal(answer))));
                }
            }
            match timeout(PATIENCE, self.stream.read_buf(&mut self.input)).await {
                Ok(read) => {
                    if read? == 0 {
                        return Ok(None);
                    }
                }
                Err(_) if self.input.is_empty() => return Ok(None),
                Err(_) => return Ok(Some(Err(too_slow()))),
            }
        }
    }

    fn opening(&self) -> Result<Opening, Refusal> {
        let view = self.head.view(&self.input);
        access::check(&self.caller.access, &view).map_err(Refusal)?;
        let target = view.origin_target();
        let path = target
            .split(|&byte| byte == b'?')
            .next()
            .unwrap_or_default();
        let conditions = Conditions {
            if_match: Condition::read(view.get_all(b"if-match")),
            if_none_match: Condition::read(view.get_all(b"if-none-match")),
        };
        let decoder = BodyDecoder::new(view.body_length(), &self.limits)
            .map_err(|error| refused_body(error.status(), &error.to_string()))?;
        let facts = view.facts();
        let field = |name: &[u8]| {
            let value = view.get_all(name).next().unwrap_or_default();
            String::from_utf8_lossy(value).into_owned()
        };
        let agent: String = field(b"user-agent").chars().take(LONGEST_AGENT).collect();
        let by = match agent.as_str() {
            "" => self.caller.name.clone(),
            agent => format!("{}, {agent}", self.caller.name),
        };
        let accept = field(b"accept");
        Ok(Opening {
            request: Request {
                method: view.method(),
                path: path.to_vec(),
                conditions,
                body: Vec::new(),
                content_type: field(b"content-type"),
                accept: accept
                    .split(',')
                    .find_map(Format::of_media_type)
                    .filter(|format| *format != Format::Toml)
                    .unwrap_or_default(),
                metrics: tutti_metrics::Format::accepted(&accept),
                by,
            },
            decoder,
            expects_continue: facts.expects_continue,
            version: view.version(),
            keep_alive: facts.keep_alive,
        })
    }

    /// Reads the body.
    async fn body(&mut self, opening: Opening) -> io::Result<Result<Request, Refusal>> {
        let Opening {
            mut request,
            mut decoder,
            expects_continue,
            ..
        } = opening;
        if expects_continue && !decoder.is_finished() && self.input.is_empty() {
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        loop {
            let body = &mut request.body;
            let step = decoder.decode_all(&self.input, |bytes| body.extend_from_slice(bytes));
            match step {
                Ok((consumed, is_finished)) => {
                    self.input.drain(..consumed.min(self.input.len()));
                    if is_finished || decoder.is_finished() {
                        return Ok(Ok(request));
                    }
                }
                Err(error) => return Ok(Err(refused_body(error.status(), &error.to_string()))),
            }
            match timeout(PATIENCE, self.stream.read_buf(&mut self.input)).await {
                Ok(read) => {
                    if read? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(_) => return Ok(Err(too_slow())),
            }
        }
    }

    async fn write(
        &mut self,
        api: &Api,
        answer: &Answer,
        (version, method): (Version, Method),
        keep_alive: bool,
    ) -> io::Result<()> {
        let decision = frame_response(&ResponseQuestion {
            version,
            method,
            status: answer.status,
            body: DeclaredBody::Length(answer.body.len() as u64),
            keep_alive,
        });
        let mut out = Vec::with_capacity(512 + answer.body.len());
        let mut head = OutgoingHead::new(answer.status);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let date = format_date(now.as_secs());
        let fields = [
            ("Server", Some(api.service.server_name())),
            ("Date", std::str::from_utf8(&date).ok()),
            (
                "Content-Type",
                (answer.status != 304).then_some(answer.media_type.unwrap_or("application/json")),
            ),
            ("ETag", answer.etag.as_deref()),
            ("Allow", answer.allow),
            ("WWW-Authenticate", answer.authenticate),
        ];
        for (name, value) in fields {
            if let Some(value) = value {
                head.fields
                    .try_push(name.as_bytes(), value.as_bytes())
                    .map_err(io::Error::other)?;
            }
        }
        head.frame(&decision);
        head.write_http1(&mut out);
        if decision.framing != tutti_http::ResponseFraming::NoBody {
            out.extend_from_slice(&answer.body);
        }
        self.send(&out).await
    }

    async fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = timeout(PATIENCE, self.stream.write(bytes)).await??;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = bytes.get(written..).unwrap_or_default();
        }
        self.stream.flush().await
    }

    /// Answers and closes. What the client still sends is read for a while: closing with unread bytes would reset the
    /// connection and take the answer with it.
    async fn refuse(&mut self, api: &Api, answer: &Answer) -> io::Result<()> {
        self.write(api, answer, (Version::Http11, Method::Get), false)
            .await?;
        self.stream.shutdown().await?;
        let drain = async {
            let mut left = LINGER_BYTES;
            let mut buffer = vec![0; 64 * 1024];
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

fn too_slow() -> Refusal {
    Refusal(Answer::error(408, "Request timed out.", None))
}

fn refused_body(status: u16, problem: &str) -> Refusal {
    if status == 413 {
        let detail = format!("A request body may have {MAX_BODY} bytes.");
        return Refusal(Answer::error(
            413,
            "Request body is too large.",
            Some(&detail),
        ));
    }
    Refusal(Answer::error(
        status,
        "Invalid request body.",
        Some(&format!("{problem}.")),
    ))
}
