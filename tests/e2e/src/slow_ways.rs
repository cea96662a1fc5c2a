//! Ways of TCP to servers that take as long as a test says. Kernels without `netem` have no other.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

/// Ways to servers, all of them as slow as each other. Dropping this closes them.
pub struct SlowWays {
    /// Where they begin, in the order of the servers.
    pub addresses: Vec<SocketAddr>,
    delay: Arc<AtomicU64>,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SlowWays {
    /// Opens ways at this address, which take no time yet.
    pub fn open(at: Ipv4Addr, servers: &[SocketAddr]) -> SlowWays {
        let listeners = servers.iter().map(|server| {
            let listener = TcpListener::bind((at, 0)).expect("a port");
            listener.set_nonblocking(true).expect("a socket");
            (listener, *server)
        });
        let listeners: Vec<_> = listeners.collect();
        let addresses = listeners.iter().map(|(listener, _)| listener.local_addr());
        let addresses = addresses.collect::<Result<_, _>>().expect("addresses");
        let delay = Arc::new(AtomicU64::new(0));
        let (end, ended) = oneshot::channel();
        let shared = Arc::clone(&delay);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async {
                for (listener, server) in listeners {
                    let listener = tokio::net::TcpListener::from_std(listener);
                    let listener = listener.expect("a listener");
                    tokio::spawn(accept(listener, server, Arc::clone(&shared)));
                }
                let _ = ended.await;
            });
        });
        SlowWays {
            addresses,
            delay,
            end: Some(end),
            thread: Some(thread),
        }
    }

    /// From now on each byte takes this long, in each direction.
    pub fn set_delay(&self, delay: Duration) {
        let milliseconds = u64::try_from(delay.as_millis()).expect("a short time");
        self.delay.store(milliseconds, Ordering::Relaxed);
    }
}

impl Drop for SlowWays {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn accept(listener: tokio::net::TcpListener, server: SocketAddr, delay: Arc<AtomicU64>) {
    while let Ok((client, _)) = listener.accept().await {
        let delay = Arc::clone(&delay);
        tokio::spawn(async move {
            // A server that is not there closes the connection.
            let Ok(server) = TcpStream::connect(server).await else {
                return;
            };
            let _ = (client.set_nodelay(true), server.set_nodelay(true));
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::select! {
                () = pass(from_client, to_server, &delay) => {}
                () = pass(from_server, to_client, &delay) => {}
            }
        });
    }
}

/// Passes bytes on, each after the delay there was as it came, until one end closes.
async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: &AtomicU64) {
    let (sender, mut waiting) = mpsc::unbounded_channel::<(Instant, Vec<u8>)>();
    let read = async move {
        let mut room = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut room).await {
            let due = Instant::now() + Duration::from_millis(delay.load(Ordering::Relaxed));
            let bytes = room.get(..count).unwrap_or_default().to_vec();
            if sender.send((due, bytes)).is_err() {
                break;
            }
        }
    };
    let write = async move {
        while let Some((due, bytes)) = waiting.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&bytes).await.is_err() {
                break;
            }
        }
    };
    tokio::join!(read, write);
}
