//! The body of a request.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;

/// A request's body: there already, or read from the client while the service asks for it.
#[derive(Debug)]
pub struct Body(pub(crate) Content);

#[derive(Debug)]
pub(crate) enum Content {
    Whole(Option<Bytes>),
    /// Pieces, and the length where it is known.
    Stream(mpsc::Receiver<io::Result<Bytes>>, Option<u64>),
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut self.0 {
            Content::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Content::Stream(pieces, _) => pieces
                .poll_recv(context)
                .map(|piece| piece.map(|piece| piece.map(Frame::data))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Content::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Whole(bytes) => {
                SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
            }
            Content::Stream(_, Some(length)) => SizeHint::with_exact(*length),
            Content::Stream(_, None) => SizeHint::default(),
        }
    }
}
