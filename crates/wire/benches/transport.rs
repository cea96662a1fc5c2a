//! Round trips through a segment, beside bare ping-pongs in the same run.
//!
//! `cargo bench -p tutti-wire --features bench`. One router thread on the first core, worker processes on the second. *Awake*: both sides spin,
//! no system call, beside two processes that spin on one word each. *Asleep*: the worker sleeps on its futex and the router
//! on its event, beside two processes that sleep on one futex word each. With 1, 4, 100 and 500 sleeping workers: the cost
//! must not grow, and exactly one is woken. Medians of interleaved rounds.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::thread::{CpuSet, sched_setaffinity};
use tutti_sys::fork::{Fork, fork};
use tutti_sys::{event::EventFd, process, signal};
use tutti_wire::worker::{Attached, Exchange, Worker};
use tutti_wire::{BodyRef, Layout, Segment, SlotId, WireRequestHead};

const ROUNDS: usize = 5;
const AWAKE_TRIPS: usize = 100_000;
const ASLEEP_TRIPS: usize = 3_000;

/// A browser's request, shortened.
const FIELDS: [(&[u8], &[u8]); 8] = [
    (b"Host", b"www.example.org"),
    (
        b"User-Agent",
        b"Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    ),
    (
        b"Accept",
        b"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    ),
    (b"Accept-Language", b"en-US,en;q=0.5"),
    (b"Accept-Encoding", b"gzip, deflate, br, zstd"),
    (b"Connection", b"keep-alive"),
    (b"Cookie", b"session=0123456789abcdef0123456789abcdef"),
    (b"Upgrade-Insecure-Requests", b"1"),
];

struct Router {
    segment: Segment,
    event: EventFd,
    workers: Vec<i32>,
}

enum Role {
    Router(Box<Router>),
    Worker(ExitCode),
}

fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    // Without permission the figures are noisier, that is all.
    let _ = sched_setaffinity(None, &set);
}

/// Makes a segment and its workers; in a worker, serves until the end.
fn start(workers: u32, spin: u32) -> io::Result<Role> {
    let layout = Layout {
        slots: 64,
        workers: workers.max(1),
        threads: 1,
    };
    let segment = Segment::create("bench", &layout)?;
    let event = EventFd::new()?;
    let mut router = Router {
        segment,
        event,
        workers: Vec::new(),
    };
    for number in 0..workers {
        match fork()? {
            Fork::Parent(pid) => router.workers.push(pid),
            Fork::Child => {
                pin(1);
                let file = router.segment.fd().try_clone_to_owned()?;
                let events: Vec<OwnedFd> = vec![router.event.try_clone()?.into_fd()];
                let mut worker = Attached::open(file.as_fd())?.into_worker(number, events, None)?;
                worker.set_spin(spin, spin);
                serve(&mut worker);
                return Ok(Role::Worker(ExitCode::SUCCESS));
            }
        }
    }
    Ok(Role::Router(Box::new(router)))
}

fn serve(worker: &mut Worker) {
    worker.ready();
    while let Some(exchange) = worker.next_request() {
        answer(exchange);
    }
}

/// The cost of a small page: every field read, three sent.
fn answer(mut exchange: Exchange) {
    let mut seen = 0;
    for (name, value) in exchange.request().fields() {
        seen += name.len() + value.len();
    }
    let length = (seen % 10 + 12).to_string();
    let fields = [
        (&b"Content-Type"[..], &b"text/html; charset=utf-8"[..]),
        (b"X-Powered-By", b"bench"),
        (b"Content-Length", length.as_bytes()),
    ];
    if exchange.start(200, fields).is_ok() && exchange.write(b"Hello world\n").is_ok() {
        exchange.finish();
    }
}

impl Router {
    fn send(&self) -> Option<SlotId> {
        let slot = self.segment.allocate(0)?;
        let head = WireRequestHead {
            method: b"GET",
            target: b"/index.php?page=1",
            path: b"/index.php",
            query: b"page=1",
            version_minor: 1,
            scheme: b"http",
            remote_address: b"127.0.0.1",
            local_address: b"127.0.0.1",
            local_port: 8080,
            server_name: b"www.example.org",
            fields: &FIELDS,
            ..WireRequestHead::default()
        };
        self.segment
            .write_request(slot, &head, &BodyRef::None)
            .ok()?;
        self.segment.submit(slot);
        Some(slot)
    }

    fn receive(&self, slot: SlotId, body: &mut Vec<u8>) -> Option<()> {
        let head = self.segment.response_head(slot).ok()??;
        let ready = self.segment.response_ready(slot).ok()?;
        body.clear();
        ready.copy_to(body);
        self.segment.response_consume(slot, ready.len());
        let complete = ready.finished && head.status == 200 && !body.is_empty();
        (self.segment.free(slot) && complete).then_some(())
    }

    /// One request and its answer; the body goes to `body`.
    fn trip(&self, body: &mut Vec<u8>, asleep: bool) -> Option<()> {
        let slot = self.send()?;
        let mut done = false;
        while !done {
            self.segment
                .drain_completions(0, |seen| done |= seen == slot);
            if done {
                break;
            }
            if asleep && self.segment.set_sleeping(0) {
                poll(&mut [PollFd::new(&self.event, PollFlags::IN)], None).ok()?;
                self.event.clear();
            } else {
                std::hint::spin_loop();
            }
        }
        self.receive(slot, body)
    }

    fn measure(&self, trips: usize, asleep: bool) -> Vec<u64> {
        let mut body = Vec::new();
        let mut times = Vec::with_capacity(trips);
        for _ in 0..trips {
            if asleep {
                // Else we measure how long the worker takes to fall asleep.
                while self.segment.idle_count() < self.workers.len() as u32 {
                    std::hint::spin_loop();
                }
                settle();
            }
            let from = Instant::now();
            if self.trip(&mut body, asleep).is_none() {
                eprintln!("a round trip failed");
                break;
            }
            times.push(from.elapsed().as_nanos() as u64);
        }
        times
    }
}

impl Drop for Router {
    fn drop(&mut self) {
        end(&self.workers);
    }
}

fn end(children: &[i32]) {
    for &pid in children {
        let _ = signal::send(pid, libc::SIGKILL);
    }
    for &pid in children {
        if let Ok(fd) = process::pidfd(pid) {
            let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], None);
            process::reap_one(pid);
        }
    }
}

