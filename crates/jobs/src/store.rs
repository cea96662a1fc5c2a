//! The file of jobs, and the only thread that reads and writes it.
//!
//! Changes that wait are made together, in one transaction with one fsync: while one is written, the next ones gather. If the disk does not
//! accept a change, the caller that adds a job gets the error; changes of existing jobs are kept and retried. The file is locked by the
//! process that has it open: if that is another router, this one waits, and so do all changes.
//!
//! Must never: report that something is stored before the transaction is on disk, or run on a thread that serves.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use redb::backends::FileBackend;
use redb::{
    Builder, Database, DatabaseError, ReadableDatabase, ReadableTable, StorageBackend,
    TableDefinition,
};
use tokio::sync::oneshot;

use crate::queue::{JobState, Time, next_id};
use crate::timing::Run;

/// The request of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobRequest {
    /// Its method.
    pub method: String,
    /// Path and query.
    pub target: Vec<u8>,
    /// Its fields without those of the connection.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl JobRequest {
    /// Its size in bytes.
    pub(crate) fn size(&self) -> u64 {
        let fields = self
            .fields
            .iter()
            .map(|(name, value)| name.len() + value.len());
        let head = self.method.len() + self.target.len() + fields.sum::<usize>();
        (head + self.body.len()) as u64
    }
}

/// Why something was not stored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JobStoreError {
    /// The disk is full, or over quota.
    #[error("the disk is full: {0}")]
    Full(String),
    /// The file cannot be read or written.
    #[error("{0}")]
    Failed(String),
    /// The store has been closed.
    #[error("the store is closed")]
    Closed,
}

/// The content of the store when it is opened.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) jobs: Vec<(String, u64, JobState)>,
    /// The last runs of schedules.
    pub(crate) runs: Vec<(String, Run)>,
}

/// Receives the result of storing a job.
pub(crate) type Added = oneshot::Sender<Result<u64, JobStoreError>>;

/// An order to the thread.
pub(crate) enum Order {
    /// Store a job.
    Add(Box<Addition>),
    /// Store the new state of a job.
    Note(String, u64, JobState),
    /// Remove a job.
    Remove(String, u64),
    /// Store the state of a schedule; `None`: it does not exist any more.
    Ran(String, Option<Run>),
    /// Returns the request of a job; `None`: there is no such job.
    Load(
        String,
        u64,
        oneshot::Sender<Result<Option<JobRequest>, JobStoreError>>,
    ),
    /// Write waiting changes, and release the file.
    Close,
}

/// Counts the memory of a request for the caller. Dropped with the request, which may be later than the caller stops waiting.
pub type Charge = Box<dyn Send>;

/// A job to be stored.
pub(crate) struct Addition {
    pub(crate) spooler: String,
    pub(crate) request: JobRequest,
    pub(crate) standing: JobState,
    /// If its receiver has been dropped, the job is not stored.
    pub(crate) answer: Added,
    pub(crate) _charge: Option<Charge>,
}

/// Receives the events of the store, on its thread.
pub(crate) trait Listener: Send + 'static {
    /// It is open, and has these jobs.
    fn opened(&self, found: Found);
    /// A job is stored, or storing failed.
    fn settled(&self, spooler: &str, size: u64, stored: Option<(u64, JobState)>);
    /// It cannot be used, or can again (`None`).
    fn troubled(&self, why: Option<&JobStoreError>);
    /// The file has been released.
    fn closed(&self);
}

/// Method, target, fields, body.
type JobRow<'a> = (&'a str, &'a [u8], Vec<(&'a [u8], &'a [u8])>, &'a [u8]);
/// Failed deliveries, due, given up, why, size.
type StandingRow<'a> = (u32, u64, u64, &'a str, u64);

const JOBS: TableDefinition<(&str, u64), JobRow<'static>> = TableDefinition::new("jobs");
const STANDINGS: TableDefinition<(&str, u64), StandingRow<'static>> =
    TableDefinition::new("standings");

