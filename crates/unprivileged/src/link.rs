//! The connection to main: requests with answers, and news.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, oneshot};
use tutti_protocol::{ChangeError, Packet, Reason, ToAcme, ToController, ToFleet, ToRouter};
use tutti_sys::seqpacket;

/// Main's answer to a successful request.
#[derive(Debug, Default)]
pub struct Done {
    /// Id of the started process.
    pub pid: Option<i32>,
    /// The requested descriptors.
    pub descriptors: Vec<OwnedFd>,
    /// Faults that did not prevent a change.
    pub warnings: Vec<ChangeError>,
}

/// Why main rejected a request.
#[derive(Debug, Clone, Default, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// The message, in one sentence.
    pub message: String,
    /// The remedy.
    pub hint: Option<String>,
    /// The option of an application that it concerns.
    pub option: Option<String>,
    /// The kind of failure.
    pub reason: Reason,
    /// Faults, each with its place in the configuration.
    pub faults: Vec<ChangeError>,
}

impl Refused {
    /// Creates a rejection with only a message.
    pub fn new(message: impl Into<String>) -> Refused {
        Refused {
            message: message.into(),
            ..Refused::default()
        }
    }
}

type CallResult = Result<Done, Refused>;

/// A received message.
pub enum Sorted<T> {
    /// The answer to the request with this id, without its descriptors.
    Answer(u64, Result<Done, Refused>),
    /// Anything else.
    News(T),
}

/// The messages of main to a process of one kind.
pub trait FromMain: DeserializeOwned {
    /// Distinguishes answers from news.
    fn sort(self) -> Sorted<Self>;
}

impl FromMain for ToRouter {
    fn sort(self) -> Sorted<ToRouter> {
        match self {
            ToRouter::Done { id, pid } => {
                let done = Done {
                    pid,
                    ..Done::default()
                };
                Sorted::Answer(id, Ok(done))
            }
            ToRouter::Failed {
                id,
                message,
                hint,
                option,
            } => {
                let refused = Refused {
                    hint,
                    option,
                    ..Refused::new(message)
                };
                Sorted::Answer(id, Err(refused))
            }
            news => Sorted::News(news),
        }
    }
}

impl FromMain for ToController {
    fn sort(self) -> Sorted<ToController> {
        match self {
            ToController::Done { id, warnings } => {
                let done = Done {
                    warnings,
                    ..Done::default()
                };
                Sorted::Answer(id, Ok(done))
            }
            ToController::Failed {
                id,
                message,
                reason,
                faults,
            } => {
                let refused = Refused {
                    reason,
                    faults,
                    ..Refused::new(message)
                };
                Sorted::Answer(id, Err(refused))
            }
            news => Sorted::News(news),
        }
    }
}

impl FromMain for ToAcme {
    fn sort(self) -> Sorted<ToAcme> {
        match self {
            ToAcme::Done { id } => Sorted::Answer(id, Ok(Done::default())),
            ToAcme::Failed { id, message } => Sorted::Answer(id, Err(Refused::new(message))),
            news => Sorted::News(news),
        }
    }
}

/// Its answers have content, so they are handled like news.
impl FromMain for ToFleet {
    fn sort(self) -> Sorted<ToFleet> {
        Sorted::News(self)
    }
}

#[derive(Default)]
struct State {
    next: u64,
    pending: HashMap<u64, oneshot::Sender<CallResult>>,
    waiting: VecDeque<Packet>,
}

/// The connection, on which `To` is sent and `From` received. Shared by everything on the control thread that needs
/// main.
pub struct Link<To, From> {
    socket: AsyncFd<OwnedFd>,
    state: Mutex<State>,
    wake_writer: Notify,
    speaks: PhantomData<fn(To) -> From>,
}

