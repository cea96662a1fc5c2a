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
    /// Counts the body. To be kept as long as it.
    pub counted: CountedBody,
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
    bytes: Arc<AtomicUsize>,
}

impl Desk {
    pub(crate) fn new(posts: mpsc::UnboundedSender<Post>) -> Self {
        Self {
            posts,
            bytes: Arc::default(),
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
    /// The bytes of all bodies, with these.
    all: Option<Arc<AtomicUsize>>,
}

impl Gathered {
    pub(crate) fn new(spooler: &Spooler, desk: &Arc<Desk>) -> Self {
        Self {
            bytes: Vec::new(),
            most: spooler.options.max_body_size,
            all: Some(Arc::clone(&desk.bytes)),
        }
    }

    /// Adds bytes; the error is a status.
    pub(crate) fn add(&mut self, data: &[u8]) -> Result<(), u16> {
        let Some(all) = &self.all else {
            return Err(500);
        };
        if data.len() > self.most.saturating_sub(self.bytes.len()) {
            return Err(413);
        }
        let before = all.fetch_add(data.len(), Ordering::Relaxed);
        self.bytes.extend_from_slice(data);
        match before.saturating_add(data.len()) > MOST_BYTES {
            true => Err(503),
            false => Ok(()),
        }
    }

    /// The bytes, which count until this is dropped.
    pub(crate) fn take(&mut self) -> (Vec<u8>, CountedBody) {
        let bytes = std::mem::take(&mut self.bytes);
        let counted = CountedBody {
            length: bytes.len(),
            all: self.all.take(),
        };
        (bytes, counted)
    }
}

impl Drop for Gathered {
    fn drop(&mut self) {
        if let Some(all) = &self.all {
            all.fetch_sub(self.bytes.len(), Ordering::Relaxed);
        }
    }
}

/// Bytes that count as in transit until this is dropped.
#[derive(Debug)]
pub struct CountedBody {
    length: usize,
    all: Option<Arc<AtomicUsize>>,
}

impl Drop for CountedBody {
    fn drop(&mut self) {
        if let Some(all) = &self.all {
            all.fetch_sub(self.length, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body of a job whose client had left was not counted while it waited to be stored.
    #[test]
    fn a_body_counts_until_its_job_is_stored_or_discarded() {
        let (posts, mut posted) = mpsc::unbounded_channel();
        let desk = Arc::new(Desk::new(posts));
        let mut gathered = Gathered {
            bytes: Vec::new(),
            most: 1000,
            all: Some(Arc::clone(&desk.bytes)),
        };
        gathered.add(&[7; 600]).unwrap();
        assert_eq!(gathered.add(&[7; 600]), Err(413));
        let (body, counted) = gathered.take();
        drop(gathered);
        let (answer, client) = oneshot::channel();
        assert!(desk.post(Post {
            spooler: String::new(),
            method: String::new(),
            target: Vec::new(),
            fields: Vec::new(),
            body,
            counted,
            delay: Duration::ZERO,
            answer,
        }));
        drop(client);
        assert_eq!(desk.bytes.load(Ordering::Relaxed), 600);
        drop(posted.try_recv().unwrap());
        assert_eq!(desk.bytes.load(Ordering::Relaxed), 0);
    }
}