/// Settled, started, ended, why it failed.
type RunRow<'a> = (u64, u64, u64, &'a str);

const RUNS: TableDefinition<&str, RunRow<'static>> = TableDefinition::new("runs");

/// Memory for pages of the file: jobs are written and read once, so little is read twice.
const CACHE_BYTES: usize = 16 << 20;

/// Pause between attempts to open a file that another router has open.
const LOCKED_PAUSE: Duration = Duration::from_millis(20);

/// Pause between attempts at a file that cannot be opened or written.
const TROUBLE_PAUSE: Duration = Duration::from_secs(1);

/// Most changes in one transaction: with more, the first would wait long.
const MOST_AT_ONCE: usize = 1024;

/// Starts the thread; it ends after [`Order::Close`], or when all senders of orders have been dropped.
pub(crate) fn start(file: File, listener: impl Listener) -> io::Result<Sender<Order>> {
    let (sender, orders) = channel();
    std::thread::Builder::new()
        .name("jobs".to_owned())
        .spawn(move || {
            let mut thread = Thread {
                file,
                orders,
                listener,
                database: None,
                last: 0,
                is_announced: false,
                waiting: Vec::new(),
                carried: BTreeMap::new(),
                runs: BTreeMap::new(),
                is_troubled: false,
                closes: false,
            };
            thread.run();
        })?;
    Ok(sender)
}

/// A change of an existing job: its new state; `None`: remove it.
type Change = Option<JobState>;

struct Thread<L> {
    file: File,
    orders: Receiver<Order>,
    listener: L,
    database: Option<Database>,
    /// The highest number so far.
    last: u64,
    /// The jobs of the file have been reported.
    is_announced: bool,
    /// Jobs to be stored.
    waiting: Vec<Addition>,
    /// Changes to be written. The last one of a job counts.
    carried: BTreeMap<(String, u64), Change>,
    /// Changes of schedules, likewise.
    runs: BTreeMap<String, Option<Run>>,
    is_troubled: bool,
    closes: bool,
}

impl<L: Listener> Thread<L> {
    fn run(&mut self) {
        loop {
            let pause = self.open();
            if !self.gather(pause) {
                break;
            }
            if self.database.is_some() && !self.is_idle() {
                self.write();
            }
            if self.closes {
                break;
            }
        }
        for addition in std::mem::take(&mut self.waiting) {
            self.refuse(addition, JobStoreError::Closed);
        }
        self.database = None;
        self.listener.closed();
    }

