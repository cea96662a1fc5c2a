//! Timers of tasks and of processes.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use crate::kernel::{elapsed, now, with, yield_now};
use crate::state::processes::{Pid, Waits};
use crate::state::timers::Sleeper;

/// Wakes all whose time has come.
pub(crate) fn expire() {
    loop {
        let expired = with(|kernel| kernel.timers.expired(kernel.now));
        match expired {
            Some(Sleeper::Task(waker)) => waker.wake(),
            Some(Sleeper::Process(pid)) => with(|kernel| kernel.processes.wake_one(pid)),
            None => return,
        }
    }
}

/// The running process is woken then, if it still sleeps.
pub(crate) fn wake_process_at(pid: Pid, deadline: Instant) {
    let at = elapsed() + deadline.saturating_duration_since(now());
    with(|kernel| {
        let at = at.as_nanos() as u64;
        kernel.timers.add(at, Sleeper::Process(pid));
    });
}

/// The running process sleeps for this long.
pub fn nap(duration: Duration) {
    with(|kernel| {
        let at = kernel.now.saturating_add(duration.as_nanos() as u64);
        if let Some(pid) = kernel.running_process() {
            kernel.timers.add(at, Sleeper::Process(pid));
            kernel.processes.wait(pid, Waits::Timer);
        }
    });
    yield_now();
}

/// As tokio's.
pub async fn sleep(duration: Duration) {
    sleep_until(now() + duration).await;
}

/// As tokio's.
pub async fn sleep_until(deadline: Instant) {
    let at = elapsed() + deadline.saturating_duration_since(now());
    let mut is_set = false;
    poll_fn(|context| {
        if now() >= deadline {
            return Poll::Ready(());
        }
        if !std::mem::replace(&mut is_set, true) {
            let sleeper = Sleeper::Task(context.waker().clone());
            with(|kernel| kernel.timers.add(at.as_nanos() as u64, sleeper));
        }
        Poll::Pending
    })
    .await;
}

/// The time was over first.
#[derive(Debug)]
pub struct Elapsed;

/// As tokio's.
pub async fn timeout<T>(duration: Duration, future: impl Future<Output = T>) -> Result<T, Elapsed> {
    timeout_at(now() + duration, future).await
}

/// As tokio's.
pub async fn timeout_at<T>(
    deadline: Instant,
    future: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    let mut future = pin!(future);
    let mut over = pin!(sleep_until(deadline));
    poll_fn(|context| {
        if let Poll::Ready(value) = future.as_mut().poll(context) {
            return Poll::Ready(Ok(value));
        }
        over.as_mut().poll(context).map(|()| Err(Elapsed))
    })
    .await
}
