//! A service's response on its way to a client that may disconnect first. Called for requests and for handshakes.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use bytes::Buf;
use tutti_event_loop::unless_gone;
use tutti_worker::log::unless_too_large;
use tutti_worker::{ClientGone, Exchange};

use crate::error::Error;

/// Runs `work`, and drops it when the client goes.
pub(crate) async fn unless_client_goes<T>(
    exchange: &Exchange,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let mut work = pin!(work);
    unless_gone(exchange, |context| work.as_mut().poll(context)).await?
}

/// Sends a response of the service.
pub(crate) async fn respond<B>(
    exchange: &Exchange,
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
                    unless_too_large(exchange, exchange.trailers(fields))?;
                }
                continue;
            }
        };
        while data.has_remaining() {
            let count = write(exchange, data.chunk()).await?;
            data.advance(count);
        }
        if !body.is_end_stream() {
            exchange.flush();
        }
    }
    Ok(())
}

/// Writes some of the bytes, when there is room.
async fn write(exchange: &Exchange, bytes: &[u8]) -> Result<usize, ClientGone> {
    unless_gone(exchange, |_| match exchange.try_write(bytes) {
        Ok(0) => Poll::Pending,
        written => Poll::Ready(written),
    })
    .await?
}
