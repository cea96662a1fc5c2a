//! A WebSocket: messages of the wire on one side, frames of the program's connection on the other.

use std::task::Poll;
use std::time::Duration;

use tutti_http::ResponseHead;
use tutti_http::websocket::{
    Decoder, Event, FrameHead, Kind, Opcode as Frame, Role, apply_mask, handshake,
};
use tutti_worker::{Exchange, Incoming, Message, Opcode};

use super::Relay;
use super::connection::Connection;
use super::exchange::{Failure, pass_on, receive_head, send, unless_gone};
use super::feed::Line;
use super::head::response_fields;

/// Longest message of a program.
const LONGEST_MESSAGE: u64 = 64 * 1024 * 1024;
/// How long a program may take to answer a close.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// What happened on either side.
enum News {
    FromClient(Incoming),
    FromProgram(Opcode, Vec<u8>),
    /// The program closed its connection.
    Ended,
}

pub(super) async fn relay(relay: &Relay, exchange: &Exchange) -> Result<(), Failure> {
    // Never a kept connection: nothing of a handshake may be sent twice.
    let mut connection = relay.pool.open().await.map_err(Failure::Connect)?;
    let key = key()?;
    send(exchange, &mut connection, Some(&key)).await?;
    let mut line = Line::new(connection);
    let mut head = ResponseHead::new();
    receive_head(exchange, &mut line, &mut head).await?;
    let view = head.view(&line.connection.received);
    if view.status() != 101 {
        return pass_on(exchange, &mut line, &head).await.map(|_| ());
    }
    let accept = view.get_all(b"sec-websocket-accept").next();
    if accept != Some(handshake::accept(&key).as_slice()) {
        return Err(Failure::WebSocket(
            "its `Sec-WebSocket-Accept` does not fit the key".to_owned(),
        ));
    }
    exchange
        .start(101, response_fields(&view))
        .map_err(Failure::Unusable)?;
    exchange.flush();
    let length = view.length();
    line.connection.consume(length);
    Socket {
        exchange,
        connection: line.connection,
        decoder: Decoder::new(Role::Client, LONGEST_MESSAGE),
        partial: Vec::new(),
    }
    .run()
    .await
}

struct Socket<'a> {
    exchange: &'a Exchange,
    connection: Connection,
    decoder: Decoder,
    /// The program's message as far as it has come.
    partial: Vec<u8>,
}

