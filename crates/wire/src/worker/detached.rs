//! An exchange that has left its worker: a connection that the application has taken over, or a request that any of its threads may answer.
//!
//! Two threads may use it, each for one direction. They share the exchange under a lock that is never held while waiting, and sleep on the
//! slot's own word. Must never: miss a wake-up because the other thread took it, or use the slot once the exchange has ended (except for
//! the intent to sleep, which is meaningless then).

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::core::Core;
use super::exchange::{ClientGone, Exchange};
use super::messages::{Incoming, Message};
use crate::message::{MIN_PIECE, MessageOpcode};
use crate::ring::{nudge, wait_beside};
use crate::sync::Ordering;

/// An exchange that has left its worker.
#[derive(Debug)]
pub struct Detached {
    exchange: Mutex<Exchange>,
    core: Arc<Core>,
    slot: u32,
    is_over: AtomicBool,
}

impl Exchange {
    /// Takes the exchange from its worker, which may take its next request at once. The new owner ends it; dropping it aborts it. The
    /// router still counts it as the worker's, and it ends with the worker.
    pub fn detach(self) -> Detached {
        self.is_detached.set(true);
        self.core.lives_on.store(true, Ordering::Relaxed);
        if !self.is_ended() && !self.counted.replace(true) {
            self.core.count(1);
            if let Some(entry) = self.core.entry() {
                entry.report.current.store(0, Ordering::Relaxed);
            }
        }
        Detached {
            core: Arc::clone(&self.core),
            slot: self.slot,
            is_over: AtomicBool::new(false),
            exchange: Mutex::new(self),
        }
    }
}

impl Detached {
    /// Calls `act` with the exchange, which must not wait: no `write`, no `next_message`.
    pub fn with<T>(&self, act: impl FnOnce(&Exchange) -> T) -> T {
        act(&self.lock())
    }

    /// Waits for the next message of a WebSocket's client; `None` when there will be none.
    pub fn next_message(&self) -> Option<Message> {
        loop {
            match self.lock().try_next_message() {
                Incoming::Message(message) => return Some(message),
                Incoming::Over => return None,
                Incoming::Nothing => {}
            }
            self.wait(|exchange| !exchange.ask_for_data());
            if self.is_over.load(Ordering::Acquire) {
                return None;
            }
        }
    }

    /// Sends a whole message to a WebSocket's client, waiting for room.
    pub fn send_message(&self, opcode: MessageOpcode, bytes: &[u8]) -> Result<(), ClientGone> {
        let mut rest = bytes;
        loop {
            let sent = self.lock().try_send(opcode, rest)?;
            match sent {
                Some(count) if count == rest.len() => return Ok(()),
                Some(count) => rest = rest.get(count..).unwrap_or_default(),
                None => self.wait(|exchange| exchange.has_room_for(rest.len())),
            }
        }
    }

    /// Adds to the body and sends it, waiting for room.
    pub fn write(&self, bytes: &[u8]) -> Result<(), ClientGone> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let count = {
                let exchange = self.lock();
                let count = exchange.try_write(rest)?;
                exchange.flush();
                count
            };
            if count == 0 {
                self.wait_for_room();
            }
            rest = rest.get(count..).unwrap_or_default();
        }
        Ok(())
    }

    /// Waits for more of a streamed body, after [`try_read_body`](Exchange::try_read_body) returned none; also for its end, and that of the
    /// exchange.
    pub fn wait_for_data(&self) {
        self.wait(|exchange| !exchange.ask_for_data());
    }

    /// Waits for room in the response, after [`try_write`](Exchange::try_write) found none, or for the end of the exchange.
    pub fn wait_for_room(&self) {
        self.wait(|exchange| exchange.room() > 0 || exchange.is_client_gone());
    }

    /// Waits for room for a whole piece of a message, after [`try_send`](Exchange::try_send) found none, or for the end of the exchange.
    pub fn wait_for_message_room(&self) {
        self.wait(|exchange| exchange.has_room_for(MIN_PIECE));
    }

    /// Waits until the client has disconnected, or the exchange has ended.
    pub fn wait_until_gone(&self) {
        self.wait(Exchange::is_client_gone);
    }

    /// Completes the response.
    pub fn finish(&self) {
        self.end(Exchange::finish);
    }

    /// Aborts the response.
    pub fn abort(&self) {
        self.end(Exchange::abort);
    }

    fn end(&self, end: impl FnOnce(&mut Exchange)) {
        self.is_over.store(true, Ordering::Release);
        // Before the slot is released: its word belongs to another request then.
        if let Some(control) = self.core.shared.slot(self.slot) {
            let _ = nudge(&control.worker_waits.0, 0);
        }
        end(&mut self.lock());
    }

    fn wait(&self, is_ready: impl Fn(&Exchange) -> bool) {
        let Some(control) = self.core.shared.slot(self.slot) else {
            return;
        };
        wait_beside(&control.worker_waits.0, || {
            self.is_over.load(Ordering::Acquire) || is_ready(&self.lock())
        });
    }

    fn lock(&self) -> MutexGuard<'_, Exchange> {
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
