//! The output of an application's processes on stdout and stderr: forwarded line by line, with the end kept for reports.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::launcher::LogSink;
use crate::readiness::readable;
use crate::runtime::AsyncFd;
use crate::stack_replies::Answers;

/// Bytes kept for error reports: a traceback of ordinary length.
const TAIL: usize = 4096;

/// A longer line is forwarded in pieces, so that a process that writes no newline uses no memory.
const LONGEST_LINE: usize = 64 * 1024;

/// Reads of 8 KiB in one go: four times the 64 KiB that a pipe holds (pipe(7)).
const READS_AT_ONCE: u32 = 32;

/// The result of draining a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drained {
    /// It is empty now.
    Empty,
    /// There may be more.
    Partly,
    /// All writers have closed it.
    End,
}

/// One pipe, written by a prototype and its workers, or by a command and its children.
#[derive(Debug)]
pub struct OutputPipe {
    pipe: AsyncFd<OwnedFd>,
    state: Mutex<State>,
    /// Some of the lines may be answers.
    answers: Arc<Answers>,
    /// The prototype's process id, once it is known.
    process: AtomicI32,
}

#[derive(Debug, Default)]
struct State {
    line: Vec<u8>,
    tail: Vec<u8>,
    total: u64,
    is_over: bool,
}

impl OutputPipe {
    /// Takes the reading end, which must be non-blocking.
    pub(crate) fn new(pipe: OwnedFd, answers: Arc<Answers>) -> io::Result<OutputPipe> {
        Ok(OutputPipe {
            pipe: readable(pipe)?,
            answers,
            state: Mutex::default(),
            process: AtomicI32::new(0),
        })
    }

    /// The same for a command, which is not asked anything.
    pub fn of_command(pipe: OwnedFd) -> io::Result<OutputPipe> {
        OutputPipe::new(pipe, Arc::default())
    }

    /// Forwards what is in the pipe now.
    pub fn drain_now(&self, name: &str, log: &(impl LogSink + ?Sized)) {
        while self.drain(name, log) == Drained::Partly {}
    }

    /// The end of the output.
    pub fn tail(&self) -> String {
        self.tail_since(0)
    }

    /// Notes the process id of the prototype or command.
    pub fn is_of(&self, process: i32) {
        self.process.store(process, Ordering::Relaxed);
    }

    /// Forwards until the end.
    pub async fn forward(self: Arc<Self>, name: Arc<str>, log: Arc<dyn LogSink>) {
        loop {
            let Ok(mut guard) = self.pipe.readable().await else {
                return;
            };
            match self.drain(&name, &*log) {
                Drained::End => return,
                Drained::Empty => guard.clear_ready(),
                // Yields to other tasks, if a process writes without pause.
                Drained::Partly => tokio::task::yield_now().await,
            }
        }
    }

    /// Forwards what is in the pipe now, up to a limit well above the capacity of a pipe.
    ///
    /// Bytes that a process wrote before it died are in the pipe when its death is known, so this completes the report.
    pub(crate) fn drain(&self, name: &str, log: &(impl LogSink + ?Sized)) -> Drained {
        let mut buffer = [0_u8; 8192];
        let process = self.process.load(Ordering::Relaxed);
        let put = |line: &[u8]| {
            log.output(name, process, line);
            self.answers.note(line);
        };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..READS_AT_ONCE {
            if state.is_over {
                break;
            }
            match rustix::io::read(self.pipe.get_ref(), &mut buffer) {
                Ok(0) => {
                    state.is_over = true;
                    let rest = std::mem::take(&mut state.line);
                    if !rest.is_empty() {
                        put(&rest);
                    }
                }
                Ok(count) => state.take(buffer.get(..count).unwrap_or_default(), &put),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Drained::Empty,
                Err(_) => state.is_over = true,
            }
        }
        if state.is_over {
            Drained::End
        } else {
            Drained::Partly
        }
    }

    /// The number of bytes read so far, for [`tail_since`](Self::tail_since).
    pub(crate) fn mark(&self) -> u64 {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .total
    }

    /// The end of the output after the mark.
    pub(crate) fn tail_since(&self, mark: u64) -> String {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = usize::try_from(state.total - mark.min(state.total)).unwrap_or(usize::MAX);
        let start = state.tail.len().saturating_sub(wanted.min(TAIL));
        String::from_utf8_lossy(state.tail.get(start..).unwrap_or_default())
            .trim_end()
            .to_owned()
    }
}

impl State {
    fn take(&mut self, bytes: &[u8], put: &dyn Fn(&[u8])) {
        self.total += bytes.len() as u64;
        self.tail.extend_from_slice(bytes);
        if self.tail.len() > 2 * TAIL {
            self.tail.drain(..self.tail.len() - TAIL);
        }
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            let (line, after) = rest.split_at(end);
            if self.line.is_empty() {
                put(line);
            } else {
                self.line.extend_from_slice(line);
                put(&self.line);
                self.line.clear();
            }
            rest = after.get(1..).unwrap_or_default();
        }
        self.line.extend_from_slice(rest);
        if self.line.len() >= LONGEST_LINE {
            put(&self.line);
            self.line.clear();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;
    use crate::launcher::Level;

    #[derive(Default)]
    struct Lines(Mutex<Vec<String>>);
    impl LogSink for Lines {
        fn log(&self, _: Level, _: &str) {}
        fn output(&self, application: &str, process: i32, line: &[u8]) {
            let line = String::from_utf8_lossy(line);
            self.0
                .lock()
                .unwrap()
                .push(format!("{application} {process}: {line}"));
        }
    }

    #[tokio::test]
    async fn lines_are_forwarded_whole_and_the_end_is_kept() {
        let (reader, writer) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).unwrap();
        let output = OutputPipe::new(reader, Arc::default()).unwrap();
        let lines = Lines::default();
        output.is_of(7);
        rustix::io::write(&writer, b"one\ntw").unwrap();
        assert_eq!(output.drain("app", &lines), Drained::Empty);
        let mark = output.mark();
        rustix::io::write(&writer, b"o\n\nlast").unwrap();
        assert_eq!(output.drain("app", &lines), Drained::Empty);
        assert_eq!(output.tail_since(mark), "o\n\nlast");
        drop(writer);
        // A program that another test starts has a copy until it is executed.
        tutti_testkit::wait_until("the end", || output.drain("app", &lines) == Drained::End);
        assert_eq!(
            *lines.0.lock().unwrap(),
            ["app 7: one", "app 7: two", "app 7: ", "app 7: last"]
        );
        for _ in 0..3 {
            output.state.lock().unwrap().take(&[b'x'; 5000], &|_| ());
        }
        assert_eq!(output.tail_since(0).len(), TAIL);
    }
}
