//! The limits of a script, and the timer that stops it.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use rquickjs::Runtime;
use rustix::time::{ClockId, clock_gettime};

/// Memory of one thread's engine, values of the request included. The fields of a request take at most 0.1 MiB of it.
pub const MEMORY_LIMIT: usize = 8 << 20;

/// Processor time of one evaluation: how much one request may delay the others of its thread. A usual one takes less than a hundredth of
/// it. Not wall time: a busy machine is not the script's fault.
pub const TIME_LIMIT: Duration = Duration::from_millis(10);

/// Stack of calls; a listen thread has 2 MiB. The engine's own default.
pub const STACK_LIMIT: usize = 256 << 10;

/// Processor time before a template is evaluated: built-in objects, and modules, which are loaded for each request.
pub(crate) const SETUP_LIMIT: Duration = Duration::from_millis(100);

/// Stops a runtime's script when its time is over.
#[derive(Clone, Default)]
pub(crate) struct Timer(Rc<State>);

#[derive(Default)]
struct State {
    limit: Cell<Duration>,
    /// Set when the engine first polls, about ten thousand steps after the beginning: most scripts end before, and read no clock.
    deadline: Cell<Option<Duration>>,
    is_over: Cell<bool>,
}

impl Timer {
    pub(crate) fn install(runtime: &Runtime) -> Timer {
        let timer = Timer::default();
        let asked = timer.clone();
        runtime.set_interrupt_handler(Some(Box::new(move || asked.must_stop())));
        timer
    }

    /// Starts the timer with `limit`.
    pub(crate) fn begin(&self, limit: Duration) {
        self.0.limit.set(limit);
        self.0.deadline.set(None);
        self.0.is_over.set(false);
    }

    /// True if it has stopped the script.
    pub(crate) fn is_over(&self) -> bool {
        self.0.is_over.get()
    }

    fn must_stop(&self) -> bool {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        let now = Duration::new(
            u64::try_from(time.tv_sec).unwrap_or_default(),
            u32::try_from(time.tv_nsec).unwrap_or_default(),
        );
        match self.0.deadline.get() {
            None => {
                self.0.deadline.set(Some(now + self.0.limit.get()));
                false
            }
            Some(deadline) if now < deadline => false,
            Some(_) => {
                self.0.is_over.set(true);
                true
            }
        }
    }
}
