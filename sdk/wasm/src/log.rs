//! Lines in the daemon's log: the host's own, and what components write.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use tutti_worker::Level;
use tutti_worker::log::line;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamResult};

/// Bytes of a line that are held back until its end comes.
const LONGEST: usize = 16 * 1024;

/// Bytes that a component may write at once.
const PERMIT: usize = 64 * 1024;

/// Writes `message` at `level`.
pub(crate) fn write(level: Level, message: &str) {
    line(level, "", message.as_bytes());
}

/// Where a component's output goes: the process's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Standard output.
    Out,
    /// Standard error.
    Error,
}

/// An output stream of an instance: whole lines, so that those of several instances do not mix. What has no line end is
/// written when the stream ends.
#[derive(Clone, Debug)]
pub(crate) struct Lines(Arc<Mutex<Pending>>);

#[derive(Debug)]
struct Pending {
    output: Output,
    text: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(output: Output) -> Self {
        let text = Vec::new();
        Self(Arc::new(Mutex::new(Pending { output, text })))
    }
}

impl Pending {
    fn add(&mut self, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
        let whole = match self.text.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if self.text.len() > LONGEST => self.text.len(),
            None => return,
        };
        self.put(whole);
        self.text.drain(..whole);
    }

    /// There is no place to report that the log is gone.
    fn put(&self, count: usize) {
        use std::io::Write as _;
        let bytes = self.text.get(..count).unwrap_or_default();
        let _ = match self.output {
            Output::Out => std::io::stdout()
                .lock()
                .write_all(bytes)
                .and_then(|()| std::io::stdout().flush()),
            Output::Error => std::io::stderr().lock().write_all(bytes),
        };
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.text.is_empty() {
            self.text.push(b'\n');
            self.put(self.text.len());
        }
    }
}

impl IsTerminal for Lines {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for Lines {
    /// An interface of WASI 0.3, which is not served.
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl OutputStream for Lines {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        let mut pending = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pending.add(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(PERMIT)
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for Lines {
    async fn ready(&mut self) {}
}
