//! The atomics of shared memory: before each access, another process may run.
//!
//! All of them are sequentially consistent here, as everything runs on one thread; `loom` and Miri look for orderings that are too weak.
//! A process that has been killed changes nothing any more: the destructors on its stack run, and what they would do to shared memory is
//! left out.

use std::sync::atomic::Ordering;

use crate::kernel::{is_dead, step};

macro_rules! atomic {
    ($name:ident, $word:ty) => {
        /// See the module.
        #[repr(transparent)]
        #[derive(Debug, Default)]
        pub struct $name(std::sync::atomic::$name);

        impl $name {
            /// A word that is not shared.
            pub const fn new(value: $word) -> Self {
                Self(std::sync::atomic::$name::new(value))
            }

            /// As in the standard library.
            #[inline]
            pub fn load(&self, order: Ordering) -> $word {
                step();
                self.0.load(order)
            }

            /// The value, without a step.
            #[inline]
            pub fn peek(&self) -> $word {
                self.0.load(Ordering::Relaxed)
            }

            /// As in the standard library.
            #[inline]
            pub fn store(&self, value: $word, order: Ordering) {
                step();
                if !is_dead() {
                    self.0.store(value, order);
                }
            }

            /// As in the standard library.
            #[inline]
            pub fn swap(&self, value: $word, order: Ordering) -> $word {
                step();
                if is_dead() {
                    0
                } else {
                    self.0.swap(value, order)
                }
            }

            /// As in the standard library.
            #[inline]
            pub fn compare_exchange(
                &self,
                current: $word,
                new: $word,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$word, $word> {
                step();
                if is_dead() {
                    return Err(self.peek());
                }
                self.0.compare_exchange(current, new, success, failure)
            }

            /// As in the standard library.
            #[inline]
            pub fn fetch_add(&self, value: $word, order: Ordering) -> $word {
                step();
                if is_dead() {
                    0
                } else {
                    self.0.fetch_add(value, order)
                }
            }

            /// As in the standard library.
            #[inline]
            pub fn fetch_or(&self, value: $word, order: Ordering) -> $word {
                step();
                if is_dead() {
                    0
                } else {
                    self.0.fetch_or(value, order)
                }
            }

            /// As in the standard library.
            #[inline]
            pub fn fetch_and(&self, value: $word, order: Ordering) -> $word {
                step();
                if is_dead() {
                    0
                } else {
                    self.0.fetch_and(value, order)
                }
            }
        }
    };
}

atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);

/// As in the standard library. There is nothing to order on one thread.
pub fn fence(_: Ordering) {}
