//! Waiting for descriptors: those of the kernel, in an epoll set (epoll(7)) that is asked instead of waited for.

use std::io;
use std::os::fd::AsFd;
use std::task::Poll;
use std::time::Instant;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

use crate::kernel::{try_with, with, yield_now};
use crate::state::processes::Waits;
use crate::state::readiness::Entry;
use crate::timers::wake_process_at;

/// A descriptor whose readability a task can wait for, as tokio's.
#[derive(Debug)]
pub struct AsyncFd<T: AsFd> {
    id: u64,
    inner: T,
}

/// It was readable.
#[derive(Debug)]
pub struct Ready(u64);

impl Ready {
    /// As tokio's: the next edge is waited for.
    pub fn clear_ready(&mut self) {
        let id = self.0;
        with(|kernel| {
            if let Some(entry) = kernel.readiness.all.get_mut(&id) {
                entry.is_ready = false;
            }
        });
    }
}

impl<T: AsFd> AsyncFd<T> {
    /// Watches a descriptor.
    pub fn new(inner: T) -> io::Result<Self> {
        let id = with(|kernel| -> io::Result<u64> {
            let readiness = &mut kernel.readiness;
            if readiness.epoll.is_none() {
                readiness.epoll = Some(epoll::create(CreateFlags::CLOEXEC)?);
            }
            readiness.next += 1;
            let id = readiness.next;
            if let Some(set) = &readiness.epoll {
                let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
                epoll::add(set, inner.as_fd(), EventData::new_u64(id), flags)?;
            }
            readiness.all.insert(id, Entry::default());
            Ok(id)
        })?;
        Ok(Self { id, inner })
    }

    /// The descriptor.
    pub fn get_ref(&self) -> &T {
        &self.inner
    }

    /// Waits until it is readable.
    pub async fn readable(&self) -> io::Result<Ready> {
        std::future::poll_fn(|context| {
            let is_ready = with(|kernel| {
                let Some(entry) = kernel.readiness.all.get_mut(&self.id) else {
                    return true;
                };
                if !entry.is_ready {
                    entry.waker = Some(context.waker().clone());
                }
                entry.is_ready
            });
            match is_ready {
                true => Poll::Ready(Ok(Ready(self.id))),
                false => Poll::Pending,
            }
        })
        .await
    }
}

impl<T: AsFd> AsyncFd<T> {
    /// The running process sleeps until the descriptor is readable, at most until `deadline`.
    pub fn wait(&self, deadline: Option<Instant>) {
        let sleeper = with(|kernel| {
            let pid = kernel.running_process()?;
            let entry = kernel.readiness.all.get_mut(&self.id)?;
            if std::mem::take(&mut entry.is_ready) {
                return None;
            }
            entry.process = Some(pid);
            kernel.processes.wait(pid, Waits::Readable);
            Some(pid)
        });
        let Some(pid) = sleeper else { return };
        if let Some(deadline) = deadline {
            wake_process_at(pid, deadline);
        }
        yield_now();
        with(|kernel| {
            if let Some(entry) = kernel.readiness.all.get_mut(&self.id) {
                entry.is_ready = false;
            }
        });
    }
}

impl<T: AsFd> Drop for AsyncFd<T> {
    fn drop(&mut self) {
        try_with(|kernel| {
            kernel.readiness.all.remove(&self.id);
            if let Some(set) = &kernel.readiness.epoll {
                // Others may have the same file open: closing the descriptor would not be enough.
                let _ = epoll::delete(set, self.inner.as_fd());
            }
        });
    }
}

/// Wakes the tasks whose descriptors have become readable. True if there were any.
pub(crate) fn poll() -> bool {
    let mut events: Vec<Event> = Vec::with_capacity(64);
    let wakers = with(|kernel| {
        let readiness = &mut kernel.readiness;
        let Some(set) = &readiness.epoll else {
            return (Vec::new(), false);
        };
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let room = rustix::buffer::spare_capacity(&mut events);
        if epoll::wait(set, room, Some(&at_once)).is_err() {
            return (Vec::new(), false);
        }
        let (mut wakers, mut awake) = (Vec::new(), Vec::new());
        for event in &events {
            if let Some(entry) = readiness.all.get_mut(&event.data.u64()) {
                entry.is_ready = true;
                wakers.extend(entry.waker.take());
                awake.extend(entry.process.take());
            }
        }
        for pid in &awake {
            kernel.processes.wake_one(*pid);
        }
        (wakers, !awake.is_empty())
    });
    let (wakers, any_process) = wakers;
    let any = any_process || !wakers.is_empty();
    for waker in wakers {
        waker.wake();
    }
    any
}
