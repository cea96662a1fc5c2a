//! The open loop: client `n` asks at `start + phase(n) + k × interval`, whatever the server does.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use serde_json::{Value, json};

use crate::connection::{LoadConnection, Progress, Target};

/// An answer later than this is counted as an error and the connection is given up.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The length of one slot of the report's time line.
const SLOT: Duration = Duration::from_millis(100);

/// The timer's mark among the events; clients have their numbers.
const TIMER: u64 = u64::MAX;

/// The number of clients, the rate of each, and the duration.
pub(crate) struct Plan {
    pub(crate) clients: usize,
    pub(crate) interval: Duration,
    pub(crate) duration: Duration,
}

#[derive(Default)]
struct PacedClient {
    connection: Option<LoadConnection>,
    /// When the request under way was due.
    due: Option<Instant>,
    /// A request that fell due while the one before was still under way.
    overdue: Option<Instant>,
}

/// A stretch of the run, by when answers came or failed to.
#[derive(Default, Clone)]
struct Slot {
    good: u64,
    bad: u64,
    slowest: Duration,
}

#[derive(Default)]
struct Tally {
    latencies: Vec<Duration>,
    slots: Vec<Slot>,
    statuses: BTreeMap<u16, u64>,
    scheduled: u64,
    failed: u64,
    timed_out: u64,
    skipped: u64,
    reconnects: u64,
}

struct Run<'a> {
    target: &'a Target,
    poll: OwnedFd,
    timer: OwnedFd,
    clients: Vec<PacedClient>,
    start: Instant,
    tally: Tally,
}

/// Runs the plan and reports counts, percentiles in milliseconds, and each tenth of a second: good answers, others, the slowest.
pub(crate) fn run(target: &Target, plan: &Plan) -> io::Result<Value> {
    let start = Instant::now();
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
    let data = epoll::EventData::new_u64(TIMER);
    epoll::add(&poll, &timer, data, epoll::EventFlags::IN)?;
    let clients = (0..plan.clients).map(|_| PacedClient::default()).collect();
    let mut run = Run {
        target,
        poll,
        timer,
        clients,
        start,
        tally: Tally::default(),
    };
    let step = plan.interval / u32::try_from(plan.clients.max(1)).unwrap_or(u32::MAX);
    let mut schedule: VecDeque<(Instant, usize)> = (0..plan.clients)
        .map(|index| (start + step * u32::try_from(index).unwrap_or(0), index))
        .collect();
    let end = start + plan.duration;
    let mut events = Vec::with_capacity(1024);
    loop {
        let now = Instant::now();
        while let Some(&(due, index)) = schedule.front() {
            if due > now || due >= end {
                break;
            }
            schedule.pop_front();
            schedule.push_back((due + plan.interval, index));
            run.fall_due(index, due, now)?;
        }
        let is_over = now >= end;
        if is_over
            && (run.clients.iter().all(|client| client.due.is_none()) || now >= end + TIMEOUT)
        {
            break;
        }
        let until = schedule
            .front()
            .filter(|(due, _)| *due < end)
            .map_or(Duration::from_millis(100), |(due, _)| {
                due.saturating_duration_since(now)
            });
        run.wait(until, &mut events)?;
    }
    run.tally.timed_out += run
        .clients
        .iter()
        .filter(|client| client.due.is_some())
        .count() as u64;
    Ok(run.tally.report(plan.duration))
}