impl Socket<'_> {
    async fn run(mut self) -> Result<(), Failure> {
        loop {
            match self.next().await? {
                News::FromClient(Incoming::Message(Message::Text(bytes))) => {
                    self.frame(Frame::Text, bytes).await?;
                }
                News::FromClient(Incoming::Message(Message::Binary(bytes))) => {
                    self.frame(Frame::Binary, bytes).await?;
                }
                News::FromClient(Incoming::Message(Message::Pong(bytes))) => {
                    self.frame(Frame::Pong, bytes).await?;
                }
                News::FromClient(Incoming::Message(Message::Close(bytes))) => {
                    return self.client_closes(bytes).await;
                }
                News::FromClient(_) => return Err(Failure::ClientGone),
                News::FromProgram(Opcode::Close, bytes) => {
                    self.frame(Frame::Close, bytes.clone()).await?;
                    return self.message(Opcode::Close, &bytes).await;
                }
                News::FromProgram(Opcode::Ping, bytes) => self.frame(Frame::Pong, bytes).await?,
                News::FromProgram(Opcode::Pong, _) => {}
                News::FromProgram(opcode, bytes) => self.message(opcode, &bytes).await?,
                News::Ended => {
                    return Err(Failure::WebSocket("closed without a word".to_owned()));
                }
            }
        }
    }

    /// Passes the client's close on and waits for the program's.
    async fn client_closes(&mut self, bytes: Vec<u8>) -> Result<(), Failure> {
        self.frame(Frame::Close, bytes.clone()).await?;
        let answer = async {
            loop {
                match self.next().await? {
                    News::FromProgram(Opcode::Close, bytes) => return Ok(bytes),
                    News::Ended | News::FromClient(_) => return Ok(bytes),
                    // What was on its way when the client closed is of no use to it.
                    News::FromProgram(..) => {}
                }
            }
        };
        let answer = match tokio::time::timeout(CLOSE_LIMIT, answer).await {
            Ok(answer) => answer?,
            Err(_) => Vec::new(),
        };
        self.message(Opcode::Close, &answer).await
    }

    async fn next(&mut self) -> Result<News, Failure> {
        loop {
            if let Some(news) = self.decode()? {
                return Ok(news);
            }
            let (exchange, connection) = (self.exchange, &mut self.connection);
            let polled = unless_gone(exchange, |context| {
                match connection.poll_receive(context) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Ok(Some(News::Ended))),
                    Poll::Ready(Ok(_)) => return Poll::Ready(Ok(None)),
                    Poll::Ready(Err(error)) => {
                        return Poll::Ready(Err(Failure::Receive(error)));
                    }
                    Poll::Pending => {}
                }
                match exchange.try_next_message() {
                    Incoming::Nothing => Poll::Pending,
                    incoming => Poll::Ready(Ok(Some(News::FromClient(incoming)))),
                }
            })
            .await?;
            if let Some(news) = polled? {
                return Ok(news);
            }
        }
    }

    /// What is whole of what the program has sent.
    fn decode(&mut self) -> Result<Option<News>, Failure> {
        loop {
            let (consumed, event) = self
                .decoder
                .decode(&mut self.connection.received, usize::MAX)
                .map_err(|fault| Failure::WebSocket(fault.to_string()))?;
            let news = match event {
                None => None,
                Some(Event::Control { opcode, range }) => {
                    let bytes = self.connection.received.get(range).unwrap_or_default();
                    let opcode = match opcode {
                        Frame::Close => Opcode::Close,
                        Frame::Ping => Opcode::Ping,
                        _ => Opcode::Pong,
                    };
                    Some(News::FromProgram(opcode, bytes.to_vec()))
                }
                Some(Event::Data {
                    kind,
                    range,
                    is_last,
                }) => {
                    let bytes = self.connection.received.get(range).unwrap_or_default();
                    self.partial.extend_from_slice(bytes);
                    let opcode = match kind {
                        Kind::Text => Opcode::Text,
                        Kind::Binary => Opcode::Binary,
                    };
                    is_last.then(|| News::FromProgram(opcode, std::mem::take(&mut self.partial)))
                }
            };
            self.connection.consume(consumed);
            if news.is_some() || consumed == 0 {
                return Ok(news);
            }
        }
    }

    /// To the program, masked as a client's frames are.
    async fn frame(&mut self, opcode: Frame, mut bytes: Vec<u8>) -> Result<(), Failure> {
        let mask = random()?;
        let mut out = Vec::with_capacity(bytes.len() + 14);
        FrameHead {
            is_final: true,
            opcode,
            length: bytes.len() as u64,
            mask: Some(mask),
        }
        .write(&mut out);
        apply_mask(&mut bytes, mask, 0);
        out.append(&mut bytes);
        let mut rest = out.as_slice();
        let (exchange, connection) = (self.exchange, &mut self.connection);
        unless_gone(exchange, |context| {
            while !rest.is_empty() {
                match connection.poll_write(context, rest) {
                    Poll::Ready(Ok(count)) if count > 0 => {
                        rest = rest.get(count..).unwrap_or_default();
                    }
                    Poll::Ready(Ok(_)) => {
                        return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into()));
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return Poll::Pending,
                }
            }
            Poll::Ready(Ok(()))
        })
        .await?
        .map_err(Failure::Send)
    }

    /// To the client.
    async fn message(&mut self, opcode: Opcode, bytes: &[u8]) -> Result<(), Failure> {
        let mut rest = bytes;
        let exchange = self.exchange;
        unless_gone(exchange, |_| {
            loop {
                match exchange.try_send(opcode, rest) {
                    Ok(None) => return Poll::Pending,
                    Ok(Some(count)) if count == rest.len() => return Poll::Ready(Ok(())),
                    Ok(Some(count)) => rest = rest.get(count..).unwrap_or_default(),
                    Err(tutti_worker::ClientGone) => {
                        return Poll::Ready(Err(Failure::ClientGone));
                    }
                }
            }
        })
        .await?
    }
}

fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| Failure::WebSocket(format!("no random numbers: {error}")))?;
    Ok(bytes)
}

/// The base64 of 16 random bytes: 22 digits, the last with four bits of zero, and the filling.
fn key() -> Result<[u8; 24], Failure> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let random: [u8; 22] = random()?;
    let mut key = [b'='; 24];
    for (index, (place, byte)) in key.iter_mut().zip(random).enumerate() {
        let mask = if index == 21 { 0x30 } else { 0x3f };
        *place = DIGITS
            .get(usize::from(byte & mask))
            .copied()
            .unwrap_or(b'A');
    }
    Ok(key)
}
