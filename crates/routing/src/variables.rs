//! The values of variables.

use std::io::Write as _;
use std::net::IpAddr;

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
            let response = request.response();
            if let Some(time) = response.and_then(ResponseInfo::time) {
                print_time(variable, time, out);
            }
        }
        Variable::RemoteAddr => match request.remote().map(|address| address.ip().to_canonical()) {
            Some(IpAddr::V4(ip)) => print(out, format_args!("{ip}")),
            Some(IpAddr::V6(ip)) => print(out, format_args!("{ip}")),
            None => out.extend_from_slice(b"unix:"),
        },
        Variable::RemoteUser => request.write_user(out),
        Variable::RequestId => request_id(request, out),
        Variable::RequestTime => {
            if let Some(response) = request.response() {
                let time = response.request_time();
                print(
                    out,
                    format_args!("{}.{:03}", time.as_secs(), time.subsec_millis()),
                );
            }
        }
        Variable::Status => {
            if let Some(response) = request.response() {
                print(out, format_args!("{:03}", response.status()));
            }
        }
        Variable::ErrorStatus => {
            if let Some(status) = request.error_status() {
                print(out, format_args!("{status:03}"));
            }
        }
        Variable::BodyBytesSent => {
            if let Some(response) = request.response() {
                print(out, format_args!("{}", response.body_bytes_sent()));
            }
        }
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
        Variable::Cookie(name) => request.each_field(b"cookie", &mut |field| {
            fields::each_cookie(field, name.as_bytes(), |value| replace(out, start, value));
        }),
        Variable::Header(name) => {
            request.each_field(name.as_bytes(), &mut |value| join(out, start, value))
        }
        Variable::ResponseHeader(name) => {
            if let Some(response) = request.response() {
                response.each_header(&mut |found, value| {
                    if found.eq_ignore_ascii_case(name.as_bytes()) {
                        join(out, start, value);
                    }
                });
            }
        }
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

fn print(out: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = out.write_fmt(arguments);
}
