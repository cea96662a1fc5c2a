//! State that an application's listen-thread side and its supervisor share.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

use crate::counters::Tally;
use crate::failure::StartFailure;
use crate::spec::AppSpec;
use crate::stack_replies::Answers;
use crate::waiting::Waiting;

/// State that outlives a segment.
pub(crate) struct Shared {
    pub(crate) name: Arc<str>,
    /// Numbers and limits in it may change while it runs.
    pub(crate) spec: ArcSwap<AppSpec>,
    pub(crate) waiting: Waiting,
    pub(crate) signal: Signal,
    pub(crate) counters: Counters,
    /// Where slow workers are in their code.
    pub(crate) answers: Arc<Answers>,
    /// Counts of this application and of former ones with its name.
    pub(crate) tally: Arc<Tally>,
    /// The running processes.
    processes: Mutex<Vec<Process>>,
    admission: AtomicU8,
    /// The host starts a program in each worker, which the configuration does not show: `env node`.
    starts_programs: AtomicBool,
    failure: Mutex<Option<Arc<StartFailure>>>,
}

/// A process of the application.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    /// Its workers' numbers in the current segment; empty for a process of an older one.
    pub(crate) numbers: Range<u32>,
}

/// Written by the supervisor, read by `/status`.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) running: AtomicU32,
    pub(crate) starting: AtomicU32,
    /// Processes stopped by a signal.
    pub(crate) stopped: AtomicU32,
    /// A worker has been ready for requests.
    pub(crate) started: AtomicBool,
    pub(crate) restarts: AtomicU64,
    /// Failed starts.
    pub(crate) failures: AtomicU64,
    /// Accepted requests.
    pub(crate) requests: AtomicU64,
}

/// The admission of new requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Admit {
    /// They are.
    Open = 0,
    /// No worker is running and none could be started.
    Failing = 1,
    /// The application has stopped.
    Stopped = 2,
}

impl Shared {
    pub(crate) fn new(spec: Arc<AppSpec>, tally: Arc<Tally>) -> Self {
        Shared {
            name: Arc::clone(&spec.name),
            spec: ArcSwap::new(spec),
            waiting: Waiting::default(),
            signal: Signal::default(),
            counters: Counters::default(),
            answers: Arc::default(),
            tally,
            processes: Mutex::default(),
            admission: AtomicU8::new(Admit::Open as u8),
            starts_programs: AtomicBool::new(false),
            failure: Mutex::default(),
        }
    }

    /// That of an application of tests.
    #[cfg(test)]
    pub(crate) fn sample() -> Arc<Shared> {
        let spec = AppSpec {
            name: "app".into(),
            kind: "sample".to_owned(),
            version: String::new(),
            pointer: "/applications/app".to_owned(),
            common: tutti_options::application::Common::default(),
            special: tutti_options::types::Special::Perl(tutti_options::perl::Perl::default()),
            max_body_size: crate::DEFAULT_MAX_BODY_SIZE,
            spool: std::env::temp_dir().into(),
        };
        Arc::new(Shared::new(Arc::new(spec), Arc::new(Tally::new(1))))
    }

    /// Counts a process that was replaced after it had died.
    pub(crate) fn note_restart(&self) {
        self.counters.restarts.fetch_add(1, Ordering::Relaxed);
        self.tally.restarts.fetch_add(1, Ordering::Relaxed);
    }

    /// The running processes, set by the supervisor.
    pub(crate) fn processes(&self) -> MutexGuard<'_, Vec<Process>> {
        // It is only replaced as a whole.
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Their process ids.
    pub(crate) fn pids(&self) -> Vec<i32> {
        let processes = self.processes();
        processes.iter().map(|process| process.pid).collect()
    }

    /// Notes that the workers start programs, as the host reports.
    pub(crate) fn note_programs(&self) {
        self.starts_programs.store(true, Ordering::Relaxed);
    }

    /// True if each worker starts the actual application, as configured or as reported by the host.
    pub(crate) fn starts_programs(&self) -> bool {
        self.spec.load().special.is_relayed() || self.starts_programs.load(Ordering::Relaxed)
    }

    pub(crate) fn admission(&self) -> Admit {
        match self.admission.load(Ordering::Acquire) {
            0 => Admit::Open,
            1 => Admit::Failing,
            _ => Admit::Stopped,
        }
    }

    pub(crate) fn set_admission(&self, admit: Admit) {
        self.admission.store(admit as u8, Ordering::Release);
        if admit != Admit::Open {
            self.waiting.wake_all();
        }
    }

    /// Stores the last failed start, for `/status` and for the requests that are refused because of it.
    pub(crate) fn set_failure(&self, failure: Option<StartFailure>) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = failure.map(Arc::new);
    }

    /// The reason given to requests that are refused because nothing can be started.
    pub(crate) fn failure_text(&self) -> Arc<str> {
        match self.failure() {
            Some(failure) => failure.to_string().into(),
            None => Arc::from("the application cannot be started"),
        }
    }

    pub(crate) fn failure(&self) -> Option<Arc<StartFailure>> {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Wakes the supervisor, at most once between two of its rounds.
///
/// While it is awake it checks at short intervals, so a request does not wake it; only the first one after a quiet time does.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    touched: AtomicBool,
    awake: AtomicBool,
    pressed: AtomicBool,
    notify: Notify,
}

impl Signal {
    /// Notes a request. Two loads while the supervisor is awake.
    pub(crate) fn arm(&self) {
        if !self.touched.load(Ordering::Relaxed) {
            self.touched.store(true, Ordering::Relaxed);
        }
        if !self.awake.load(Ordering::SeqCst) && !self.awake.swap(true, Ordering::SeqCst) {
            self.notify.notify_one();
        }
    }

    /// Called when a request finds no free worker: wakes the supervisor, which may start one, once until it calls
    /// [`unpress`](Self::unpress).
    pub(crate) fn press(&self) {
        if !self.pressed.load(Ordering::SeqCst) && !self.pressed.swap(true, Ordering::SeqCst) {
            self.notify.notify_one();
        }
    }

    /// Allows the next [`press`](Self::press).
    pub(crate) fn unpress(&self) {
        self.pressed.store(false, Ordering::SeqCst);
    }

    /// Wakes the supervisor in any case.
    pub(crate) fn raise(&self) {
        self.notify.notify_one();
    }

    /// True if there were requests since the last call.
    pub(crate) fn was_touched(&self) -> bool {
        self.touched.swap(false, Ordering::Relaxed)
    }

    /// Called when the supervisor stops checking at intervals: the next request must wake it. It must check once more after this.
    pub(crate) fn disarm(&self) {
        self.awake.store(false, Ordering::SeqCst);
    }

    /// Called when the supervisor begins to check at intervals.
    pub(crate) fn set_awake(&self) {
        self.awake.store(true, Ordering::Relaxed);
    }

    pub(crate) async fn raised(&self) {
        self.notify.notified().await;
    }
}