    /// True if there is nothing to write.
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.carried.is_empty() && self.runs.is_empty()
    }

    /// Opens the file if necessary; returns the pause after which to try again.
    fn open(&mut self) -> Option<Duration> {
        if self.database.is_some() {
            return None;
        }
        match self.opened() {
            Ok((database, found)) => {
                self.database = Some(database);
                self.settle_trouble(None);
                let highest = found.jobs.iter().map(|(_, id, _)| *id).max();
                self.last = self.last.max(highest.unwrap_or(0));
                if !std::mem::replace(&mut self.is_announced, true) {
                    self.listener.opened(found);
                }
                None
            }
            Err(None) => Some(LOCKED_PAUSE),
            Err(Some(error)) => {
                for addition in std::mem::take(&mut self.waiting) {
                    self.refuse(addition, JobStoreError::Failed(error.to_string()));
                }
                self.settle_trouble(Some(error));
                Some(TROUBLE_PAUSE)
            }
        }
    }

    fn settle_trouble(&mut self, error: Option<JobStoreError>) {
        let was_troubled = std::mem::replace(&mut self.is_troubled, error.is_some());
        if was_troubled != error.is_some() {
            self.listener.troubled(error.as_ref());
        }
    }

    /// Opens the database and reads its jobs; `None` as the error: another process has it open.
    fn opened(&self) -> Result<(Database, Found), Option<JobStoreError>> {
        let file = self.file.try_clone().map_err(|e| Some(failed(&e)))?;
        let open = || {
            let backend = FileBackend::new(file)?;
            empty_unless_made(&backend)?;
            Builder::new()
                .set_cache_size(CACHE_BYTES)
                .create_with_backend(backend)
        };
        let database = open().map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => None,
            error => Some(JobStoreError::Failed(error.to_string())),
        })?;
        let found = all(&database).map_err(Some)?;
        Ok((database, found))
    }

    /// Takes the waiting orders, at least one, or none after `pause`; false if there will be no more and nothing is left.
    fn gather(&mut self, pause: Option<Duration>) -> bool {
        let until = pause.map(|pause| Instant::now() + pause);
        loop {
            let is_idle = self.is_idle();
            let order = match until {
                None if is_idle => self
                    .orders
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected),
                None => self.orders.recv_timeout(Duration::ZERO),
                Some(until) => {
                    let left = until.saturating_duration_since(Instant::now());
                    self.orders.recv_timeout(left)
                }
            };
            match order {
                Ok(Order::Add(addition)) => self.waiting.push(*addition),
                Ok(Order::Note(spooler, id, standing)) => {
                    self.carried.insert((spooler, id), Some(standing));
                }
                Ok(Order::Remove(spooler, id)) => {
                    self.carried.insert((spooler, id), None);
                }
                Ok(Order::Ran(schedule, run)) => drop(self.runs.insert(schedule, run)),
                Ok(Order::Load(spooler, id, answer)) => {
                    let loaded = self.load(&spooler, id);
                    // After a failed read the database reads nothing until it is reopened.
                    let is_failed = self.database.is_some() && loaded.is_err();
                    if let (true, Err(error)) = (is_failed, &loaded) {
                        self.database = None;
                        let error = JobStoreError::Failed(error.to_string());
                        self.settle_trouble(Some(error));
                    }
                    // The caller may have gone.
                    let _ = answer.send(loaded);
                    if is_failed {
                        return true;
                    }
                }
                Ok(Order::Close) => {
                    self.closes = true;
                    return true;
                }
                Err(RecvTimeoutError::Timeout) => return true,
                Err(RecvTimeoutError::Disconnected) => {
                    self.closes = true;
                    return self.database.is_some();
                }
            }
            if until.is_none() && self.waiting.len() + self.carried.len() >= MOST_AT_ONCE {
                return true;
            }
        }
    }

    fn load(&self, spooler: &str, id: u64) -> Result<Option<JobRequest>, JobStoreError> {
        let database = self.database.as_ref().ok_or(JobStoreError::Closed)?;
        load(database, spooler, id).map_err(|error| JobStoreError::Failed(error.to_string()))
    }

    /// Writes waiting changes, and answers.
    fn write(&mut self) {
        let Some(database) = &self.database else {
            return;
        };
        let mut wanted = Vec::new();
        for addition in std::mem::take(&mut self.waiting) {
            match addition.answer.is_closed() {
                true => self
                    .listener
                    .settled(&addition.spooler, addition.standing.size, None),
                false => wanted.push(addition),
            }
        }
        let now = crate::clock::now();
        let mut ids = Vec::with_capacity(wanted.len());
        for _ in &wanted {
            self.last = next_id(self.last, now);
            ids.push(self.last);
        }
        match write(database, (&wanted, &ids), &self.carried, &self.runs) {
            Ok(()) => {
                self.carried.clear();
                self.runs.clear();
                self.settle_trouble(None);
                for (addition, id) in wanted.into_iter().zip(ids) {
                    let size = addition.standing.size;
                    let stored = Some((id, addition.standing));
                    self.listener.settled(&addition.spooler, size, stored);
                    let _ = addition.answer.send(Ok(id));
                }
            }
            Err(error) => {
                // After a failed write the database accepts nothing until it is reopened, which finds the last consistent state.
                self.database = None;
                let error = classified(&error);
                for addition in wanted {
                    let again = match &error {
                        JobStoreError::Full(text) => JobStoreError::Full(text.clone()),
                        other => JobStoreError::Failed(other.to_string()),
                    };
                    self.refuse(addition, again);
                }
                self.settle_trouble(Some(error));
                // Not at once: the disk would hardly have recovered.
                self.closes |= !self.gather(Some(TROUBLE_PAUSE));
            }
        }
    }

    fn refuse(&self, addition: Addition, error: JobStoreError) {
        self.listener
            .settled(&addition.spooler, addition.standing.size, None);
        let _ = addition.answer.send(Err(error));
    }
}

