//! The tables of the machine. They know neither the machine nor the code that uses them.

pub(crate) mod mappings;
pub(crate) mod processes;
pub(crate) mod readiness;
pub(crate) mod tasks;
pub(crate) mod timers;
