//! gRPC calls (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>): length-prefixed messages, and the
//! status in the trailers.

use std::pin::Pin;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Method, Request, Version};
use http_body_util::BodyExt;
use prost::Message;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::timeout;
use tutti_dialer::error_chain;
use tutti_options::visible;

use super::error::EtcdError;
use super::outgoing::Outgoing;
use super::transport::{EtcdEndpoint, Transport};

/// A flag and a length precede each message.
const PREFIX: usize = 5;

/// More than any answer has: fifty documents of etcd's largest request.
const MOST_BYTES: usize = 128 << 20;

/// A connection for calls.
pub(crate) struct Calls {
    transport: Transport,
    base: String,
    token: Option<HeaderValue>,
    patience: Duration,
}

impl Calls {
    pub(crate) fn new(transport: Transport, endpoint: &EtcdEndpoint, patience: Duration) -> Calls {
        Calls {
            transport,
            base: endpoint.to_string(),
            token: None,
            patience,
        }
    }

    pub(crate) fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// Sends this token with every call from now on.
    pub(crate) fn authorize(&mut self, token: &str) -> Result<(), EtcdError> {
        let value = HeaderValue::from_str(token);
        let mut value =
            value.map_err(|_| EtcdError::Foreign("its token is not text".to_owned()))?;
        value.set_sensitive(true);
        self.token = Some(value);
        Ok(())
    }

    /// Makes a call with one question and one answer.
    pub(crate) async fn call<Q, A>(&self, method: &str, question: &Q) -> Result<A, EtcdError>
    where
        Q: Message,
        A: Message + Default,
    {
        let exchange = async {
            let mut stream = self.open(method).await?;
            stream.say(question)?;
            stream.finish();
            let answer = stream.next::<A>().await?;
            // The end shows whether the answer was complete.
            while stream.next::<A>().await?.is_some() {}
            answer.ok_or_else(|| EtcdError::Foreign("an answer is missing".to_owned()))
        };
        self.in_time(exchange).await
    }

    /// Applies a time limit.
    pub(crate) async fn in_time<T>(
        &self,
        what: impl Future<Output = Result<T, EtcdError>>,
    ) -> Result<T, EtcdError> {
        match timeout(self.patience, what).await {
            Ok(done) => done,
            Err(_) => Err(EtcdError::Silent(self.patience.as_secs_f64())),
        }
    }

    /// Starts a call.
    pub(crate) async fn open(&self, method: &str) -> Result<Stream, EtcdError> {
        let (sender, receiver) = unbounded_channel();
        let mut request = Request::builder()
            .method(Method::POST)
            .version(Version::HTTP_2)
            .uri(format!("{}/{method}", self.base))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            // A member that is isolated from the others then reports it instead of answering.
            .header("hasleader", "true");
        if let Some(token) = &self.token {
            request = request.header("token", token);
        }
        let request = request.body(Outgoing(receiver));
        let request = request.map_err(|error| EtcdError::Unusable(error.to_string()))?;
        let mut http = self.transport.sender.clone();
        let failed = |error: hyper::Error| EtcdError::Connection(error_chain(&error));
        http.ready().await.map_err(failed)?;
        Ok(Stream {
            sender: Some(sender),
            answer: CallState::Awaited(Box::pin(async move { http.send_request(request).await })),
            buffer: BytesMut::new(),
            has_outcome: false,
        })
    }
}

type Awaited =
    Pin<Box<dyn Future<Output = hyper::Result<http::Response<hyper::body::Incoming>>> + Send>>;

enum CallState {
    /// The head has not been received.
    Awaited(Awaited),
    /// The head has been received.
    Comes(hyper::body::Incoming),
    /// Everything has been received, with success.
    Over,
}

/// A call in progress.
pub(crate) struct Stream {
    sender: Option<UnboundedSender<Bytes>>,
    answer: CallState,
    buffer: BytesMut,
    /// The status has been received, and is success.
    has_outcome: bool,
}

impl Stream {
    /// Sends a message.
    pub(crate) fn say(&self, message: &impl Message) -> Result<(), EtcdError> {
        let length = message.encoded_len();
        let mut bytes = BytesMut::with_capacity(PREFIX + length);
        bytes.put_u8(0);
        let counted = u32::try_from(length);
        bytes
            .put_u32(counted.map_err(|_| EtcdError::Unusable("a message is too long".to_owned()))?);
        let encoded = message.encode(&mut bytes);
        encoded.map_err(|error| EtcdError::Unusable(error.to_string()))?;
        let sender = self.sender.as_ref();
        let sent = sender.is_some_and(|sender| sender.send(bytes.freeze()).is_ok());
        match sent {
            true => Ok(()),
            false => Err(EtcdError::Connection("the call has ended".to_owned())),
        }
    }