/// Empties a file that has no magic number because its creation was interrupted: redb writes that last, once the rest is on disk.
///
/// A router that is killed while it creates the file, or a full disk at that time, leaves such a file. It contains no job, and redb would
/// always refuse it.
fn empty_unless_made(backend: &FileBackend) -> Result<(), DatabaseError> {
    let mut start = [0; 9];
    let len = backend.len()?;
    let read = start.len().min(usize::try_from(len).unwrap_or(usize::MAX));
    backend.read(0, &mut start[..read])?;
    if len > 0 && start.iter().all(|byte| *byte == 0) {
        backend.set_len(0)?;
    }
    Ok(())
}

fn failed(error: &io::Error) -> JobStoreError {
    JobStoreError::Failed(error.to_string())
}

fn classified(error: &redb::Error) -> JobStoreError {
    if let redb::Error::Io(io) = error
        && matches!(
            io.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        )
    {
        return JobStoreError::Full(io.to_string());
    }
    JobStoreError::Failed(error.to_string())
}

/// Reads all jobs; makes the tables of a new file.
fn all(database: &Database) -> Result<Found, JobStoreError> {
    let read = || -> Result<Found, redb::Error> {
        let writing = database.begin_write()?;
        drop(writing.open_table(JOBS)?);
        drop(writing.open_table(STANDINGS)?);
        drop(writing.open_table(RUNS)?);
        writing.commit()?;
        let reading = database.begin_read()?;
        let table = reading.open_table(STANDINGS)?;
        let mut found = Found::default();
        for row in table.iter()? {
            let (key, value) = row?;
            let (spooler, id) = key.value();
            let (attempts, due, failed, error, size) = value.value();
            let standing = JobState {
                attempts,
                due,
                failed,
                error: error.to_owned(),
                size,
            };
            found.jobs.push((spooler.to_owned(), id, standing));
        }
        for row in reading.open_table(RUNS)?.iter()? {
            let (name, value) = row?;
            let (settled, started, ended, error) = value.value();
            let run = Run {
                settled,
                started,
                ended,
                error: error.to_owned(),
            };
            found.runs.push((name.value().to_owned(), run));
        }
        Ok(found)
    };
    read().map_err(|error| classified(&error))
}

fn load(database: &Database, spooler: &str, id: u64) -> Result<Option<JobRequest>, redb::Error> {
    let reading = database.begin_read()?;
    let table = reading.open_table(JOBS)?;
    let Some(row) = table.get((spooler, id))? else {
        return Ok(None);
    };
    let (method, target, fields, body) = row.value();
    let fields = fields
        .iter()
        .map(|(name, value)| (name.to_vec(), value.to_vec()));
    Ok(Some(JobRequest {
        method: method.to_owned(),
        target: target.to_vec(),
        fields: fields.collect(),
        body: body.to_vec(),
    }))
}

