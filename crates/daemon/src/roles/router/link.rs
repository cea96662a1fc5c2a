//! The router's line to main: requests with answers, and news.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot};
use tutti_sys::seqpacket;

use crate::protocol::{self, Packet, ToMain, ToRouter};

/// What main answered.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) pid: Option<i32>,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Why main did not do it.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub(super) struct Refused {
    pub(super) message: String,
    pub(super) hint: Option<String>,
    /// Which option of an application it is about.
    pub(super) option: Option<String>,
}

impl Refused {
    pub(super) fn new(message: impl Into<String>) -> Refused {
        Refused {
            message: message.into(),
            hint: None,
            option: None,
        }
    }
}

type Answer = Result<Done, Refused>;

#[derive(Default)]
struct State {
    next: u64,
    pending: HashMap<u64, oneshot::Sender<Answer>>,
    waiting: VecDeque<Packet>,
}

/// The line. Shared by everything on the control thread that needs main.
pub(super) struct Link {
    socket: AsyncFd<OwnedFd>,
    state: Mutex<State>,
    wake_writer: Notify,
}

impl Link {
    /// Takes over the socket; inside a runtime.
    pub(super) fn new(socket: OwnedFd) -> io::Result<Link> {
        seqpacket::set_nonblocking(socket.as_fd(), true)?;
        // `register` wants a promise, in unsafe, that the descriptor stays open: an `OwnedFd` keeps it.
        #[expect(
            deprecated,
            reason = "its replacement is an unsafe function, and this crate has no unsafe code"
        )]
        let socket = AsyncFd::new(socket)?;
        Ok(Link {
            socket,
            state: Mutex::default(),
            wake_writer: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message that has no answer.
    pub(super) fn tell(&self, message: &ToMain) {
        if let Ok(packet) = Packet::new(message, Vec::new()) {
            self.enqueue(packet);
        }
    }

    fn enqueue(&self, packet: Packet) {
        self.state().waiting.push_back(packet);
        if !self.flush() {
            self.wake_writer.notify_one();
        }
    }

    /// Sends what waits in order; false if the socket is full.
    fn flush(&self) -> bool {
        let mut state = self.state();
        while let Some(packet) = state.waiting.front() {
            match packet.send(self.socket.get_ref().as_fd()) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return false,
                // Main has gone, and with it, by the death signal, this process.
                Ok(()) | Err(_) => drop(state.waiting.pop_front()),
            }
        }
        true
    }

    /// Sends a request made with the number it is given, and waits for the answer.
    pub(super) fn request(
        &self,
        make: &dyn Fn(u64) -> ToMain,
        descriptors: Vec<OwnedFd>,
    ) -> impl Future<Output = Answer> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        let id = {
            let mut state = self.state();
            state.next += 1;
            let id = state.next;
            state.pending.insert(id, sender);
            id
        };
        match Packet::new(&make(id), descriptors) {
            Ok(packet) => self.enqueue(packet),
            Err(error) => self.answer(id, Err(Refused::new(error.to_string()))),
        }
        async move {
            receiver
                .await
                .unwrap_or_else(|_| Err(Refused::new("the main process has gone")))
        }
    }

    fn answer(&self, id: u64, answer: Answer) {
        if let Some(sender) = self.state().pending.remove(&id) {
            // Whoever asked may have given up.
            let _ = sender.send(answer);
        }
    }

    fn refused(&self, failed: ToRouter) {
        if let ToRouter::Failed {
            id,
            message,
            hint,
            option,
        } = failed
        {
            let refused = Refused {
                message,
                hint,
                option,
            };
            self.answer(id, Err(refused));
        }
    }

    /// Sends what did not fit at once, for ever.
    pub(super) async fn write_waiting(&self) -> io::Result<()> {
        loop {
            self.wake_writer.notified().await;
            while !self.flush() {
                self.socket.writable().await?.clear_ready();
                if self.flush() {
                    break;
                }
            }
        }
    }

    /// The next news; answers to requests are delivered on the way. `None` when main has gone.
    pub(super) async fn news(&self) -> io::Result<Option<(ToRouter, Vec<OwnedFd>)>> {
        loop {
            let mut ready = self.socket.readable().await?;
            match protocol::receive::<ToRouter>(self.socket.get_ref().as_fd()) {
                Ok(Some((ToRouter::Done { id, pid }, descriptors))) => {
                    self.answer(id, Ok(Done { pid, descriptors }))
                }
                Ok(Some((failed @ ToRouter::Failed { .. }, _))) => self.refused(failed),
                Ok(other) => return Ok(other),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(e) => return Err(e),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test]
    async fn answers_find_their_requests_in_any_order() {
        let (main, router) = seqpacket::pair().unwrap();
        let link = Arc::new(Link::new(router).unwrap());
        let first = link.request(
            &|id| ToMain::Store {
                id,
                configuration: "1".into(),
                cause: crate::protocol::Cause::default(),
            },
            Vec::new(),
        );
        let second = link.request(
            &|id| ToMain::Store {
                id,
                configuration: "2".into(),
                cause: crate::protocol::Cause::default(),
            },
            Vec::new(),
        );
        let reader = Arc::clone(&link);
        let news = tokio::spawn(async move { reader.news().await });
        let send = |message: &ToRouter| {
            Packet::new(message, Vec::new())
                .unwrap()
                .send(main.as_fd())
                .unwrap()
        };
        send(&ToRouter::Failed {
            id: 2,
            message: "disk full".into(),
            hint: None,
            option: None,
        });
        send(&ToRouter::Done {
            id: 1,
            pid: Some(5),
        });
        send(&ToRouter::Stop { is_graceful: true });
        assert_eq!(second.await.unwrap_err().message, "disk full");
        assert_eq!(first.await.unwrap().pid, Some(5));
        assert!(matches!(
            news.await.unwrap().unwrap(),
            Some((ToRouter::Stop { is_graceful: true }, _))
        ));
    }

    #[tokio::test]
    async fn more_than_the_socket_holds_arrives_in_order() {
        let (main, router) = seqpacket::pair().unwrap();
        let link = Arc::new(Link::new(router).unwrap());
        let count = 2000;
        for id in 0..count {
            link.tell(&ToMain::Store {
                id,
                configuration: "x".repeat(1000),
                cause: crate::protocol::Cause::default(),
            });
        }
        let writer = Arc::clone(&link);
        tokio::spawn(async move { writer.write_waiting().await });
        let reader = tokio::task::spawn_blocking(move || {
            for expected in 0..count {
                let (message, _) = protocol::receive::<ToMain>(main.as_fd()).unwrap().unwrap();
                assert!(matches!(message, ToMain::Store { id, .. } if id == expected));
            }
        });
        reader.await.unwrap();
    }
}
