//! The listen threads' part of a configuration's telemetry: trace contexts for requests, and the sending end of the
//! queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;
use tokio::sync::mpsc::Sender;
use tutti_config::model::Telemetry;

use crate::context::{Parent, TraceContext};
use crate::span::Span;

/// Traces the requests of one configuration. When the last owner drops it, queued spans are sent.
#[derive(Debug)]
pub struct Tracer {
    settings: Telemetry,
    queue: Sender<Span>,
    /// The number of queued spans that wakes the exporter.
    batch_size: usize,
    dropped: Arc<AtomicU64>,
    /// Declared after `queue`: it wakes the exporter when the queue has been closed.
    bell: Bell,
}

/// Wakes the exporter when dropped.
#[derive(Debug)]
struct Bell(Arc<Notify>);

impl Drop for Bell {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

impl Tracer {
    pub(crate) fn new(
        settings: &Telemetry,
        queue: Sender<Span>,
        dropped: Arc<AtomicU64>,
        wake: Arc<Notify>,
    ) -> Self {
        Self {
            settings: settings.clone(),
            batch_size: settings.options.batch_size.min(queue.max_capacity()),
            queue,
            dropped,
            bell: Bell(wake),
        }
    }

    /// Returns the options it was created from.
    pub fn settings(&self) -> &Telemetry {
        &self.settings
    }

    /// Returns the context of a request with this parent, or without one. `trace_id` and `span_id` are new and random;
    /// the former is not needed if there is a parent.
    pub fn place(&self, parent: Option<Parent>, trace_id: u128, span_id: u64) -> TraceContext {
        TraceContext::new(
            parent,
            trace_id,
            span_id,
            self.settings.options.sampling_ratio,
        )
    }

    /// Queues a span. Never waits: if the queue is full, the span is dropped and counted. Wakes the exporter only when
    /// a batch is full.
    pub fn record(&self, span: Span) {
        if self.queue.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        let waiting = self.queue.max_capacity() - self.queue.capacity();
        if waiting >= self.batch_size {
            self.bell.0.notify_one();
        }
    }
}