/// Makes one transaction, which is on disk when this returns.
fn write(
    database: &Database,
    (additions, ids): (&[Addition], &[u64]),
    changes: &BTreeMap<(String, u64), Change>,
    runs: &BTreeMap<String, Option<Run>>,
) -> Result<(), redb::Error> {
    let writing = database.begin_write()?;
    {
        let mut jobs = writing.open_table(JOBS)?;
        let mut standings = writing.open_table(STANDINGS)?;
        for (addition, id) in additions.iter().zip(ids) {
            let JobRequest {
                method,
                target,
                fields,
                body,
            } = &addition.request;
            let key = (addition.spooler.as_str(), *id);
            let fields = fields
                .iter()
                .map(|(name, value)| (name.as_slice(), value.as_slice()));
            let row = (
                method.as_str(),
                target.as_slice(),
                fields.collect::<Vec<_>>(),
                body.as_slice(),
            );
            jobs.insert(key, row)?;
            standings.insert(key, row_of(&addition.standing))?;
        }
        for ((spooler, id), change) in changes {
            let key = (spooler.as_str(), *id);
            match change {
                Some(standing) => {
                    standings.insert(key, row_of(standing))?;
                }
                None => {
                    jobs.remove(key)?;
                    standings.remove(key)?;
                }
            }
        }
    }
    {
        let mut table = writing.open_table(RUNS)?;
        for (name, run) in runs {
            match run {
                Some(run) => {
                    let row = (run.settled, run.started, run.ended, run.error.as_str());
                    table.insert(name.as_str(), row)?;
                }
                None => {
                    table.remove(name.as_str())?;
                }
            }
        }
    }
    writing.commit()?;
    Ok(())
}

