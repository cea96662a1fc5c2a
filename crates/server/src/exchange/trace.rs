//! The trace of a request: what is told to those who get the request next, and the span, recorded when it ends.
//!
//! Begun by [`arrival`](crate::exchange::arrival). Kept in the exchange, so that a request that ends without an answer, whatever way, has a span
//! too: then with the error `aborted`. Must never: be paid for where `settings.telemetry` is not set.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use tutti_http::FieldLines;
use tutti_http::edits::Edit;
use tutti_telemetry::{Context, Span, Tracer};

pub(crate) const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// A request that is traced.
pub(crate) struct Trace {
    pub(crate) context: Context,
    /// The client has said where the request belongs.
    pub(crate) has_parent: bool,
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
                // A clock that was set back tells no time.
                span.duration = span.started.elapsed().unwrap_or_default();
            }
            tracer.record(span);
        }
    }
}

/// The place of an exchange for its trace.
#[derive(Default)]
pub(crate) struct Traced(RefCell<Option<Box<Trace>>>);

impl Traced {
    /// The request has this one.
    pub(crate) fn begin(&self, trace: Trace) {
        self.0.replace(Some(Box::new(trace)));
    }

    /// The answer has been produced.
    pub(crate) fn end(&self, status: u16, duration: Duration) {
        if let Some(mut trace) = self.0.take()
            && let Some(recorded) = &mut trace.recorded
        {
            recorded.span.status = Some(status);
            recorded.span.duration = duration;
        }
    }

    /// Says among the fields of the response to which trace the request belongs, if it is traced.
    pub(crate) fn append_fields(&self, fields: &mut FieldLines) {
        let Some(traced) = self.propagated() else {
            return;
        };
        // Somebody behind us may say the same of its own.
        fields.retain(|name, _| !traced.is_its_name(name));
        let (name, value) = traced.field();
        fields.push(name, value);
    }

    /// Returns the field that tells the next server or application about the request's trace; `None` where requests are not traced.
    pub(crate) fn propagated(&self) -> Option<Propagated> {
        let trace = self.0.borrow();
        let trace = trace.as_deref()?;
        Some(Propagated {
            traceparent: trace.context.traceparent(),
            keeps_state: trace.has_parent,
        })
    }
}

/// That a request belongs to our span, as a field.
pub(crate) struct Propagated {
    traceparent: String,
    keeps_state: bool,
}

impl Propagated {
    /// The changes that tell it to whoever gets the request: neither the client's own `traceparent` is passed on, nor a `tracestate` that
    /// belongs to none that is valid.
    pub(crate) fn edits(self) -> impl Iterator<Item = Edit> {
        let state = (!self.keeps_state).then(|| Edit::remove(TRACESTATE));
        let parent = Edit::set(TRACEPARENT, self.traceparent.into_bytes());
        state.into_iter().chain([parent])
    }

    /// True if a field is the one that says where a request belongs.
    pub(crate) fn is_its_name(&self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(TRACEPARENT.as_bytes())
    }

    /// The field that is told instead.
    pub(crate) fn field(&self) -> (&[u8], &[u8]) {
        (TRACEPARENT.as_bytes(), self.traceparent.as_bytes())
    }
}
