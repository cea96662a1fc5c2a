//! A listen thread: one current-thread runtime and its tasks.
//!
//! Started by [`Server`](crate::Server), controlled by [`Command`]s. Its tasks are: the command loop, one accept loop per listener, the
//! deadline sweeper, the application completion task, and one task per connection. Nothing here may block except reads of regular files.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tutti_conn::connections::sweep_forever;
use tutti_conn::listener::{ListenerHold, SharedListener};
use tutti_pool::Level;
use tutti_quic::{Ports, QuicEndpoint};

use crate::connection::accept::{accept_forever, accept_rest};
use crate::connection::connection_task;
use crate::connection::datagram_endpoint::{self, DatagramEndpoint};
use crate::connection::http3::{self, Entrance};
use crate::local::{Command, Local, Shared};

/// Interval between checks for the end of the last connection of a removed listener. Until then its configuration is kept, and with it the
/// applications of that configuration.
const RETIREMENT: Duration = Duration::from_millis(50);

/// A listener on which this thread accepts.
struct Accepting {
    task: JoinHandle<()>,
    listener: Arc<SharedListener>,
    socket: Arc<OwnedFd>,
}

impl Accepting {
    /// Accepts the last waiting connections when nothing else holds the socket: later ones are refused, not reset.
    async fn end(self, local: &Rc<Local>) {
        self.task.abort();
        // The result says that it was cancelled.
        let _ = self.task.await;
        accept_rest(local, &self.listener, &self.socket);
    }
}

/// Carries out the commands of one thread.
struct Runner {
    local: Rc<Local>,
    accepting: FxHashMap<u64, Accepting>,
    /// The UDP sockets of this thread.
    endpoints: Vec<Rc<QuicEndpoint<Entrance>>>,
    /// Those of removed listeners, until their last connections have ended.
    leaving: Vec<Weak<QuicEndpoint<Entrance>>>,
    /// Its UDP sockets of streams.
    datagrams: Vec<Rc<DatagramEndpoint>>,
}

impl Runner {
    /// Accepts no new clients of HTTP/3 where `is_left` is true; `leave` says so to the endpoint.
    fn leave_datagrams(
        &mut self,
        is_left: impl Fn(&QuicEndpoint<Entrance>) -> bool,
        leave: fn(&QuicEndpoint<Entrance>),
    ) {
        self.leaving.retain(|endpoint| endpoint.strong_count() > 0);
        let left = self.endpoints.extract_if(.., |endpoint| is_left(endpoint));
        self.leaving.extend(left.map(|endpoint| {
            leave(&endpoint);
            Rc::downgrade(&endpoint)
        }));
        self.local.connections.wake_all();
    }

    fn take_datagrams(&mut self, listener: &Arc<SharedListener>, ports: &Arc<Ports>) {
        let leaving: Vec<_> = self.leaving.iter().filter_map(Weak::upgrade).collect();
        let taken = http3::take_datagrams(&self.local, listener, ports, &leaving);
        self.endpoints.extend(taken);
        self.leaving.retain(|one| {
            let is_taken = |taken: &Rc<_>| std::ptr::eq(Rc::as_ptr(taken), one.as_ptr());
            !self.endpoints.iter().any(is_taken)
        });
    }

    /// Receives no more datagrams of streams, except those of listeners that are still there.
    fn leave_closed(&mut self) {
        let is_closing = |endpoint: &Rc<DatagramEndpoint>| endpoint.listener().is_closing();
        let gone = self.datagrams.extract_if(.., |one| is_closing(one));
        gone.for_each(|endpoint| endpoint.close());
    }

    fn listen(&mut self, listener: Arc<SharedListener>, socket: Arc<OwnedFd>) {
        let accepts = accept_forever(
            Rc::clone(&self.local),
            Arc::clone(&listener),
            Arc::clone(&socket),
        );
        let task = tokio::task::spawn_local(accepts);
        self.accepting.insert(
            listener.id,
            Accepting {
                task,
                listener,
                socket,
            },
        );
    }

