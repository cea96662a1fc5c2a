//! A log that never makes its writer wait.
//!
//! A regular file takes what is written to it. A pipe, a socket or a terminal takes nothing while its reader stands still, and
//! who writes to it would stand still with it: main, or all listen threads. Here such lines wait in memory, up to a bound;
//! what is beyond it is dropped and counted, and told when the reader goes on. What must never happen: that a write waits for
//! a reader, that lines change places, or that the setting of a descriptor which others share (`O_NONBLOCK` of a terminal)
//! is changed for them.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;

/// Most bytes that wait for a reader: a second of a busy server's access log.
const MOST_WAITING: usize = 1024 * 1024;

/// The bytes that a pipe which is ready takes whole (PIPE_BUF, pipe(7)).
const ALWAYS_TAKEN: usize = 4096;

/// How a write is kept from waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// It does not wait for anybody.
    File,
    /// The descriptor is set so.
    NonBlocking,
    /// By a flag of each call.
    Socket,
    /// By asking before each write.
    Asked,
}

/// Who writes what waits once the reader goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Later {
    /// A thread that is there only meanwhile.
    Thread,
    /// Whoever calls [`LogStream::flush`].
    Caller,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: VecDeque<u8>,
    lost: u64,
    /// A thread waits for the reader.
    has_thread: bool,
}

/// Makes the line that tells of so many lost ones.
pub type Told = fn(u64) -> Vec<u8>;

/// An open log.
#[derive(Debug)]
pub struct LogStream {
    file: OwnedFd,
    kind: Kind,
    later: Later,
    told: Option<Told>,
    waiting: Mutex<Waiting>,
}

impl LogStream {
    /// Takes over an open file. With `told`, lost lines are told in the log itself; else by [`take_lost`](Self::take_lost).
    pub fn new(file: OwnedFd, later: Later, told: Option<Told>) -> Arc<LogStream> {
        let (file, kind) = prepare(file);
        Arc::new(LogStream {
            file,
            kind,
            later,
            told,
            waiting: Mutex::default(),
        })
    }

    /// The file, for another process to write to as well.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Bytes and counts: whole even if a holder panicked.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes whole lines, now or when the reader goes on.
    ///
    /// # Errors
    /// The system's error if the file cannot be written; the lines are lost then.
    pub fn write(self: &Arc<Self>, lines: &[u8]) -> io::Result<()> {
        if self.kind == Kind::File {
            return write_file(self.file.as_fd(), lines);
        }
        let mut waiting = self.waiting();
        let mut rest = lines;
        if waiting.bytes.is_empty() {
            while !rest.is_empty() {
                match self.write_some(rest) {
                    Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break,
                    Err(errno) => return Err(errno.into()),
                }
            }
        }
        // A line that has begun is ended, even beyond the bound: a torn line would take the next one with it.
        let has_begun = rest.len() < lines.len();
        if rest.is_empty() {
        } else if has_begun || waiting.bytes.len() + rest.len() <= MOST_WAITING {
            waiting.bytes.extend(rest);
        } else {
            waiting.lost += rest.iter().filter(|&&byte| byte == b'\n').count() as u64;
        }
        if !waiting.bytes.is_empty() && self.later == Later::Thread && !waiting.has_thread {
            let stream = Arc::clone(self);
            let thread = std::thread::Builder::new().name("log".to_owned());
            // Without a thread the next line tries again.
            waiting.has_thread = thread.spawn(move || stream.wait_for_reader()).is_ok();
        }
        Ok(())
    }

    /// True if lines wait for the reader.
    pub fn has_waiting(&self) -> bool {
        self.kind != Kind::File && !self.waiting().bytes.is_empty()
    }

    /// Lines that were lost since this was last asked.
    pub fn take_lost(&self) -> u64 {
        match self.kind {
            Kind::File => 0,
            _ => std::mem::take(&mut self.waiting().lost),
        }
    }

    /// Writes what waits, as far as the reader takes it.
    pub fn flush(&self) {
        self.flush_locked(&mut self.waiting());
    }

    fn flush_locked(&self, waiting: &mut Waiting) {
        while !waiting.bytes.is_empty() {
            match self.write_some(waiting.bytes.make_contiguous()) {
                Ok(count) => drop(waiting.bytes.drain(..count.min(waiting.bytes.len()))),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                // Nobody reads any more.
                Err(_) => waiting.bytes.clear(),
            }
            if let (true, Some(told)) = (waiting.bytes.is_empty() && waiting.lost > 0, self.told) {
                waiting
                    .bytes
                    .extend(told(std::mem::take(&mut waiting.lost)));
            }
        }
    }