fn row_of(standing: &JobState) -> (u32, Time, Time, &str, u64) {
    (
        standing.attempts,
        standing.due,
        standing.failed,
        standing.error.as_str(),
        standing.size,
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Records the events as text.
    #[derive(Clone)]
    struct Heard(Sender<String>);

    impl Listener for Heard {
        fn opened(&self, found: Found) {
            let found = found
                .jobs
                .iter()
                .map(|(spooler, _, at)| format!("{spooler} {}", at.attempts));
            let _ = self
                .0
                .send(format!("opened {:?}", found.collect::<Vec<_>>()));
        }

        fn settled(&self, spooler: &str, _: u64, stored: Option<(u64, JobState)>) {
            let _ = self
                .0
                .send(format!("settled {spooler} {}", stored.is_some()));
        }

        fn troubled(&self, why: Option<&JobStoreError>) {
            let _ = self.0.send(format!("troubled {}", why.is_some()));
        }

        fn closed(&self) {
            let _ = self.0.send("closed".to_owned());
        }
    }

    struct Opened {
        orders: Sender<Order>,
        heard: Receiver<String>,
    }

    impl Opened {
        fn of(file: File) -> Opened {
            let (sender, heard) = channel();
            let orders = start(file, Heard(sender)).unwrap();
            Opened { orders, heard }
        }

        fn next(&self) -> String {
            self.heard.recv_timeout(Duration::from_secs(60)).unwrap()
        }

        fn add(&self, spooler: &str, body: &[u8]) -> oneshot::Receiver<Result<u64, JobStoreError>> {
            self.add_charged(spooler, body, Box::new(()))
        }

        fn add_charged(
            &self,
            spooler: &str,
            body: &[u8],
            charge: Charge,
        ) -> oneshot::Receiver<Result<u64, JobStoreError>> {
            let (answer, stored) = oneshot::channel();
            let request = JobRequest {
                method: "POST".into(),
                target: b"/a".to_vec(),
                fields: vec![(b"Host".to_vec(), b"b".to_vec())],
                body: body.to_vec(),
            };
            let addition = Addition {
                spooler: spooler.to_owned(),
                request,
                standing: JobState::default(),
                answer,
                _charge: Some(charge),
            };
            self.orders.send(Order::Add(Box::new(addition))).unwrap();
            stored
        }

        fn load(&self, spooler: &str, id: u64) -> Result<Option<JobRequest>, JobStoreError> {
            let (answer, loaded) = oneshot::channel();
            let order = Order::Load(spooler.to_owned(), id, answer);
            self.orders.send(order).unwrap();
            loaded.blocking_recv().unwrap()
        }

        fn close(&self) {
            self.orders.send(Order::Close).unwrap();
            while self.next() != "closed" {}
        }
    }

    fn file(path: &std::path::Path) -> File {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        options.open(path).unwrap()
    }

    #[test]
    fn a_request_is_charged_until_it_is_stored_or_discarded() {
        let folder = tempfile::tempdir().unwrap();
        let store = Opened::of(file(&folder.path().join("jobs")));
        let charge = Arc::new(());
        let stored = store.add_charged("mail", b"a", Box::new(Arc::clone(&charge)));
        stored.blocking_recv().unwrap().unwrap();
        drop(store.add_charged("mail", b"b", Box::new(Arc::clone(&charge))));
        store.close();
        assert_eq!(Arc::strong_count(&charge), 1);
    }

    #[test]
    fn a_file_whose_creation_was_interrupted_is_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs");
        for left in [&[0; 4096][..], &[0; 3]] {
            std::fs::write(&path, left).unwrap();
            let store = Opened::of(file(&path));
            assert_eq!(store.next(), "opened []");
            store.add("mail", b"body").blocking_recv().unwrap().unwrap();
            store.close();
            let store = Opened::of(file(&path));
            assert_eq!(store.next(), "opened [\"mail 0\"]");
            store.close();
        }
        // A foreign file is left unchanged.
        std::fs::write(&path, b"precious text").unwrap();
        let store = Opened::of(file(&path));
        assert_eq!(store.next(), "troubled true");
        store.close();
        assert_eq!(std::fs::read(&path).unwrap(), b"precious text");
    }

    #[test]
    fn stored_jobs_survive_reopening() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs");
        let store = Opened::of(file(&path));
        assert_eq!(store.next(), "opened []");
        let kept = store.add("mail", b"body").blocking_recv().unwrap().unwrap();
        let done = store.add("mail", b"").blocking_recv().unwrap().unwrap();
        assert!(done > kept);
        let standing = JobState {
            attempts: 3,
            ..JobState::default()
        };
        store
            .orders
            .send(Order::Note("mail".into(), kept, standing))
            .unwrap();
        store
            .orders
            .send(Order::Remove("mail".into(), done))
            .unwrap();
        store.close();
        let store = Opened::of(file(&path));
        assert_eq!(store.next(), "opened [\"mail 3\"]");
        let request = store.load("mail", kept).unwrap().unwrap();
        assert_eq!(
            (request.body, request.target),
            (b"body".to_vec(), b"/a".to_vec())
        );
        assert_eq!(store.load("mail", done).unwrap(), None);
        assert_eq!(store.load("other", kept).unwrap(), None);
    }

    #[test]
    fn jobs_wait_while_another_process_has_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs");
        let first = Opened::of(file(&path));
        first.next();
        let second = Opened::of(file(&path));
        let mut stored = second.add("mail", b"");
        let given_up = second.add("mail", b"");
        drop(given_up);
        first.add("mail", b"").blocking_recv().unwrap().unwrap();
        assert!(stored.try_recv().is_err() && second.heard.try_recv().is_err());
        first.close();
        assert_eq!(second.next(), "opened [\"mail 0\"]");
        stored.blocking_recv().unwrap().unwrap();
        // The receiver of the other had been dropped.
        let mut settled = [second.next(), second.next()];
        settled.sort();
        assert_eq!(settled, ["settled mail false", "settled mail true"]);
    }

    #[test]
    fn a_file_that_is_not_a_store_is_reported_and_left_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("jobs");
        std::fs::write(&path, vec![b'x'; 10_000]).unwrap();
        let store = Opened::of(file(&path));
        assert_eq!(store.next(), "troubled true");
        let refused = store.add("mail", b"").blocking_recv().unwrap().unwrap_err();
        assert!(matches!(refused, JobStoreError::Failed(_)), "{refused}");
        store.close();
        assert_eq!(std::fs::read(&path).unwrap(), vec![b'x'; 10_000]);
    }
}
