//! The way of a job from a listen thread to whoever stores it, and its body until then.
//!
//! Must never: let the bodies of jobs that are not stored yet take more memory than [`MOST_BYTES`], however many clients send some.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tutti_config::model::Spooler;

/// Bytes of bodies that have come and are not stored yet, of all clients together: beyond, 503. A disk that takes 100 MB a second
/// takes so much in a second.
const MOST_BYTES: usize = 128 << 20;

/// A job to be stored.
#[derive(Debug)]
pub struct Post {
    /// The name of the spooler.
    pub spooler: String,
    /// The method of its request.
    pub method: String,
    /// Path and query.
    pub target: Vec<u8>,
    /// Fields that belong to the request, not to its connection.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// The whole of it.
    pub body: Vec<u8>,
    /// It is not to be delivered before this time has passed.
    pub delay: Duration,
    /// Takes the number of the job when it is on disk. Nobody listens any more: it is not to be stored.
    pub answer: oneshot::Sender<Result<String, JobNotStored>>,
}

/// Why a job was not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobNotStored {
    /// The status that says so: 503 where there is no room among the jobs, 507 on the disk.
    pub status: u16,
    /// When to come again, in seconds.
    pub retry_after: u32,
    /// For the log; `None` where that has been told of.
    pub reason: Option<String>,
}

/// Hands jobs to whoever stores them.
#[derive(Debug)]
pub(crate) struct Desk {
    posts: mpsc::UnboundedSender<Post>,
    /// Bytes of bodies on their way.
    bytes: AtomicUsize,
}

impl Desk {
    pub(crate) fn new(posts: mpsc::UnboundedSender<Post>) -> Self {
        Self {
            posts,
            bytes: AtomicUsize::new(0),
        }
    }

    /// Hands it over; false if nobody stores jobs any more.
    pub(crate) fn post(&self, post: Post) -> bool {
        self.posts.send(post).is_ok()
    }
}

/// The body of a job.
#[derive(Default)]
pub(crate) struct Gathered {
    bytes: Vec<u8>,
    most: usize,
    desk: Option<Arc<Desk>>,
}

impl Gathered {
    pub(crate) fn new(spooler: &Spooler, desk: &Arc<Desk>) -> Self {
        Self {
            bytes: Vec::new(),
            most: spooler.options.max_body_size,
            desk: Some(Arc::clone(desk)),
        }
    }

    /// Adds bytes; the status if that is not possible.
    pub(crate) fn add(&mut self, data: &[u8]) -> Result<(), u16> {
        let Some(desk) = &self.desk else {
            return Err(500);
        };
        if data.len() > self.most.saturating_sub(self.bytes.len()) {
            return Err(413);
        }
        let all = &desk.bytes;
        let before = all.fetch_add(data.len(), Ordering::Relaxed);
        self.bytes.extend_from_slice(data);
        match before.saturating_add(data.len()) > MOST_BYTES {
            true => Err(503),
            false => Ok(()),
        }
    }

    /// The bytes, which count until this is dropped.
    pub(crate) fn take(&mut self) -> (Vec<u8>, Counted) {
        let bytes = std::mem::take(&mut self.bytes);
        let counted = Counted {
            length: bytes.len(),
            desk: self.desk.take(),
        };
        (bytes, counted)
    }
}

impl Drop for Gathered {
    fn drop(&mut self) {
        if let Some(desk) = &self.desk {
            desk.bytes.fetch_sub(self.bytes.len(), Ordering::Relaxed);
        }
    }
}

/// Bytes that count as on their way.
pub(crate) struct Counted {
    length: usize,
    desk: Option<Arc<Desk>>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(desk) = &self.desk {
            desk.bytes.fetch_sub(self.length, Ordering::Relaxed);
        }
    }
}
