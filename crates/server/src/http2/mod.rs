//! HTTP/2 (RFC 9113): one connection, many requests, each served like one of HTTP/1.
//!
//! The framing, the streams and the header compression are the `h2` crate's. What is ours: [`driver`] moves the bytes between the
//! connection's channel and `h2` ([`pipe`](tutti_conn::pipe)), counts frames of a client that ask for nothing ([`FloodGauge`](tutti_http::http2::FloodGauge)), keeps a request that is malformed from ending all the others ([`Heads`](tutti_http2::Heads)), and makes of each
//! stream a [`Connection`](crate::connection::Connection) of its own, whose channel is a [`Stream`](tutti_http2::Stream): a request's head
//! comes out of it as a head, a response's goes in as HTTP/1's. Everything between, from routing to the access log, knows no
//! difference. A request that can be answered at once is, in the connection's own task; every other one gets a task.
//!
//! Must never: keep more for a client than its windows and buffers allow, answer two streams with one response, or lose a request that
//! a GOAWAY has not told the client to send again.

mod driver;

pub(crate) use driver::serve;