impl<To: Serialize, From: FromMain> Link<To, From> {
    /// Takes over the socket; must be called inside a runtime.
    pub fn new(socket: OwnedFd) -> io::Result<Link<To, From>> {
        seqpacket::set_nonblocking(socket.as_fd())?;
        // `register` requires an unsafe promise that the descriptor stays open; an `OwnedFd` ensures it.
        #[expect(
            deprecated,
            reason = "its replacement is an unsafe function, and this crate has no unsafe code"
        )]
        let socket = AsyncFd::new(socket)?;
        Ok(Link {
            socket,
            state: Mutex::default(),
            wake_writer: Notify::new(),
            speaks: PhantomData,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a message that has no answer.
    pub fn send(&self, message: &To) {
        self.give(message, Vec::new());
    }

    /// Sends a message that has no answer, with descriptors.
    pub fn give(&self, message: &To, descriptors: Vec<OwnedFd>) {
        if let Ok(packet) = Packet::new(message, descriptors) {
            self.enqueue(packet);
        }
    }

    fn enqueue(&self, packet: Packet) {
        self.state().waiting.push_back(packet);
        if !self.flush() {
            self.wake_writer.notify_one();
        }
    }

    /// Sends queued messages in order; false if the socket is full.
    fn flush(&self) -> bool {
        let mut state = self.state();
        while let Some(packet) = state.waiting.front() {
            match packet.send(self.socket.get_ref().as_fd()) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return false,
                // Main has ended, and the death signal ends this process too.
                Ok(()) | Err(_) => drop(state.waiting.pop_front()),
            }
        }
        true
    }

    /// Sends a request created with the id it gets, and waits for the answer.
    pub fn request(
        &self,
        make: &dyn Fn(u64) -> To,
        descriptors: Vec<OwnedFd>,
    ) -> impl Future<Output = CallResult> + Send + use<To, From> {
        self.numbered_request(make, descriptors).1
    }

    /// As [`Link::request`], with the number of the request.
    pub fn numbered_request(
        &self,
        make: &dyn Fn(u64) -> To,
        descriptors: Vec<OwnedFd>,
    ) -> (u64, impl Future<Output = CallResult> + Send + use<To, From>) {
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
        let answer = async move {
            receiver
                .await
                .unwrap_or_else(|_| Err(Refused::new("the main process has ended")))
        };
        (id, answer)
    }

    /// Forgets a request whose answer is no longer needed.
    pub fn forget(&self, id: u64) {
        self.state().pending.remove(&id);
    }

    fn answer(&self, id: u64, answer: CallResult) {
        if let Some(sender) = self.state().pending.remove(&id) {
            // The request may have been given up.
            let _ = sender.send(answer);
        }
    }

    /// Sends queued messages, forever.
    pub async fn write_waiting(&self) -> io::Result<()> {
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

    /// Returns the next news; answers to requests are delivered meanwhile. `None` when main has ended.
    pub async fn news(&self) -> io::Result<Option<(From, Vec<OwnedFd>)>> {
        loop {
            let mut ready = self.socket.readable().await?;
            let socket = self.socket.get_ref().as_fd();
            match tutti_protocol::receive::<From>(socket, tutti_protocol::LONGEST) {
                Ok(Some((message, descriptors))) => match message.sort() {
                    Sorted::Answer(id, outcome) => {
                        let whole = |done| match descriptors {
                            Ok(descriptors) => Ok(Done {
                                descriptors,
                                ..done
                            }),
                            Err(error) => Err(Refused::new(error.to_string())),
                        };
                        self.answer(id, outcome.and_then(whole));
                    }
                    Sorted::News(news) => {
                        return Ok(Some((news, descriptors.unwrap_or_default())));
                    }
                },
                Ok(None) => return Ok(None),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => ready.clear_ready(),
                Err(e) if seqpacket::lacks_descriptors(&e) => {
                    tokio::time::sleep(seqpacket::LACK_PAUSE).await;
                }
                Err(e) => return Err(e),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use tutti_protocol::FromRouter;

    use super::*;

    fn open(id: u64, path: &str) -> FromRouter {
        FromRouter::OpenFile {
            id,
            path: PathBuf::from(path),
        }
    }

    #[tokio::test]
    async fn answers_find_their_requests_in_any_order() {
        let (main, router) = seqpacket::pair().unwrap();
        let link = Arc::new(Link::new(router).unwrap());
        let first = link.request(&|id| open(id, "1"), Vec::new());
        let second = link.request(&|id| open(id, "2"), Vec::new());
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
        let link = Arc::new(Link::<FromRouter, ToRouter>::new(router).unwrap());
        let count = 2000;
        for id in 0..count {
            link.send(&open(id, &"x".repeat(1000)));
        }
        let writer = Arc::clone(&link);
        tokio::spawn(async move { writer.write_waiting().await });
        let reader = tokio::task::spawn_blocking(move || {
            for expected in 0..count {
                let received =
                    tutti_protocol::receive::<FromRouter>(main.as_fd(), tutti_protocol::LONGEST);
                let (message, _) = received.unwrap().unwrap();
                assert!(matches!(message, FromRouter::OpenFile { id, .. } if id == expected));
            }
        });
        reader.await.unwrap();
    }
}