    /// Sends nothing more.
    pub(crate) fn finish(&mut self) {
        self.sender = None;
    }

    /// Returns the next message; `None` after the last one of a successful call. Cancel-safe.
    pub(crate) async fn next<A: Message + Default>(&mut self) -> Result<Option<A>, EtcdError> {
        loop {
            if let Some(message) = self.take()? {
                let read = A::decode(message);
                return read
                    .map(Some)
                    .map_err(|e| EtcdError::Foreign(e.to_string()));
            }
            let body = match &mut self.answer {
                CallState::Over => return Ok(None),
                CallState::Awaited(answer) => {
                    let answer = answer
                        .await
                        .map_err(|e| EtcdError::Connection(error_chain(&e)))?;
                    if answer.status() != http::StatusCode::OK {
                        return Err(EtcdError::Foreign(format!(
                            "it answers {}",
                            answer.status()
                        )));
                    }
                    // An answer without any message has its status in the head.
                    self.has_outcome = outcome(answer.headers())?;
                    self.answer = CallState::Comes(answer.into_body());
                    continue;
                }
                CallState::Comes(body) => body,
            };
            match body.frame().await {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.buffer.extend_from_slice(&data),
                    Err(frame) => {
                        if let Some(trailers) = frame.trailers_ref() {
                            self.has_outcome |= outcome(trailers)?;
                        }
                    }
                },
                Some(Err(error)) => return Err(EtcdError::Connection(error_chain(&error))),
                None if self.buffer.is_empty() && self.has_outcome => self.answer = CallState::Over,
                None => return Err(EtcdError::Connection("an answer was cut short".to_owned())),
            }
        }
    }

    /// Returns a complete message.
    fn take(&mut self) -> Result<Option<Bytes>, EtcdError> {
        let Some(mut prefix) = self.buffer.get(..PREFIX) else {
            return Ok(None);
        };
        let is_compressed = prefix.get_u8() != 0;
        let length = usize::try_from(prefix.get_u32()).unwrap_or(usize::MAX);
        if is_compressed || length > MOST_BYTES {
            let text = "a message is compressed or too long";
            return Err(EtcdError::Foreign(text.to_owned()));
        }
        if self.buffer.len() < PREFIX + length {
            return Ok(None);
        }
        self.buffer.advance(PREFIX);
        Ok(Some(self.buffer.split_to(length).freeze()))
    }
}

/// Reads the status of a call from its trailers; false if they have none.
fn outcome(fields: &HeaderMap) -> Result<bool, EtcdError> {
    let Some(status) = fields.get("grpc-status") else {
        return Ok(false);
    };
    let code = status
        .to_str()
        .ok()
        .and_then(|code| code.parse::<u32>().ok());
    let code = code.ok_or_else(|| EtcdError::Foreign("its outcome is not a number".to_owned()))?;
    if code == 0 {
        return Ok(true);
    }
    let message = fields.get("grpc-message");
    let message = message.map(|text| decoded(text.as_bytes()));
    Err(EtcdError::Refused {
        code,
        message: message.unwrap_or_default(),
    })
}

/// Decodes `%XX`, and removes control characters.
fn decoded(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let code = after
            .get(..2)
            .and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    visible(&String::from_utf8_lossy(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(status: &'static str, message: &'static str) -> HeaderMap {
        let mut fields = HeaderMap::new();
        fields.insert("grpc-status", HeaderValue::from_static(status));
        fields.insert("grpc-message", HeaderValue::from_static(message));
        fields
    }

    #[test]
    fn the_outcome_is_in_the_trailers() {
        assert!(!outcome(&HeaderMap::new()).unwrap());
        assert!(outcome(&fields("0", "")).unwrap());
        let refused = outcome(&fields("7", "etcdserver%3A no%0Arights")).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "etcd refuses it: etcdserver: no rights"
        );
        assert!(refused.is_final());
        assert!(matches!(
            outcome(&fields("x", "")),
            Err(EtcdError::Foreign(_))
        ));
        assert!(!outcome(&fields("14", "")).unwrap_err().is_final());
    }

    #[test]
    fn messages_are_taken_when_they_have_come_whole() {
        let mut stream = Stream {
            sender: None,
            answer: CallState::Over,
            buffer: BytesMut::from(&[0, 0, 0, 0, 2, 7][..]),
            has_outcome: false,
        };
        assert_eq!(stream.take().unwrap(), None);
        stream.buffer.extend_from_slice(&[8, 0]);
        assert_eq!(stream.take().unwrap().as_deref(), Some(&[7, 8][..]));
        assert_eq!(stream.take().unwrap(), None);
        for wrong in [[1, 0, 0, 0, 0], [0, 255, 255, 255, 255]] {
            stream.buffer = BytesMut::from(&wrong[..]);
            assert!(stream.take().is_err());
        }
    }
}