impl Run<'_> {
    /// Waits for events, at most so long. A timer ends it: the wait's own is rounded to milliseconds, longer than a short answer takes.
    fn wait(&mut self, until: Duration, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        events.clear();
        if until.is_zero() {
            return Ok(());
        }
        let once = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: until.as_secs().cast_signed(),
                tv_nsec: i64::from(until.subsec_nanos()),
            },
        };
        // Setting it also takes back that it has run out.
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        match epoll::wait(&self.poll, rustix::buffer::spare_capacity(events), None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in events.iter() {
            match usize::try_from(event.data.u64()) {
                Ok(index) if event.data.u64() != TIMER => self.progress(index)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn fall_due(&mut self, index: usize, due: Instant, now: Instant) -> io::Result<()> {
        self.tally.scheduled += 1;
        let Some(client) = self.clients.get_mut(index) else {
            return Ok(());
        };
        match client.due {
            None => self.begin(index, due),
            Some(earlier) if now.saturating_duration_since(earlier) > TIMEOUT => {
                self.tally.timed_out += 1;
                client.connection = None;
                self.begin(index, due)
            }
            Some(_) if client.overdue.is_some() => {
                self.tally.skipped += 1;
                Ok(())
            }
            Some(_) => {
                client.overdue = Some(due);
                Ok(())
            }
        }
    }

    fn begin(&mut self, index: usize, due: Instant) -> io::Result<()> {
        let Some(client) = self.clients.get_mut(index) else {
            return Ok(());
        };
        client.due = Some(due);
        if let Some(connection) = client.connection.as_mut() {
            connection.ask(self.target);
            if connection.send(self.target).is_ok() {
                return Ok(());
            }
            self.tally.reconnects += 1;
        }
        let connection = LoadConnection::open(self.target)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(
            &self.poll,
            connection.as_fd(),
            epoll::EventData::new_u64(index as u64),
            flags,
        )?;
        client.connection = Some(connection);
        Ok(())
    }

    fn progress(&mut self, index: usize) -> io::Result<()> {
        let Some(client) = self.clients.get_mut(index) else {
            return Ok(());
        };
        let Some(connection) = client.connection.as_mut() else {
            return Ok(());
        };
        let sent = if connection.is_awaiting() {
            connection.send(self.target)
        } else {
            Ok(())
        };
        let progress = if sent.is_ok() {
            connection.receive()
        } else {
            Progress::Failed
        };
        match progress {
            Progress::Pending => return Ok(()),
            Progress::Closed => {
                client.connection = None;
                self.tally.reconnects += 1;
                return Ok(());
            }
            Progress::Failed => {
                client.connection = None;
                client.due = None;
                self.tally.failed += 1;
                self.tally.slot(self.start.elapsed()).bad += 1;
            }
            Progress::Answered { status, reusable } => {
                if !reusable {
                    client.connection = None;
                }
                let now = Instant::now();
                let due = client.due.take().unwrap_or(now);
                self.tally.answered(
                    status,
                    now.saturating_duration_since(due),
                    now.saturating_duration_since(self.start),
                );
            }
        }
        match client.overdue.take() {
            Some(due) => self.begin(index, due),
            None => Ok(()),
        }
    }
}

impl Tally {
    fn answered(&mut self, status: u16, latency: Duration, since_start: Duration) {
        *self.statuses.entry(status).or_default() += 1;
        self.latencies.push(latency);
        let slot = self.slot(since_start);
        match is_good(status) {
            true => slot.good += 1,
            false => slot.bad += 1,
        }
        slot.slowest = slot.slowest.max(latency);
    }

    fn slot(&mut self, since_start: Duration) -> &mut Slot {
        let index = usize::try_from(since_start.as_millis() / SLOT.as_millis()).unwrap_or(0);
        if self.slots.len() <= index {
            self.slots.resize(index + 1, Slot::default());
        }
        &mut self.slots[index]
    }

    fn report(mut self, duration: Duration) -> Value {
        self.latencies.sort_unstable();
        let milliseconds = |part: f64| -> f64 {
            let last = self.latencies.len().saturating_sub(1);
            let index = (last as f64 * part).round() as usize;
            self.latencies
                .get(index)
                .map_or(0.0, |latency| latency.as_secs_f64() * 1000.0)
        };
        let good: u64 = self
            .statuses
            .iter()
            .filter(|(status, _)| is_good(**status))
            .map(|(_, count)| count)
            .sum();
        let answered = self.latencies.len() as u64;
        json!({
            "scheduled": self.scheduled,
            "answered": answered,
            "good": good,
            "errors": self.scheduled.saturating_sub(good),
            "failed": self.failed,
            "timed_out": self.timed_out,
            "skipped": self.skipped,
            "reconnects": self.reconnects,
            "statuses": self.statuses,
            "rps": good as f64 / duration.as_secs_f64(),
            "p50_ms": milliseconds(0.5),
            "p90_ms": milliseconds(0.9),
            "p99_ms": milliseconds(0.99),
            "max_ms": milliseconds(1.0),
            "slot_ms": SLOT.as_millis(),
            "slots": self.slots.iter().map(Slot::report).collect::<Vec<_>>(),
        })
    }
}

impl Slot {
    fn report(&self) -> Value {
        json!([self.good, self.bad, self.slowest.as_secs_f64() * 1000.0])
    }
}

fn is_good(status: u16) -> bool {
    (200..400).contains(&status)
}
