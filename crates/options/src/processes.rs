//! How many processes an application has, and when they end.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::table::ValueKind;
use crate::{
    Complaints, OptionalLimit, Options, Scalar, Shape, Tree, Typed, Unread, UnreadableValue,
    options, words,
};

/// The most worker threads of an application: half of the numbers that a transport segment has (`spec/wire.md`), as the workers of a
/// restart come up beside those that leave.
pub const MOST_WORKERS: u32 = 2048;

/// The largest number that NGINX Unit takes; what is beyond [`MOST_WORKERS`] is capped.
const LARGEST: i64 = 0x7fff_ffff;

/// The longest time that can be told: 68 years.
const MAX_SECONDS: i64 = 0x7fff_ffff;

options! {
    /// As many processes as are needed, within limits
    #[derive(Copy, Eq)]
    pub struct ScaledProcesses: PROCESSES = "processes" {
        /// Most processes, busy and idle; 2048 divided by `threads` is the most that there can be, also where this number is greater
        max: u32 [kind(ValueKind::Integer(1, LARGEST)), default("1"), unit("processes")],
        /// Idle processes to keep ready
        spare: u32 [kind(ValueKind::Integer(0, LARGEST)), default("0"), unit("processes")],
        /// Time after which an idle process that is not needed is ended
        idle_timeout: Duration [kind(ValueKind::Integer(0, MAX_SECONDS)), default("15"), unit("seconds")],
    }
}

/// `processes` of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// Always so many.
    Fixed(u32),
    /// As many as are needed.
    Scaled(ScaledProcesses),
}

impl Processes {
    /// The most processes there can be.
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

    /// The most processes of so many threads each; at least one.
    pub fn most(threads: NonZeroU32) -> u32 {
        (MOST_WORKERS / threads).max(1)
    }

    /// The same with no more than `most` processes.
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
        /// Time a request may take, waiting included; 0: any
        timeout: OptionalLimit<Duration> [kind(ValueKind::Integer(0, MAX_SECONDS)), default("0"), unit("seconds")],
        /// Time a process that is being replaced or removed may take for the requests it has; 0: any
        drain_timeout: OptionalLimit<Duration> [kind(ValueKind::Integer(0, MAX_SECONDS)), beyond(), default("60"), unit("seconds")],
        /// Time a process may take until it is ready for requests
        start_timeout: Duration [kind(ValueKind::Integer(1, MAX_SECONDS)), default("60"), unit("seconds")],
        /// Resident memory beyond which a process is replaced when its request is done; 0: any
        memory: OptionalLimit<u64> [kind(ValueKind::Size(0, i64::MAX)), beyond(), default("0"), unit("bytes")],
        /// Resident memory beyond which a process is killed; twice `memory` unless given, 0: none
        memory_max: Option<OptionalLimit<u64>> [kind(ValueKind::Size(0, i64::MAX)), beyond(), unit("bytes")],
        /// shared memory is as large as it has to be, and older versions of NGINX Unit alone limit it
        shm: Unread [kind(ValueKind::Size(0, i64::MAX)), ignored(), unit("bytes")],
        /// How many requests may wait for a process, and how long
        queue: Queue [beyond()],
        /// Requests that one event loop has at once, in Ruby connections that an application has taken over in a thread, in Java WebSockets and asynchronous requests for each thread; the runtime's own choice unless given
        concurrency: Option<NonZeroU32> [kind(ValueKind::Integer(1, 65_535)), beyond(), unit("requests")],
    }
}

options! {
    /// How many requests may wait for a process, and how long; others are answered 503 with `Retry-After`
    #[derive(Copy, Eq)]
    pub struct Queue: QUEUE = "queue" {
        /// Requests that may wait
        length: u32 [kind(ValueKind::Integer(0, 1_000_000)), beyond(), default("20000"), unit("requests")],
        /// Time a request may wait; 0: any
        wait: OptionalLimit<Duration> [kind(ValueKind::Integer(0, MAX_SECONDS)), beyond(), default("0"), unit("seconds")],
        /// Run or drop a request whose client leaves while it waits; unless given, one with a safe method (GET, HEAD, OPTIONS, QUERY …) is dropped, and any other is run
        abandoned: Option<Abandoned> [beyond()],
    }
}

words! {
    /// The treatment of a request whose client leaves before a process has begun with it.
    pub enum Abandoned {
        /// It is run as if its client were there.
        Run = "run",
        /// It is dropped, also when its client has only ended its sending side.
        Drop = "drop",
    }
}

impl Limits {
    /// Resident bytes beyond which a process is killed; `None`: it is not.
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
