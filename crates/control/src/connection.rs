//! One connection of the control socket: reads requests, writes responses.
//!
//! Each has its own task, so a slow or silent client does not block others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, ETAG, IF_MATCH, IF_NONE_MATCH, SERVER};
use http::header::{HeaderName, HeaderValue, USER_AGENT, WWW_AUTHENTICATE};
use http::request::Parts;
use tokio::io::{AsyncRead, AsyncWrite};
use tutti_config::Format;
use tutti_http::Method;
use tutti_protocol::ControlAccess;

use crate::access;
use crate::api::{Api, Request};
use crate::api_response::ApiResponse;
use crate::change::Due;
use crate::etag::{Condition, Conditions};
use crate::serving::{self, BodyReadError, Response};

/// Time for a head, for each part of a body, and for progress in reading a response: people type requests by hand here.
const PATIENCE: Duration = Duration::from_secs(60);

/// Largest body. A configuration of 100 applications with names of a megabyte each fits.
const MAX_BODY: u64 = 128 << 20;

/// Characters of `User-Agent` that the history keeps.
const LONGEST_AGENT: usize = 80;

/// The peer of a connection.
pub(crate) struct Caller {
    /// Its name, as far as the system knows it.
    pub(crate) name: String,
    pub(crate) access: Arc<ControlAccess>,
    /// The part of the API that it may use.
    pub(crate) scope: Scope,
    /// The response to every request, for a caller that may not use the API.
    pub(crate) refusal: Option<ApiResponse>,
    /// A request of it has been admitted.
    pub(crate) is_known: Arc<AtomicBool>,
}

/// The part of the API that a caller may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All of it.
    Everything,
    /// Reading `/status`: the caller is a router, which passes on requests of any client.
    Status,
}

/// Serves a connection until it ends.
pub(crate) async fn run<S>(stream: S, caller: Caller, api: Arc<Api>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (api, caller) = (&*api, &caller);
    let respond = |request| async move {
        match caller.read(request).await {
            Ok(request) => {
                let due = api.changes.owe();
                let answer = match caller.scope {
                    Scope::Everything => api.answer(request).await,
                    Scope::Status => api.answer_of_status(request).await,
                };
                (response(api, answer), Some(due))
            }
            Err(answer) => (serving::closing(response(api, answer)), None::<Due>),
        }
    };
    let refuse = |status, why: &str| {
        let detail = format!("{why}.");
        let answer = match status {
            408 => too_slow(),
            status => ApiResponse::error(status, "Invalid request.", Some(&detail)),
        };
        response(api, answer)
    };
    serving::serve_connection(stream, PATIENCE, respond, refuse).await;
}

fn response(api: &Api, answer: ApiResponse) -> Response {
    let media_type = answer.media_type.unwrap_or("application/json");
    let fields: [(HeaderName, Option<&str>); 5] = [
        (SERVER, Some(api.service.server_name())),
        (CONTENT_TYPE, (answer.status != 304).then_some(media_type)),
        (ETAG, answer.etag.as_deref()),
        (ALLOW, answer.allow),
        (WWW_AUTHENTICATE, answer.authenticate),
    ];
    let fields = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)));
    serving::response(answer.status, fields, answer.body)
}

impl Caller {
    pub(crate) fn new(name: String, access: &Arc<ControlAccess>) -> Caller {
        Caller {
            name,
            access: Arc::clone(access),
            scope: Scope::Everything,
            refusal: None,
            is_known: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Reads a request, and its body only if the head passes the checks; otherwise returns the response, which ends the
    /// connection.
    async fn read(&self, request: serving::ApiRequest) -> Result<Request, ApiResponse> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let (head, body) = request.into_parts();
        let host = serving::host(&head)
            .map_err(|why| ApiResponse::error(400, "Invalid request.", Some(&format!("{why}."))))?;
        match self.scope {
            Scope::Everything => access::check(&self.access, &head, host)?,
            // `Host` and `Origin` belong to a site, and nothing can be changed.
            Scope::Status => access::check_token(&self.access, &head)?,
        }
        self.is_known.store(true, Ordering::Relaxed);
        let most = match self.scope {
            Scope::Everything => MAX_BODY,
            Scope::Status => 0,
        };
        let mut request = self.opening(&head);
        let body = serving::read_body(body, most, PATIENCE).await;
        request.body = body.map_err(|fault| match fault {
            BodyReadError::TooLarge => {
                let detail = format!("A request body may have at most {most} bytes.");
                ApiResponse::error(413, "Request body is too large.", Some(&detail))
            }
            BodyReadError::TooSlow => too_slow(),
            BodyReadError::Broken(error) => {
                ApiResponse::error(400, "Invalid request body.", Some(&format!("{error}.")))
            }
        })?;
        Ok(request)
    }

    /// Converts a head to a request without its body.
    fn opening(&self, head: &Parts) -> Request {
        let lines = |name| head.headers.get_all(name).iter().map(HeaderValue::as_bytes);
        let conditions = Conditions {
            if_match: Condition::read(lines(IF_MATCH)),
            if_none_match: Condition::read(lines(IF_NONE_MATCH)),
        };
        let field = |name| {
            let value = lines(name).next().unwrap_or_default();
            String::from_utf8_lossy(value).into_owned()
        };
        let agent: String = field(USER_AGENT).chars().take(LONGEST_AGENT).collect();
        let by = match agent.as_str() {
            "" => self.name.clone(),
            agent => format!("{}, {agent}", self.name),
        };
        let accept = field(ACCEPT);
        Request {
            method: Method::from_bytes(head.method.as_str().as_bytes()),
            path: head.uri.path().as_bytes().to_vec(),
            conditions,
            body: Vec::new(),
            content_type: field(CONTENT_TYPE),
            accept: accept
                .split(',')
                .find_map(Format::of_media_type)
                .filter(|format| *format != Format::Toml)
                .unwrap_or_default(),
            metrics: tutti_metrics::ExpositionFormat::accepted(&accept),
            by,
        }
    }
}

fn too_slow() -> ApiResponse {
    ApiResponse::error(408, "Request timed out.", None)
}
