//! The network and the clock of a test, one for each thread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tutti_conn::clock::{Millis, millis};
use tutti_conn::udp::{Datagram, Train};

/// A datagram and its client.
pub(crate) type Sent = (SocketAddr, Vec<u8>);

thread_local! {
    /// Later than all timers of the runtime, so that none fires: [`super::world::World::pass`] wakes the tasks instead.
    static NOW: Cell<Instant> = Cell::new(Instant::now() + Duration::from_secs(86_400));
    static PASSED: Cell<Millis> = const { Cell::new(0) };
    static NETWORK: RefCell<Network> = RefCell::default();
}

#[derive(Default)]
struct Network {
    to_server: VecDeque<Sent>,
    to_clients: VecDeque<Sent>,
    is_full: bool,
    wakers: Vec<Waker>,
}

impl Network {
    fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

pub(crate) fn now() -> Instant {
    NOW.get()
}

pub(crate) fn now_millis() -> Millis {
    PASSED.get()
}

/// Advances the clock.
pub(super) fn pass(time: Duration) {
    NOW.set(NOW.get() + time);
    PASSED.set(PASSED.get() + millis(time));
}

pub(super) fn send_to_server(from: SocketAddr, bytes: Vec<u8>) {
    NETWORK.with_borrow_mut(|network| {
        network.to_server.push_back((from, bytes));
        network.wake();
    });
}

/// Takes the datagrams that the server has sent.
pub(super) fn sent_to_clients() -> VecDeque<Sent> {
    NETWORK.with_borrow_mut(|network| std::mem::take(&mut network.to_clients))
}

/// Makes the server's socket full, or ready again.
pub(super) fn set_full(is_full: bool) {
    NETWORK.with_borrow_mut(|network| {
        network.is_full = is_full;
        network.wake();
    });
}

/// The server's socket.
pub(crate) struct UdpSocket;

impl UdpSocket {
    #[allow(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(crate) fn new(_: Arc<OwnedFd>) -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) fn longest_train(&self, _length: u16) -> usize {
        10
    }

    pub(crate) fn keeps_datagrams_whole(&self) -> bool {
        true
    }

    pub(crate) fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        mut each: impl FnMut(Datagram<'_>),
    ) -> Poll<io::Result<()>> {
        NETWORK.with_borrow_mut(|network| {
            let Some((from, bytes)) = network.to_server.pop_front() else {
                network.wakers.push(cx.waker().clone());
                return Poll::Pending;
            };
            each(Datagram {
                from,
                to: None,
                ecn: None,
                bytes: &bytes,
            });
            Poll::Ready(Ok(()))
        })
    }

    pub(crate) fn try_send(&self, train: &Train<'_>) -> bool {
        NETWORK.with_borrow_mut(|network| {
            if network.is_full {
                return false;
            }
            let each = train.each.unwrap_or(train.bytes.len()).max(1);
            let datagrams = train.bytes.chunks(each);
            network
                .to_clients
                .extend(datagrams.map(|bytes| (train.to, bytes.to_vec())));
            true
        })
    }

    pub(crate) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        NETWORK.with_borrow_mut(|network| {
            if network.is_full {
                network.wakers.push(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(())
        })
    }
}
