//! The receiving end of the queues: a task for the telemetry of each configuration that sends queued spans.
//!
//! Started when a configuration is prepared; ends when its [`Tracer`] has been dropped and all spans have been sent, or
//! when the server stops. Must never: hold more spans than the queue and one batch; or fill the log with messages about
//! a failing collector.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::mpsc::{Receiver, channel};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tutti_config::model::Telemetry;

use crate::collector::{Collector, ExportError};
use crate::otlp;
use crate::span::Span;
use crate::tracer::Tracer;

/// Longest time that a span waits for others.
const INTERVAL: Duration = Duration::from_secs(2);

/// Longest time for one export (`OTEL_EXPORTER_OTLP_TIMEOUT` has the same default).
const EXPORT_TIME: Duration = Duration::from_secs(10);

/// Pauses before a batch is sent again; afterwards it is dropped.
const PAUSES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
];

/// Minimum queue length: at least what other exporters allow (`OTEL_BSP_MAX_QUEUE_SIZE`), some batches, and no more
/// than tens of megabytes.
const SMALLEST_QUEUE: usize = 2048;
const LARGEST_QUEUE: usize = 65_536;
const BATCHES: usize = 4;

/// Called with lines for the log.
type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Counts the spans since the process started, by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// Accepted by a collector.
    pub exported: u64,
    /// Lost: the queue was full, or the collector did not accept them.
    pub dropped: u64,
}

/// All exporters of a process. A handle: clones share the same state.
#[derive(Clone)]
pub struct Exporters {
    exported: Arc<AtomicU64>,
    dropped: Arc<AtomicU64>,
    log: Log,
    is_ending: watch::Sender<bool>,
    running: watch::Sender<usize>,
}

impl Exporters {
    /// Creates an empty set; `log` gets a line when an export fails, and when it succeeds again.
    pub fn new(log: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            exported: Arc::default(),
            dropped: Arc::default(),
            log: Arc::new(log),
            is_ending: watch::Sender::new(false),
            running: watch::Sender::new(0),
        }
    }

    /// Starts an exporter on the runtime of the caller.
    ///
    /// # Errors
    /// The system's root certificates are needed and cannot be read.
    pub fn start(&self, settings: &Telemetry) -> Result<Arc<Tracer>, String> {
        let collector = Collector::new(settings)?;
        let wanted = settings.options.batch_size.saturating_mul(BATCHES);
        let (queue, spans) = channel(wanted.clamp(SMALLEST_QUEUE, LARGEST_QUEUE));
        let wake = Arc::new(Notify::new());
        let tracer = Tracer::new(
            settings,
            queue,
            Arc::clone(&self.dropped),
            Arc::clone(&wake),
        );
        let exporter = Exporter {
            batch_size: settings.options.batch_size.min(spans.max_capacity()),
            url: settings.url.clone(),
            service_name: service_name(),
            collector,
            spans,
            wake,
            is_ending: self.is_ending.subscribe(),
            all: self.clone(),
            trouble: Trouble::default(),
        };
        let running = Running::new(&self.running);
        tokio::spawn(async move {
            exporter.run().await;
            drop(running);
        });
        Ok(Arc::new(tracer))
    }

    /// Returns the counts of spans by outcome.
    pub fn counts(&self) -> SpanCounts {
        SpanCounts {
            exported: self.exported.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }

    /// Sends queued spans once, and ends; spans that are not accepted within `limit` are lost.
    pub async fn end(&self, limit: Duration) {
        self.is_ending.send_replace(true);
        let mut running = self.running.subscribe();
        if timeout(limit, running.wait_for(|running| *running == 0))
            .await
            .is_err()
        {
            (self.log)("telemetry: the collector takes too long; the last spans are lost");
        }
    }
}

/// Counts an exporter as long as it lives.
struct Running(watch::Sender<usize>);

