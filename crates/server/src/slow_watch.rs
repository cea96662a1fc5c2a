//! Watches requests to applications and upstreams: one that exceeds the threshold of the slow log is logged while it is running.

use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tutti_pool::Level;

use crate::boxed::boxed;
use crate::exchange::request::Request;

/// Runs the work of answering a request, while the threshold may pass.
pub(crate) async fn watched<T>(
    request: &Request<'_>,
    mut work: Pin<Box<impl Future<Output = T>>>,
) -> T {
    let Some(slow) = &request.snapshot.logs.slow else {
        return work.await;
    };
    let deadline = request.exchange.begun + slow.options.threshold;
    let early = boxed(|| tokio::time::timeout_at(deadline.into(), work.as_mut())).await;
    let outcome = match early {
        Ok(outcome) => outcome,
        Err(_) => {
            write_entry(request);
            work.await
        }
    };
    // It would keep the memory of an application that has ended.
    request.exchange.whereabouts.take();
    outcome
}

/// Writes the entry, when the application has reported its position.
fn write_entry(request: &Request<'_>) {
    let Some(slow) = &request.snapshot.logs.slow else {
        return;
    };
    let (slow, client) = (Arc::clone(slow), request.client);
    let mut entry = request.slow_entry(None);
    let local = Rc::clone(&client.local);
    let now = Instant::now();
    let whereabouts = request.exchange.whereabouts.take();
    let write = move |entry| {
        if let Some(news) = slow.write(&entry, now) {
            local.log(Level::Alert, &news);
        }
    };
    match whereabouts {
        None => write(entry),
        Some(whereabouts) => drop(tokio::task::spawn_local(async move {
            if let Some(place) = whereabouts.ask().await {
                entry.process = Some(place.process);
                entry.backtrace = place.lines;
            }
            write(entry);
        })),
    }
}
