//! A WebSocket of a service.
//!
//! A service that takes a connection over (axum's `WebSocketUpgrade`, anything else that asks hyper) needs a connection: it gets one end of a
//! pipe in memory, with hyper's server on it. At the other end hyper's client repeats the handshake, and a WebSocket library turns
//! frames into the messages of the wire and back. Called by [`request`](crate::request). What must never happen: one direction
//! waiting for the other.

use std::error::Error as _;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::{SinkExt, StreamExt};
use http::header;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Framed;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tower_service::Service;
use tutti_event_loop::unless_gone;
use tutti_worker::{ClientGone, Exchange, Incoming, Message, MessageOpcode};

use crate::body::{Body, Content};
use crate::error::Error;
use crate::response::{respond, unless_client_goes};

/// Bytes on their way in the pipe, each direction: as much as a ring of the wire holds.
const PIPE: usize = 64 * 1024;
/// The code of a close that was none: the client has vanished.
const ABNORMAL: [u8; 2] = 1006_u16.to_be_bytes();
/// The longest time that a service may take to answer a close.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// The protocol that the two ends of the pipe negotiate between themselves.
const OF_THE_CONNECTION: [header::HeaderName; 5] = [
    header::CONNECTION,
    header::UPGRADE,
    header::SEC_WEBSOCKET_KEY,
    header::SEC_WEBSOCKET_VERSION,
    header::SEC_WEBSOCKET_EXTENSIONS,
];

/// Runs a handshake through the service and, if it accepts, carries messages until either side closes.
pub(crate) async fn serve<S, B>(
    exchange: &Exchange,
    service: S,
    mut request: http::Request<Body>,
) -> Result<(), Error>
where
    S: Service<http::Request<Body>, Response = http::Response<B>> + Clone + 'static,
    S::Error: Into<Error>,
    B: http_body::Body + 'static,
    B::Data: Buf,
    B::Error: Into<Error>,
{
    let (ours, theirs) = tokio::io::duplex(PIPE);
    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let mut service = service.clone();
        async move {
            poll_fn(|context| service.poll_ready(context))
                .await
                .map_err(Into::into)?;
            let request = request.map(|_| Body(Content::Whole(None)));
            service.call(request).await.map_err(Into::into)
        }
    });
    let server = hyper::server::conn::http1::Builder::new()
        .auto_date_header(false)
        .serve_connection(TokioIo::new(theirs), service)
        .with_upgrades();
    tokio::task::spawn_local(async move {
        if let Err(error) = server.await
            && let Some(cause) = error.source()
        {
            eprintln!("{cause}");
        }
    });
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(ours)).await?;
    // Its errors are the answer's.
    tokio::task::spawn_local(connection.with_upgrades());

    let fields = request.headers_mut();
    for name in OF_THE_CONNECTION {
        fields.remove(name);
    }
    for (name, value) in [
        (header::CONNECTION, "Upgrade"),
        (header::UPGRADE, "websocket"),
        (header::SEC_WEBSOCKET_VERSION, "13"),
    ] {
        fields.insert(name, http::HeaderValue::from_static(value));
    }
    fields.insert(header::SEC_WEBSOCKET_KEY, generate_key().try_into()?);
    // Handshakes have no body, and hyper's client speaks 1.1.
    *request.version_mut() = http::Version::HTTP_11;
    let answered = async { Ok(sender.send_request(request).await?) };
    let response = unless_client_goes(exchange, answered).await?;
    if response.status() != http::StatusCode::SWITCHING_PROTOCOLS {
        let mut response = response;
        for name in [header::CONNECTION, header::TRANSFER_ENCODING] {
            response.headers_mut().remove(name);
        }
        return unless_client_goes(exchange, respond(exchange, response)).await;
    }
    let fields: Vec<_> = response
        .headers()
        .iter()
        .map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
        .collect();
    exchange.start(101, fields)?;
    exchange.flush();
    let upgraded = TokioIo::new(hyper::upgrade::on(response).await?);
    // The service is no stranger: its messages may be as long as it likes.
    let config = WebSocketConfig::default()
        .max_message_size(None)
        .max_frame_size(None);
    let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
    let payload = carry(exchange, socket).await?;
    send(exchange, MessageOpcode::Close, &payload).await?;
    Ok(())
}

