//! The task of a connection to a server: bytes between the socket and `h2`.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::client::{Builder, Connection as Streams};
use tutti_config::model::UpstreamOptions;
use tutti_conn::buffers::{BUFFER_BYTES, Buffers};
use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::pipe::{Face, Pipe};
use tutti_upstream::{UpstreamConnection, UpstreamError};

use crate::sessions::Session;

/// The window of one answer, ahead of its client: as large as a listener allows for a request.
const STREAM_WINDOW: u32 = 256 * 1024;

/// The window of all answers together: unlimited (RFC 9113 §6.9.1), so that no client delays another's answer.
const CONNECTION_WINDOW: u32 = (1 << 31) - 1;

/// Bytes of a request that `h2` buffers at most.
const STREAM_BUFFER: usize = 64 * 1024;

/// Concurrent requests to a server that has not announced its limit (RFC 9113 §6.5.2 recommends no fewer).
const FIRST_STREAMS: usize = 100;

/// Rounds in a row before other tasks of the thread get a turn.
const TURNS: u32 = 16;

/// Begins HTTP/2 on a new connection. With TLS, the server must have negotiated it (RFC 9113 §3.2).
pub(crate) async fn begin(
    buffers: &Rc<Buffers>,
    connection: UpstreamConnection,
    options: &UpstreamOptions,
    is_tls: bool,
) -> Result<Session, UpstreamError> {
    if is_tls && connection.protocol() != Some(b"h2") {
        let message = "it does not support HTTP/2 (ALPN `h2`); hint: `\"http_version\": 1`";
        return Err(UpstreamError::Tls(message.to_owned()));
    }
    let pipe = Rc::new(RefCell::new(Pipe::default()));
    let list_size = u32::try_from(options.max_head_size).unwrap_or(u32::MAX);
    let begun = Builder::new()
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_max_send_streams(FIRST_STREAMS)
        .max_header_list_size(list_size)
        .max_send_buffer_size(STREAM_BUFFER)
        .handshake::<_, Bytes>(Face(Rc::clone(&pipe)))
        .await;
    let (client, streams) = begun.map_err(|error| UpstreamError::Malformed(error.to_string()))?;
    let heard = Rc::new(Cell::new(now_millis()));
    let mut driver = Driver {
        buffers: Rc::clone(buffers),
        connection,
        streams,
        pipe,
        heard: Rc::clone(&heard),
    };
    let task = async move { poll_fn(|context| driver.poll(context)).await };
    let driver = tokio::task::spawn_local(task).abort_handle();
    Ok(Session::new(client, heard, driver))
}

struct Driver {
    buffers: Rc<Buffers>,
    connection: UpstreamConnection,
    streams: Streams<Face, Bytes>,
    pipe: Rc<RefCell<Pipe>>,
    /// When bytes last came from the server.
    heard: Rc<Cell<Millis>>,
}

impl Driver {
    /// Moves bytes until the connection has ended. `h2` then reports that to the open requests.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        for _ in 0..TURNS {
            let had_input = !self.pipe.borrow().is_drained();
            let has_received = self.receive(context);
            let is_over = Pin::new(&mut self.streams).poll(context).is_ready();
            let Ok(has_room) = self.send(context) else {
                return Poll::Ready(());
            };
            if is_over {
                return Poll::Ready(());
            }
            let listens = had_input && self.pipe.borrow().is_drained();
            if !has_received && !has_room && !listens {
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads as much from the server as `h2` can take; true if bytes arrived.
    fn receive(&mut self, context: &mut Context<'_>) -> bool {
        let mut pipe = self.pipe.borrow_mut();
        if !pipe.is_drained() || pipe.has_ended {
            return false;
        }
        let input = pipe.refill();
        if input.capacity() < BUFFER_BYTES {
            *input = self.buffers.take();
        }
        match self.connection.poll_receive(context, input) {
            Poll::Ready(Ok(count)) if count > 0 => {
                self.heard.set(now_millis());
                true
            }
            Poll::Ready(_) => {
                pipe.has_ended = true;
                true
            }
            Poll::Pending => {
                self.buffers.give(std::mem::take(input));
                false
            }
        }
    }

    /// Sends what the server takes; true if `h2` waited for room and there is some now.
    fn send(&mut self, context: &mut Context<'_>) -> Result<bool, ()> {
        let mut pipe = self.pipe.borrow_mut();
        while !pipe.output.is_empty() {
            match self.connection.poll_send(context, pipe.output.pending()) {
                Poll::Ready(Ok(count)) if count > 0 => pipe.output.advance(count),
                Poll::Ready(_) => return Err(()),
                Poll::Pending => return Ok(false),
            }
        }
        Ok(std::mem::take(&mut pipe.is_blocked))
    }
}