    fn wait_for_reader(&self) {
        loop {
            let _ = poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], None);
            let mut waiting = self.waiting();
            self.flush_locked(&mut waiting);
            if waiting.bytes.is_empty() {
                waiting.has_thread = false;
                return;
            }
        }
    }

    fn write_some(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self.kind {
            Kind::File | Kind::NonBlocking => rustix::io::write(&self.file, bytes),
            Kind::Socket => {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                rustix::net::send(&self.file, bytes, flags)
            }
            Kind::Asked => {
                const NOW: Timespec = Timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                };
                let ready = poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], Some(&NOW))?;
                let first = bytes.get(..ALWAYS_TAKEN).unwrap_or(bytes);
                match ready {
                    0 => Err(Errno::AGAIN),
                    _ => rustix::io::write(&self.file, first),
                }
            }
        }
    }
}

/// Opens a pipe or a terminal once more, for a description whose flags nobody shares.
fn prepare(file: OwnedFd) -> (OwnedFd, Kind) {
    let kind = rustix::fs::fstat(&file).map(|stat| FileType::from_raw_mode(stat.st_mode));
    match kind {
        Ok(FileType::Fifo | FileType::CharacterDevice) => {}
        Ok(FileType::Socket) => return (file, Kind::Socket),
        _ => return (file, Kind::File),
    }
    if rustix::fs::fcntl_getfl(&file).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK)) {
        return (file, Kind::NonBlocking);
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags =
        OFlags::WRONLY | OFlags::APPEND | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(own) => (own, Kind::NonBlocking),
        Err(_) => (file, Kind::Asked),
    }
}

fn write_file(file: BorrowedFd<'_>, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        match rustix::io::write(file, rest) {
            Ok(written) => rest = rest.get(written.max(1)..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read};
    use tutti_testkit::wait_until;

    fn told(count: u64) -> Vec<u8> {
        format!("lost {count}\n").into_bytes()
    }

    /// Issue 10, 1.16: a log to a pipe whose reader stood still stopped its writers.
    #[test]
    fn a_reader_that_stands_still_costs_lines_and_nobody_waits() {
        for later in [Later::Thread, Later::Caller] {
            let (reader, writer) = io::pipe().unwrap();
            let stream = LogStream::new(writer.into(), later, Some(told));
            let count = 40_000;
            for number in 0..count {
                let line = format!("{number} {}\n", "x".repeat(90));
                stream.write(line.as_bytes()).unwrap();
            }
            assert!(stream.has_waiting());
            let mut lines = BufReader::new(reader).lines();
            let mut next = 0;
            loop {
                if later == Later::Caller {
                    stream.flush();
                }
                let line = lines.next().unwrap().unwrap();
                if let Some(lost) = line.strip_prefix("lost ") {
                    assert_eq!(next + lost.parse::<u64>().unwrap(), count);
                    break;
                }
                assert!(line.starts_with(&format!("{next} ")), "{line}");
                next += 1;
            }
            assert!(next > 1000, "{next}");
            stream.write(b"again\n").unwrap();
            assert_eq!(lines.next().unwrap().unwrap(), "again");
        }
    }

    #[test]
    fn a_socket_and_a_shared_pipe_keep_their_settings() {
        let (mut reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        let twin = writer.try_clone().unwrap();
        let stream = LogStream::new(writer.into(), Later::Caller, None);
        while !stream.has_waiting() {
            stream.write(&[b'x'; 1000]).unwrap();
        }
        let flags = rustix::fs::fcntl_getfl(&twin).unwrap();
        assert!(!flags.contains(OFlags::NONBLOCK));
        let mut some = [0; 100_000];
        while stream.has_waiting() {
            assert!(reader.read(&mut some).unwrap() > 0);
            stream.flush();
        }
        let (_reader, writer) = io::pipe().unwrap();
        let twin = writer.try_clone().unwrap();
        let _stream = LogStream::new(writer.into(), Later::Caller, None);
        let flags = rustix::fs::fcntl_getfl(&twin).unwrap();
        assert!(!flags.contains(OFlags::NONBLOCK));
    }

    #[test]
    fn lost_lines_are_counted_and_a_reader_that_has_gone_is_an_error() {
        let (reader, writer) = io::pipe().unwrap();
        let stream = LogStream::new(writer.into(), Later::Caller, None);
        let lines = "0123456\n".repeat(1000);
        for _ in 0..1000 {
            stream.write(lines.as_bytes()).unwrap();
        }
        assert!(stream.take_lost() > 100_000);
        assert_eq!(stream.take_lost(), 0);
        drop(reader);
        // A child that another test has just forked holds the reading end until it executes its program.
        wait_until("the reader is known to have gone", || {
            stream.flush();
            !stream.has_waiting()
        });
        assert!(stream.write(b"x\n").is_err());
    }
}
