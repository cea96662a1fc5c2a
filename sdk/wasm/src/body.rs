//! The body of a request, from the wire to a guest.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;
use tutti_event_loop::listen;
use tutti_worker::{BodyRef, Exchange};
use wasmtime_wasi_http::Error;

/// Bytes of a body that are read at once.
const PIECE: usize = 64 * 1024;

/// The body of a request: there already, or read while the component asks for it.
#[derive(Debug)]
pub(crate) enum Body {
    /// Nothing left.
    Empty,
    /// There.
    Whole(Bytes),
    /// Pieces, and the length where it is known.
    Pieces(mpsc::Receiver<io::Result<Bytes>>, Option<u64>),
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        match this {
            Body::Empty => Poll::Ready(None),
            Body::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                *this = Body::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Body::Pieces(pieces, _) => pieces.poll_recv(context).map(|piece| {
                let piece = piece?;
                // The client broke it off, or it cannot be read any more.
                Some(
                    piece
                        .map(Frame::data)
                        .map_err(|_| Error::ConnectionTerminated),
                )
            }),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Empty => SizeHint::with_exact(0),
            Body::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Body::Pieces(_, Some(length)) => SizeHint::with_exact(*length),
            Body::Pieces(_, None) => SizeHint::default(),
        }
    }
}

/// The place for the pieces of a body that is not there yet.
pub(crate) type Feed = Option<mpsc::Sender<io::Result<Bytes>>>;

/// The body of a request, and where its pieces are to go.
pub(crate) fn of(exchange: &Exchange) -> (Body, Feed) {
    let length = match exchange.request().body() {
        _ if exchange.request().is_websocket() => return (Body::Empty, None),
        BodyRef::None => return (Body::Empty, None),
        BodyRef::Inline(bytes) => return (Body::Whole(Bytes::copy_from_slice(bytes)), None),
        BodyRef::Spool { len, .. } => Some(len),
        BodyRef::Stream { len } => len,
    };
    let (give, pieces) = mpsc::channel(1);
    (Body::Pieces(pieces, length), Some(give))
}

/// Reads a body for as long as the guest takes it; never returns. Nothing is read before it is asked for: the client waits.
pub(crate) async fn feed(exchange: &Exchange, mut place: Feed) -> Infallible {
    let mut piece = vec![0; if place.is_some() { PIECE } else { 0 }];
    while let Some(give) = &place {
        let Ok(permit) = give.reserve().await else {
            break;
        };
        let read = poll_fn(|context| match exchange.try_read_body(&mut piece) {
            Ok(None) => {
                listen(exchange.slot(), context.waker());
                Poll::Pending
            }
            Ok(Some(count)) => Poll::Ready(Ok(count)),
            Err(error) => Poll::Ready(Err(error)),
        });
        let outcome = read
            .await
            .map(|count| Bytes::copy_from_slice(piece.get(..count).unwrap_or_default()));
        let is_over = outcome.as_ref().is_ok_and(Bytes::is_empty) || outcome.is_err();
        if outcome.as_ref().is_err() || !is_over {
            permit.send(outcome);
        } else {
            drop(permit);
        }
        if is_over {
            place = None;
        }
    }
    drop(place);
    std::future::pending().await
}
