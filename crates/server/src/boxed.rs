//! Futures in boxes of their own.
//!
//! A future is as large as the largest of those that it waits for, and all of it is allocated, also for a request that needs little. So what
//! few requests wait for, or what needs much, is boxed where it is waited for.

use std::pin::Pin;

/// Boxes a future. The box is allocated first, so that the future is built in it: a value that is built before an allocation is copied, which
/// can be kilobytes.
pub(crate) fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    let place = Box::new_uninit();
    Box::into_pin(Box::write(place, make()))
}
