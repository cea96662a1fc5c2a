//! The state of a run that its clients, its workers and its judges share.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tutti_pool::{ApplicationPool, Manager};
use tutti_simulated::{AsyncFd, Pid, Random, note};
use tutti_wire::worker::{Attached, Exchange};

use crate::oracle::Oracle;
use crate::plan::Plan;

/// Process ids begin here, beyond those of the system (`pid_max` of proc(5) is at most 2^22).
const FIRST_ID: i32 = 5_000_000;

/// A process of the application.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Child {
    Prototype,
    Worker {
        /// Its prototype's id.
        prototype: i32,
        number: u32,
        pid: Pid,
    },
}

/// See the module.
pub(crate) struct World {
    pub(crate) plan: Plan,
    state: Mutex<State>,
}

pub(crate) struct State {
    pub(crate) random: Random,
    pub(crate) oracle: Oracle,
    pub(crate) manager: Option<Manager>,
    /// That of a router that is to take over.
    pub(crate) next: Option<Manager>,
    /// Those of former routers, and of such that did not start: they end.
    pub(crate) former: Vec<Manager>,
    /// Each request of a router has a copy.
    pub(crate) uses: Arc<()>,
    pub(crate) application: Option<Arc<ApplicationPool>>,
    pub(crate) children: BTreeMap<i32, Child>,
    next_id: i32,
    /// The current segment, as its workers have it.
    pub(crate) segment: Option<Attached>,
    /// The prototypes' control sockets.
    pub(crate) sockets: BTreeMap<i32, Weak<AsyncFd<OwnedFd>>>,
    /// Processes that end themselves, which others have to do for them.
    pub(crate) doomed: Vec<i32>,
    next_request: u64,
    pub(crate) clients: u32,
    /// A restart or a change is under way.
    pub(crate) is_changing: bool,
    pub(crate) is_over: bool,
    /// A change has made another application of the same name.
    pub(crate) was_replaced: bool,
}

impl State {
    /// Clients use this application from now on.
    pub(crate) fn replace(&mut self, application: Option<Arc<ApplicationPool>>) {
        let both = self.application.as_ref().zip(application.as_ref());
        self.was_replaced |= !both.is_some_and(|(before, now)| Arc::ptr_eq(before, now));
        self.application = application;
    }
}

impl World {
    pub(crate) fn new(plan: Plan) -> Arc<World> {
        let state = State {
            random: Random::new(plan.seed.wrapping_add(1)),
            oracle: Oracle::new(plan.is_damaged()),
            segment: None,
            manager: None,
            next: None,
            former: Vec::new(),
            uses: Arc::default(),
            application: None,
            children: BTreeMap::new(),
            next_id: FIRST_ID,
            sockets: BTreeMap::new(),
            doomed: Vec::new(),
            next_request: 0,
            clients: plan.clients,
            is_changing: false,
            is_over: false,
            was_replaced: false,
        };
        Arc::new(World {
            plan,
            state: Mutex::new(state),
        })
    }

    /// Never held while production code is called: it may run another process.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A time up to `most`, short ones more often.
    pub(crate) fn moment(&self, most: Duration) -> Duration {
        let nanoseconds = self.state().random.scaled(1, most.as_nanos() as u64);
        Duration::from_nanos(nanoseconds)
    }

    /// The next request, until all have been sent.
    pub(crate) fn next_request(&self) -> Option<u64> {
        let mut state = self.state();
        let id = state.next_request;
        (id < self.plan.requests).then(|| {
            state.next_request += 1;
            id
        })
    }

    /// A worker has been given a request: returns its number, which is its target. `None` if it was damaged.
    pub(crate) fn begins(&self, exchange: &Exchange, process: i32) -> Option<u64> {
        let target = exchange.request().target();
        let text = std::str::from_utf8(target).ok();
        let id = text.and_then(|text| text.trim_start_matches('/').parse().ok());
        let id = id.filter(|id| *id < self.plan.requests);
        assert!(
            id.is_some() || self.plan.is_damaged(),
            "a worker was given the target {target:?}"
        );
        if let Some(id) = id {
            note!("process {process} begins request {id}");
            self.state().oracle.begins(id, process);
        }
        id
    }

    pub(crate) fn manager(&self) -> Option<Manager> {
        self.state().manager.clone()
    }

    /// The managers of all routers, each of which learns of every end.
    pub(crate) fn managers(&self) -> Vec<Manager> {
        let state = self.state();
        let current = state.manager.iter().chain(&state.next);
        current.chain(&state.former).cloned().collect()
    }

    /// The id of a new process.
    pub(crate) fn new_id(&self) -> i32 {
        let mut state = self.state();
        state.next_id += 1;
        let id = state.next_id;
        drop(state);
        tutti_simulated::set_exists(id, true);
        id
    }
}
