//! An OpenTelemetry collector that keeps what it is sent, and can be made dead, slow or failing.
//!
//! Over HTTP it is a socket and the published messages; over gRPC, Python's grpcio hands the bytes on.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tutti_testkit::wait_until;

/// The way in which a collector treats the spans that it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temper {
    /// It takes it.
    Good,
    /// It answers with this status.
    Refuses(u16),
    /// It never answers.
    Silent,
}

/// Everything that has been said to it.
#[derive(Default)]
struct Heard {
    /// The exports that were taken.
    exports: Vec<ExportTraceServiceRequest>,
    /// The line and the fields of the last one.
    head: String,
    /// All exports, also those that were not taken.
    attempts: usize,
}

/// A running collector. Dropping it ends it.
pub struct Collector {
    address: SocketAddr,
    heard: Arc<Mutex<Heard>>,
    temper: Arc<Mutex<Temper>>,
    process: Option<Child>,
}

/// Answers every call of gRPC with an empty message, and writes each one's bytes as a line.
const GRPC: &str = r#"
import sys, threading
from concurrent import futures
import grpc

lock = threading.Lock()

class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        if details.method != "/opentelemetry.proto.collector.trace.v1.TraceService/Export":
            return None
        def take(message, context):
            with lock:
                print(message.hex(), flush=True)
            return b""
        return grpc.unary_unary_rpc_method_handler(take)

server = grpc.server(futures.ThreadPoolExecutor(2), handlers=(Handler(),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
server.wait_for_termination()
"#;

impl Collector {
    /// One that is spoken to over HTTP.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let collector = Self {
            address: listener.local_addr().unwrap(),
            heard: Arc::default(),
            temper: Arc::new(Mutex::new(Temper::Good)),
            process: None,
        };
        let (heard, temper) = (Arc::clone(&collector.heard), Arc::clone(&collector.temper));
        // Ends with the test's process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (heard, temper) = (Arc::clone(&heard), Arc::clone(&temper));
                thread::spawn(move || serve(stream, &heard, &temper));
            }
        });
        collector
    }

    /// One that is spoken to over gRPC.
    pub fn start_grpc() -> Self {
        let mut process = Command::new("/usr/bin/python3")
            .args(["-c", GRPC])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port: u16 = lines.next().unwrap().unwrap().parse().unwrap();
        let heard: Arc<Mutex<Heard>> = Arc::default();
        let hearing = Arc::clone(&heard);
        thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let digit = |at: usize| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
                let bytes: Vec<u8> = (0..line.len()).step_by(2).map(digit).collect();
                take(&hearing, &bytes);
            }
        });
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            heard,
            temper: Arc::new(Mutex::new(Temper::Good)),
            process: Some(process),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes its ways.
    pub fn set(&self, temper: Temper) {
        *self.temper.lock().unwrap_or_else(PoisonError::into_inner) = temper;
    }

    fn heard<R>(&self, look: impl FnOnce(&Heard) -> R) -> R {
        look(&self.heard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The number of exports, taken or not.
    pub fn attempts(&self) -> usize {
        self.heard(|heard| heard.attempts)
    }

    /// Line and fields of the last request over HTTP.
    pub fn head(&self) -> String {
        self.heard(|heard| heard.head.clone())
    }

    /// The exports it has taken.
    pub fn exports(&self) -> Vec<ExportTraceServiceRequest> {
        self.heard(|heard| heard.exports.clone())
    }

    /// The number of spans in each export.
    pub fn batches(&self) -> Vec<usize> {
        let exports = self.exports();
        exports.iter().map(|export| spans(export).count()).collect()
    }

    /// Waits until there are at least so many spans, and returns all there are.
    pub fn spans(&self, count: usize) -> Vec<Span> {
        let mut all = Vec::new();
        wait_until(&format!("{count} spans at the collector"), || {
            all = self.exports().iter().flat_map(spans).cloned().collect();
            all.len() >= count
        });
        all
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn spans(export: &ExportTraceServiceRequest) -> impl Iterator<Item = &Span> {
    let resources = export.resource_spans.iter();
    resources
        .flat_map(|resource| &resource.scope_spans)
        .flat_map(|scope| &scope.spans)
}

fn take(heard: &Mutex<Heard>, body: &[u8]) {
    let export = ExportTraceServiceRequest::decode(body).unwrap();
    let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
    heard.attempts += 1;
    heard.exports.push(export);
}

/// Answers the requests of one connection.
fn serve(mut stream: TcpStream, heard: &Mutex<Heard>, temper: &Mutex<Temper>) {
    let mut data = Vec::new();
    let mut buffer = [0; 65536];
    loop {
        let end = data.windows(4).position(|four| four == b"\r\n\r\n");
        let length = end.map(|end| {
            let head = String::from_utf8_lossy(&data[..end]).to_lowercase();
            let length = head.split("content-length: ").nth(1).unwrap();
            let digits = length.split("\r\n").next().unwrap();
            end + 4 + digits.parse::<usize>().unwrap()
        });
        match (end, length) {
            (Some(end), Some(length)) if data.len() >= length => {
                let rest = data.split_off(length);
                let whole = std::mem::replace(&mut data, rest);
                // This comes before the count, because a test that has waited for the count may look at it.
                heard.lock().unwrap_or_else(PoisonError::into_inner).head =
                    String::from_utf8_lossy(&whole[..end]).into_owned();
                let now = *temper.lock().unwrap_or_else(PoisonError::into_inner);
                let status = match now {
                    Temper::Good => {
                        take(heard, &whole[end + 4..]);
                        200
                    }
                    Temper::Refuses(status) => {
                        heard
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .attempts += 1;
                        status
                    }
                    Temper::Silent => {
                        heard
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .attempts += 1;
                        // Until the other side gives up.
                        let _ = stream.read(&mut buffer);
                        return;
                    }
                };
                let answer = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
                if stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
            _ => match stream.read(&mut buffer) {
                Ok(count) if count > 0 => data.extend_from_slice(&buffer[..count]),
                _ => return,
            },
        }
    }
}

/// Attributes by their names, numbers as text.
pub fn attributes(list: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| match attribute.value.clone().unwrap().value.unwrap() {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => panic!("{other:?}"),
    };
    list.iter()
        .map(|attribute| (attribute.key.clone(), text(attribute)))
        .collect()
}

/// An id as it is written in `traceparent`.
pub fn hexadecimal(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
