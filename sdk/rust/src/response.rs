//! A service's response on its way to the client. Called for requests and for handshakes that are refused.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};

use bytes::Buf;
use tutti_worker::{ClientGone, Exchange};

use crate::error::Error;
use crate::waiting::Waiting;

/// Sends a response of the service.
pub(crate) async fn respond<B>(
    exchange: &Exchange,
    waiting: &Waiting,
    response: http::Response<B>,
) -> Result<(), Error>
where
    B: http_body::Body,
    B::Data: Buf,
    B::Error: Into<Error>,
{
    let (head, body) = response.into_parts();
    let fields: Vec<_> = head
        .headers
        .iter()
        .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
        .collect();
    exchange.start(head.status.as_u16(), fields)?;
    let mut body = pin!(body);
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        let mut data = match frame.map_err(Into::into)?.into_data() {
            Ok(data) => data,
            Err(frame) => {
                // They reach a client of HTTP/1 only if the head has announced them (`Trailer`).
                if let Ok(trailers) = frame.into_trailers() {
                    let fields: Vec<_> = trailers
                        .iter()
                        .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
                        .collect();
                    exchange.trailers(fields)?;
                }
                continue;
            }
        };
        while data.has_remaining() {
            let count = write(exchange, waiting, data.chunk()).await?;
            data.advance(count);
        }
        if !body.is_end_stream() {
            exchange.flush();
        }
    }
    Ok(())
}

/// Writes some of the bytes, when there is room.
async fn write(exchange: &Exchange, waiting: &Waiting, bytes: &[u8]) -> Result<usize, ClientGone> {
    poll_fn(|context| match exchange.try_write(bytes) {
        Ok(0) => wait(exchange, waiting, context),
        written => Poll::Ready(written),
    })
    .await
}

/// Waits for news of an exchange.
pub(crate) fn wait<T>(exchange: &Exchange, waiting: &Waiting, context: &Context<'_>) -> Poll<T> {
    waiting
        .borrow_mut()
        .insert(exchange.slot(), context.waker().clone());
    Poll::Pending
}
