//! The counters of `/status` and the metrics: one set for each listen thread, summed on request.
//!
//! Only the owning thread writes its set, so an increment is a plain load and store (no locked instruction); any thread may read. A
//! counter is raised before the first byte of the answer it counts is sent, so it is right by the time that client can ask.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tutti_metrics::{Classes, Counter, PerThread};

/// The counters of one listen thread, alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ThreadCounters {
    /// Connections taken from a listener.
    pub accepted: Counter,
    /// Connections that have ended.
    pub closed: Counter,
    /// Connections waiting for a request.
    pub idle: Counter,
    /// Requests whose head has been read.
    pub requests: Counter,
    /// Connections this thread holds now, used to balance threads.
    pub open: AtomicU64,
    /// Bytes received from clients.
    pub received: Counter,
    /// Bytes sent to clients.
    pub sent: Counter,
}

thread_local! {
    /// The counters of this thread, for the sockets, which have no other reference to them.
    static OWN: OnceCell<Arc<ThreadCounters>> = const { OnceCell::new() };
}

/// Sets the counters for the bytes of clients' sockets on this thread.
pub fn enter(counters: &Arc<ThreadCounters>) {
    // A thread has the same set for its whole life.
    let _ = OWN.with(|own| own.set(Arc::clone(counters)));
}

/// Counts received bytes.
pub(crate) fn note_received(bytes: usize) {
    OWN.with(|own| {
        if let Some(own) = own.get() {
            own.received.add(bytes as u64);
        }
    });
}

/// Counts sent bytes.
pub(crate) fn note_sent(bytes: usize) {
    OWN.with(|own| {
        if let Some(own) = own.get() {
            own.sent.add(bytes as u64);
        }
    });
}

/// Counts an event of the kind with this number.
fn count(counters: &[AtomicU64], kind: usize) {
    if let Some(counter) = counters.get(kind) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

/// Pairs each kind of event with its number of events.
fn counted<T, const N: usize>(
    kinds: [T; N],
    counters: &[AtomicU64; N],
) -> impl Iterator<Item = (T, u64)> {
    let counts = counters.iter();
    kinds
        .into_iter()
        .zip(counts.map(|count| count.load(Ordering::Relaxed)))
}

/// Why a TLS handshake failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoTls {
    /// The client took too long.
    Timeout,
    /// The client disconnected during the handshake.
    Closed,
    /// The client speaks HTTP without TLS.
    Plain,
    /// Invalid records, or no common parameters.
    Protocol,
}

impl NoTls {
    /// All reasons.
    pub const ALL: [NoTls; 4] = [Self::Timeout, Self::Closed, Self::Plain, Self::Protocol];

    /// Its label in the metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Closed => "closed",
            Self::Plain => "plain",
            Self::Protocol => "protocol",
        }
    }
}

/// The end of a connection that is not read as HTTP from its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamOutcome {
    /// It was passed to a server.
    Passed,
    /// TLS was terminated here.
    Terminated,
    /// A step closed it, or none matched.
    Closed,
    /// Its first bytes were no complete TLS message, and a step needed one.
    Invalid,
    /// No server accepted it.
    Failed,
}

impl StreamOutcome {
    /// All of them.
    pub const ALL: [StreamOutcome; 5] = [
        Self::Passed,
        Self::Terminated,
        Self::Closed,
        Self::Invalid,
        Self::Failed,
    ];

    /// Its name in the status and the metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Terminated => "terminated",
            Self::Closed => "closed",
            Self::Invalid => "invalid",
            Self::Failed => "failed",
        }
    }
}

/// The connections of a listener that are not read as HTTP from their beginning.
#[derive(Debug, Default)]
pub struct StreamCounters {
    outcomes: [AtomicU64; StreamOutcome::ALL.len()],
    /// Connections that are being passed on.
    pub open: AtomicU64,
    /// Bytes that clients have sent to servers.
    pub received: AtomicU64,
    /// Bytes that servers have sent to clients.
    pub sent: AtomicU64,
    dropped: [AtomicU64; DatagramDrop::ALL.len()],
}

