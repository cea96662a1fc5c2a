//! Load that wrk and ab cannot make: many clients each at its own pace (open loop), and idle connections.
//!
//! `tutti-load paced` starts each client's request when it is *due*, not when the last answer came, and
//! counts latency from that moment: a server that stalls cannot hide it (no coordinated omission).
//! `tutti-load hold` opens keep-alive connections, asks once on each, and holds them until its standard
//! input ends. `tutti-load echo` opens WebSockets and sends the next message on each when the last one has come back. `tutti-load http3` asks over
//! HTTP/3, and `tutti-load handshakes` makes new connections only. All print one JSON object per line and are run by `bench/harness`.
//! Targets are loopback or bench-owned namespaces only; every run is bounded in count and time.

mod connection;
mod echo;
mod handshakes;
mod hold;
mod http3;
mod paced;
mod quic;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

const USAGE: &str = "usage: tutti-load paced ADDRESS:PORT PATH CLIENTS INTERVAL_MS SECONDS
       tutti-load hold  ADDRESS:PORT PATH CONNECTIONS
       tutti-load echo  ADDRESS:PORT PATH CONNECTIONS BYTES SECONDS
       tutti-load http3 ADDRESS:PORT PATH CONNECTIONS STREAMS SECONDS
       tutti-load handshakes ADDRESS:PORT PATH CLIENTS tcp|quic whole|resumed SECONDS";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("tutti-load: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<serde_json::Value, String> {
    let number = |index: usize| -> Result<u64, String> {
        arguments
            .get(index)
            .and_then(|text| text.parse().ok())
            .ok_or_else(|| USAGE.to_owned())
    };
    let address: SocketAddr = arguments
        .get(1)
        .and_then(|text| text.parse().ok())
        .ok_or(USAGE)?;
    let path = arguments.get(2).ok_or(USAGE)?;
    let target = connection::Target::new(address, path);
    let clients = usize::try_from(number(3)?).map_err(|error| error.to_string())?;
    raise_descriptor_limit(clients as u64 + 64)?;
    match arguments.first().map(String::as_str) {
        Some("paced") => {
            let plan = paced::Plan {
                clients,
                interval: Duration::from_millis(number(4)?),
                duration: Duration::from_secs(number(5)?),
            };
            paced::run(&target, &plan).map_err(|error| error.to_string())
        }
        Some("echo") => {
            let seconds = Duration::from_secs(number(5)?);
            let bytes = usize::try_from(number(4)?).map_err(|error| error.to_string())?;
            echo::run(address, path, clients, bytes, seconds).map_err(|error| error.to_string())
        }
        Some("http3") => {
            let plan = http3::Plan {
                connections: clients,
                streams: usize::try_from(number(4)?).map_err(|error| error.to_string())?,
                duration: Duration::from_secs(number(5)?),
            };
            http3::run(address, path, &plan)
        }
        Some("handshakes") => {
            let is = |index: usize, yes: &str, no: &str| match arguments.get(index) {
                Some(word) if word == yes => Ok(true),
                Some(word) if word == no => Ok(false),
                _ => Err(USAGE.to_owned()),
            };
            let plan = handshakes::Plan {
                clients,
                is_quic: is(4, "quic", "tcp")?,
                is_resuming: is(5, "resumed", "whole")?,
                duration: Duration::from_secs(number(6)?),
            };
            handshakes::run(address, path, plan)
        }
        Some("hold") => hold::run(&target, clients).map_err(|error| error.to_string()),
        _ => Err(USAGE.to_owned()),
    }
}

/// A descriptor per connection; as root the hard limit goes up too.
fn raise_descriptor_limit(wanted: u64) -> Result<(), String> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|maximum| maximum.max(wanted));
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(wanted),
            maximum,
        },
    )
    .map_err(|error| format!("{wanted} descriptors are needed: {error}\nhint: ulimit -Hn {wanted}"))
}
