//! HTTP/3: implements [`tutti_quic`]'s interface of the server. A stream is the [`ClientSide`] of its exchange, as for HTTP/2.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use tutti_conn::clock::Millis;
use tutti_conn::connections::ConnectionEntry;
use tutti_conn::listener::{ListenerHold, Peer, SharedListener};
use tutti_conn::response_buffers::ConnectionBuffers;
use tutti_http::Version;
use tutti_http::http2::Opening;
use tutti_http::http3::Section;
use tutti_pool::Level;
use tutti_quic::{
    Ports, QuicEndpoint, QuicOptions, QuicServer, QuicStream, QuicTimeouts, RequestTraits,
};

use crate::connection::Counted;
use crate::connection::accept;
use crate::connection::stream_task::{self, StreamRequest};
use crate::exchange::client::{ClientSide, Ends};
use crate::local::Local;

/// Receives this thread's share of the datagrams: sockets and threads have corresponding numbers. `leaving`: the endpoints on which the
/// connections of removed listeners end. One of them that has the same socket is returned, because two would take each other's datagrams.
pub(crate) fn take_datagrams(
    local: &Rc<Local>,
    listener: &Arc<SharedListener>,
    ports: &Arc<Ports>,
    leaving: &[Rc<QuicEndpoint<Entrance>>],
) -> Vec<Rc<QuicEndpoint<Entrance>>> {
    let threads = local.shared.inboxes.len().max(1);
    let numbers = (local.thread as usize..ports.sockets.len()).step_by(threads);
    let begin = |number| {
        let entrance = Entrance {
            local: Rc::clone(local),
            listener: Arc::clone(listener),
        };
        if let Some(endpoint) = leaving.iter().find(|one| one.is_at(ports, number)) {
            endpoint.reopen(entrance);
            return Some(Rc::clone(endpoint));
        }
        match QuicEndpoint::new(entrance, ports, number) {
            Ok(endpoint) => {
                tokio::task::spawn_local(Rc::clone(&endpoint).run());
                Some(endpoint)
            }
            Err(error) => {
                log_failure(local, listener, &error.to_string());
                None
            }
        }
    };
    numbers.filter_map(begin).collect()
}

fn log_failure(local: &Local, listener: &SharedListener, reason: &str) {
    let text = format!("cannot take HTTP/3 at \"{}\": {reason}", listener.name);
    local.log(Level::Alert, &text);
}

/// A listener on a listen thread.
pub(crate) struct Entrance {
    local: Rc<Local>,
    listener: Arc<SharedListener>,
}

impl QuicServer for Entrance {
    type Connection = Http3Connection;

    fn listener(&self) -> &Arc<SharedListener> {
        &self.listener
    }

    fn terms(&self) -> Option<QuicOptions> {
        let snapshot = self.local.snapshot_of(&self.listener);
        let (crypto, client) = snapshot.offer_of(self.listener.id)?.quic()?.begin()?;
        Some(QuicOptions {
            crypto,
            client,
            spoken: snapshot.http3_of(self.listener.id)?.clone(),
        })
    }

    fn admit(&self, from: SocketAddr) -> Option<ListenerHold> {
        let mut hold = ListenerHold::of_connection(&self.listener)?;
        accept::has_room(&self.local, &mut hold, Peer::Inet(from)).then_some(hold)
    }

    fn connect(
        &self,
        hold: ListenerHold,
        from: SocketAddr,
        to: Option<SocketAddr>,
    ) -> Http3Connection {
        let counters = self.local.counters();
        counters.accepted.add(1);
        counters.open.fetch_add(1, Ordering::Relaxed);
        let accepted = &self.listener.counters.accepted;
        accepted.fetch_add(1, Ordering::Relaxed);
        let ends = Ends::new(Rc::clone(&self.local), hold.another(), Peer::Inet(from));
        if let Some(address) = to {
            ends.note_local_address(address);
        }
        Http3Connection {
            entry: self.local.connections.enter(Waker::noop().clone()),
            counted: Counted::new(&self.local),
            share: ConnectionBuffers::new(&self.local.shared.holdings),
            ends: Rc::new(ends),
            _hold: hold,
        }
    }

    fn log_failure(&self, reason: &str) {
        log_failure(&self.local, &self.listener, reason);
    }
}

/// A connection of HTTP/3: only its streams carry bytes, through a UDP socket shared with others.
pub(crate) struct Http3Connection {
    /// Those of its streams, too, which may outlive it.
    ends: Rc<Ends>,
    /// Counts it in the limits of its listener.
    _hold: ListenerHold,
    counted: Counted,
    /// The memory limit of the responses of all its streams.
    share: Rc<ConnectionBuffers>,
    /// Its deadline, and how to wake its task.
    entry: ConnectionEntry,
}

impl Http3Connection {
    /// The client of a stream.
    fn client(&self, stream: QuicStream) -> ClientSide {
        ClientSide::of_stream(stream.into(), &self.ends, &self.share)
    }
}

impl tutti_quic::QuicConnection for Http3Connection {
    fn listener(&self) -> &SharedListener {
        &self.ends.listener
    }

    fn timeouts(&self) -> QuicTimeouts {
        let listener = &self.ends.listener;
        let snapshot = self.ends.local.snapshot_of(listener);
        let settings = snapshot.settings_of(listener.id);
        let timeouts = snapshot.settings.get(settings).timeouts;
        QuicTimeouts {
            head: timeouts.header_read,
            idle: timeouts.idle,
        }
    }

    fn most_bytes(&self) -> (usize, usize) {
        let listener = &self.ends.listener;
        let snapshot = self.ends.local.snapshot_of(listener);
        let limits = &snapshot
            .settings
            .get(snapshot.settings_of(listener.id))
            .limits;
        (limits.max_head_bytes(), limits.max_trailer_bytes as usize)
    }

    fn is_ending(&self) -> bool {
        self.ends.is_ending()
    }

    fn drains_gently(&self) -> bool {
        self.ends.local.drains_gently()
    }

    fn set_waker(&self, waker: Waker) {
        self.entry.set_waker(waker);
    }

    fn set_deadline(&self, deadline: Millis) {
        self.entry.set_deadline(deadline);
    }

    fn set_active(&self, is_active: bool) {
        self.counted.set_active(is_active);
    }

    fn log_client_error(&self, text: &str) {
        self.ends.local.log_client_error(Level::Info, text);
    }

    fn begin(&self, section: &Section, stream: QuicStream, manner: RequestTraits) {
        let is_websocket = section.protocol() == Some(b"websocket");
        let asked = StreamRequest {
            has_body: manner.has_body,
            is_websocket,
            is_unknown: section.protocol().is_some() && !is_websocket,
        };
        let client = self.client(stream);
        stream_task::begin(client, &asked, |head, input, limits, writing| {
            let authority = section.authority();
            let opening = Opening {
                method: section.method(),
                target: section.path().or(authority).unwrap_or_default(),
                authority,
                is_checked: false,
                has_body: writing.has_body,
                websocket: writing.websocket,
                version: Version::Http3,
            };
            head.compose(input, &opening, || manner.fields(section), limits)
        });
    }

    fn refuse(&self, stream: QuicStream, status: u16, reason: &str) {
        let client = self.client(stream);
        stream_task::refuse(client, status, reason);
    }
}
