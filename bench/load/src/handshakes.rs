//! New connections, one after the other by each client: a handshake, one request, the end. Over TCP with TLS 1.3, or over QUIC; whole, or with
//! the ticket of the connection before.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustls::ClientConnection;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};

use crate::http3::{ask, connect, report, request};
use crate::quic;

/// The longest silence of a server that is no failure.
const PATIENCE: Duration = Duration::from_secs(10);

/// A load.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) clients: usize,
    pub(crate) is_quic: bool,
    pub(crate) is_resuming: bool,
    pub(crate) duration: Duration,
}

/// The answers and the mistakes of a client.
#[derive(Default)]
struct Seen {
    times: Vec<Duration>,
    errors: usize,
    first_error: Option<String>,
    /// Handshakes with a certificate.
    whole: usize,
}

pub(crate) fn run(address: SocketAddr, path: &str, plan: Plan) -> Result<Value, String> {
    let begin = Instant::now();
    let clients: Vec<_> = (0..plan.clients)
        .map(|_| {
            let path = path.to_owned();
            std::thread::spawn(move || match plan.is_quic {
                true => over_quic(address, &path, plan, begin),
                false => over_tcp(address, &path, plan, begin),
            })
        })
        .collect();
    let mut all = Seen::default();
    for client in clients {
        let seen = client
            .join()
            .map_err(|_| "a client has panicked".to_owned())??;
        all.times.extend(seen.times);
        all.errors += seen.errors;
        all.whole += seen.whole;
        all.first_error = all.first_error.or(seen.first_error);
    }
    let mut told = report(
        all.times,
        begin.elapsed().as_secs_f64(),
        all.errors,
        all.first_error,
    );
    told["whole"] = json!(all.whole);
    Ok(told)
}

impl Seen {
    fn count(&mut self, begin: Instant, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.times.push(begin.elapsed()),
            Err(error) => {
                self.errors += 1;
                self.first_error.get_or_insert(error);
            }
        }
    }
}

fn over_quic(address: SocketAddr, path: &str, plan: Plan, begin: Instant) -> Result<Seen, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let request = request(&address.to_string(), path);
    let shown = Arc::new(AtomicUsize::new(0));
    let mut seen = Seen::default();
    runtime
        .map_err(|error| error.to_string())?
        .block_on(async {
            let endpoint = quic::endpoint(plan.is_resuming, &shown)?;
            while begin.elapsed() < plan.duration {
                let begin = Instant::now();
                let outcome = async {
                    let connection = connect(&endpoint, address).await?;
                    ask(&connection, &request).await?;
                    connection.close(0x100_u32.into(), b"");
                    Ok(())
                };
                seen.count(begin, outcome.await);
            }
            Ok::<_, String>(())
        })?;
    seen.whole = shown.load(Ordering::Relaxed);
    Ok(seen)
}

fn over_tcp(address: SocketAddr, path: &str, plan: Plan, begin: Instant) -> Result<Seen, String> {
    let shown = Arc::new(AtomicUsize::new(0));
    let config = Arc::new(quic::tls(b"http/1.1", plan.is_resuming, &shown)?);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    let mut seen = Seen::default();
    while begin.elapsed() < plan.duration {
        let begin = Instant::now();
        let outcome = once(address, &config, &request);
        seen.count(begin, outcome);
    }
    seen.whole = shown.load(Ordering::Relaxed);
    Ok(seen)
}

/// A connection of TCP with one request.
fn once(
    address: SocketAddr,
    config: &Arc<rustls::ClientConfig>,
    request: &str,
) -> Result<(), String> {
    let name = ServerName::try_from(quic::NAME).map_err(|error| error.to_string())?;
    let mut tls =
        ClientConnection::new(Arc::clone(config), name).map_err(|error| error.to_string())?;
    let told = |error: std::io::Error| error.to_string();
    let mut stream = TcpStream::connect(address).map_err(told)?;
    stream.set_nodelay(true).map_err(told)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(told)?;
    let mut stream = rustls::Stream::new(&mut tls, &mut stream);
    stream.write_all(request.as_bytes()).map_err(told)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).map_err(told)?;
    if answer.starts_with(b"HTTP/1.1 200 ") {
        Ok(())
    } else {
        Err(format!(
            "answered {}",
            String::from_utf8_lossy(answer.get(..12).unwrap_or(&answer))
        ))
    }
}
