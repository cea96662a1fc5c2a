//! The result of one step of a body decoder.

use std::ops::Range;

/// The result of one step of a decoder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Remove this many bytes from the front of the input after using `data`. Zero: read more first.
    pub consumed: usize,
    /// Part of the input that is body; may be empty.
    pub data: Range<usize>,
    /// The body has ended; what follows `consumed` is the next message.
    pub is_finished: bool,
}