/// Why a datagram was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramDrop {
    /// It is of a new client, and there are as many sessions as there may be, for all clients or for this one.
    Sessions,
    /// It is too long.
    Size,
    /// It could not be sent: the socket was full, or too many waited for a server.
    Unsent,
}

impl DatagramDrop {
    /// All reasons.
    pub const ALL: [DatagramDrop; 3] = [Self::Sessions, Self::Size, Self::Unsent];

    /// Its name in the status and the metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Sessions => "sessions",
            Self::Size => "size",
            Self::Unsent => "unsent",
        }
    }
}

impl StreamCounters {
    /// Counts a connection whose destination is known.
    pub fn note(&self, outcome: StreamOutcome) {
        count(&self.outcomes, outcome as usize);
    }

    /// Counts a datagram that was dropped.
    pub fn note_dropped(&self, reason: DatagramDrop) {
        count(&self.dropped, reason as usize);
    }

    /// Datagrams that were dropped, by reason.
    pub fn dropped(&self) -> impl Iterator<Item = (DatagramDrop, u64)> + '_ {
        counted(DatagramDrop::ALL, &self.dropped)
    }

    /// Connections by outcome.
    pub fn outcomes(&self) -> impl Iterator<Item = (StreamOutcome, u64)> + '_ {
        counted(StreamOutcome::ALL, &self.outcomes)
    }
}

/// The counters of a listener. Those of connections are shared: compared with the cost of a connection, a shared cache line is negligible.
#[derive(Debug)]
pub struct ListenerCounters {
    /// Connections taken from it.
    pub accepted: AtomicU64,
    /// Connections closed at once because their client had too many.
    pub refused: AtomicU64,
    /// TLS handshakes that succeeded.
    pub handshakes: AtomicU64,
    no_tls: [AtomicU64; NoTls::ALL.len()],
    /// Requests over it.
    pub requests: PerThread<Classes>,
    /// Connections that are not read as HTTP.
    pub streams: StreamCounters,
}

impl ListenerCounters {
    pub(crate) fn new(threads: usize) -> Self {
        Self {
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            handshakes: AtomicU64::new(0),
            no_tls: Default::default(),
            requests: PerThread::new(threads),
            streams: StreamCounters::default(),
        }
    }

    /// Counts a handshake that failed.
    pub fn note_no_tls(&self, reason: NoTls) {
        count(&self.no_tls, reason as usize);
    }

    /// Handshakes that failed, by reason.
    pub fn no_tls(&self) -> impl Iterator<Item = (NoTls, u64)> + '_ {
        counted(NoTls::ALL, &self.no_tls)
    }
}

/// Sums over all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionTotals {
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Connections with a request in progress.
    pub active: u64,
    /// Connections waiting for their next (or first) request.
    pub idle: u64,
    /// Connections closed since the start.
    pub closed: u64,
    /// Requests read since the start.
    pub requests: u64,
    /// Bytes received from clients.
    pub received: u64,
    /// Bytes sent to clients.
    pub sent: u64,
}

impl ConnectionTotals {
    /// Adds up the counters of all threads.
    pub fn sum<'a>(threads: impl Iterator<Item = &'a ThreadCounters>) -> Self {
        let mut totals = Self::default();
        for thread in threads {
            // `closed` first and `accepted` last, so that every connection counted as closed is counted as accepted.
            totals.closed += thread.closed.get();
            totals.idle += thread.idle.get();
            totals.requests += thread.requests.get();
            totals.received += thread.received.get();
            totals.sent += thread.sent.get();
            totals.accepted += thread.accepted.get();
        }
        totals.active = totals
            .accepted
            .saturating_sub(totals.closed)
            .saturating_sub(totals.idle);
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_connections_are_neither_closed_nor_idle() {
        let threads = [ThreadCounters::default(), ThreadCounters::default()];
        threads[0].accepted.add(5);
        threads[1].accepted.add(2);
        threads[0].idle.add(3);
        threads[0].idle.subtract(1);
        threads[1].closed.add(1);
        threads[1].requests.add(9);
        let totals = ConnectionTotals::sum(threads.iter());
        assert_eq!(
            totals,
            ConnectionTotals {
                accepted: 7,
                active: 4,
                idle: 2,
                closed: 1,
                requests: 9,
                received: 0,
                sent: 0,
            }
        );
    }
}
