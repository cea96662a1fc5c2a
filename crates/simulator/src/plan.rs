//! The plan of a run, all of it from the seed: the size of the application, the requests, and the faults.

use std::time::Duration;

use tutti_simulated::{Chances, Random};

/// The largest body of a response, beyond the ring.
const LARGEST: u64 = 150_000;

/// Once in how many turns a window of fine steps begins. A run that is one window takes twenty times as long for each request, and has fewer.
const WINDOWS: [u32; 20] = [
    1, 200, 500, 500, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 1000, 3000, 3000, 3000, 3000, 3000,
    3000, 3000, 3000,
];

/// The parts of a run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) chances: Chances,
    pub(crate) listen_threads: u32,
    pub(crate) cores: u32,
    pub(crate) processes: u32,
    /// Requests that a worker serves at once, if it has an event loop.
    pub(crate) event_loop: Option<u32>,
    /// The number of processes follows the load.
    pub(crate) is_scaled: bool,
    pub(crate) clients: u32,
    pub(crate) requests: u64,
    /// `limits.timeout`.
    pub(crate) timeout: Option<Duration>,
    /// `limits.queue.wait`.
    pub(crate) queue_wait: Option<Duration>,
    /// `limits.queue.length`.
    pub(crate) queue_length: u32,
    /// `limits.requests`.
    pub(crate) request_limit: Option<u64>,
    pub(crate) faults: Faults,
    /// Rounds that a worker spins before it sleeps.
    pub(crate) spin: u32,
}

/// The faults of a run: each happens once in so many requests or turns; 0: never.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// A request whose worker dies with it.
    pub(crate) deadly: u32,
    /// A worker is killed at any step.
    pub(crate) kills: u32,
    /// A worker or a prototype is killed while nothing else happens.
    pub(crate) prototype_kills: u32,
    /// A worker does not run for a while.
    pub(crate) stops: u32,
    /// A thread of the router does not run for a while.
    pub(crate) thread_stops: u32,
    /// The clock jumps.
    pub(crate) jumps: u32,
    /// A client goes before it has its response.
    pub(crate) impatient: u32,
    /// A client reads slowly.
    pub(crate) slow: u32,
    /// The application is restarted.
    pub(crate) restarts: u32,
    /// The application's numbers and limits change.
    pub(crate) changes: u32,
    /// A worker or a prototype does not start.
    pub(crate) failed_starts: u32,
    /// A request is never answered by its worker.
    pub(crate) hangs: u32,
    /// A worker writes anything into the words that it shares with the router.
    pub(crate) garbage: u32,
    /// A worker ends a response twice.
    pub(crate) twice: u32,
    /// A client sends a part of a body, and goes.
    pub(crate) cut: u32,
    /// Another router takes over, with processes of its own.
    pub(crate) upgrades: u32,
    /// The disk under the spool is full for a while.
    pub(crate) full_disk: u32,
    /// No descriptor can be made for a while.
    pub(crate) no_descriptors: u32,
}

impl Plan {
    pub(crate) fn of(seed: u64) -> Plan {
        let mut random = Random::new(seed);
        let random = &mut random;
        // Most runs have few faults, so that each meets an otherwise ordinary server.
        let mut fault = |of: u32, most: u64| match random.once_in(of) {
            true => random.scaled(most / 20 + 2, most) as u32,
            false => 0,
        };
        let mut faults = Faults {
            deadly: fault(3, 400),
            kills: fault(4, 20_000),
            prototype_kills: fault(6, 100_000),
            stops: fault(4, 10_000),
            thread_stops: fault(4, 20_000),
            jumps: fault(6, 40_000),
            impatient: fault(2, 200),
            slow: fault(3, 100),
            restarts: fault(6, 40_000),
            changes: fault(6, 40_000),
            failed_starts: fault(8, 20),
            hangs: fault(8, 2_000),
            garbage: fault(10, 20_000),
            twice: fault(16, 2_000),
            cut: fault(6, 20),
            upgrades: fault(6, 40_000),
            full_disk: fault(6, 20_000),
            no_descriptors: fault(6, 40_000),
        };
        let mut timeout = random
            .once_in(3)
            .then(|| Duration::from_millis(random.scaled(20, 5_000)));
        if faults.garbage > 0 || faults.twice > 0 {
            // A request whose counters are damaged stalls until its deadline.
            timeout = timeout.or(Some(Duration::from_secs(2)));
        }
        if timeout.is_none() {
            // Nothing would ever end them.
            faults.hangs = 0;
        }
        let windows = *random.pick(&WINDOWS).unwrap_or(&1);
        Plan {
            seed,
            chances: Chances {
                windows,
                most_accesses: *random.pick(&[4, 4, 40, 400]).unwrap_or(&40),
                events: *random.pick(&[8, 64, 64, 64]).unwrap_or(&8),
                most_nanoseconds: *random.pick(&[300, 3_000, 30_000]).unwrap_or(&300),
                spurious: *random.pick(&[0, 0, 50, 1000]).unwrap_or(&0),
            },
            listen_threads: 1 + random.below(3) as u32,
            cores: 1 + random.below(3) as u32,
            processes: 1 + random.below(4) as u32,
            event_loop: random.once_in(3).then(|| random.scaled(1, 12) as u32),
            is_scaled: random.once_in(3),
            clients: random.scaled(1, 60) as u32,
            requests: match windows {
                1 => 200 + random.scaled(1, 500),
                _ => 2_000 + random.scaled(1, 20_000),
            },
            timeout,
            queue_wait: random
                .once_in(6)
                .then(|| Duration::from_millis(random.scaled(5, 1_000))),
            queue_length: match random.once_in(4) {
                true => random.scaled(1, 40) as u32,
                false => 20_000,
            },
            request_limit: random.once_in(4).then(|| 5 + random.below(1_000)),
            faults,
            spin: *random.pick(&[0, 0, 4, 32]).unwrap_or(&0),
        }
    }
}

