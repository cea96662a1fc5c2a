//! Distinguishes a client that has closed only its sending side from one that has disconnected.
//!
//! `shutdown(SHUT_WR)` and `close` send the same FIN (RFC 9293 §3.6), and a client may close its sending side and still wait for the
//! response (RFC 9112 §9.6). Only a reset shows that the client has disconnected, and a closed socket sends one when it gets data. Until
//! data is sent, keep-alive probes provoke it.
//!
//! The time of the FIN decides: before the response has begun, the response is sent; after that, the client counts as disconnected.
//!
//! Must never: return [`Poll::Pending`] without having arranged to be woken, or give up a client that closed its sending side before its
//! response began, and still reads.

use std::cell::{Cell, OnceCell};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::sockopt;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::socket::watch;
use crate::transport::Transport;

/// The time after which a silent client is probed, and between two probes. A kernel keeps a socket that its program has closed for about a
/// minute (`tcp_fin_timeout` in tcp(7)); after that it answers a probe with a reset.
const PROBE_PAUSE: Duration = Duration::from_secs(30);

/// Watches a connection whose client has closed its sending side for the end of the other direction.
#[derive(Default)]
struct Departure {
    /// A second descriptor of the socket: the readiness of the first stays "readable" from the FIN on, and reports nothing more.
    watched: OnceCell<Option<Box<AsyncFd<OwnedFd>>>>,
}

impl Departure {
    /// Ready when the connection has been reset or closed in both directions; wakes the task when that happens.
    fn poll_gone(&self, socket: &OwnedFd, cx: &mut Context<'_>) -> Poll<()> {
        let watched = self
            .watched
            .get_or_init(|| hang_up(socket).ok().map(Box::new));
        match watched {
            Some(watched) => watched.poll_write_ready(cx).map(drop),
            // Without a descriptor for it, sending the response shows whether the client is connected.
            None => Poll::Pending,
        }
    }
}

/// A FIN so soon after the request does not mean that the client gave up: it only sends nothing more, as `nc -N` does. Ten round trips in a
/// data centre, and less than the timeouts of clients.
const WITH_REQUEST: Duration = Duration::from_millis(100);

/// When a client closed its sending side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    /// With the request, or within [`WITH_REQUEST`] of it.
    WithRequest,
    /// Later, before the response had begun.
    WhileWaiting,
    /// During the response.
    WithinResponse,
}

/// The state of a client that waits for a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Connected, as far as is known.
    Here,
    /// It sends nothing more, and may be waiting or disconnected. `is_late`: it closed its sending side after it had waited for a while.
    SendsNoMore {
        /// More than a tenth of a second after its request.
        is_late: bool,
    },
    /// It cannot receive a response any more.
    Gone,
}

/// The state of the request for which a client waits.
#[derive(Clone, Copy, Debug)]
pub struct Waited {
    /// When its request arrived.
    pub arrived: Instant,
    /// The response has begun.
    pub has_response_begun: bool,
}

/// The state of a client's sending side.
#[derive(Default)]
pub struct SendingSide {
    ended: Cell<Option<Ended>>,
    departure: Departure,
}

impl SendingSide {
    /// Called before the beginning of a response is sent, or when a task waits within its response for the first time: what the kernel knows
    /// by then came before the response, although the thread may not have asked for the event yet, because the response was there first.
    pub fn note_earlier_end(&self, transport: &Transport, arrived: Instant) {
        if has_ended(transport.socket()) {
            self.note_ended(Waited {
                arrived,
                has_response_begun: false,
            });
        }
    }

    /// The state of the client of a request; wakes the task when it changes.
    pub fn presence(
        &self,
        transport: &Transport,
        waited: Waited,
        cx: &mut Context<'_>,
    ) -> Presence {
        if transport.poll_ended(cx).is_pending() {
            return Presence::Here;
        }
        let is_late = match self.note_ended(waited) {
            Ended::WithRequest => false,
            Ended::WhileWaiting => true,
            Ended::WithinResponse => return Presence::Gone,
        };
        match self.departure.poll_gone(transport.socket(), cx) {
            Poll::Ready(()) => Presence::Gone,
            Poll::Pending => Presence::SendsNoMore { is_late },
        }
    }

