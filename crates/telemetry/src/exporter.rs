//! The far end of the queues: a task for each configuration's telemetry that sends what waits.
//!
//! Started by whoever prepares a configuration; ends when nobody has its [`Tracer`] any more and all has been sent, or when the server
//! ends. Must never: keep more than the queue holds and one batch; or fill the log with what a dead collector says.

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

/// Spans that may wait: at least what other exporters allow (`OTEL_BSP_MAX_QUEUE_SIZE`), some batches, and no more than tens of megabytes.
const SMALLEST_QUEUE: usize = 2048;
const LARGEST_QUEUE: usize = 65_536;
const BATCHES: usize = 4;

/// Called with lines for the log.
type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Counts the spans since the process started by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// Taken by a collector.
    pub exported: u64,
    /// Lost: there was no room, the collector did not take them or refused them.
    pub dropped: u64,
}

/// All exporters of a process. A handle: clones are the same thing.
#[derive(Clone)]
pub struct Exporters {
    exported: Arc<AtomicU64>,
    dropped: Arc<AtomicU64>,
    log: Log,
    is_ending: watch::Sender<bool>,
    running: watch::Sender<usize>,
}

impl Exporters {
    /// None yet; `log` gets a line when something is wrong, and when it is right again.
    pub fn new(log: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            exported: Arc::default(),
            dropped: Arc::default(),
            log: Arc::new(log),
            is_ending: watch::Sender::new(false),
            running: watch::Sender::new(0),
        }
    }

    /// Starts one, on the runtime of the caller.
    ///
    /// # Errors
    /// Authorities of the system that are needed and cannot be read.
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

    /// Counts spans by how they ended.
    pub fn counts(&self) -> SpanCounts {
        SpanCounts {
            exported: self.exported.load(Ordering::Relaxed),
            dropped: self.dropped.load(Ordering::Relaxed),
        }
    }

    /// Sends what waits, once, and ends; what is not taken within `limit` is lost.
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

/// `service.name`, as OpenTelemetry has it configured everywhere.
fn service_name() -> String {
    let given = std::env::var("OTEL_SERVICE_NAME").ok();
    given
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "tutti".to_owned())
}

/// Holds which troubles of a collector have been logged.
#[derive(Default)]
struct Trouble {
    /// Dropped when that was told; `None`: all is well.
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
            // Whole batches until it is time for the rest.
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
                // Spans that come from now on have nowhere to go, and are counted.
                self.spans.close();
            }
            // No more than there is now: what comes meanwhile can wait for its batch.
            let mut left = self.spans.len();
            while left > 0 {
                left = left.saturating_sub(self.send_batch().await);
            }
            if is_last {
                return;
            }
            let dropped = self.all.counts().dropped;
            if dropped > lost {
                self.complain("spans come faster than it takes them");
            } else if self.trouble.is_over {
                self.recover();
            }
            lost = dropped;
        }
    }

    fn is_ending(&self) -> bool {
        *self.is_ending.borrow()
    }

    /// Sends as many spans as there are, up to a batch; how many that was.
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

    /// Waits, but not when the server ends.
    async fn pause(&mut self, pause: Duration) {
        tokio::select! {
            () = sleep(pause) => {}
            _ = self.is_ending.wait_for(|is_ending| *is_ending) => {}
        }
    }

    /// Says once what is wrong, until it is right again.
    fn complain(&mut self, why: &str) {
        if self.trouble.since.is_none() {
            self.trouble.since = Some(self.all.counts().dropped);
            (self.all.log)(&format!(
                "telemetry: `{}` does not take all spans: {why}; what it does not take is lost, `telemetry` in /status counts it",
                self.url
            ));
        }
    }

    fn recover(&mut self) {
        if let Some(before) = self.trouble.since.take() {
            let lost = self.all.counts().dropped.saturating_sub(before);
            (self.all.log)(&format!(
                "telemetry: `{}` takes spans again; {lost} have been lost",
                self.url
            ));
        }
    }
}
