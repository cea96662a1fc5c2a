//! Traces of requests: their trace context, the recorded spans, and their way to an OpenTelemetry collector.
//!
//! A listen thread asks the [`Tracer`] of its configuration for the [`TraceContext`] of a request (W3C Trace Context) and
//! gives it the [`Span`] when the request has ended. Spans wait in a bounded queue; a task on the runtime that called
//! [`Exporters::start`] sends them in batches (OTLP over HTTP or gRPC).
//!
//! Must never: make a request wait or fail, whatever the collector does. Spans that cannot be kept are dropped and
//! counted.

mod collector;
mod context;
mod exporter;
mod otlp;
mod span;
mod state;
mod tracer;

pub use context::{Parent, TraceContext};
pub use exporter::{Exporters, SpanCounts};
pub use span::{MAX_TEXT, Span};
pub use state::is_tracestate;
pub use tracer::Tracer;
