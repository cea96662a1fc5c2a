//! The values of variables.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

use tutti_config::model::Variable;

use crate::fields;
use crate::info::{LogTime, RequestInfo, ResponseInfo};

/// Appends the id of a request, the same in all logs and for the application or upstream (`$request_id`).
pub fn request_id<R: RequestInfo + ?Sized>(request: &R, out: &mut Vec<u8>) {
    match request.given_request_id() {
        Some(given) => out.extend_from_slice(given),
        None => print(out, format_args!("{:032x}", request.request_id())),
    }
}

/// Appends the value of a variable; nothing if it has none. Of several the last counts.
pub(crate) fn value<R: RequestInfo + ?Sized>(variable: &Variable, request: &R, out: &mut Vec<u8>) {
    let start = out.len();
    let response = request.response();
    match variable {
        Variable::Uri => out.extend_from_slice(request.path()),
        Variable::Host => out.extend_from_slice(request.host()),
        Variable::Method => out.extend_from_slice(request.method()),
        Variable::RequestUri => out.extend_from_slice(request.target()),
        Variable::RequestLine => out.extend_from_slice(request.request_line()),
        Variable::Protocol => {
            let words = request.request_line().rsplit(|byte| *byte == b' ');
            let last = words.take(1).find(|word| word.starts_with(b"HTTP/"));
            out.extend_from_slice(last.unwrap_or_default());
        }
        Variable::TimeLocal | Variable::TimeIso8601 | Variable::Msec => {
            if let Some(time) = response.and_then(ResponseInfo::time) {
                print_time(variable, time, out);
            }
        }
        Variable::Query => out.extend_from_slice(request.query().unwrap_or_default()),
        Variable::Scheme => out.extend_from_slice(match request.is_https() {
            true => b"https",
            false => b"http",
        }),
        Variable::Hostname => out.extend_from_slice(request.hostname()),
        Variable::RemoteAddr
        | Variable::RemotePort
        | Variable::ServerAddr
        | Variable::ServerPort
        | Variable::PeerAddr
        | Variable::PeerPort
        | Variable::ProxyProtocolAddr
        | Variable::ProxyProtocolPort
        | Variable::ProxyProtocolServerAddr
        | Variable::ProxyProtocolServerPort
        | Variable::Connection
        | Variable::ConnectionRequests => of_connection(variable, request, out),
        Variable::RemoteUser => request.write_user(out),
        Variable::RequestId => request_id(request, out),
        Variable::RequestTime => {
            if let Some(response) = response {
                let time = response.request_time();
                print(
                    out,
                    format_args!("{}.{:03}", time.as_secs(), time.subsec_millis()),
                );
            }
        }
        Variable::Status => {
            if let Some(response) = response {
                print(out, format_args!("{:03}", response.status()));
            }
        }
        Variable::ErrorStatus => {
            if let Some(status) = request.error_status() {
                print(out, format_args!("{status:03}"));
            }
        }
        Variable::BodyBytesSent => number(response.map(ResponseInfo::body_bytes_sent), out),
        Variable::BytesSent => number(response.map(ResponseInfo::bytes_sent), out),
        Variable::BytesReceived => number(Some(request.body_bytes_received()), out),
        Variable::RequestLength => number(Some(request_length(request)), out),
        // Only for the access log, which is written once the response was sent: a body may contain passwords.
        Variable::RequestBody => {
            if response.and_then(ResponseInfo::time).is_some() {
                request.write_body(out);
            }
        }
        Variable::CacheStatus => out.extend_from_slice(request.cache_status().as_bytes()),
        Variable::Upstream(variable) => request.write_upstream(*variable, out),
        Variable::Tls(variable) => out.extend_from_slice(request.tls(*variable)),
        Variable::Argument(name) => {
            fields::each_argument(
                request.query().unwrap_or_default(),
                name.as_bytes(),
                |value| {
                    replace(out, start, value);
                    true
                },
            );
        }
        Variable::RawArgument(name) => {
            let query = request.query().unwrap_or_default();
            out.extend_from_slice(fields::raw_argument(query, name.as_bytes()).unwrap_or_default());
        }
        Variable::Cookie(name) => request.each_field(b"cookie", &mut |field| {
            fields::each_cookie(field, name.as_bytes(), |value| replace(out, start, value));
        }),
        Variable::Header(name) => {
            request.each_field(name.as_bytes(), &mut |value| join(out, start, value))
        }
        Variable::ResponseHeader(name) => {
            if let Some(response) = response {
                response.each_header(&mut |found, value| {
                    if found.eq_ignore_ascii_case(name.as_bytes()) {
                        join(out, start, value);
                    }
                });
            }
        }
    }
}

