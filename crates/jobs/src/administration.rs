//! Jobs as operators see and manage them: which exist, which have failed, and what to do with those.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::oneshot;
use tutti_config::model::SCHEDULE_PREFIX;

use crate::clock::now;
use crate::jobs::Jobs;
use crate::queue::{JobCounts, Queue, Time, received, written};
use crate::store::Order;

/// Failed jobs that are listed at once.
const MOST_LISTED: usize = 1000;

/// Reported after a start, and while the previous router has the file.
const UNREAD: &str = "the file of jobs has not been read yet";

/// An operation on failed jobs, or on a queue without a spooler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Task {
    /// Retry the one with this number, or all.
    Retry(Option<String>),
    /// Remove the one with this number, or all.
    Remove(Option<String>),
    /// Remove everything of a spooler that is not in the configuration any more.
    Discard,
}

/// The state of a spooler.
#[derive(Debug, Clone, PartialEq)]
pub struct SpoolerStatus {
    /// Its name.
    pub name: String,
    /// It is in the configuration.
    pub is_configured: bool,
    /// Its jobs; `None`: the file has not been read yet.
    pub stock: Option<Stock>,
    /// Counts since the router was started.
    pub counts: JobCounts,
}

/// The jobs of a spooler.
#[derive(Debug, Clone, PartialEq)]
pub struct Stock {
    /// Waiting jobs.
    pub waiting: usize,
    /// Jobs being delivered.
    pub delivering: usize,
    /// Failed jobs.
    pub failed: usize,
    /// Bytes of all jobs.
    pub bytes: u64,
    /// The age of the oldest job that is neither delivered nor failed.
    pub oldest: Option<Duration>,
}

impl Jobs {
    /// All spoolers, including former ones with jobs.
    pub fn status(&self) -> Vec<SpoolerStatus> {
        let state = self.0.state();
        let now = now();
        let queues = state.queues.iter();
        let one = |(name, queue): (&String, &Queue)| {
            let (waiting, delivering, failed, bytes) = queue.totals();
            let age = |received: Time| Duration::from_millis(now.saturating_sub(received));
            let stock = Stock {
                waiting,
                delivering,
                failed,
                bytes,
                oldest: queue.oldest().map(age),
            };
            SpoolerStatus {
                name: name.clone(),
                is_configured: state.spoolers.contains_key(name),
                stock: state.is_open.then_some(stock),
                counts: queue.counts,
            }
        };
        let is_spooler = |(name, _): &(&String, &Queue)| !name.starts_with(SCHEDULE_PREFIX);
        queues.filter(is_spooler).map(one).collect()
    }

    /// Why jobs cannot be stored or delivered, if so.
    pub fn trouble(&self) -> Option<String> {
        let state = self.0.state();
        let trouble = state.trouble.clone();
        trouble.or_else(|| (!state.is_open).then(|| UNREAD.to_owned()))
    }

    /// Why the jobs are unknown, if so: the file has not been read yet.
    pub fn unread(&self) -> Option<String> {
        let state = self.0.state();
        let is_unread = state.store.is_some() && !state.is_open;
        let trouble = || state.trouble.clone().unwrap_or_else(|| UNREAD.to_owned());
        is_unread.then(trouble)
    }

    /// The failed jobs of a spooler, the oldest first; `None`: there is no such spooler.
    pub async fn failures(&self, spooler: &str) -> Option<Value> {
        let (listed, store) = {
            let state = self.0.state();
            let queue = state.queues.get(spooler)?;
            let failures = queue.failures().take(MOST_LISTED);
            let listed: Vec<_> = failures
                .map(|(id, standing)| (id, standing.clone()))
                .collect();
            (listed, state.store.clone())
        };
        let mut list = Vec::new();
        for (id, standing) in listed {
            let (answer, loaded) = oneshot::channel();
            let order = Order::Load(spooler.to_owned(), id, answer);
            let is_sent = store
                .as_ref()
                .is_some_and(|store| store.send(order).is_ok());
            let request = match is_sent {
                true => loaded.await.ok().and_then(Result::ok).flatten(),
                false => None,
            };
            let request = request.unwrap_or_default();
            list.push(json!({
                "id": written(id),
                "method": request.method,
                "target": String::from_utf8_lossy(&request.target),
                "body_size": request.body.len(),
                "received": received(id) / 1000,
                "failed": standing.failed / 1000,
                "attempts": standing.attempts,
                "error": standing.error,
            }));
        }
        Some(Value::Array(list))
    }

    /// Carries out a task; returns the number of jobs. `None`: there is no spooler with this name.
    pub fn carry_out(&self, spooler: &str, task: &Task) -> Option<usize> {
        let mut state = self.0.state();
        let is_configured = state.spoolers.contains_key(spooler);
        let mut orders = Vec::new();
        let queue = state.queues.get_mut(spooler)?;
        let wanted = match task {
            Task::Discard if is_configured => return None,
            Task::Discard => {
                for id in queue.all() {
                    queue.remove(id);
                    orders.push(Order::Remove(spooler.to_owned(), id));
                }
                &None
            }
            Task::Retry(wanted) | Task::Remove(wanted) => wanted,
        };
        let is_wanted = |id: &u64| wanted.as_ref().is_none_or(|text| *text == written(*id));
        let failed: Vec<u64> = queue
            .failures()
            .map(|(id, _)| id)
            .filter(is_wanted)
            .collect();
        if wanted.is_some() && failed.is_empty() {
            return None;
        }
        for id in failed {
            let change = match task {
                Task::Retry(_) => queue.retry(id, now()),
                _ => None,
            };
            orders.push(match change {
                Some(standing) => Order::Note(spooler.to_owned(), id, standing),
                None => {
                    queue.remove(id);
                    Order::Remove(spooler.to_owned(), id)
                }
            });
        }
        if queue.is_empty() && !is_configured {
            state.queues.remove(spooler);
        }
        let count = orders.len();
        for order in orders {
            state.order(order);
        }
        drop(state);
        self.0.stirred.notify_one();
        Some(count)
    }
}
