//! The trace of a request: the context that is passed on with it, and the span that is recorded when it ends.
//!
//! Begun by [`arrival`](crate::exchange::arrival). Kept in the exchange, so that a request that ends without a response has a span, too,
//! with the error `aborted`. Must never: cost anything if `settings.telemetry` is not set.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use tutti_http::FieldLines;
use tutti_http::edits::Edit;
use tutti_telemetry::{Span, TraceContext, Tracer};

pub(crate) const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// A request that is traced.
pub(crate) struct Trace {
    pub(crate) context: TraceContext,
    /// The client has sent a parent span, and a valid state of its trace.
    pub(crate) keeps_state: bool,
    /// `None`: it is not recorded.
    pub(crate) recorded: Option<Recorded>,
}

/// The span of a request, and the tracer that records it.
pub(crate) struct Recorded {
    pub(crate) tracer: Arc<Tracer>,
    pub(crate) span: Span,
}

impl Drop for Trace {
    fn drop(&mut self) {
        if let Some(Recorded { tracer, mut span }) = self.recorded.take() {
            if span.status.is_none() {
                // A clock that was set back gives no duration.
                span.duration = span.started.elapsed().unwrap_or_default();
            }
            tracer.record(span);
        }
    }
}

/// The trace of an exchange, if it has one.
#[derive(Default)]
pub(crate) struct Traced(RefCell<Option<Box<Trace>>>);

impl Traced {
    /// Sets the trace of the request.
    pub(crate) fn begin(&self, trace: Trace) {
        self.0.replace(Some(Box::new(trace)));
    }

    /// Called when the response has been produced.
    pub(crate) fn end(&self, status: u16, duration: Duration) {
        if let Some(mut trace) = self.0.take()
            && let Some(recorded) = &mut trace.recorded
        {
            recorded.span.status = Some(status);
            recorded.span.duration = duration;
        }
    }

    /// Adds the trace context to the fields of the response, if the request is traced.
    pub(crate) fn append_fields(&self, fields: &mut FieldLines) {
        let Some(traced) = self.propagated() else {
            return;
        };
        // An application or upstream may have set it, too.
        fields.retain(|name, _| !traced.is_its_name(name));
        let (name, value) = traced.field();
        fields.push(name, value);
    }

    /// Returns the trace context for the next server or application; `None` if requests are not traced.
    pub(crate) fn propagated(&self) -> Option<Propagated> {
        let trace = self.0.borrow();
        let trace = trace.as_deref()?;
        Some(Propagated {
            traceparent: trace.context.traceparent(),
            keeps_state: trace.keeps_state,
        })
    }
}

/// The trace context with our span as the parent.
pub(crate) struct Propagated {
    traceparent: String,
    keeps_state: bool,
}

impl Propagated {
    /// The changes that set it in a request: neither the client's own `traceparent` is passed on, nor a `tracestate` that is not valid or has no valid one with it.
    pub(crate) fn edits(self) -> impl Iterator<Item = Edit> {
        let state = (!self.keeps_state).then(|| Edit::remove(TRACESTATE));
        let parent = Edit::set(TRACEPARENT, self.traceparent.into_bytes());
        state.into_iter().chain([parent])
    }

    /// True for the name of the field.
    pub(crate) fn is_its_name(&self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(TRACEPARENT.as_bytes())
    }

    /// The field to send instead.
    pub(crate) fn field(&self) -> (&[u8], &[u8]) {
        (TRACEPARENT.as_bytes(), self.traceparent.as_bytes())
    }
}
