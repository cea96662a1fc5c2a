//! An HTTP/2 or HTTP/3 stream as the channel of an exchange.

use std::rc::Rc;
use std::task::{Context, Poll};

use tutti_conn::output::{Gone, Output};
use tutti_conn::socket::{BodyPart, ReadResult};
use tutti_http::{Trailers, Version};
use tutti_http2::Http2Code;
use tutti_tls::HandshakeFacts;

/// The stream, of either protocol.
pub(crate) enum Stream {
    Http2(tutti_http2::Http2Stream),
    Http3(Box<tutti_quic::QuicStream>),
}

impl From<tutti_http2::Http2Stream> for Stream {
    fn from(stream: tutti_http2::Http2Stream) -> Self {
        Self::Http2(stream)
    }
}

impl From<tutti_quic::QuicStream> for Stream {
    fn from(stream: tutti_quic::QuicStream) -> Self {
        Self::Http3(Box::new(stream))
    }
}

/// Calls the method of the same name.
macro_rules! either {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self {
            Self::Http2($stream) => $call,
            Self::Http3($stream) => $call,
        }
    };
}

impl Stream {
    /// Its HTTP version.
    pub(crate) fn version(&self) -> Version {
        match self {
            Self::Http2(_) => Version::Http2,
            Self::Http3(_) => Version::Http3,
        }
    }

    /// Sets the declared length of the body, which an HTTP/2 stream knows already.
    pub(crate) fn expect(&self, content_length: Option<u64>) -> Result<(), Gone> {
        match self {
            Self::Http2(_) => Ok(()),
            Self::Http3(stream) => stream.expect(content_length),
        }
    }

    /// The trailer fields of a request whose body has ended.
    pub(crate) fn received_trailers(&self) -> Trailers {
        either!(self, stream => stream.received_trailers())
    }

    /// Announces, before the head is sent, that trailer fields may follow the response's body.
    pub(crate) fn expect_trailers(&self) {
        either!(self, stream => stream.expect_trailers())
    }

    /// Returns the status with which a response of this one is sent; `None` if the protocol cannot express it.
    pub(crate) fn sent_status(&self, status: u16) -> Option<u16> {
        either!(self, stream => stream.sent_status(status))
    }

    /// Sets the reason for the end of an incomplete response, which is converted for HTTP/3.
    pub(crate) fn abort_with(&self, reason: Http2Code) {
        match self {
            Self::Http2(stream) => stream.abort_with(reason),
            Self::Http3(stream) => stream.abort_with(match reason {
                Http2Code::CANCEL => tutti_http::http3::Code::REQUEST_CANCELLED,
                Http2Code::REFUSED_STREAM => tutti_http::http3::Code::REQUEST_REJECTED,
                Http2Code::ENHANCE_YOUR_CALM => tutti_http::http3::Code::EXCESSIVE_LOAD,
                _ => tutti_http::http3::Code::INTERNAL_ERROR,
            }),
        }
    }

    /// Sets the trailer fields of the response.
    pub(crate) fn set_trailers(&self, trailers: Trailers) {
        either!(self, stream => stream.set_trailers(trailers))
    }

    /// Returns the outcome of its connection's handshake, if its bytes are encrypted.
    pub(crate) fn facts(&self) -> Option<&Rc<HandshakeFacts>> {
        either!(self, stream => stream.facts())
    }

    /// Returns this stream's share of the bytes that the client has taken on its connection since the last call: a client that reads its
    /// other streams first is not slow.
    pub(crate) fn taken_beside(&self) -> u64 {
        either!(self, stream => stream.taken_beside())
    }

    /// Polls for bytes of the request's body.
    pub(crate) fn poll_receive(
        &self,
        buffer: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ReadResult, Gone>> {
        either!(self, stream => stream.poll_receive(buffer, cx))
    }

    /// Sends what the client's windows permit; true if nothing is left.
    pub(crate) fn try_send(&self, output: &mut Output) -> Result<bool, Gone> {
        either!(self, stream => stream.try_send(output))
    }

    /// True if all of `output` has been sent, and the stream buffers nothing.
    pub(crate) fn has_sent(&self, output: &Output) -> bool {
        match self {
            Self::Http2(_) => output.is_empty(),
            Self::Http3(stream) => stream.has_sent(output),
        }
    }

    /// Sends some of `output`: ready when bytes have been sent, or nothing is left.
    pub(crate) fn poll_send(
        &self,
        output: &mut Output,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Gone>> {
        either!(self, stream => stream.poll_send(output, cx))
    }

    /// Called when the response may not be sent now: another stream of an HTTP/2 connection may use the room for which this one was woken.
    pub(crate) fn pass_room_on(&self) {
        if let Self::Http2(stream) = self {
            stream.pass_room_on();
        }
    }

    /// Sends `output` and then `body`; unsent bytes are kept in `output`.
    pub(crate) fn send_body(&self, output: &mut Output, body: &BodyPart<'_>) -> Result<(), Gone> {
        either!(self, stream => stream.send_body(output, body))
    }

    /// Ready when the client has reset the stream; wakes the task then.
    pub(crate) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        either!(self, stream => stream.poll_gone(cx))
    }

    /// Ends the stream after a complete response.
    pub(crate) fn finish(&self) {
        either!(self, stream => stream.finish())
    }

    /// Resets the stream, because the response is incomplete.
    pub(crate) fn abort(&self) {
        either!(self, stream => stream.abort())
    }
}
