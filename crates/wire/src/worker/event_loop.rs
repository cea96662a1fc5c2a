//! A worker with an event loop: many exchanges at once, asleep in its own poll.
//!
//! ```text
//! worker.enter_loop(concurrency)?;                  // and event_fd() into the poll set
//! loop {
//!     worker.drain_attention(|slot| /* the exchange in that slot has news: resume its handler */);
//!     while let Some(exchange) = worker.try_next() { /* run its handler until it waits */ }
//!     if worker.must_stop() && worker.open() == 0 { break }
//!     if worker.prepare_sleep() { /* poll */ worker.woken(); }
//! }
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::core::Core;
use super::{Exchange, Worker};
use crate::forked::end_if_forked;
use crate::layout::{HANDING_OVER, LEAVING, MODE_LOOP};
use crate::now_ms;
use crate::pull::Field;
use crate::sync::Ordering;

impl Core {
    /// Counts exchanges that begin or end.
    pub(super) fn count(&self, change: i32) {
        // By addition, which wraps to a subtraction: exchanges that were detached end on other threads.
        let change = change.cast_unsigned();
        self.open.fetch_add(change, Ordering::Relaxed);
        if let Some(entry) = self.entry() {
            entry.report.open.fetch_add(change, Ordering::Relaxed);
        }
    }
}

impl Worker {
    /// Makes this worker an event loop with up to `concurrency` exchanges (at least one). Call it before [`ready`](Worker::ready).
    ///
    /// Errors: `Unsupported` when the process has no events for workers.
    pub fn enter_loop(&mut self, concurrency: u32) -> io::Result<()> {
        if self.event_fd().is_none() {
            let what = "the router made no events for this application's workers";
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
        self.concurrency = concurrency.max(1);
        self.core.is_loop.store(true, Ordering::Relaxed);
        self.core.lives_on.store(true, Ordering::Relaxed);
        if let Some(entry) = self.core.entry() {
            entry.report.wake_mode.store(MODE_LOOP, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The descriptor that becomes readable when there is something to do, for the loop's poll set; never written by the loop. `None` when
    /// the process has none.
    pub fn event_fd(&self) -> Option<BorrowedFd<'_>> {
        let events = &self.core.descriptors.workers;
        events.get(self.core.id as usize).map(AsFd::as_fd)
    }

    /// Makes the descriptor unreadable again. A level-triggered poll needs this each time it reports the descriptor; for an edge-triggered
    /// one [`woken`](Worker::woken) does it after a write, so that the counter never fills.
    pub fn clear_event(&self) {
        if let Some(event) = self.event_fd() {
            // Fails only when there is nothing to read.
            let _ = rustix::io::read(event, &mut [0u8; 512]);
        }
    }

    /// Open exchanges; without an event loop the [detached](Exchange::detach) ones.
    pub fn open(&self) -> u32 {
        self.core.open.load(Ordering::Relaxed)
    }

    /// A request, if one waits and this worker may take it. Run its handler until that waits before asking for the next: meanwhile, other
    /// workers take what is left in the queue.
    pub fn try_next(&mut self) -> Option<Exchange> {
        self.look();
        loop {
            if self.core.must_stop() {
                self.has_to_end = true;
                self.stop_taking();
            }
            if self.is_leaving {
                return None;
            }
            if self.open() >= self.concurrency {
                self.puller.decline(&*self.core);
                return None;
            }
            let (slot, ticket) = self.puller.look(&*self.core)?;
            if let Some(exchange) = self.begin(slot, ticket) {
                return Some(exchange);
            }
        }
    }

    /// Takes no further request, and continues those it has: another process replaces it then.
    pub fn stop_taking(&mut self) {
        self.report(LEAVING);
        self.leave_queue();
    }

    /// Takes no further request, and continues those it has, while another program gets ready to take this worker's place. Unlike after
    /// [`stop_taking`](Self::stop_taking), the router waits for that program, and starts another process only if those it has do not end
    /// soon.
    pub fn hand_over(&mut self) {
        if !self.is_leaving {
            self.report(HANDING_OVER);
            self.leave_queue();
        }
    }

    fn leave_queue(&mut self) {
        if !self.is_leaving {
            self.is_leaving = true;
            self.puller.retire(&*self.core);
        }
    }

    /// Call this when the loop has nothing left to do. True: it may sleep, the descriptor will be written when there is something to do;
    /// false: do not sleep, check again.
    #[must_use]
    pub fn prepare_sleep(&mut self) -> bool {
        self.look();
        let may_take = !self.is_leaving && self.open() < self.concurrency;
        let (core, is_leaving) = (&self.core, self.is_leaving);
        let sleeps = self.puller.prepare(&**core, may_take, || {
            let has_news = core
                .shared
                .attention(core.id)
                .is_some_and(|attention| !attention.is_empty());
            has_news || (!is_leaving && core.must_stop())
        });
        if sleeps && let Some(entry) = core.entry() {
            entry.report.since_ms.store(now_ms(), Ordering::Relaxed);
        }
        self.clear_what_was_rung();
        sleeps
    }

    /// Call this when the loop is awake again, for any reason: the descriptor need not be written now.
    pub fn woken(&mut self) {
        self.puller.woken(&*self.core);
        self.clear_what_was_rung();
    }

    /// Even if its poll does not need it: a full event cannot be written.
    fn clear_what_was_rung(&mut self) {
        if self.puller.take_rung() {
            self.clear_event();
        }
    }

    /// Calls `news` for each [slot](Exchange::slot) in which something may have happened that its exchange asked for: data after
    /// [`try_read_body`](Exchange::try_read_body) or [`try_next_message`](Exchange::try_next_message) returned none, room after
    /// [`try_write`](Exchange::try_write) or [`try_send`](Exchange::try_send) found none; or its client has disconnected.
    pub fn drain_attention(&self, news: impl FnMut(u32)) {
        if let Some(attention) = self.core.shared.attention(self.core.id) {
            attention.drain(news);
        }
    }

    /// Reports that the loop is not stuck.
    pub fn moves(&self) {
        if let Some(entry) = self.core.entry() {
            let looks = entry.report.looks.load(Ordering::Relaxed);
            entry
                .report
                .looks
                .store(looks.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// Reports that the loop is not stuck, and measures how long it was away from the queue. A process that user code has forked ends here:
    /// its poll set is its parent's.
    fn look(&mut self) {
        end_if_forked(0);
        self.moves();
        if let Some(is_short) = self.pace.finish() {
            self.puller.set_short(is_short);
        }
    }
}
