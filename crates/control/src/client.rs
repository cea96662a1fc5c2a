//! A client's connection, below what is asked: bytes in and out. Every wait for it has an end, and everything read a bound.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use tutti_http::{
    BodyDecoder, BodyError, DeclaredBody, HeadError, Limits, Method, OutgoingHead, Progress,
    RequestHead, RequestView, ResponseFraming, ResponseQuestion, Version, format_date,
    frame_response,
};

/// How long and for how much a client is waited for.
#[derive(Clone, Copy)]
pub struct Patience {
    /// For its next bytes, and for it to take some of ours.
    pub wait: Duration,
    /// Largest body.
    pub max_body: u64,
    /// How much of a refused request is still read, so that the client sees the answer instead of a reset.
    pub linger_bytes: usize,
    /// How long at most.
    pub linger: Duration,
}

/// An answer without its fields.
pub struct Answered<'a> {
    /// The request's.
    pub version: Version,
    /// The request's.
    pub method: Method,
    /// The answer's.
    pub status: u16,
    /// The connection stays for the next request.
    pub keep_alive: bool,
    /// Not sent where the method or the status has none.
    pub body: &'a [u8],
}

/// A connection, and what has been read of it.
pub struct Client<S> {
    stream: S,
    input: Vec<u8>,
    head: RequestHead,
    limits: Limits,
    patience: Patience,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// A connection that nothing has been read from.
    pub fn new(stream: S, patience: Patience) -> Client<S> {
        Client {
            stream,
            input: Vec::new(),
            head: RequestHead::new(),
            limits: Limits {
                max_body_size: patience.max_body,
                // Names may have everything, encoded, and they are taken apart before they are decoded.
                paths: None,
                ..Limits::default()
            },
            patience,
        }
    }

    /// Nothing is there that no request has taken.
    pub fn has_no_input(&self) -> bool {
        self.input.is_empty()
    }

    /// Reads a request's head, and what `opening` makes of it; `None` when the client has left between requests.
    ///
    /// # Errors
    /// The connection's; [`io::ErrorKind::TimedOut`] when nothing more came.
    pub async fn head<T>(
        &mut self,
        opening: impl Fn(&RequestView<'_>, &Limits) -> T,
    ) -> io::Result<Option<Result<T, HeadError>>> {
        loop {
            match self.head.parse(&self.input, &self.limits) {
                Ok(Progress::Complete { length }) => {
                    let opened = opening(&self.head.view(&self.input), &self.limits);
                    self.input.drain(..length.min(self.input.len()));
                    return Ok(Some(Ok(opened)));
                }
                Ok(Progress::Incomplete) => {}
                Err(error) => return Ok(Some(Err(error))),
            }
            if self.fill().await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Reads a request's body.
    ///
    /// # Errors
    /// As [`Self::head`].
    pub async fn body(
        &mut self,
        decoder: &mut BodyDecoder,
    ) -> io::Result<Result<Vec<u8>, BodyError>> {
        let mut body = Vec::new();
        loop {
            match decoder.decode_all(&self.input, |bytes| body.extend_from_slice(bytes)) {
                Ok((consumed, is_finished)) => {
                    self.input.drain(..consumed.min(self.input.len()));
                    if is_finished || decoder.is_finished() {
                        return Ok(Ok(body));
                    }
                }
                Err(error) => return Ok(Err(error)),
            }
            if self.fill().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Writes an answer with these fields and `Date`.
    ///
    /// # Errors
    /// The connection's, and a field that cannot be one.
    pub async fn answer<'f>(
        &mut self,
        answered: &Answered<'_>,
        fields: impl Iterator<Item = (&'f str, &'f str)>,
    ) -> io::Result<()> {
        let decision = frame_response(&ResponseQuestion {
            version: answered.version,
            method: answered.method,
            status: answered.status,
            body: DeclaredBody::Length(answered.body.len() as u64),
            keep_alive: answered.keep_alive,
        });
        let mut head = OutgoingHead::new(answered.status);
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let mut push = |name: &str, value: &[u8]| {
            let pushed = head.fields.try_push(name.as_bytes(), value);
            pushed.map_err(io::Error::other)
        };
        push("Date", &format_date(now.as_secs()))?;
        for (name, value) in fields {
            push(name, value.as_bytes())?;
        }
        head.frame(&decision);
        let mut out = Vec::with_capacity(1024 + answered.body.len());
        head.write_http1(&mut out);
        if decision.framing != ResponseFraming::NoBody {
            out.extend_from_slice(answered.body);
        }
        self.send(&out).await
    }

    /// Writes bytes as they are.
    ///
    /// # Errors
    /// The connection's; [`io::ErrorKind::TimedOut`] when the client takes nothing.
    pub async fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let written = timeout(self.patience.wait, self.stream.write(bytes)).await??;
            if written == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            bytes = bytes.get(written..).unwrap_or_default();
        }
        timeout(self.patience.wait, self.stream.flush()).await?
    }

    /// Closes for writing.
    ///
    /// # Errors
    /// The connection's.
    pub async fn close(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }

    /// Closes after a refusal. What the client still sends is read for a while: closing with unread bytes would reset the connection and
    /// take the answer with it.
    ///
    /// # Errors
    /// The connection's.
    pub async fn close_refused(&mut self) -> io::Result<()> {
        self.close().await?;
        let drain = async {
            let mut left = self.patience.linger_bytes;
            let mut buffer = vec![0; 16 * 1024];
            while left > 0 {
                match self.stream.read(&mut buffer).await {
                    Ok(count) if count > 0 => left = left.saturating_sub(count),
                    _ => break,
                }
            }
        };
        // Longer than this nobody is owed.
        let _ = timeout(self.patience.linger, drain).await;
        Ok(())
    }

    async fn fill(&mut self) -> io::Result<usize> {
        timeout(self.patience.wait, self.stream.read_buf(&mut self.input)).await?
    }
}
