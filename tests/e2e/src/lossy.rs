//! A way between a client and a server that loses, doubles and reorders datagrams.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Says how a datagram of this number passes.
pub type Fate = fn(usize) -> Passes;

/// The fate of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passes {
    /// As it is.
    Once,
    /// Not at all.
    Never,
    /// Two times.
    Twice,
    /// Behind the next one.
    Later,
}

/// The way, for one client.
pub struct Way {
    /// Where the client sends to.
    pub address: SocketAddr,
    ended: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Way {
    /// Opens one to a server.
    pub fn to(server: SocketAddr, fate: Fate) -> Self {
        let front = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let back = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        back.connect(server).expect("an address");
        let address = front.local_addr().expect("an address");
        let ended = Arc::new(AtomicBool::new(false));
        for socket in [&front, &back] {
            let pause = Some(Duration::from_millis(20));
            socket.set_read_timeout(pause).expect("a socket");
        }
        let client = Arc::new(std::sync::Mutex::new(None::<SocketAddr>));
        let (known, told) = (Arc::clone(&client), client);
        let (to_front, to_back) = (front.try_clone(), back.try_clone());
        let (to_front, to_back) = (to_front.expect("a copy"), to_back.expect("a copy"));
        let up = pass(front, Arc::clone(&ended), fate, move |from, bytes| {
            *known.lock().expect("a lock") = Some(from);
            let _ = to_back.send(bytes);
        });
        let down = pass(back, Arc::clone(&ended), fate, move |_, bytes| {
            if let Some(client) = *told.lock().expect("a lock") {
                let _ = to_front.send_to(bytes, client);
            }
        });
        Self {
            address,
            ended,
            threads: vec![up, down],
        }
    }
}

fn pass(
    from: UdpSocket,
    ended: Arc<AtomicBool>,
    fate: Fate,
    send: impl Fn(SocketAddr, &[u8]) + Send + 'static,
) -> JoinHandle<()> {
    std::thread::spawn(move || {
        let mut room = vec![0; 65_536];
        let mut late: Option<(SocketAddr, Vec<u8>)> = None;
        let mut number = 0;
        while !ended.load(Ordering::Relaxed) {
            let Ok((length, sender)) = from.recv_from(&mut room) else {
                // Nothing follows for now.
                if let Some((sender, bytes)) = late.take() {
                    send(sender, &bytes);
                }
                continue;
            };
            let bytes = room.get(..length).expect("what came");
            let passes = fate(number);
            number += 1;
            let times = match passes {
                Passes::Never => 0,
                Passes::Once => 1,
                Passes::Twice => 2,
                Passes::Later if late.is_none() => {
                    late = Some((sender, bytes.to_vec()));
                    continue;
                }
                Passes::Later => 1,
            };
            (0..times).for_each(|_| send(sender, bytes));
            if let Some((sender, bytes)) = late.take() {
                send(sender, &bytes);
            }
        }
    })
}

impl Drop for Way {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
