//! The number of processes of an application, and when they end.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::table::ValueKind;
use crate::{
    Complaints, OptionalLimit, Options, Scalar, Shape, Tree, Typed, Unread, UnreadableValue,
    options, words,
};

/// Maximum worker threads of an application: half of the numbers of a transport segment (`spec/wire.md`), because
/// during a restart the new workers run beside the old ones.
pub const MOST_WORKERS: u32 = 2048;

/// The largest number that NGINX Unit accepts; values beyond [`MOST_WORKERS`] are capped.
const LARGEST: i64 = 0x7fff_ffff;

/// The longest time that an option can express: 68 years.
const MAX_SECONDS: i64 = 0x7fff_ffff;

options! {
    /// Processes scaled to demand, within limits
    #[derive(Copy, Eq)]
    pub struct ScaledProcesses: PROCESSES = "processes" {
        /// Maximum processes, busy and idle; capped at 2048 divided by `threads`
        max: u32 [kind(ValueKind::Integer(1, LARGEST)), default("1"), unit("processes")],
        /// Idle processes to keep ready
        spare: u32 [kind(ValueKind::Integer(0, LARGEST)), default("0"), unit("processes")],
        /// Time after which an unneeded idle process is terminated
        idle_timeout: Duration [kind(ValueKind::Integer(0, MAX_SECONDS)), default("15"), unit("seconds")],
    }
}

/// `processes` of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// A fixed number.
    Fixed(u32),
    /// Scaled to demand.
    Scaled(ScaledProcesses),
}

impl Processes {
    /// The maximum number of processes.
    pub fn max(&self) -> u32 {
        match self {
            Processes::Fixed(count) => *count,
            Processes::Scaled(scaled) => scaled.max,
        }
    }

    /// The processes that must be ready before the application counts as started.
    pub fn initial(&self) -> u32 {
        match self {
            Processes::Fixed(count) => *count,
            Processes::Scaled(scaled) => scaled.spare.min(scaled.max),
        }
    }

    /// The maximum number of processes with so many threads each; at least one.
    pub fn most(threads: NonZeroU32) -> u32 {
        (MOST_WORKERS / threads).max(1)
    }

    /// The same with at most `most` processes.
    #[must_use]
    pub fn capped(self, most: u32) -> Self {
        match self {
            Processes::Fixed(count) => Processes::Fixed(count.min(most)),
            Processes::Scaled(scaled) => Processes::Scaled(ScaledProcesses {
                max: scaled.max.min(most),
                spare: scaled.spare.min(most),
                ..scaled
            }),
        }
    }

    pub(crate) fn check(&self, complaints: &mut Complaints<'_>) {
        if let Processes::Scaled(ScaledProcesses { max, spare, .. }) = self
            && spare > max
        {
            let message =
                format!("{spare} spare processes are more than the {max} there can be (`max`)");
            complaints.value("processes/spare", message);
        }
    }
}

impl Typed for Processes {
    const KIND: ValueKind =
        ValueKind::OneOf(&[ValueKind::Integer(1, LARGEST), ScaledProcesses::KIND]);
    const SHAPE: Shape = Shape::Any;

    fn read<'t>(tree: impl Tree<'t>) -> Option<Self> {
        match tree.scalar() {
            Scalar::Object => Some(Processes::Scaled(ScaledProcesses::of(Some(tree)))),
            _ => u32::read(tree).map(Processes::Fixed),
        }
    }

    fn missing() -> Self {
        Processes::Fixed(1)
    }

    fn unreadable<'t>(tree: impl Tree<'t>, kind: &ValueKind) -> Option<UnreadableValue> {
        match tree.scalar() {
            Scalar::Object => ScaledProcesses::unreadable(tree, kind),
            _ => u32::unreadable(tree, kind),
        }
    }

    fn json(&self) -> Option<serde_json::Value> {
        match self {
            Processes::Fixed(count) => count.json(),
            Processes::Scaled(scaled) => scaled.json(),
        }
    }
}

