//! HTTP/2: implements [`tutti_http2`]'s interface of the server. One connection has many requests, each served like one of HTTP/1: a stream
//! is the [`ClientSide`] of its exchange, through the channel of a [`Http2Stream`]. Its request and response are heads in the terms of HTTP/1;
//! everything between, from routing to the access log, is the same. A request that needs no waiting is answered in the connection's own
//! task; every other one gets a task.
//!
//! Must never: answer two streams with one response.

use std::rc::Rc;
use std::task::{Context, Poll};

use tutti_config::model::Http2;
use tutti_conn::buffers::Buffers;
use tutti_conn::clock::Millis;
use tutti_conn::output::{Gone, Output};
use tutti_conn::socket::ReadResult;
use tutti_http::HeadError;
use tutti_http2::{Ending, Http2Head, Http2Options, Http2Stream, Http2Timeouts};
use tutti_pool::Level;
use tutti_tls::HandshakeFacts;

use crate::connection::TcpConnection;
use crate::connection::stream_task::{self, StreamRequest};
use crate::exchange::client::ClientSide;

/// Serves a connection whose first bytes are `input`; returns when it has ended.
pub(crate) async fn serve(mut connection: TcpConnection, input: Vec<u8>, options: Http2) {
    let _counted = connection.client.share_ends();
    match tutti_http2::serve(&connection, input, options).await {
        Ending::Linger => connection.client.linger().await,
        Ending::Abort => {}
        Ending::Close => connection.client.channel.close(),
    }
}

impl tutti_http2::Http2Connection for TcpConnection {
    fn terms(&self) -> Http2Options {
        let listener = &self.client.listener;
        let snapshot = self.client.local.snapshot_of(listener);
        let settings = snapshot.settings.get(snapshot.settings_of(listener.id));
        Http2Options {
            most_head_bytes: settings.limits.max_head_bytes(),
            timeouts: Http2Timeouts {
                head: settings.timeouts.header_read,
                // Each stream has that of its action.
                send: snapshot.settings.longest_send(),
                idle: settings.timeouts.idle,
            },
        }
    }

    fn facts(&self) -> Option<Rc<HandshakeFacts>> {
        self.client.channel.facts().cloned()
    }

    fn buffers(&self) -> &Buffers {
        &self.client.local.buffers
    }

    fn poll_receive(
        &self,
        buffer: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ReadResult, Gone>> {
        self.client.channel.poll_receive(buffer, cx)
    }

    fn poll_send(&self, output: &mut Output, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        self.client.channel.poll_send(output, cx)
    }

    fn has_sent(&self, output: &Output) -> bool {
        self.client.channel.has_sent(output)
    }

    fn note_taken(&self, bytes: u64) {
        self.client.note_taken(bytes);
    }

    fn note_all_taken(&self) {
        self.client.note_all_taken();
    }

    fn owes(&self, send_timeout: Millis) -> Millis {
        self.client.owes(send_timeout)
    }

    fn is_ending(&self) -> bool {
        self.client.is_ending()
    }

    fn set_deadline(&self, deadline: Millis) {
        self.client.set_deadline(deadline);
    }

    fn set_active(&self, is_active: bool) {
        self.counted.set_active(is_active);
    }

    fn log_abuse(&self, reason: &str) {
        self.client
            .local
            .log_failure(Level::Warn, &closed(self, reason));
    }

    fn log_client_error(&self, reason: &str) {
        self.client
            .local
            .log_client_error(Level::Info, &closed(self, reason));
    }

    fn begin(&self, head: &Http2Head, stream: Http2Stream) {
        let asked = StreamRequest {
            has_body: head.has_body(),
            is_websocket: head.is_websocket(),
            is_unknown: head.is_unknown(),
        };
        let client = &self.client;
        let client = ClientSide::of_stream(stream.into(), client.ends(), client.share());
        stream_task::begin(client, &asked, |written, input, limits, writing| {
            if head.is_too_large() {
                return Err(HeadError::FieldsTooLarge);
            }
            let opening = head.opening(writing.has_body, writing.websocket);
            written.compose(input, &opening, || head.fields(), limits)
        });
    }
}

/// A line for the log.
fn closed(connection: &TcpConnection, reason: &str) -> String {
    let peer = connection.client.peer.address();
    let peer = peer.map_or_else(|| "a unix socket".to_owned(), |peer| peer.ip().to_string());
    format!("HTTP/2 connection from {peer} closed: {reason}")
}
