//! One connection of the control socket: requests in, answers out.
//!
//! Each has its own task, so a client that is slow or silent holds up nobody; every wait for it has an end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tutti_config::Format;
use tutti_http::{BodyDecoder, BodyError, Limits, Method, RequestView, Version};
use tutti_protocol::Access;

use crate::access;
use crate::answer::Answer;
use crate::api::{Api, Request};
use crate::client::{Answered, Client, Patience};
use crate::etag::{Condition, Conditions};

/// People type requests by hand here, hence more generous than for listeners.
const PATIENCE: Patience = Patience {
    wait: Duration::from_secs(60),
    max_body: MAX_BODY,
    linger_bytes: 16 << 20,
    linger: Duration::from_secs(5),
};

/// Largest body. A configuration of 100 applications with names of a megabyte each fits.
const MAX_BODY: u64 = 128 << 20;

/// Characters of `User-Agent` that the history keeps.
const LONGEST_AGENT: usize = 80;

/// Who has connected.
pub(crate) struct Caller {
    /// As far as the system can tell.
    pub(crate) name: String,
    pub(crate) access: Arc<Access>,
    /// The part of the API that is there for it.
    pub(crate) scope: Scope,
    /// The answer to everything, for whom the API is not there.
    pub(crate) refusal: Option<Answer>,
}

/// How much of the API a caller may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All of it.
    Everything,
    /// Reading `/status`: the caller is a router, which passes on what any client of a listener has sent.
    Status,
}

impl Caller {
    pub(crate) fn new(name: String, access: &Arc<Access>) -> Caller {
        Caller {
            name,
            access: Arc::clone(access),
            scope: Scope::Everything,
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
        client: Client::new(stream, PATIENCE),
        caller,
    };
    // An error here is a client that has left: nobody to tell.
    let _ = connection.serve(&api).await;
}

struct Connection<S> {
    client: Client<S>,
    caller: Caller,
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
            let answer = match self.caller.scope {
                Scope::Everything => api.answer(request).await,
                Scope::Status => api.answer_of_status(request).await,
            };
            self.write(api, &answer, framing, keep_alive).await?;
            if !keep_alive {
                return self.client.close().await;
            }
        }
    }

    /// Reads a request head; `None` when the client has left between requests.
    async fn open(&mut self) -> io::Result<Option<Result<Opening, Refusal>>> {
        let caller = &self.caller;
        let read = self
            .client
            .head(|view, limits| caller.opening(view, limits));
        match read.await {
            Ok(None) => Ok(None),
            Ok(Some(Ok(opening))) => Ok(Some(opening)),
            Ok(Some(Err(error))) => {
                let detail = format!("{error}.");
                let answer = Answer::error(error.status(), "Invalid request.", Some(&detail));
                Ok(Some(Err(Refusal(answer))))
            }
            Err(error) if error.kind() != io::ErrorKind::TimedOut => Err(error),
            Err(_) if self.client.has_no_input() => Ok(None),
            Err(_) => Ok(Some(Err(too_slow()))),
        }
    }

    /// Reads the body.
    async fn body(&mut self, opening: Opening) -> io::Result<Result<Request, Refusal>> {
        let Opening {
            mut request,
            mut decoder,
            expects_continue,
            ..
        } = opening;
        if expects_continue && !decoder.is_finished() && self.client.has_no_input() {
            self.client.send(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        match self.client.body(&mut decoder).await {
            Ok(Ok(body)) => {
                request.body = body;
                Ok(Ok(request))
            }
            Ok(Err(error)) => Ok(Err(self.caller.refused_body(error))),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(Err(too_slow())),
            Err(error) => Err(error),
        }
    }

    async fn write(
        &mut self,
        api: &Api,
        answer: &Answer,
        (version, method): (Version, Method),
        keep_alive: bool,
    ) -> io::Result<()> {
        let answered = Answered {
            version,
            method,
            status: answer.status,
            keep_alive,
            body: &answer.body,
        };
        let fields = [
            ("Server", Some(api.service.server_name())),
            (
                "Content-Type",
                (answer.status != 304).then_some(answer.media_type.unwrap_or("application/json")),
            ),
            ("ETag", answer.etag.as_deref()),
            ("Allow", answer.allow),
            ("WWW-Authenticate", answer.authenticate),
        ];
        let fields = fields
            .iter()
            .filter_map(|(name, value)| Some((*name, (*value)?)));
        self.client.answer(&answered, fields).await
    }

    /// Answers and closes.
    async fn refuse(&mut self, api: &Api, answer: &Answer) -> io::Result<()> {
        self.write(api, answer, (Version::Http11, Method::Get), false)
            .await?;
        self.client.close_refused().await
    }
}

impl Caller {
    /// Bytes that a request body may have.
    fn max_body(&self) -> u64 {
        match self.scope {
            Scope::Everything => MAX_BODY,
            Scope::Status => 0,
        }
    }

    fn refused_body(&self, error: BodyError) -> Refusal {
        let (what, detail) = match error.status() {
            413 => (
                "Request body is too large.",
                format!("A request body may have {} bytes.", self.max_body()),
            ),
            _ => ("Invalid request body.", format!("{error}.")),
        };
        Refusal(Answer::error(error.status(), what, Some(&detail)))
    }

    /// Reads what a head asks; the answer to one that may not.
    fn opening(&self, view: &RequestView<'_>, limits: &Limits) -> Result<Opening, Refusal> {
        let checked = match self.scope {
            Scope::Everything => access::check(&self.access, view),
            // `Host` and `Origin` are those of a site, and nothing can be changed.
            Scope::Status => access::check_token(&self.access, view),
        };
        checked.map_err(Refusal)?;
        let limits = Limits {
            max_body_size: self.max_body(),
            ..limits.clone()
        };
        let target = view.origin_target();
        let path = target
            .split(|&byte| byte == b'?')
            .next()
            .unwrap_or_default();
        let conditions = Conditions {
            if_match: Condition::read(view.get_all(b"if-match")),
            if_none_match: Condition::read(view.get_all(b"if-none-match")),
        };
        let decoder = BodyDecoder::new(view.body_length(), &limits);
        let decoder = decoder.map_err(|error| self.refused_body(error))?;
        let facts = view.facts();
        let field = |name: &[u8]| {
            let value = view.get_all(name).next().unwrap_or_default();
            String::from_utf8_lossy(value).into_owned()
        };
        let agent: String = field(b"user-agent").chars().take(LONGEST_AGENT).collect();
        let by = match agent.as_str() {
            "" => self.name.clone(),
            agent => format!("{}, {agent}", self.name),
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
}

fn too_slow() -> Refusal {
    Refusal(Answer::error(408, "Request timed out.", None))
}
