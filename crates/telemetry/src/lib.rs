//! Traces of requests: where each belongs, what is recorded of it, and how that gets to an OpenTelemetry collector.
//!
//! A listen thread asks the [`Tracer`] of its configuration where a request belongs ([`TraceContext`], W3C Trace Context) and gives it the
//! [`Span`] when the request has ended. Spans wait in a bounded queue; a task on the runtime that called [`Exporters::start`] sends them
//! in batches (OTLP over HTTP or gRPC).
//!
//! Must never: make a request wait or fail, whatever the collector does. What cannot be kept is dropped and counted.

mod collector;
mod context;
mod exporter;
mod otlp;
mod span;
mod tracer;

pub use context::{Parent, TraceContext};
pub use exporter::{Exporters, SpanCounts};
pub use span::{MAX_TEXT, Span};
pub use tracer::Tracer;
