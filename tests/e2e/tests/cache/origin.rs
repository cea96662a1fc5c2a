//! A server whose answers the test says, and which notes what it is asked.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Answers a request, of which it gets the head.
type Answers = dyn Fn(&str) -> String + Send + Sync;

/// A server on a port of its own; it ends with the test's process.
pub(crate) struct Origin {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    /// One that answers each request so.
    pub(crate) fn start(answers: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let (noted, answers): (_, Arc<Answers>) = (Arc::clone(&heads), Arc::new(answers));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (noted, answers) = (Arc::clone(&noted), Arc::clone(&answers));
                std::thread::spawn(move || serve(stream, &noted, &*answers));
            }
        });
        Self { address, heads }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The heads of all requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// Number of requests so far.
    pub(crate) fn count(&self) -> usize {
        self.heads.lock().unwrap().len()
    }
}

/// One request for each connection.
fn serve(mut stream: TcpStream, noted: &Mutex<Vec<String>>, answers: &Answers) {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    noted.lock().unwrap().push(head.clone());
    let _ = stream.write_all(answers(&head).as_bytes());
    // A body that is unread when the connection is closed would take the answer with it.
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = std::io::copy(&mut stream, &mut std::io::sink());
}

/// A whole answer of this status with these fields, each with its end.
pub(crate) fn answer(status: u16, fields: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n{fields}\r\n{body}"
    )
}

/// The value of a field of a request, in lower-case name.
pub(crate) fn field(head: &str, name: &str) -> Option<String> {
    head.lines().find_map(|line| {
        let (known, value) = line.split_once(':')?;
        known
            .eq_ignore_ascii_case(name)
            .then(|| value.trim().to_owned())
    })
}
