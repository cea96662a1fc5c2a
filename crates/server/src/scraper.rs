//! Requests the metrics from a listen thread.

use tokio::sync::{mpsc, oneshot};
use tutti_metrics::ExpositionFormat;

/// A request for the metrics page in this format.
#[derive(Debug)]
pub struct Scrape {
    /// The format.
    pub format: ExpositionFormat,
    /// Receives the page.
    pub answer: oneshot::Sender<Vec<u8>>,
}

/// Requests the metrics.
#[derive(Debug)]
pub(crate) struct Scraper(pub(crate) mpsc::UnboundedSender<Scrape>);

impl Scraper {
    /// The page; `None` if the router is stopping.
    pub(crate) async fn scrape(&self, format: ExpositionFormat) -> Option<Vec<u8>> {
        let (answer, page) = oneshot::channel();
        self.0.send(Scrape { format, answer }).ok()?;
        page.await.ok()
    }
}
