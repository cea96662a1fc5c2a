//! Values that the interpreter's lock guards.

/// A value that one thread at a time touches, because it is attached to the interpreter then.
///
/// Python objects may be let go of by any thread of the application's, and so may what they own.
#[derive(Debug)]
pub(super) struct Guarded<T>(pub(super) T);

// SAFETY: there is one interpreter lock (free-threaded builds are refused), any code that reaches the value holds it, and none
// detaches within.
unsafe impl<T> Send for Guarded<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Guarded<T> {}

impl<T> std::ops::Deref for Guarded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> std::ops::DerefMut for Guarded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