    /// Records that the client's sending side has been closed, now or before.
    fn note_ended(&self, waited: Waited) -> Ended {
        let ended = self.ended.get().unwrap_or_else(|| {
            if waited.has_response_begun {
                Ended::WithinResponse
            } else if waited.arrived.elapsed() <= WITH_REQUEST {
                Ended::WithRequest
            } else {
                Ended::WhileWaiting
            }
        });
        self.ended.set(Some(ended));
        ended
    }
}

/// True if the other end has closed its sending side, or the connection has ended.
fn has_ended(socket: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::RDHUP)];
    rustix::event::poll(&mut asked, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Registers for no event: the kernel reports errors and the end of both directions nevertheless (`EPOLLERR`, `EPOLLHUP` in epoll_ctl(2)),
/// and tokio treats both as the end of writing. `EPOLLPRI` is there because an interest cannot be empty.
fn hang_up(socket: &OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // Fails on a UNIX socket, which reports a close itself.
    let _ = probe(socket);
    watch(socket.try_clone()?, Interest::PRIORITY)
}

fn probe(socket: &OwnedFd) -> rustix::io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_tcp_keepidle(socket, PROBE_PAUSE)?;
    sockopt::set_tcp_keepintvl(socket, PROBE_PAUSE)?;
    sockopt::set_socket_keepalive(socket, true)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::future::poll_fn;
    use std::net::{Shutdown, TcpListener, TcpStream};

    use super::*;

    fn pair() -> (TcpStream, OwnedFd) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0.into())
    }

    #[tokio::test]
    async fn the_end_of_the_sending_side_is_not_the_end_of_the_connection() {
        let (client, server) = pair();
        client.shutdown(Shutdown::Write).unwrap();
        let departure = Departure::default();
        let pending = poll_fn(|cx| Poll::Ready(departure.poll_gone(&server, cx).is_pending()));
        assert!(pending.await);
        assert!(sockopt::socket_keepalive(server.as_fd()).unwrap());
        sockopt::set_socket_linger(client.as_fd(), Some(Duration::ZERO)).unwrap();
        drop(client);
        poll_fn(|cx| departure.poll_gone(&server, cx)).await;
    }

    #[tokio::test]
    async fn a_client_that_has_closed_is_noticed_when_it_is_sent_something() {
        let (client, server) = pair();
        drop(client);
        let departure = Departure::default();
        let pending = poll_fn(|cx| Poll::Ready(departure.poll_gone(&server, cx).is_pending()));
        assert!(pending.await);
        rustix::io::write(&server, b"x").unwrap();
        poll_fn(|cx| departure.poll_gone(&server, cx)).await;
    }

    /// The event is not there yet: nothing has asked the kernel for it.
    #[tokio::test]
    async fn an_end_that_the_thread_has_not_seen_counts_as_earlier_than_the_response() {
        let (client, server) = pair();
        let twin = server.try_clone().unwrap();
        let transport = Transport::Plain(watch(server, Interest::READABLE).unwrap());
        client.shutdown(Shutdown::Write).unwrap();
        // A busy kernel delivers after the system call.
        let mut seen = [PollFd::new(&twin, PollFlags::RDHUP)];
        rustix::event::poll(&mut seen, None).unwrap();
        let side = SendingSide::default();
        side.note_earlier_end(&transport, Instant::now());
        assert_eq!(side.ended.get(), Some(Ended::WithRequest));
    }

    #[tokio::test]
    async fn a_closed_unix_socket_is_noticed_at_once() {
        let (client, server) = std::os::unix::net::UnixStream::pair().unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let server = OwnedFd::from(server);
        let departure = Departure::default();
        let pending = poll_fn(|cx| Poll::Ready(departure.poll_gone(&server, cx).is_pending()));
        assert!(pending.await);
        drop(client);
        poll_fn(|cx| departure.poll_gone(&server, cx)).await;
    }
}
