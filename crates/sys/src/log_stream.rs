//! A log that never makes its writer wait.
//!
//! A regular file takes what is written to it. A pipe, a socket or a terminal takes nothing while its reader stands still, and its writer
//! would stand still with it: main, or all listen threads. Here such lines wait in memory, up to a bound; what is beyond it is dropped and
//! counted, and reported in the log when the reader goes on. What must never happen: that a write waits for a reader, that lines are
//! reordered, or that the setting of a descriptor which others share (`O_NONBLOCK` of a terminal) is changed for them.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::datagrams::{self, Recipient};

/// Most bytes that wait for a reader: a second of a busy server's access log.
const MOST_WAITING: usize = 1024 * 1024;

/// The bytes that a pipe which is ready takes whole (PIPE_BUF, pipe(7)).
const ALWAYS_TAKEN: usize = 4096;

/// The threads of this process that wait for readers.
static THREADS: Threads = Threads {
    count: Mutex::new(0),
    one_less: Condvar::new(),
};

struct Threads {
    count: Mutex<usize>,
    one_less: Condvar,
}

impl Threads {
    fn count(&self) -> MutexGuard<'_, usize> {
        // A number: whole even if a holder panicked.
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until readers have taken the lines that wait for them ([`Later::Thread`]), at most so long. A process that
/// ends calls it last:
/// lines that still wait then are lost without a report.
pub fn finish(longest: Duration) {
    let count = THREADS.count();
    drop(
        THREADS
            .one_less
            .wait_timeout_while(count, longest, |count| *count > 0),
    );
}

/// The means by which a write is kept from waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// It never waits.
    File,
    /// The descriptor is set so.
    NonBlocking,
    /// By a flag of each call.
    Socket,
    /// By asking before each write.
    Asked,
    /// Each line is a message of its own, without its end, to this recipient.
    Datagrams(Recipient),
}

/// The place where waiting lines are written once the reader goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Later {
    /// A thread that is there only meanwhile.
    Thread,
    /// A caller of [`LogStream::flush`].
    Caller,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: VecDeque<u8>,
    /// A thread waits for the reader.
    has_thread: bool,
}

/// Makes the line that reports how many lines were lost.
#[derive(Clone)]
pub struct LossLine(Arc<dyn Fn(u64) -> Vec<u8> + Send + Sync>);

impl LossLine {
    /// Made by this function.
    pub fn by(make: impl Fn(u64) -> Vec<u8> + Send + Sync + 'static) -> LossLine {
        LossLine(Arc::new(make))
    }
}

impl std::fmt::Debug for LossLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Told")
    }
}

/// Counts the lines that a log has lost, also in the files that it was before.
#[derive(Debug, Default)]
pub struct LossCount {
    own: AtomicU64,
    /// The sum of this log and others.
    total: Option<Arc<AtomicU64>>,
}

impl LossCount {
    /// The count of one of several logs, which adds to their sum.
    pub fn within(total: Arc<AtomicU64>) -> LossCount {
        LossCount {
            own: AtomicU64::new(0),
            total: Some(total),
        }
    }

    /// Lines that this log has lost.
    pub fn get(&self) -> u64 {
        self.own.load(Ordering::Relaxed)
    }

    fn add(&self, lines: u64) {
        self.own.fetch_add(lines, Ordering::Relaxed);
        if let Some(total) = &self.total {
            total.fetch_add(lines, Ordering::Relaxed);
        }
    }
}

/// An open log.
#[derive(Debug)]
pub struct LogStream {
    file: OwnedFd,
    kind: Kind,
    later: Later,
    loss_line: Option<LossLine>,
    waiting: Mutex<Waiting>,
    /// Lines that were lost and that the log itself has not reported.
    unreported: AtomicU64,
    lost: Arc<LossCount>,
    /// Why they were, last; 0: the reader stands still, or nothing is wrong.
    failure: AtomicI32,
    /// The disk was full in the middle of a line.
    is_torn: AtomicBool,
}

impl LogStream {
    /// Takes over an open file. Lost lines are counted in `lost`; with `loss_line`, the log reports them as well, when it can be written
    /// again.
    pub fn new(
        file: OwnedFd,
        later: Later,
        loss_line: Option<LossLine>,
        lost: Arc<LossCount>,
    ) -> Arc<LogStream> {
        let (file, kind) = prepare(file);
        LogStream::with(file, kind, later, loss_line, lost)
    }

    /// A log whose lines are messages to a recipient, which need not be there yet. The socket is one of [`datagrams::socket`].
    pub fn datagrams(
        socket: OwnedFd,
        recipient: Recipient,
        later: Later,
        loss_line: Option<LossLine>,
        lost: Arc<LossCount>,
    ) -> Arc<LogStream> {
        LogStream::with(socket, Kind::Datagrams(recipient), later, loss_line, lost)
    }