/// Appends a fact about the connection and its ends.
fn of_connection<R: RequestInfo + ?Sized>(variable: &Variable, request: &R, out: &mut Vec<u8>) {
    match variable {
        Variable::RemoteAddr => print_end(request.remote(), out),
        Variable::RemotePort => print_port(request.remote(), out),
        Variable::ServerAddr => print_end(request.local(), out),
        Variable::ServerPort => print_port(request.local(), out),
        Variable::PeerAddr => print_end(request.peer(), out),
        Variable::PeerPort => print_port(request.peer(), out),
        Variable::ProxyProtocolAddr => print_announced(request.announced(), out),
        Variable::ProxyProtocolPort => print_port(request.announced(), out),
        Variable::ProxyProtocolServerAddr => print_announced(request.announced_server(), out),
        Variable::ProxyProtocolServerPort => print_port(request.announced_server(), out),
        Variable::Connection => print(out, format_args!("{}", request.connection().number)),
        Variable::ConnectionRequests => {
            print(out, format_args!("{}", request.connection().requests));
        }
        _ => {}
    }
}

/// Prints the address of an end of the connection; `None` is a Unix socket.
fn print_end(end: Option<SocketAddr>, out: &mut Vec<u8>) {
    match end {
        Some(_) => print_announced(end, out),
        None => out.extend_from_slice(b"unix:"),
    }
}

/// Prints the address of an end that a proxy announced, if it did.
fn print_announced(end: Option<SocketAddr>, out: &mut Vec<u8>) {
    match end.map(|address| address.ip().to_canonical()) {
        Some(IpAddr::V4(ip)) => print(out, format_args!("{ip}")),
        Some(IpAddr::V6(ip)) => print(out, format_args!("{ip}")),
        None => {}
    }
}

/// Prints a port, if it is known.
fn print_port(end: Option<SocketAddr>, out: &mut Vec<u8>) {
    if let Some(port) = end.map(|address| address.port()).filter(|port| *port != 0) {
        print(out, format_args!("{port}"));
    }
}

fn print_time(variable: &Variable, time: LogTime<'_>, out: &mut Vec<u8>) {
    let LogTime {
        second,
        milliseconds,
    } = time;
    match variable {
        Variable::TimeIso8601 => print(
            out,
            format_args!("{}.{milliseconds:03}{}", second.iso, second.offset),
        ),
        Variable::Msec => print(out, format_args!("{}.{milliseconds:03}", second.unix)),
        _ => out.extend_from_slice(second.common.as_bytes()),
    }
}

fn replace(out: &mut Vec<u8>, start: usize, value: &[u8]) {
    out.truncate(start);
    out.extend_from_slice(value);
}

/// Fields of one name form one list (RFC 9110 §5.3).
fn join(out: &mut Vec<u8>, start: usize, value: &[u8]) {
    if out.len() > start {
        out.extend_from_slice(b", ");
    }
    out.extend_from_slice(value);
}

fn number(number: Option<u64>, out: &mut Vec<u8>) {
    if let Some(number) = number {
        print(out, format_args!("{number}"));
    }
}

/// Bytes of a request so far: its head as HTTP/1 writes it, and its body.
fn request_length<R: RequestInfo + ?Sized>(request: &R) -> u64 {
    // Two spaces, the version, and the ends of the line and of the head.
    let mut head = request.method().len() + request.target().len() + 14;
    request.each_header(&mut |name, value| head += name.len() + value.len() + 4);
    head as u64 + request.body_bytes_received()
}

fn print(out: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = out.write_fmt(arguments);
}
