//! The shared state of all supervisors: the launcher, the log, the listen threads.

use std::sync::Arc;

use crate::eventfds::ThreadWakers;
use crate::launcher::{Launcher, LogSink};
use crate::scheduling::Scheduling;

/// The objects that supervisors share.
pub(crate) struct Context {
    pub(crate) launcher: Arc<dyn Launcher>,
    pub(crate) log: Arc<dyn LogSink>,
    pub(crate) threads: Arc<ThreadWakers>,
    pub(crate) cores: u32,
    pub(crate) scheduling: Scheduling,
}
