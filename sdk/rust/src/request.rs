//! One request on its way through a service.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use bytes::{Buf, Bytes};
use tokio::sync::mpsc;
use tower_service::Service;
use tutti_event_loop::unless_gone;
use tutti_worker::{BodyRef, ClientGone, Exchange, target};

use crate::body::{Body, Content};
use crate::error::Error;
use crate::response::{respond, unless_client_goes};
use crate::websocket;

/// Bytes of a streamed body that are read at once.
const PIECE: usize = 16 * 1024;

/// Runs a request through the service and sends what comes out. What fails before the head is answered 500, after it cut short. When the
/// client goes, the service's future is dropped.
pub(crate) async fn answer<S, B>(mut exchange: Exchange, service: S)
where
    S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + 'static,
    S::Error: Into<Error>,
    B: http_body::Body + 'static,
    B::Data: Buf,
    B::Error: Into<Error>,
{
    let (give, take) = mpsc::channel(1);
    // One task for both directions, so that one waker is enough.
    let outcome = tokio::select! {
        biased;
        outcome = serve(&exchange, service, take) => outcome,
        never = feed(&exchange, give) => match never {},
    };
    let Err(error) = outcome else {
        return exchange.finish();
    };
    if error.is::<ClientGone>() {
        return exchange.abort();
    }
    eprintln!("{error}");
    if exchange.is_started() || exchange.start(500, []).is_err() {
        exchange.abort();
    } else {
        exchange.finish();
    }
}

/// Reads a streamed body for as long as the service takes it.
async fn feed(exchange: &Exchange, give: mpsc::Sender<io::Result<Bytes>>) -> Infallible {
    if matches!(exchange.request().body(), BodyRef::Stream { .. })
        && !exchange.request().is_websocket()
    {
        let mut piece = vec![0; PIECE];
        loop {
            // Nothing is read before it is asked for: the client waits.
            let Ok(place) = give.reserve().await else {
                break;
            };
            let read = unless_gone(exchange, |_| match exchange.try_read_body(&mut piece) {
                Ok(None) => Poll::Pending,
                Ok(Some(count)) => Poll::Ready(Ok(count)),
                Err(error) => Poll::Ready(Err(error)),
            })
            .await;
            match read.unwrap_or_else(|gone| Err(io::Error::other(gone))) {
                Ok(0) => break,
                Ok(count) => {
                    place.send(Ok(Bytes::copy_from_slice(
                        piece.get(..count).unwrap_or_default(),
                    )));
                }
                Err(error) => {
                    place.send(Err(error));
                    break;
                }
            }
        }
    }
    drop(give);
    std::future::pending().await
}

async fn serve<S, B>(
    exchange: &Exchange,
    mut service: S,
    pieces: mpsc::Receiver<io::Result<Bytes>>,
) -> Result<(), Error>
where
    S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + 'static,
    S::Error: Into<Error>,
    B: http_body::Body + 'static,
    B::Data: Buf,
    B::Error: Into<Error>,
{
    let request = request(exchange, pieces)?;
    if exchange.request().is_websocket() {
        return websocket::serve(exchange, service, request).await;
    }
    let answered = async {
        poll_fn(|context| service.poll_ready(context))
            .await
            .map_err(Into::into)?;
        let response = service.call(request).await.map_err(Into::into)?;
        respond(exchange, response).await
    };
    unless_client_goes(exchange, answered).await
}

fn request(
    exchange: &Exchange,
    pieces: mpsc::Receiver<io::Result<Bytes>>,
) -> Result<http::Request<Body>, Error> {
    let view = exchange.request();
    let version = match view.version_minor() {
        // A WebSocket over HTTP/2 comes as the handshake of HTTP/1.1 that means the same.
        _ if view.is_websocket() => http::Version::HTTP_11,
        0 => http::Version::HTTP_10,
        1 => http::Version::HTTP_11,
        2 => http::Version::HTTP_2,
        _ => http::Version::HTTP_3,
    };
    let mut request = http::Request::builder()
        .method(view.method())
        .uri(&*target(&view))
        .version(version);
    for (name, value) in view.fields() {
        request = request.header(name, value);
    }
    let body = match view.body() {
        _ if view.is_websocket() => Content::Whole(None),
        BodyRef::Stream { len } => Content::Stream(pieces, len),
        BodyRef::None => Content::Whole(None),
        _ => Content::Whole(Some(read_whole(exchange)?)),
    };
    Ok(request.body(Body(body))?)
}

/// A body that the server has: copied from its memory or its spool.
fn read_whole(exchange: &Exchange) -> io::Result<Bytes> {
    let mut bytes = Vec::new();
    let mut piece = vec![0; PIECE];
    loop {
        match exchange.body_read(&mut piece)? {
            0 => return Ok(bytes.into()),
            count => bytes.extend_from_slice(piece.get(..count).unwrap_or_default()),
        }
    }
}
