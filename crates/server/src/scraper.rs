//! The way from a listen thread to whoever knows all metrics.

use tokio::sync::{mpsc, oneshot};
use tutti_metrics::ExpositionFormat;

/// A request for the metrics: to be answered with the page in this format.
#[derive(Debug)]
pub struct Scrape {
    /// The format.
    pub format: ExpositionFormat,
    /// Takes the page.
    pub answer: oneshot::Sender<Vec<u8>>,
}

/// Asks for the metrics.
#[derive(Debug)]
pub(crate) struct Scraper(pub(crate) mpsc::UnboundedSender<Scrape>);

impl Scraper {
    /// The page; `None` if nobody makes one any more.
    pub(crate) async fn scrape(&self, format: ExpositionFormat) -> Option<Vec<u8>> {
        let (answer, page) = oneshot::channel();
        self.0.send(Scrape { format, answer }).ok()?;
        page.await.ok()
    }
}
