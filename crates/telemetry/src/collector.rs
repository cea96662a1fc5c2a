//! A collector: the requests sent to it, and the meaning of its responses (OTLP specification 1.x, "OTLP/HTTP" and
//! "OTLP/gRPC").

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CONTENT_TYPE, RETRY_AFTER, TE, USER_AGENT};
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message;
use rustls::RootCertStore;
use tutti_config::model::{CollectorProtocol, Telemetry};
use tutti_dialer::{
    HttpClient, HttpUse, client_config, error_chain, http_client, system_authorities,
};

/// A longer response does not come from a collector.
const MAX_ANSWER: usize = 64 * 1024;

/// The longest pause requested by a collector that is followed.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The user agent (OTLP exporter specification, "User Agent").
const AGENT: &str = concat!("Tutti/", env!("CARGO_PKG_VERSION"), " (OTLP)");

/// Bytes before a gRPC message: whether it is compressed, and its length (gRPC over HTTP/2, "Length-Prefixed-Message").
const GRPC_PREFIX: usize = 5;

/// gRPC statuses after which an export may be retried (OTLP specification, "Failures"): CANCELLED, DEADLINE_EXCEEDED,
/// RESOURCE_EXHAUSTED, ABORTED, OUT_OF_RANGE, UNAVAILABLE, DATA_LOSS.
const GRPC_RETRYABLE: [&str; 7] = ["1", "4", "8", "10", "11", "14", "15"];

/// Why spans were not accepted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ExportError {
    pub(crate) message: String,
    /// A retry may succeed.
    pub(crate) is_retryable: bool,
    /// The pause before a retry, if the collector requests one.
    pub(crate) pause: Option<Duration>,
}

impl ExportError {
    fn retryable(message: String) -> Self {
        Self {
            message,
            is_retryable: true,
            pause: None,
        }
    }

    fn last(message: String) -> Self {
        Self {
            message,
            is_retryable: false,
            pause: None,
        }
    }
}

/// The destination of spans.
pub(crate) struct Collector {
    client: HttpClient<Full<Bytes>>,
    uri: Uri,
    protocol: CollectorProtocol,
}

impl Collector {
    /// Creates a collector without connecting to it.
    pub(crate) fn new(settings: &Telemetry) -> Result<Self, String> {
        let uri = settings
            .url
            .parse()
            .map_err(|error| format!("`{}` is not a URL: {error}", settings.url))?;
        let kind = match settings.options.protocol {
            CollectorProtocol::Http | CollectorProtocol::Https => HttpUse::Http1,
            CollectorProtocol::Grpc => HttpUse::Http2,
        };
        let roots = match settings.is_tls() {
            true => system_authorities()?,
            false => RootCertStore::empty(),
        };
        let client = http_client(client_config(roots, None)?, kind, 1);
        Ok(Self {
            client,
            uri,
            protocol: settings.options.protocol,
        })
    }

    /// Sends spans; returns how many of them the collector rejected, and why.
    pub(crate) async fn export(
        &self,
        spans: &ExportTraceServiceRequest,
    ) -> Result<Option<(u64, String)>, ExportError> {
        let message = match self.protocol {
            CollectorProtocol::Http | CollectorProtocol::Https => self.post(spans).await?,
            CollectorProtocol::Grpc => self.call(spans).await?,
        };
        // A collector that has accepted everything may send an empty response.
        let answer = ExportTraceServiceResponse::decode(message).unwrap_or_default();
        let refused = answer
            .partial_success
            .filter(|part| part.rejected_spans > 0);
        Ok(refused.map(|part| {
            let count = u64::try_from(part.rejected_spans).unwrap_or_default();
            (count, part.error_message)
        }))
    }

    async fn post(&self, spans: &ExportTraceServiceRequest) -> Result<Bytes, ExportError> {
        let request = Request::post(&self.uri)
            .header(CONTENT_TYPE, "application/x-protobuf")
            .header(USER_AGENT, AGENT)
            .body(Full::from(spans.encode_to_vec()));
        let (status, fields, body) = self.exchange(request).await?;
        if status.is_success() {
            return Ok(body.map(|(bytes, _)| bytes).unwrap_or_default());
        }
        let message = format!("it answers {status}");
        Err(match status.as_u16() {
            429 | 502 | 503 | 504 => ExportError {
                pause: fields
                    .get(RETRY_AFTER)
                    .and_then(|value| value.to_str().ok()?.parse().ok())
                    .map(|seconds| Duration::from_secs(seconds).min(LONGEST_PAUSE)),
                ..ExportError::retryable(message)
            },
            _ => ExportError::last(message),
        })
    }

    async fn call(&self, spans: &ExportTraceServiceRequest) -> Result<Bytes, ExportError> {
        let length = spans.encoded_len();
        let mut message = BytesMut::with_capacity(GRPC_PREFIX + length);
        message.put_u8(0);
        message.put_u32(u32::try_from(length).map_err(|_| {
            ExportError::last("a batch is larger than a message of gRPC can be".to_owned())
        })?);
        // The buffer is large enough.
        let _ = spans.encode(&mut message);
        let request = Request::post(&self.uri)
            .header(CONTENT_TYPE, "application/grpc")
            .header(TE, "trailers")
            .header(USER_AGENT, AGENT)
            .body(Full::from(message.freeze()));
        let (status, fields, body) = self.exchange(request).await?;
        let (mut bytes, trailers) = body?;
        let grpc = |name| fields.get(name).or_else(|| trailers.get(name));
        let text = |name| grpc(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
        match text("grpc-status").as_deref() {
            Some("0") => {
                let _ = bytes.split_to(GRPC_PREFIX.min(bytes.len()));
                Ok(bytes)
            }
            Some(code) => {
                let why = text("grpc-message").unwrap_or_default();
                let message = format!("it answers with status {code} of gRPC: {why}");
                Err(match GRPC_RETRYABLE.contains(&code) {
                    true => ExportError::retryable(message),
                    false => ExportError::last(message),
                })
            }
            None => {
                let message = format!("it answers {status} without a status of gRPC");
                Err(match status.as_u16() {
                    429 | 502 | 503 | 504 => ExportError::retryable(message),
                    _ => ExportError::last(message),
                })
            }
        }
    }

    /// Sends a request; returns status, fields, and the body with its trailers if it is complete.
    async fn exchange(
        &self,
        request: http::Result<Request<Full<Bytes>>>,
    ) -> Result<
        (
            StatusCode,
            HeaderMap,
            Result<(Bytes, HeaderMap), ExportError>,
        ),
        ExportError,
    > {
        let request = request.map_err(|error| ExportError::last(error.to_string()))?;
        let sent = self.client.request(request).await;
        let (head, body) = sent
            .map_err(|error| ExportError::retryable(error_chain(&error)))?
            .into_parts();
        let body = Limited::new(body, MAX_ANSWER).collect().await;
        let body = body
            .map(|body| {
                let trailers = body.trailers().cloned().unwrap_or_default();
                (body.to_bytes(), trailers)
            })
            .map_err(|error| ExportError::retryable(format!("its answer is cut short: {error}")));
        Ok((head.status, head.headers, body))
    }
}