impl Plan {
    /// True if a worker may damage what it shares with others: then any response may be wrong, but not the router.
    pub(crate) fn is_damaged(&self) -> bool {
        self.faults.garbage > 0 || self.faults.twice > 0
    }
}

/// The way in which a worker serves a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// It answers at once.
    Answer,
    /// It sets the head, waits, and ends without a flush.
    Ponder,
    /// It sends the head first, then the body in parts.
    Stream,
    /// An interim response comes first, then [`Act::Ponder`].
    Hint,
    /// It reads the body and sends it back.
    Echo,
    /// It aborts.
    Abort,
    /// It aborts after it has sent the head.
    AbortLate,
    /// Its process dies before it has sent anything.
    Die,
    /// Its process dies after it has set the head, which it has not sent.
    DieAtHead,
    /// Its process dies after it has sent the head.
    DieLate,
    /// It never answers.
    Hang,
    /// It leaves the request to another worker, once, and ends.
    Leave,
}

/// The way in which a client sends the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    Not,
    Inline,
    Spooled,
    Streamed,
}

/// The plan of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) act: Act,
    /// Bytes of the response's body, or of the request's that is sent back.
    pub(crate) length: usize,
    pub(crate) sent: Sent,
    /// The client goes after a part of the body.
    pub(crate) is_cut: bool,
    /// The worker ends the response twice.
    pub(crate) is_ended_twice: bool,
    /// The worker pauses this long where it pauses.
    pub(crate) pause: Option<Duration>,
    /// The client goes after this time.
    pub(crate) patience: Option<Duration>,
    /// The client pauses this long before it reads on.
    pub(crate) slowness: Option<Duration>,
    /// The client's connection wakes its task after these times, whatever the worker does.
    pub(crate) restless: Option<Duration>,
    /// The request arrived this long before it is handed to the application: the server had to wait for something else. It may be longer than
    /// its time limit.
    pub(crate) age: Duration,
}

impl Plan {
    /// The plan of the request `id`.
    pub(crate) fn request(&self, id: u64) -> Request {
        let mut random = Random::new(self.seed ^ id.wrapping_mul(0xd1b5_4a32_d192_ed03));
        let random = &mut random;
        let faults = &self.faults;
        let act = if random.once_in(faults.deadly) {
            *random
                .pick(&[Act::Die, Act::DieAtHead, Act::DieLate])
                .unwrap_or(&Act::Die)
        } else if random.once_in(faults.hangs) {
            Act::Hang
        } else {
            match random.below(40) {
                0..28 => Act::Answer,
                28..31 => Act::Ponder,
                31..33 => Act::Stream,
                33..35 => Act::Hint,
                35..38 => Act::Echo,
                38 => Act::Abort,
                _ => *random
                    .pick(&[Act::AbortLate, Act::Leave])
                    .unwrap_or(&Act::Abort),
            }
        };
        let length = match random.below(50) {
            0 => random.scaled(1, LARGEST),
            _ => random.scaled(1, 800),
        };
        let sent = match act {
            Act::Echo => *random
                .pick(&[Sent::Inline, Sent::Inline, Sent::Spooled, Sent::Streamed])
                .unwrap_or(&Sent::Inline),
            _ => Sent::Not,
        };
        let is_cut = sent == Sent::Streamed && random.once_in(faults.cut);
        let is_ended_twice = random.once_in(faults.twice);
        let mut time = |of: u32, least: u64, most: u64| {
            random
                .once_in(of)
                .then(|| Duration::from_nanos(random.scaled(least, most)))
        };
        Request {
            act,
            length: length as usize,
            sent,
            is_cut,
            is_ended_twice,
            pause: time(4, 1_000, 30_000_000),
            patience: time(faults.impatient, 100, 50_000_000),
            slowness: time(faults.slow, 10_000, 3_000_000_000),
            restless: time(6, 500, 300_000),
            age: self.timeout.map_or(Duration::ZERO, |timeout| {
                let most = timeout.as_nanos() as u64 * 5 / 4;
                time(16, 1_000_000, most).unwrap_or_default()
            }),
        }
    }
}

/// The byte at a place of a body.
pub(crate) fn byte_of(id: u64, place: usize) -> u8 {
    (id as usize).wrapping_mul(31).wrapping_add(place) as u8
}

/// A whole body.
pub(crate) fn body_of(id: u64, length: usize) -> Vec<u8> {
    (0..length).map(|place| byte_of(id, place)).collect()
}