impl Running {
    fn new(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|running| *running += 1);
        Self(count.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

/// `service.name`, from OpenTelemetry's standard environment variables.
fn service_name() -> String {
    let given = std::env::var("OTEL_SERVICE_NAME").ok();
    given
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "tutti".to_owned())
}

/// Remembers which failures of a collector have been logged.
#[derive(Default)]
struct Trouble {
    /// The number of dropped spans when the failure was logged; `None`: there is no failure.
    since: Option<u64>,
    /// The last export succeeded.
    is_over: bool,
}

struct Exporter {
    collector: Collector,
    url: String,
    service_name: String,
    spans: Receiver<Span>,
    batch_size: usize,
    wake: Arc<Notify>,
    is_ending: watch::Receiver<bool>,
    all: Exporters,
    trouble: Trouble,
}

impl Exporter {
    async fn run(mut self) {
        let mut lost = self.all.counts().dropped;
        loop {
            let due = Instant::now() + INTERVAL;
            // Sends whole batches until the interval is over.
            let is_last = loop {
                let is_last = self.is_ending() || self.spans.is_closed();
                if is_last || Instant::now() >= due {
                    break is_last;
                }
                if self.spans.len() >= self.batch_size {
                    self.send_batch().await;
                    continue;
                }
                tokio::select! {
                    () = self.wake.notified() => {}
                    () = sleep_until(due) => {}
                    _ = self.is_ending.wait_for(|is_ending| *is_ending) => {}
                }
            };
            if is_last {
                // Later spans have no destination, and are counted as dropped.
                self.spans.close();
            }
            // Only as many as there are now: later ones can wait for their batch.
            let mut left = self.spans.len();
            while left > 0 {
                left = left.saturating_sub(self.send_batch().await);
            }
            if is_last {
                return;
            }
            let dropped = self.all.counts().dropped;
            if dropped > lost {
                self.complain("spans arrive faster than it accepts them");
            } else if self.trouble.is_over {
                self.recover();
            }
            lost = dropped;
        }
    }

    fn is_ending(&self) -> bool {
        *self.is_ending.borrow()
    }

    /// Sends queued spans, at most one batch; returns how many there were.
    async fn send_batch(&mut self) -> usize {
        let mut batch = Vec::with_capacity(self.batch_size.min(self.spans.len()));
        while batch.len() < self.batch_size
            && let Ok(span) = self.spans.try_recv()
        {
            batch.push(span);
        }
        let count = batch.len() as u64;
        if count == 0 {
            return 1;
        }
        let request = otlp::request(&self.service_name, &batch);
        let mut pauses = PAUSES.into_iter();
        let outcome = loop {
            let failure = match timeout(EXPORT_TIME, self.collector.export(&request)).await {
                Ok(Ok(refused)) => break Ok(refused),
                Ok(Err(failure)) => failure,
                Err(_) => ExportError {
                    message: format!("no answer within {} seconds", EXPORT_TIME.as_secs()),
                    is_retryable: true,
                    pause: None,
                },
            };
            match pauses
                .next()
                .filter(|_| failure.is_retryable && !self.is_ending())
            {
                Some(pause) => {
                    self.complain(&failure.message);
                    self.pause(failure.pause.unwrap_or(pause)).await;
                }
                None => break Err(failure),
            }
        };
        self.trouble.is_over = matches!(outcome, Ok(None));
        let refused = match outcome {
            Ok(None) => 0,
            Ok(Some((refused, why))) => {
                self.complain(&format!("it refuses spans: {why}"));
                refused.min(count)
            }
            Err(failure) => {
                self.complain(&failure.message);
                count
            }
        };
        self.all
            .exported
            .fetch_add(count - refused, Ordering::Relaxed);
        self.all.dropped.fetch_add(refused, Ordering::Relaxed);
        batch.len()
    }

    /// Waits, unless the server stops.
    async fn pause(&mut self, pause: Duration) {
        tokio::select! {
            () = sleep(pause) => {}
            _ = self.is_ending.wait_for(|is_ending| *is_ending) => {}
        }
    }

    /// Logs a failure once until the next success.
    fn complain(&mut self, why: &str) {
        if self.trouble.since.is_none() {
            self.trouble.since = Some(self.all.counts().dropped);
            (self.all.log)(&format!(
                "telemetry: `{}` does not accept all spans: {why}; rejected spans are lost and counted in `telemetry` of /status",
                self.url
            ));
        }
    }

    fn recover(&mut self) {
        if let Some(before) = self.trouble.since.take() {
            let lost = self.all.counts().dropped.saturating_sub(before);
            (self.all.log)(&format!(
                "telemetry: `{}` accepts spans again; {lost} have been lost",
                self.url
            ));
        }
    }
}