    async fn unlisten(&mut self, through: ListenerHold) {
        let id = through.id;
        if let Some(accepting) = self.accepting.remove(&id) {
            accepting.end(&self.local).await;
        }
        self.leave_closed();
        self.local.connections.wake_all();
        // Connections that waited to be accepted count from now on.
        let listener = through.release();
        let local = Rc::clone(&self.local);
        tokio::task::spawn_local(async move {
            while listener.is_used() {
                tokio::time::sleep(RETIREMENT).await;
            }
            local.shared.retired().remove(&id);
        });
    }

    async fn drain(&mut self) {
        let was_draining = self.local.draining.replace(true);
        let leave: fn(&QuicEndpoint<Entrance>) = match self.local.drains_gently() {
            true => QuicEndpoint::hand_over,
            false => QuicEndpoint::close,
        };
        self.leave_datagrams(|_| true, leave);
        self.leave_closed();
        for (_, accepting) in self.accepting.drain() {
            accepting.end(&self.local).await;
        }
        if !was_draining {
            self.local.accepts_no_more();
        }
        self.local.connections.wake_all();
    }

    /// Runs until it must end.
    async fn run(&mut self, inbox: &mut UnboundedReceiver<Command>) {
        let local = Rc::clone(&self.local);
        while !local.has_drained() {
            let command = tokio::select! {
                command = inbox.recv() => command,
                () = local.ended.notified() => continue,
            };
            match command {
                Some(Command::Adopt(accepted)) => {
                    connection_task::spawn(Rc::clone(&local), accepted)
                }
                Some(Command::Serve(accepted)) => {
                    local.counters().accepted.add(1);
                    connection_task::spawn(Rc::clone(&local), accepted);
                }
                Some(Command::Listen(listener, socket)) => self.listen(listener, socket),
                Some(Command::TakeDatagrams(listener, ports)) => {
                    self.take_datagrams(&listener, &ports);
                }
                Some(Command::PassDatagrams(listener, sockets)) => {
                    let taken = datagram_endpoint::begin(&local, &listener, &sockets);
                    self.datagrams.extend(taken);
                }
                Some(Command::LeaveDatagrams(ports)) => {
                    self.leave_datagrams(|endpoint| endpoint.is_of(&ports), QuicEndpoint::close);
                }
                Some(Command::Unlisten(through)) => self.unlisten(through).await,
                Some(Command::Refresh) => local.prune_upstreams(),
                Some(Command::Drain) => self.drain().await,
                Some(Command::AllDrained) => {}
                // After the connections woken by earlier commands: none of them continues with the former configuration.
                Some(Command::Answer(answer)) => {
                    tokio::task::spawn_local(async move { drop(answer) });
                }
                Some(Command::Quit) | None => return,
            }
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // It must quit, or has panicked: the others must not wait for it.
        if !self.local.draining.get() {
            self.local.accepts_no_more();
        }
    }
}

/// Starts a listen thread.
pub(crate) fn start(
    thread: u32,
    shared: Arc<Shared>,
    mut inbox: UnboundedReceiver<Command>,
    alive: Arc<watch::Sender<usize>>,
) -> io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new()
        .name(format!("listen-{thread}"))
        .spawn(move || {
            let _alive = Alive(alive);
            let log = Arc::clone(&shared.log);
            if let Err(error) = body(thread, shared, &mut inbox) {
                log.log(
                    Level::Alert,
                    &format!("listen thread {thread} cannot run: {error}"),
                );
            }
        })
}

