//! Checks passwords on separate threads, few at a time, because hashing one takes a tenth of a second of a processor on purpose.
//!
//! Sources take turns: a source with many passwords delays only itself, and when the queue is full it loses an entry to a source with
//! fewer.
//!
//! Must never: block a listen thread, let one source keep others from having a password checked, or queue more than a bounded number.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use tokio::sync::oneshot;

use crate::passwords::{PasswordCheck, Remembered};

/// Most passwords in the queue.
const MOST_WAITING: usize = 64;

/// Most of one source in the queue.
const MOST_OF_SOURCE: usize = 8;

/// The queue is full.
#[derive(Debug)]
pub struct Busy;

/// One for the whole server.
#[derive(Debug)]
pub struct PasswordDesk {
    remembered: Option<Remembered>,
    line: Arc<Line>,
}

impl Default for PasswordDesk {
    fn default() -> Self {
        Self {
            remembered: Remembered::new().ok(),
            line: Arc::new(Line::new(processors().div_ceil(2))),
        }
    }
}

/// Called once: each configuration has a desk before it takes that of the former one, and the number is read from the files of a cgroup.
fn processors() -> usize {
    static PROCESSORS: OnceLock<usize> = OnceLock::new();
    *PROCESSORS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// The permits for checks, and the passwords that wait for one.
#[derive(Debug)]
struct Line(Mutex<Waiting>);

#[derive(Debug)]
struct Waiting {
    /// Free permits. There is none while a password waits.
    free: usize,
    /// The sources with waiting passwords, in the order of their turns.
    sources: VecDeque<Source>,
}

/// The waiting passwords of one source, the oldest first; never empty.
#[derive(Debug)]
struct Source {
    key: Box<[u8]>,
    passwords: VecDeque<oneshot::Sender<CheckPermit>>,
}

/// A permit for a check; dropping it passes it to the next in the queue.
#[derive(Debug)]
struct CheckPermit(Option<Arc<Line>>);

impl Drop for CheckPermit {
    fn drop(&mut self) {
        if let Some(line) = self.0.take() {
            line.pass_on();
        }
    }
}

impl Line {
    fn new(places: usize) -> Self {
        Self(Mutex::new(Waiting {
            free: places,
            sources: VecDeque::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Each change leaves it consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gets a permit, at once or in turn.
    async fn enter(self: &Arc<Self>, source: &[u8]) -> Result<CheckPermit, Busy> {
        let turn = {
            let mut waiting = self.lock();
            if waiting.free > 0 {
                waiting.free -= 1;
                return Ok(CheckPermit(Some(Arc::clone(self))));
            }
            waiting.join(source)?
        };
        // The sender is dropped if another source gets the entry in the queue.
        turn.await.map_err(|_| Busy)
    }

    /// Passes a free permit to the next in the queue.
    fn pass_on(self: Arc<Self>) {
        let mut waiting = self.lock();
        let mut place = CheckPermit(Some(Arc::clone(&self)));
        while let Some(next) = waiting.next() {
            match next.send(place) {
                Ok(()) => return,
                // Its client has disconnected.
                Err(back) => place = back,
            }
        }
        waiting.free += 1;
        place.0 = None;
    }
}

impl Waiting {
    /// Adds a password to the queue.
    fn join(&mut self, source: &[u8]) -> Result<oneshot::Receiver<CheckPermit>, Busy> {
        for one in &mut self.sources {
            one.passwords.retain(|password| !password.is_closed());
        }
        self.sources.retain(|one| !one.passwords.is_empty());
        let lengths = || self.sources.iter().map(|one| one.passwords.len());
        let all: usize = lengths().sum();
        let longest = lengths().max().unwrap_or(0);
        let own = self.sources.iter().position(|one| *one.key == *source);
        let of_own = own.and_then(|own| self.sources.get(own));
        let own_length = of_own.map_or(0, |own| own.passwords.len());
        if own_length >= MOST_OF_SOURCE {
            return Err(Busy);
        }
        if all >= MOST_WAITING {
            // Without a difference of two, sources with one password each would take turns in displacing each other.
            if longest < own_length + 2 {
                return Err(Busy);
            }
            let mut sources = self.sources.iter_mut();
            if let Some(source) = sources.find(|one| one.passwords.len() == longest) {
                source.passwords.pop_back();
            }
        }
        let (sender, receiver) = oneshot::channel();
        match own.and_then(|own| self.sources.get_mut(own)) {
            Some(own) => own.passwords.push_back(sender),
            None => self.sources.push_back(Source {
                key: source.into(),
                passwords: VecDeque::from([sender]),
            }),
        }
        Ok(receiver)
    }

    /// Removes the next password from the queue; its source goes to the end.
    fn next(&mut self) -> Option<oneshot::Sender<CheckPermit>> {
        let mut source = self.sources.pop_front()?;
        let next = source.passwords.pop_front();
        if !source.passwords.is_empty() {
            self.sources.push_back(source);
        }
        next
    }
}

impl PasswordDesk {
    /// True if the password is right. Needs a tokio runtime, whose blocking threads it uses. `source` is the client as limits count it: an
    /// IPv4 address, or an IPv6 network of 64 bits.
    pub async fn ask(
        &self,
        name: &str,
        question: PasswordCheck,
        source: &[u8],
    ) -> Result<bool, Busy> {
        let remembered = self.remembered.as_ref();
        let tag = remembered.map(|remembered| remembered.tag(name, &question));
        if let (Some(remembered), Some(tag)) = (remembered, tag)
            && remembered.knows(tag, Instant::now())
        {
            return Ok(true);
        }
        let place = self.line.enter(source).await?;
        // If the client disconnects, the hash is still being computed, so its permit is held until that ends.
        let looking = tokio::task::spawn_blocking(move || {
            let is_right = question.answer();
            drop(place);
            is_right
        });
        let is_right = looking.await.unwrap_or(false);
        if is_right && let (Some(remembered), Some(tag)) = (remembered, tag) {
            remembered.note(tag, Instant::now());
        }
        Ok(is_right)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Turn = oneshot::Receiver<CheckPermit>;

    fn full() -> Arc<Line> {
        Arc::new(Line::new(0))
    }

    fn join(line: &Line, source: &str) -> Option<Turn> {
        line.lock().join(source.as_bytes()).ok()
    }

    /// The numbers of those that have got a permit, which they keep.
    fn served(turns: &mut [Turn]) -> Vec<usize> {
        let ready = turns.iter_mut().enumerate();
        let ready = ready.filter_map(|(number, turn)| match turn.try_recv() {
            Ok(place) => {
                std::mem::forget(place);
                Some(number)
            }
            Err(_) => None,
        });
        ready.collect()
    }

    #[test]
    fn sources_take_turns() {
        let line = full();
        let mut turns: Vec<Turn> = (0..8).filter_map(|_| join(&line, "many")).collect();
        assert!(join(&line, "many").is_none());
        turns.extend(join(&line, "one"));
        Arc::clone(&line).pass_on();
        assert_eq!(served(&mut turns), [0]);
        Arc::clone(&line).pass_on();
        assert_eq!(served(&mut turns), [8]);
    }

    #[test]
    fn a_source_with_fewer_gets_a_waiting_place_of_one_with_more() {
        let line = full();
        let mut turns = Vec::new();
        for source in 0..8 {
            for _ in 0..8 {
                turns.extend(join(&line, &format!("source {source}")));
            }
        }
        assert_eq!(turns.len(), MOST_WAITING);
        let latecomer = join(&line, "latecomer").expect("the longest line gives way");
        let lost = turns.iter_mut().filter_map(|turn| turn.try_recv().err());
        let lost = lost.filter(|why| *why == oneshot::error::TryRecvError::Closed);
        assert_eq!(lost.count(), 1);
        drop(latecomer);
    }

    #[test]
    fn sources_with_one_password_do_not_drive_each_other_out() {
        let line = full();
        let join = |number: usize| join(&line, &number.to_string());
        let turns: Vec<Turn> = (0..MOST_WAITING).filter_map(join).collect();
        assert_eq!(turns.len(), MOST_WAITING);
        assert!(join(MOST_WAITING).is_none());
        drop(turns);
        // Those whose clients have disconnected take no permit.
        assert!(join(MOST_WAITING).is_some());
    }

    #[test]
    fn a_place_comes_back_where_nothing_waits() {
        let line = Arc::new(Line::new(1));
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        runtime.unwrap().block_on(async {
            let place = line.enter(b"a").await.unwrap();
            assert_eq!(line.lock().free, 0);
            let gone = join(&line, "b");
            drop(gone);
            drop(place);
            assert_eq!(line.lock().free, 1);
        });
    }
}
