//! The cases, by the groups of Autobahn's fuzzing client.

mod closing;
mod fragments;
mod frames;
mod framing;
mod limits;
mod utf8;

use crate::script::Case;

/// All of them, in order.
pub(crate) fn all() -> Vec<Case> {
    [
        framing::sizes(),
        framing::pings(),
        framing::reserved_bits(),
        framing::opcodes(),
        fragments::cases(),
        utf8::cases(),
        closing::cases(),
        limits::cases(),
        fragments::automatic(),
    ]
    .concat()
}