    fn with(
        file: OwnedFd,
        kind: Kind,
        later: Later,
        loss_line: Option<LossLine>,
        lost: Arc<LossCount>,
    ) -> Arc<LogStream> {
        Arc::new(LogStream {
            file,
            kind,
            later,
            loss_line,
            waiting: Mutex::default(),
            unreported: AtomicU64::new(0),
            lost,
            failure: AtomicI32::new(0),
            is_torn: AtomicBool::new(false),
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

    /// Writes whole lines, now or when the reader goes on. Lines that cannot be written are lost, and counted.
    pub fn write(self: &Arc<Self>, lines: &[u8]) {
        if self.kind == Kind::File {
            return self.write_file(lines);
        }
        let mut waiting = self.waiting();
        let lost_before = self.unreported.load(Ordering::Relaxed);
        let mut rest = lines;
        if waiting.bytes.is_empty() {
            while !rest.is_empty() {
                match self.write_some(rest) {
                    Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => break,
                    Err(errno) => return self.note_lost(rest, Some(errno)),
                }
            }
        }
        // A line that has begun is ended, even beyond the bound: a torn line would take the next one with it.
        let has_begun = rest.len() < lines.len();
        if rest.is_empty() {
            if self.unreported.load(Ordering::Relaxed) == lost_before {
                self.failure.store(0, Ordering::Relaxed);
            }
            if waiting.bytes.is_empty() && self.loss_line.is_some() {
                // The reader of the last lines was gone, and there is one again.
                self.report_loss(&mut waiting);
                self.flush_locked(&mut waiting);
            }
        } else if has_begun || waiting.bytes.len() + rest.len() <= MOST_WAITING {
            waiting.bytes.extend(rest);
        } else {
            self.note_lost(rest, None);
        }
        if !waiting.bytes.is_empty() && self.later == Later::Thread && !waiting.has_thread {
            let stream = Arc::clone(self);
            let thread = std::thread::Builder::new().name("log".to_owned());
            *THREADS.count() += 1;
            // Without a thread the next line tries again.
            waiting.has_thread = thread.spawn(move || stream.wait_for_reader()).is_ok();
            if !waiting.has_thread {
                *THREADS.count() -= 1;
            }
        }
    }

    /// Writes to a file, where nothing waits, without a lock: files that are appended to take each write whole.
    fn write_file(&self, lines: &[u8]) {
        let unreported = self.unreported.load(Ordering::Relaxed);
        if unreported > 0 || self.is_torn.load(Ordering::Relaxed) {
            return self.write_again(lines);
        }
        if let Err((written, errno)) = write_whole(self.file.as_fd(), lines) {
            self.note_torn(lines, written, errno);
        }
    }

    /// The first lines after some were lost: there may be room again.
    fn write_again(&self, lines: &[u8]) {
        let mut whole = Vec::with_capacity(lines.len() + 1);
        if self.is_torn.load(Ordering::Relaxed) {
            whole.push(b'\n');
        }
        whole.extend_from_slice(lines);
        match write_whole(self.file.as_fd(), &whole) {
            Ok(()) => {
                self.failure.store(0, Ordering::Relaxed);
                self.is_torn.store(false, Ordering::Relaxed);
                let unreported = self.unreported.swap(0, Ordering::Relaxed);
                if let (Some(loss_line), true) = (&self.loss_line, unreported > 0) {
                    let line = loss_line.0(unreported);
                    if let Err((written, errno)) = write_whole(self.file.as_fd(), &line) {
                        self.note_torn(&line, written, errno);
                    }
                }
            }
            // Not even the end of the torn line.
            Err((0, errno)) => self.note_lost(lines, Some(errno)),
            Err((written, errno)) => self.note_torn(&whole, written, errno),
        }
    }

    fn note_torn(&self, lines: &[u8], written: usize, errno: Errno) {
        let (before, after) = lines.split_at_checked(written).unwrap_or((lines, b""));
        self.is_torn.store(
            before.last().is_some_and(|byte| *byte != b'\n'),
            Ordering::Relaxed,
        );
        self.note_lost(after, Some(errno));
    }

    fn note_lost(&self, lines: &[u8], why: Option<Errno>) {
        self.count_lost(count_lines(lines), why);
    }

    fn count_lost(&self, lines: u64, why: Option<Errno>) {
        self.unreported.fetch_add(lines, Ordering::Relaxed);
        self.lost.add(lines);
        let why = why.map_or(0, Errno::raw_os_error);
        self.failure.store(why, Ordering::Relaxed);
    }

    /// True if lines wait for the reader.
    pub fn has_waiting(&self) -> bool {
        self.kind != Kind::File && !self.waiting().bytes.is_empty()
    }

    /// Lines that the log has lost, also in the files that it was before.
    pub fn lost(&self) -> u64 {
        self.lost.get()
    }

    /// Why lines were lost last, if that was the last that happened; `None`: the reader stood still, or nothing is wrong.
    pub fn failure(&self) -> Option<io::Error> {
        let errno = self.failure.load(Ordering::Relaxed);
        (errno != 0).then(|| io::Error::from_raw_os_error(errno))
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
                // There is no reader any more.
                Err(errno) => {
                    let lines = count_lines(waiting.bytes.make_contiguous());
                    self.count_lost(lines, Some(errno));
                    waiting.bytes.clear();
                    return;
                }
            }
            if waiting.bytes.is_empty() {
                self.report_loss(waiting);
            }
        }
    }

    /// Appends the line that reports lost lines to what waits, if there are any.
    fn report_loss(&self, waiting: &mut Waiting) {
        if let Some(loss_line) = &self.loss_line
            && self.unreported.load(Ordering::Relaxed) > 0
        {
            let lost = self.unreported.swap(0, Ordering::Relaxed);
            waiting.bytes.extend(loss_line.0(lost));
        }
    }

    fn wait_for_reader(&self) {
        loop {
            let _ = poll(&mut [PollFd::new(&self.file, PollFlags::OUT)], None);
            let mut waiting = self.waiting();
            self.flush_locked(&mut waiting);
            if waiting.bytes.is_empty() {
                waiting.has_thread = false;
                *THREADS.count() -= 1;
                THREADS.one_less.notify_all();
                return;
            }
        }
    }

    fn write_some(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match &self.kind {
            Kind::File | Kind::NonBlocking => rustix::io::write(&self.file, bytes),
            Kind::Socket => {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                rustix::net::send(&self.file, bytes, flags)
            }
            Kind::Datagrams(recipient) => {
                let end = bytes.iter().position(|byte| *byte == b'\n');
                let line = end.and_then(|end| bytes.get(..end)).unwrap_or(bytes);
                match datagrams::send(self.file.as_fd(), recipient, line) {
                    Ok(sent) if sent.is_former_lost => self.count_lost(1, Some(Errno::CONNREFUSED)),
                    Ok(_) => {}
                    // This line is beyond what can be sent; the next one is not for that.
                    Err(Errno::MSGSIZE) => self.count_lost(1, Some(Errno::MSGSIZE)),
                    Err(errno) => return Err(errno),
                }
                Ok((line.len() + 1).min(bytes.len()))
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

fn count_lines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}

/// Opens a pipe or a terminal once more, for a description whose flags no other process shares.
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

/// The error has the bytes that were written before it.
fn write_whole(file: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), (usize, Errno)> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..)
        && !rest.is_empty()
    {
        match rustix::io::write(file, rest) {
            Ok(written) => done += written.max(1),
            Err(Errno::INTR) => {}
            Err(errno) => return Err((done, errno)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read};

    use tutti_testkit::wait_until;

    use super::*;

    fn loss_line() -> Option<LossLine> {
        Some(LossLine::by(|count| format!("lost {count}\n").into_bytes()))
    }

    /// Issue 10, 1.16: a log to a pipe whose reader stood still stopped its writers.
    #[test]
    fn a_reader_that_stands_still_costs_lines_and_no_writer_waits() {
        for later in [Later::Thread, Later::Caller] {
            let (reader, writer) = io::pipe().unwrap();
            let stream = LogStream::new(writer.into(), later, loss_line(), Arc::default());
            let count = 40_000;
            for number in 0..count {
                let line = format!("{number} {}\n", "x".repeat(90));
                stream.write(line.as_bytes());
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
            stream.write(b"again\n");
            assert_eq!(lines.next().unwrap().unwrap(), "again");
        }
    }

    #[test]
    fn a_socket_and_a_shared_pipe_keep_their_settings() {
        let (mut reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
        let twin = writer.try_clone().unwrap();
        let stream = LogStream::new(writer.into(), Later::Caller, None, Arc::default());
        while !stream.has_waiting() {
            stream.write(&[b'x'; 1000]);
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
        let _stream = LogStream::new(writer.into(), Later::Caller, None, Arc::default());
        let flags = rustix::fs::fcntl_getfl(&twin).unwrap();
        assert!(!flags.contains(OFlags::NONBLOCK));
    }

    #[test]
    fn lost_lines_are_counted_and_a_reader_that_has_gone_is_an_error() {
        let (reader, writer) = io::pipe().unwrap();
        let stream = LogStream::new(writer.into(), Later::Caller, None, Arc::default());
        let lines = "0123456\n".repeat(1000);
        for _ in 0..1000 {
            stream.write(lines.as_bytes());
        }
        assert!(stream.lost() > 100_000);
        assert!(stream.failure().is_none());
        drop(reader);
        // A child that another test has just forked holds the reading end until it executes its program.
        wait_until("the reader is known to have gone", || {
            stream.flush();
            !stream.has_waiting()
        });
        // All that waited was lost, too: but for what the pipe held.
        let lost = stream.lost();
        assert!((980_000..1_000_000).contains(&lost), "{lost}");
        stream.write(b"x\n");
        assert_eq!(stream.lost(), lost + 1);
        let failure = stream.failure().unwrap();
        assert_eq!(failure.kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_device_that_is_full_costs_lines() {
        let full = std::fs::OpenOptions::new()
            .append(true)
            .open("/dev/full")
            .unwrap();
        let stream = LogStream::new(full.into(), Later::Caller, None, Arc::default());
        stream.write(b"one\ntwo\n");
        assert_eq!(stream.lost(), 2);
        assert_eq!(stream.failure().unwrap().kind(), io::ErrorKind::StorageFull);
        assert!(!stream.has_waiting());
    }

    #[test]
    fn a_file_with_a_torn_line_goes_on_with_a_whole_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path)
            .unwrap();
        let stream = LogStream::new(file.into(), Later::Caller, loss_line(), Arc::default());
        assert_eq!(stream.kind, Kind::File);
        // As a disk does it that is full after five bytes.
        write_whole(stream.descriptor(), b"one\nt").unwrap();
        stream.note_torn(b"one\ntwo\nthree\n", 5, Errno::NOSPC);
        assert_eq!(stream.failure().unwrap().kind(), io::ErrorKind::StorageFull);
        stream.write(b"four\n");
        stream.write(b"five\n");
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text, "one\nt\nfour\nlost 2\nfive\n");
        assert_eq!(stream.lost(), 2);
        assert!(stream.failure().is_none());
    }

    /// Each line is a message; the recipient may come later, go, and come again.
    #[test]
    fn lines_are_messages_to_a_recipient_that_comes_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let recipient = Recipient::Path(path.clone());
        let socket = datagrams::socket(&recipient).unwrap();
        let stream = LogStream::datagrams(socket, recipient, Later::Caller, None, Arc::default());
        stream.write(b"early\n");
        assert_eq!(stream.lost(), 1);
        assert_eq!(stream.failure().unwrap().kind(), io::ErrorKind::NotFound);
        for round in 0..2 {
            let server = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
            stream.write(b"one\ntwo\n");
            let mut message = [0; 100];
            for expected in [&b"one"[..], b"two"] {
                let count = server.recv(&mut message).unwrap();
                assert_eq!(&message[..count], expected, "{round}");
            }
            assert!(stream.failure().is_none());
            // A process that another test has just forked may still have the socket, which would take messages.
            server.shutdown(std::net::Shutdown::Both).unwrap();
            drop(server);
            std::fs::remove_file(&path).unwrap();
        }
        stream.write(b"late\n");
        assert_eq!(stream.lost(), 2);
    }

    #[test]
    fn messages_to_a_port_without_a_listener_are_known_to_be_lost() {
        let address = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let recipient = Recipient::Inet(address.local_addr().unwrap());
        drop(address);
        let socket = datagrams::socket(&recipient).unwrap();
        let stream = LogStream::datagrams(socket, recipient, Later::Caller, None, Arc::default());
        wait_until("the kernel has reported it", || {
            stream.write(b"line\n");
            stream.lost() > 0
        });
        let failure = stream.failure().unwrap();
        assert_eq!(failure.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn a_recipient_that_stands_still_makes_no_writer_wait() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let server = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
        let recipient = Recipient::Path(path);
        let socket = datagrams::socket(&recipient).unwrap();
        let stream = LogStream::datagrams(socket, recipient, Later::Thread, None, Arc::default());
        let count = 30_000_u64;
        for number in 0..count {
            stream.write(format!("{number} {}\n", "x".repeat(90)).as_bytes());
        }
        assert!(stream.has_waiting() && stream.lost() > 0);
        let mut message = [0; 200];
        for expected in 0..count - stream.lost() {
            let read = server.recv(&mut message).unwrap();
            let start = format!("{expected} ");
            assert!(message[..read].starts_with(start.as_bytes()));
        }
        // One that is too long costs itself alone.
        stream.write(&[&[b'x'; 1_000_000][..], b"\nnext\n"].concat());
        let read = server.recv(&mut message).unwrap();
        assert_eq!(&message[..read], b"next");
    }
}
