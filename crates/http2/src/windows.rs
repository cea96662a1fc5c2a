//! Flow control (RFC 9113 §5.2, §6.9).

/// The largest window (§6.9.1).
pub(crate) const MOST_WINDOW: u32 = 0x7fff_ffff;

/// A window that the client opens: bytes that it may still be sent. Negative after a change of its SETTINGS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendWindow(i64);

impl SendWindow {
    pub(crate) fn new(bytes: u32) -> Self {
        Self(bytes.into())
    }

    /// Bytes that may be sent.
    pub(crate) fn room(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    /// Notes that bytes, for which there was room, have been sent.
    pub(crate) fn take(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.room(), "more than the client permits");
        self.0 -= bytes as i64;
    }

    /// Opens it further, or less far; `None` if it exceeds the limit.
    pub(crate) fn add(&mut self, bytes: i64) -> Option<()> {
        self.0 += bytes;
        (self.0 <= i64::from(MOST_WINDOW)).then_some(())
    }
}

/// A window that is open to the client: bytes that it may still send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceiveWindow {
    left: i64,
    /// Bytes that it has when everything has been read.
    size: i64,
    /// Bytes that have been read and not given back.
    read: i64,
}

impl ReceiveWindow {
    pub(crate) fn new(size: u32) -> Self {
        Self {
            left: size.into(),
            size: size.into(),
            read: 0,
        }
    }

    /// Notes that the client has sent bytes; `None` if it may not.
    pub(crate) fn take(&mut self, bytes: usize) -> Option<()> {
        self.left -= bytes as i64;
        (self.left >= 0).then_some(())
    }

    /// Notes that bytes have been read; returns the increment of a WINDOW_UPDATE if one is due: at half of the window.
    pub(crate) fn give_back(&mut self, bytes: usize) -> Option<u32> {
        self.read += bytes as i64;
        if self.read == 0 || self.read < self.size / 2 {
            return None;
        }
        self.left += self.read;
        let increment = u32::try_from(self.read).ok();
        self.read = 0;
        increment
    }

    /// Makes it smaller. The client may have used it already.
    pub(crate) fn shrink(&mut self, bytes: u32) {
        self.left -= i64::from(bytes);
        self.size -= i64::from(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_given_back_in_halves() {
        let mut window = ReceiveWindow::new(100);
        assert_eq!(window.take(100), Some(()));
        assert_eq!(window.give_back(49), None);
        assert_eq!(window.give_back(1), Some(50));
        assert_eq!(window.take(50), Some(()));
        assert_eq!(window.take(1), None);
    }

    #[test]
    fn settings_may_close_a_window_and_updates_have_a_limit() {
        let mut window = SendWindow::new(10);
        window.take(10);
        assert_eq!(window.add(-5), Some(()));
        assert_eq!(window.room(), 0);
        assert_eq!(window.add(6), Some(()));
        assert_eq!(window.room(), 1);
        assert_eq!(window.add(i64::from(MOST_WINDOW)), None);
    }
}
