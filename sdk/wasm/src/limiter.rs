//! Memory of an instance: as much as is allowed, with a line in the log when more is refused.

use std::sync::Arc;

use tutti_worker::Level;
use wasmtime::ResourceLimiter;

use crate::log;

/// Counts the memory of one instance.
#[derive(Debug)]
pub(crate) struct Limiter {
    /// The word for its code, in messages.
    noun: &'static str,
    /// Bytes that all its memories may have.
    most: usize,
    has: usize,
    /// The request that it serves, as the log names it.
    title: Arc<str>,
    was_refused: bool,
}

impl Limiter {
    pub(crate) fn new(noun: &'static str, most: usize, title: Arc<str>) -> Self {
        Self {
            noun,
            most,
            has: 0,
            title,
            was_refused: false,
        }
    }

    /// Begins another request of the same instance.
    pub(crate) fn serves(&mut self, title: Arc<str>) {
        self.title = title;
        self.was_refused = false;
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let would_have = self.has.saturating_add(desired.saturating_sub(current));
        if would_have <= self.most {
            self.has = would_have;
            return Ok(true);
        }
        if !std::mem::replace(&mut self.was_refused, true) {
            let message = format!(
                "{}: the {} was refused more memory: it asked for {would_have} bytes, and `memory` of `instance` allows {}",
                self.title, self.noun, self.most
            );
            log::write(Level::Error, &message);
        }
        Ok(false)
    }

    /// Tables are bounded by the pool.
    fn table_growing(
        &mut self,
        _current: usize,
        _desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(true)
    }
}
