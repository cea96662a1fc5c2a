//! The order in which the kernel ends processes when memory runs out (`oom_score_adj`, proc_pid_oom_score_adj(5)).
//!
//! Each adds its value, in thousandths of the machine's memory, to what it uses. Processes of applications go first: they are
//! replaced, and only the requests that they have begun are lost. Main and the processes that it starts for itself go last. A value
//! that an administrator or a container runtime has given main stays as it is, and applications are placed relative to it.

use std::ffi::CStr;
use std::io;

/// The file of the process that opens it.
const FILE: &CStr = c"/proc/self/oom_score_adj";

/// The value of main, which its own processes inherit: they use far less than half of the memory. 0 is the kernel's default.
const PROTECTED: i32 = -500;

/// Applications are ahead of the others by so much: a router would have to use 300 thousandths of the memory more than they do.
const AHEAD: i32 = 300;

/// The largest value.
const MOST: i32 = 1000;

fn own() -> io::Result<i32> {
    let text = std::fs::read_to_string("/proc/self/oom_score_adj")?;
    text.trim().parse().map_err(io::Error::other)
}

/// Lets this process go late, if it has the default value. Without the right to lower it (`CAP_SYS_RESOURCE`) it stays as it is.
pub fn go_late() {
    if own().is_ok_and(|value| value == 0) {
        // Only a favour: applications go first all the same.
        let _ = std::fs::write("/proc/self/oom_score_adj", PROTECTED.to_string());
    }
}

/// The value for processes of applications, if this system has such values.
pub fn value_of_applications() -> Option<i32> {
    own().ok().map(ahead_of)
}

/// Takes this value, in a child between fork and exec: it allocates nothing. A system on which it cannot be done is served all the same.
pub(crate) fn take(value: &CStr) {
    // SAFETY: NUL-terminated path in static memory.
    let file = unsafe { libc::open(FILE.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC) };
    if file >= 0 {
        // SAFETY: an open descriptor, and as many bytes as the text in live memory has.
        unsafe { libc::write(file, value.as_ptr().cast(), value.to_bytes().len()) };
        // SAFETY: the descriptor that was opened above.
        unsafe { libc::close(file) };
    }
}

fn ahead_of(own: i32) -> i32 {
    let usual = if own == PROTECTED { 0 } else { own };
    (usual + AHEAD).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applications_are_ahead_of_whatever_main_has() {
        assert_eq!(ahead_of(0), 300);
        assert_eq!(ahead_of(PROTECTED), 300);
        // As a container has it that is guaranteed its memory.
        assert_eq!(ahead_of(-997), -697);
        assert_eq!(ahead_of(900), MOST);
    }
}