/// Carries messages both ways; the payload of the close that the client is to get.
async fn carry<T>(exchange: &Exchange, socket: WebSocketStream<T>) -> Result<Vec<u8>, Error>
where
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let (mut to_service, mut from_service) = socket.split();
    let mut to_client = std::pin::pin!(async {
        while let Some(message) = from_service.next().await {
            match message? {
                Framed::Close(frame) => return Ok(payload_of(frame)),
                Framed::Text(text) => {
                    send(exchange, MessageOpcode::Text, text.as_bytes()).await?;
                }
                Framed::Binary(bytes) => {
                    send(exchange, MessageOpcode::Binary, &bytes).await?;
                }
                // Pings are answered by the library; the client's own are the server's.
                _ => {}
            }
        }
        Err(Error::from(
            "the program closed the WebSocket connection without a close frame",
        ))
    });
    let from_client = async {
        loop {
            let framed = match next(exchange).await? {
                Incoming::Message(Message::Text(bytes)) => {
                    Framed::Text(Bytes::from(bytes).try_into()?)
                }
                Incoming::Message(Message::Binary(bytes)) => Framed::Binary(bytes.into()),
                Incoming::Message(Message::Pong(bytes)) => Framed::Pong(bytes.into()),
                // No frame has this code (RFC 6455 §7.4.1): for the service a client that vanishes is the end of the connection.
                Incoming::Message(Message::Close(bytes)) if bytes.starts_with(&ABNORMAL) => {
                    return Err(ClientGone.into());
                }
                Incoming::Message(Message::Close(bytes)) => {
                    to_service.send(Framed::Close(frame_of(&bytes)?)).await?;
                    return Ok::<_, Error>(());
                }
                Incoming::Nothing | Incoming::Over => return Err(ClientGone.into()),
            };
            to_service.send(framed).await?;
        }
    };
    tokio::select! {
        biased;
        payload = &mut to_client => return payload,
        closed = from_client => closed?,
    }
    // The service may answer; the client waits for it no longer than this.
    let answer = tokio::time::timeout(CLOSE_LIMIT, to_client).await;
    answer.unwrap_or_else(|_| Ok(Vec::new()))
}

fn payload_of(frame: Option<CloseFrame>) -> Vec<u8> {
    frame.map_or_else(Vec::new, |frame| {
        let mut payload = u16::from(frame.code).to_be_bytes().to_vec();
        payload.extend_from_slice(frame.reason.as_bytes());
        payload
    })
}

fn frame_of(payload: &[u8]) -> Result<Option<CloseFrame>, Error> {
    let Some((code, reason)) = payload.split_first_chunk() else {
        return Ok(None);
    };
    Ok(Some(CloseFrame {
        code: u16::from_be_bytes(*code).into(),
        reason: Bytes::copy_from_slice(reason).try_into()?,
    }))
}

async fn next(exchange: &Exchange) -> Result<Incoming, ClientGone> {
    unless_gone(exchange, |_| match exchange.try_next_message() {
        Incoming::Nothing => Poll::Pending,
        incoming => Poll::Ready(incoming),
    })
    .await
}

/// Sends a whole message to the client, as there is room.
async fn send(exchange: &Exchange, opcode: MessageOpcode, bytes: &[u8]) -> Result<(), ClientGone> {
    let mut rest = bytes;
    unless_gone(exchange, |_| {
        loop {
            match exchange.try_send(opcode, rest)? {
                None => return Poll::Pending,
                Some(count) if count == rest.len() => return Poll::Ready(Ok(())),
                Some(count) => rest = rest.get(count..).unwrap_or_default(),
            }
        }
    })
    .await?
}
