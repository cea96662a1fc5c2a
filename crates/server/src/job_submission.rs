//! Passes a job from a listen thread to the code that stores it, and holds its body until then.
//!
//! Must never: let the bodies of jobs that are not stored yet use more memory than [`MOST_BYTES`], however many clients send some.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tutti_config::model::Spooler;

/// Bytes of received bodies that are not stored yet, of all clients together: beyond, 503. A disk that writes 100 MB a second needs about a
/// second for them.
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
    /// Fields of the request, without those of its connection.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// The whole body.
    pub body: Vec<u8>,
    /// It must not be delivered before this time has passed.
    pub delay: Duration,
    /// Receives the number of the job when it is on disk. If the receiver has been dropped, the job must not be stored.
    pub answer: oneshot::Sender<Result<String, JobNotStored>>,
}

/// Why a job was not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobNotStored {
    /// The status: 503 if the spooler is full, 507 if the disk is.
    pub status: u16,
    /// `Retry-After`, in seconds.
    pub retry_after: u32,
    /// The reason for the log; `None` if it has been logged.
    pub reason: Option<String>,
}

/// Passes jobs to the code that stores them.
#[derive(Debug)]
pub(crate) struct Desk {
    posts: mpsc::UnboundedSender<Post>,
    /// Bytes of bodies in transit.
    bytes: AtomicUsize,
}

impl Desk {
    pub(crate) fn new(posts: mpsc::UnboundedSender<Post>) -> Self {
        Self {
            posts,
            bytes: AtomicUsize::new(0),
        }
    }

    /// Passes a job; false if jobs are not stored any more.
    pub(crate) fn post(&self, post: Post) -> bool {
        self.posts.send(post).is_ok()
    }
}

/// The collected body of a job.
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

    /// Adds bytes; the error is a status.
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

/// Bytes that count as in transit.
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