/// A process that has announced that it sleeps needs a moment more to be asleep.
fn settle() {
    let from = Instant::now();
    while from.elapsed().as_micros() < 30 {
        std::hint::spin_loop();
    }
}

/// Two words in shared memory, two processes: what a round trip costs the machine itself.
mod bare {
    use tutti_wire::bench::PingPong;

    use super::*;

    /// In the parent: the pair and the child that answers, for good.
    pub(super) fn start(asleep: bool) -> io::Result<(PingPong, i32)> {
        let pair = PingPong::create()?;
        match fork()? {
            Fork::Parent(pid) => Ok((pair, pid)),
            Fork::Child => {
                pin(1);
                loop {
                    pair.answer(asleep);
                }
            }
        }
    }

    pub(super) fn measure(pair: &PingPong, trips: usize, asleep: bool) -> Vec<u64> {
        (0..trips)
            .map(|_| {
                if asleep {
                    pair.wait_until_asleep();
                    settle();
                }
                let from = Instant::now();
                pair.call(asleep);
                from.elapsed().as_nanos() as u64
            })
            .collect()
    }
}

fn percentile(times: &mut [u64], per_mille: usize) -> u64 {
    times.sort_unstable();
    let index = (times.len().saturating_sub(1)) * per_mille / 1000;
    times.get(index).copied().unwrap_or(0)
}

fn report(name: &str, rounds: &mut [Vec<u64>]) -> u64 {
    let mut medians: Vec<u64> = rounds
        .iter_mut()
        .map(|times| percentile(times, 500))
        .collect();
    let median = percentile(&mut medians, 500);
    let (least, most) = (percentile(&mut medians, 0), percentile(&mut medians, 1000));
    let mut tails: Vec<u64> = rounds
        .iter_mut()
        .map(|times| percentile(times, 990))
        .collect();
    let tail = percentile(&mut tails, 500);
    println!("{name:<44} median {median:>7} ns ({least}..{most})  p99 {tail:>8} ns");
    median
}

/// The bare pair and the segments, round by round in turn.
fn compare(asleep: bool, counts: &[u32], trips: usize) -> io::Result<Option<ExitCode>> {
    let spin = if asleep { 0 } else { u32::MAX };
    let mut bare_rounds = Vec::new();
    let mut wire_rounds: Vec<Vec<Vec<u64>>> = counts.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        let (pair, child) = bare::start(asleep)?;
        bare::measure(&pair, trips / 10, asleep);
        bare_rounds.push(bare::measure(&pair, trips, asleep));
        end(&[child]);
        for (rounds, &count) in wire_rounds.iter_mut().zip(counts) {
            match start(count, spin)? {
                Role::Worker(code) => return Ok(Some(code)),
                Role::Router(router) => {
                    router.measure(trips / 10, asleep);
                    rounds.push(router.measure(trips, asleep));
                    let others: u64 = (1..count)
                        .map(|worker| router.segment.worker_snapshot(worker).requests)
                        .sum();
                    if asleep && others > 0 {
                        println!("  {others} requests went to a worker that was not the lowest");
                    }
                }
            }
        }
    }
    let kind = if asleep { "asleep" } else { "awake" };
    let base = report(&format!("{kind}: bare ping-pong"), &mut bare_rounds);
    for (rounds, count) in wire_rounds.iter_mut().zip(counts) {
        let median = report(&format!("{kind}: round trip, {count} workers"), rounds);
        println!(
            "{:>60}",
            format!("{:.2} x bare", median as f64 / base.max(1) as f64)
        );
    }
    Ok(None)
}

/// Both sides in turn in one process: what the code itself costs, without caches going back and forth.
fn local() -> io::Result<()> {
    let Role::Router(router) = start(0, 0)? else {
        return Ok(());
    };
    let events: Vec<OwnedFd> = vec![router.event.try_clone()?.into_fd()];
    let mut worker = Attached::open(router.segment.fd())?.into_worker(0, events, None)?;
    let mut body = Vec::new();
    let mut rounds = vec![Vec::new(); ROUNDS];
    for times in &mut rounds {
        for _ in 0..AWAKE_TRIPS {
            let from = Instant::now();
            let slot = router.send();
            if let Some(exchange) = worker.next_request() {
                answer(exchange);
            }
            router.segment.drain_completions(0, |_| {});
            if slot
                .and_then(|slot| router.receive(slot, &mut body))
                .is_none()
            {
                return Err(io::Error::other("a round trip failed"));
            }
            times.push(from.elapsed().as_nanos() as u64);
        }
    }
    report("in one thread", &mut rounds);
    Ok(())
}

fn run() -> io::Result<ExitCode> {
    pin(0);
    local()?;
    if std::env::args().any(|argument| argument == "--local") {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(code) = compare(false, &[1], AWAKE_TRIPS)? {
        return Ok(code);
    }
    if std::env::args().any(|argument| argument == "--awake") {
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(code) = compare(true, &[1, 4, 100, 500], ASLEEP_TRIPS)? {
        return Ok(code);
    }
    Ok(ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