/// Counts a thread as ended, even after a panic.
struct Alive(Arc<watch::Sender<usize>>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

thread_local! {
    /// For the hook that runs before the thread sleeps, which can only capture `Send` values.
    static CURRENT: RefCell<Option<Rc<Local>>> = const { RefCell::new(None) };
}

fn before_sleep() {
    // Completions of applications: if this wakes a task, the runtime does not sleep.
    tutti_pool::threads::park();
    CURRENT.with_borrow(|current| {
        if let Some(local) = current {
            local.access_log.flush();
        }
    });
}

fn body(
    thread: u32,
    shared: Arc<Shared>,
    inbox: &mut UnboundedReceiver<Command>,
) -> io::Result<()> {
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .on_thread_park(before_sleep)
        .on_thread_unpark(tutti_pool::threads::unpark)
        .build_local(LocalOptions::default())?;
    let pool = Arc::clone(&shared.pool);
    pool.enter(thread);
    let local = Rc::new(Local::new(thread, shared));
    tutti_conn::counters::enter(local.counters());
    CURRENT.set(Some(Rc::clone(&local)));
    runtime.block_on(async {
        let watched = Rc::clone(&local);
        tokio::task::spawn_local(async move {
            if let Err(error) = pool.watch(thread).await {
                watched.log(
                    Level::Alert,
                    &format!(
                        "listen thread {thread} cannot receive events of applications: {error}"
                    ),
                );
            }
        });
        tokio::task::spawn_local(sweep_forever(Rc::clone(&local.connections)));
        let mut runner = Runner {
            local: Rc::clone(&local),
            accepting: FxHashMap::default(),
            endpoints: Vec::new(),
            leaving: Vec::new(),
            datagrams: Vec::new(),
        };
        runner.run(inbox).await;
    });
    CURRENT.set(None);
    drop(runtime);
    local.access_log.flush();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::Ordering;
    use std::task::Poll;

    use tokio::sync::mpsc::unbounded_channel;
    use tutti_conn::listener::{Accepted, Peer};
    use tutti_files::cache::CacheLimits;
    use tutti_pool::{LogSink, ThreadWakers};

    use super::*;
    use crate::job_submission::Desk;
    use crate::scraper::Scraper;

    struct Quiet;

    impl LogSink for Quiet {
        fn log(&self, _: Level, _: &str) {}

        fn output(&self, _: &str, _: i32, _: &[u8]) {}
    }

    /// A connection as an accepting thread passes it on, and its client.
    fn handed_over(shared: &Shared, to: usize) -> (Accepted, TcpStream) {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listening.local_addr().unwrap()).unwrap();
        let (socket, address) = listening.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        let listener = SharedListener::new("127.0.0.1:1", 1, listening.into(), 1);
        listener.close();
        shared.counters[to].open.fetch_add(1, Ordering::Relaxed);
        let accepted = Accepted {
            socket: socket.into(),
            peer: Peer::Inet(address),
            listener: ListenerHold::new(&listener),
        };
        (accepted, client)
    }

    /// Issue 10: a thread that had ended was passed a connection by one that still accepted, and the connection was lost.
    #[test]
    fn a_thread_without_connections_drains_until_no_thread_can_pass_it_one() {
        let (senders, mut inboxes): (Vec<_>, Vec<_>) = (0..2).map(|_| unbounded_channel()).unzip();
        let threads = ThreadWakers::new(2).unwrap();
        let limits = CacheLimits::default();
        let shared = Arc::new(
            Shared::new(
                threads,
                Arc::new(Quiet),
                senders,
                limits,
                Scraper(unbounded_channel().0),
                Desk::new(unbounded_channel().0),
            )
            .unwrap(),
        );
        let runtime = Builder::new_current_thread()
            .enable_all()
            .build_local(LocalOptions::default())
            .unwrap();
        let local = Rc::new(Local::new(0, Arc::clone(&shared)));
        let runner = |local: &Rc<Local>| Runner {
            local: Rc::clone(local),
            accepting: FxHashMap::default(),
            endpoints: Vec::new(),
            leaving: Vec::new(),
            datagrams: Vec::new(),
        };
        runtime.block_on(async {
            let mut first = runner(&local);
            let _ = shared.inboxes[0].send(Command::Drain);
            let mut running = Box::pin(first.run(&mut inboxes[0]));
            let has_ended =
                std::future::poll_fn(|cx| Poll::Ready(running.as_mut().poll(cx).is_ready())).await;
            assert!(!has_ended, "the other thread still accepts");
            // It has accepted one, and this thread has fewer.
            let (accepted, mut client) = handed_over(&shared, 0);
            assert!(shared.inboxes[0].send(Command::Adopt(accepted)).is_ok());
            runner(&Rc::new(Local::new(1, Arc::clone(&shared))))
                .drain()
                .await;
            let client = std::thread::spawn(move || {
                client
                    .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                    .unwrap();
                let mut answer = String::new();
                client.read_to_string(&mut answer).unwrap();
                answer
            });
            running.await;
            let answer = client.join().unwrap();
            assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
        });
    }
}