options! {
    /// When a process or a request is ended
    #[derive(Eq)]
    pub struct Limits: LIMITS = "limits" {
        /// Requests after which a process is replaced; 0: never
        requests: OptionalLimit<u64> [default("0"), unit("requests")],
        /// Time a request may take, including waiting for a process, but not the upload of a buffered body; 0: no limit
        timeout: OptionalLimit<Duration> [kind(ValueKind::Integer(0, MAX_SECONDS)), default("0"), unit("seconds")],
        /// Time a process that is being replaced, also at `requests`, or removed may take to finish its requests; 0: no limit
        drain_timeout: OptionalLimit<Duration> [kind(ValueKind::Integer(0, MAX_SECONDS)), beyond(), default("60"), unit("seconds")],
        /// Time a process may take until it is ready for requests
        start_timeout: Duration [kind(ValueKind::Integer(1, MAX_SECONDS)), default("60"), unit("seconds")],
        /// Resident memory beyond which a process is replaced once its request is done; 0: no limit
        memory: OptionalLimit<u64> [kind(ValueKind::Size(0, i64::MAX)), beyond(), default("0"), unit("bytes")],
        /// Resident memory beyond which a process is killed, by default twice `memory`; 0: no limit
        memory_max: Option<OptionalLimit<u64>> [kind(ValueKind::Size(0, i64::MAX)), beyond(), unit("bytes")],
        /// the size of shared memory is chosen automatically, and only older versions of NGINX Unit limit it
        shm: Unread [kind(ValueKind::Size(0, i64::MAX)), ignored(), unit("bytes")],
        /// Number of requests that may wait for a process, and for how long
        queue: Queue [beyond()],
        /// Concurrent requests of one event loop; in Ruby, connections that an application has taken over in a thread;
        /// in Java, WebSockets and asynchronous requests of each thread. By default the runtime decides
        concurrency: Option<NonZeroU32> [kind(ValueKind::Integer(1, 65_535)), beyond(), unit("requests")],
    }
}

options! {
    /// Number of requests that may wait for a process, and for how long; others get 503 with `Retry-After`
    #[derive(Copy, Eq)]
    pub struct Queue: QUEUE = "queue" {
        /// Requests that may wait
        length: u32 [kind(ValueKind::Integer(0, 1_000_000)), beyond(), default("20000"), unit("requests")],
        /// Time a request may wait; 0: no limit
        wait: OptionalLimit<Duration> [kind(ValueKind::Integer(0, MAX_SECONDS)), beyond(), default("0"), unit("seconds")],
        /// Run or drop a request whose client disconnects while it waits; by default, requests with a safe method (GET,
        /// HEAD, OPTIONS, QUERY …) are dropped, and others are run
        abandoned: Option<Abandoned> [beyond()],
    }
}

words! {
    /// The treatment of a request whose client disconnects before a process has started on it.
    pub enum Abandoned {
        /// It is run as if the client were still connected.
        Run = "run",
        /// It is dropped, even if the client has only closed its sending side.
        Drop = "drop",
    }
}

impl Limits {
    /// Resident bytes beyond which a process is killed; `None`: no limit.
    pub fn kill_above(&self) -> Option<u64> {
        match self.memory_max {
            Some(OptionalLimit(given)) => given,
            None => self.memory.0.map(|bytes| bytes.saturating_mul(2)),
        }
    }

    pub(crate) fn check(&self, complaints: &mut Complaints<'_>) {
        if let (OptionalLimit(Some(soft)), Some(OptionalLimit(Some(hard)))) =
            (self.memory, self.memory_max)
            && hard < soft
        {
            complaints.value(
                "limits/memory_max",
                format!(
                    "a process would be killed at {hard} bytes, before it is replaced at {soft} (`memory`)"
                ),
            );
        }
    }
}
