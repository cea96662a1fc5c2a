//! The steps of a child that isolates itself, and which of them has failed.

/// A step of the child that failed: its number in `spawn`'s table, and which binding.
pub(crate) struct Failed(pub(crate) u8, pub(crate) u16);

// Numbers of the steps, continued from those of `spawn`.
pub(crate) const PROPAGATION: u8 = 20;
pub(crate) const OPEN_BINDING: u8 = 21;
pub(crate) const MAKE_PROC: u8 = 22;
pub(crate) const ENTER_ROOT: u8 = 23;
pub(crate) const PLACE_BINDING: u8 = 24;
pub(crate) const PLACE_PROC: u8 = 25;
pub(crate) const PLACE_TMP: u8 = 26;
pub(crate) const CGROUP_NAMESPACE: u8 = 27;
pub(crate) const WAIT_FOR_MAPS: u8 = 28;

/// The words for them.
pub(crate) const STEPS: [&str; 9] = [
    "separating the mounts",
    "binding",
    "making /proc",
    "entering the new root",
    "mounting at",
    "mounting /proc in the new root",
    "mounting /tmp in the new root",
    "entering the cgroup namespace",
    "waiting for the id maps",
];

/// Remembers the error where `spawn` looks for it.
pub(crate) fn failed(error: rustix::io::Errno, step: u8) -> Failed {
    numbered(error, step, 0)
}

pub(crate) fn numbered(error: rustix::io::Errno, step: u8, place: usize) -> Failed {
    // SAFETY: errno is a thread's own variable.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the pointer just given is valid for this thread.
    unsafe { *errno = error.raw_os_error() };
    Failed(step, u16::try_from(place).unwrap_or(0))
}
