//! One run: sets the world up, lets the faults happen, and judges.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tutti_options::OptionalLimit;
use tutti_options::application::Common;
use tutti_options::node::Node;
use tutti_options::perl::Perl;
use tutti_options::processes::{Limits, Processes, Queue, ScaledProcesses};
use tutti_options::types::Special;
use tutti_pool::{AppSpec, Clocks, Launcher, LogSink, Manager, ThreadWakers, threads};
use tutti_simulated::{Machine, Ran, Snapshot, note, sleep, spawn_on};
use tutti_spool::{Spool, SpoolPlace};
use tutti_wire::now;

use crate::client;
use crate::oracle::Counts;
use crate::plan::Plan;
use crate::processes::{CONTROL, SimulatedLauncher, Trace, kill};
use crate::world::{Child, World};

/// The application's name.
const NAME: &str = "app";

/// A run that takes longer is stuck: the longest single wait is that of a slow client for each part of a large body.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Time for everything to come to rest after the last client.
const REST: Duration = Duration::from_secs(600);

/// After a disturbance, others may wait for a report that long, and for the supervisor's next round.
const RECOVERY: Duration = Duration::from_secs(2);

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Report {
    pub(crate) counts: Counts,
    pub(crate) steps: u64,
    /// Differs if two runs differ.
    pub(crate) digest: u64,
}

/// The cores of the simulated machine. Its CPU time is unknown.
struct Cores(u32);

impl Clocks for Cores {
    fn cores(&self) -> u32 {
        self.0
    }

    fn machine(&self) -> Option<Duration> {
        None
    }

    fn own(&self) -> Duration {
        Duration::ZERO
    }

    fn worker(&self, _: i32) -> Option<Duration> {
        None
    }
}

/// Runs a seed.
///
/// # Panics
/// If a rule is broken.
pub(crate) fn run(seed: u64, is_traced: bool) -> Report {
    let plan = Plan::of(seed);
    let descriptors = open_descriptors();
    let machine = Machine::new(seed, plan.chances, is_traced);
    note!("{plan:?}");
    let world = World::new(plan);
    let spool = Spool::in_memory(1 << 20).expect("memory for a spool");
    let wakers = set_up(&machine, &world, &spool);
    let mut judge = Judge {
        wakers,
        world: &world,
        machine: &machine,
        lowered: Lowered::default(),
        spool: spool.clone(),
        due: [0; FAULTS],
        next_due: 0,
    };
    let ran = machine.run(|snapshot| judge.look(snapshot));
    drop(judge);
    let state = world.state();
    if ran == Ran::Dead || !state.is_over {
        let clients = state.clients;
        let application = state.application.clone();
        let serving = state.oracle.serving.clone();
        drop(state);
        panic!(
            "nothing happens any more, and {clients} clients wait: {:?}, serving: {serving:?}",
            application.map(|application| application.status())
        );
    }
    assert!(
        state.children.is_empty(),
        "processes are left: {:?}",
        state.children
    );
    let report = Report {
        counts: state.oracle.counts,
        steps: tutti_simulated::step_number(),
        digest: machine.digest(),
    };
    drop(state);
    // The world holds the manager, whose launcher holds the world.
    let (manager, application) = {
        let mut state = world.state();
        state.segment = None;
        state.former.clear();
        (state.manager.take(), state.application.take())
    };
    drop(manager);
    drop(application);
    assert_eq!(spool.in_use(), 0, "regions of the spool are lost");
    drop(machine);
    assert_eq!(Arc::strong_count(&world), 1, "something holds the world");
    drop(world);
    drop(spool);
    assert_eq!(open_descriptors(), descriptors, "descriptors are lost");
    report
}

/// The number of descriptors of this program.
fn open_descriptors() -> usize {
    let open = std::fs::read_dir("/proc/self/fd");
    open.map_or(0, Iterator::count)
}

/// The application's specification, with this many processes.
fn spec(plan: &Plan, spool: &Spool, processes: u32) -> AppSpec {
    let processes = match plan.is_scaled {
        false => Processes::Fixed(processes),
        true => Processes::Scaled(ScaledProcesses {
            max: processes,
            spare: processes / 2,
            idle_timeout: Duration::from_secs(1),
        }),
    };
    let defaults = Limits::default();
    let limits = Limits {
        requests: OptionalLimit(plan.request_limit),
        timeout: OptionalLimit(plan.timeout),
        queue: Queue {
            length: plan.queue_length,
            wait: OptionalLimit(plan.queue_wait),
            ..defaults.queue
        },
        concurrency: plan.event_loop.and_then(NonZeroU32::new),
        ..defaults
    };
    AppSpec {
        name: NAME.into(),
        kind: "simulated".to_owned(),
        version: String::new(),
        pointer: format!("/applications/{NAME}"),
        common: Common {
            processes,
            limits,
            ..Common::default()
        },
        special: match plan.event_loop {
            None => Special::Perl(Perl::default()),
            Some(_) => Special::Node(Node::default()),
        },
        max_body_size: 1 << 20,
        spool: SpoolPlace::opened(spool.clone()),
    }
}

fn set_up(machine: &Machine, world: &Arc<World>, spool: &Spool) -> Arc<ThreadWakers> {
    let plan = &world.plan;
    machine.add_thread(|| {}, || {});
    let wakers = ThreadWakers::new(plan.listen_threads).expect("descriptors");
    let listen: Vec<usize> = (0..plan.listen_threads)
        .map(|number| {
            let thread = machine.add_thread(threads::park, threads::unpark);
            machine.on_thread(thread, || wakers.enter(number));
            let watched = Arc::clone(&wakers);
            let _ = spawn_on(thread, async move {
                let outcome = watched.watch(number).await;
                panic!("listen thread {number} does not watch its event: {outcome:?}");
            });
            thread
        })
        .collect();
    let manager = manager(world, &wakers);
    world.state().manager = Some(manager.clone());
    let (of_control, spool) = (Arc::clone(world), spool.clone());
    let _ = spawn_on(CONTROL, control(of_control, manager, spool, listen));
    wakers
}

/// The manager of a router.
fn manager(world: &Arc<World>, wakers: &Arc<ThreadWakers>) -> Manager {
    let launcher: Arc<dyn Launcher> = Arc::new(SimulatedLauncher(Arc::clone(world)));
    let log: Arc<dyn LogSink> = Arc::new(Trace);
    let clocks = Box::new(Cores(world.plan.cores));
    Manager::with_clocks(launcher, log, Arc::clone(wakers), clocks)
}

/// The control thread: configures the application, starts the clients, and ends everything when they have gone.
async fn control(world: Arc<World>, first: Manager, spool: Spool, listen: Vec<usize>) {
    let plan = &world.plan;
    loop {
        let specs = vec![spec(plan, &spool, plan.processes)];
        match first.prepare(specs).await {
            Ok(prepared) => {
                prepared.commit();
                break;
            }
            Err(failures) => assert!(
                plan.faults.failed_starts > 0,
                "the application does not start: {failures:?}"
            ),
        }
    }
    world.state().application = first.application(NAME);
    drop(first);
    for number in 0..plan.clients {
        let thread = listen[number as usize % listen.len()];
        let think = match number % 3 {
            0 => world.moment(Duration::from_millis(3)),
            _ => Duration::ZERO,
        };
        let _ = spawn_on(thread, client::run(Arc::clone(&world), think));
    }
    while world.state().clients > 0 || world.state().is_changing {
        sleep(Duration::from_millis(5)).await;
    }
    note!("all clients have gone");
    rest(&world).await;
    // An application that a request may still use is not ended before its deadline.
    world.state().application = None;
    if let Some(manager) = world.manager() {
        manager.shutdown(Some(Duration::from_secs(30))).await;
    }
    note!("the application has ended");
    while !world.state().children.is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    world.state().is_over = true;
}

/// Waits until every request is off the workers, then compares the counters.
async fn rest(world: &Arc<World>) {
    let Some(application) = world.state().application.clone() else {
        return;
    };
    let until = now() + REST;
    loop {
        let status = application.status();
        let (free, waiting) = application.free_and_waiting();
        let slots = application.slots();
        // A damaged word may say for ever that a worker uses a slot.
        let is_free = free == slots || world.plan.is_damaged();
        if status.active == 0 && status.queued == 0 && waiting == 0 && is_free {
            break;
        }
        assert!(
            now() < until,
            "no client is left, but {status:?}, and of {slots} slots {free} are free"
        );
        sleep(Duration::from_millis(50)).await;
    }
    let (accepted, was_replaced) = {
        let state = world.state();
        (state.oracle.accepted, state.was_replaced)
    };
    let counted = application.status().requests;
    assert!(
        counted == accepted || was_replaced,
        "{accepted} requests were accepted, {counted} are counted"
    );
}

/// Limits of this program that are lowered for a while: the disk is full, or no descriptor can be made.
#[derive(Debug, Default)]
struct Lowered {
    /// Each with what it was before, and when it is raised again.
    limits: Vec<(Resource, Rlimit, Duration)>,
}

impl Lowered {
    fn lower(&mut self, resource: Resource, to: u64, until: Duration) {
        if self.limits.iter().any(|(lowered, ..)| *lowered == resource) {
            return;
        }
        let before = getrlimit(resource);
        let current = Some(to);
        // A write beyond it fails with EFBIG, as SIGXFSZ is ignored (setrlimit(2)).
        if setrlimit(resource, Rlimit { current, ..before }).is_ok() {
            self.limits.push((resource, before, until));
        }
    }

    /// Raises those whose time is over.
    fn raise(&mut self, now: Duration) {
        self.limits.retain(|(resource, before, until)| {
            *until > now || setrlimit(*resource, *before).is_err()
        });
    }
}

impl Drop for Lowered {
    fn drop(&mut self) {
        self.raise(Duration::MAX);
    }
}

struct Judge<'a> {
    wakers: Arc<ThreadWakers>,
    world: &'a Arc<World>,
    machine: &'a Machine,
    lowered: Lowered,
    spool: Spool,
    /// The step at which each fault happens next.
    due: [u64; FAULTS],
    next_due: u64,
}

/// Faults that happen at any step.
const FAULTS: usize = 11;

impl Judge<'_> {
    /// Called after each turn. False ends the run.
    fn look(&mut self, snapshot: &Snapshot) -> bool {
        let (doomed, application, is_over) = {
            let mut state = self.world.state();
            let doomed = std::mem::take(&mut state.doomed);
            (doomed, state.application.clone(), state.is_over)
        };
        for process in doomed {
            kill(self.world, process);
        }
        if is_over || snapshot.elapsed > LONGEST {
            return false;
        }
        if let Some(application) = application {
            if snapshot.is_router_asleep && !self.world.plan.is_damaged() {
                let (free, waiting) = application.free_and_waiting();
                assert!(
                    free == 0 || waiting == 0,
                    "{free} slots are free, and {waiting} requests sleep waiting for one"
                );
                let most = self
                    .world
                    .plan
                    .queue_length
                    .saturating_add(application.slots());
                assert!(waiting <= most, "{waiting} requests wait");
            }
            if snapshot.is_idle && snapshot.is_router_asleep {
                self.check_queue(&application);
            }
            if self.world.state().clients > 0 {
                self.lowered.raise(snapshot.elapsed);
                if snapshot.step >= self.next_due {
                    let chosen = self.choose(snapshot.step);
                    self.befall(snapshot, chosen);
                }
            } else {
                self.lowered.raise(Duration::MAX);
            }
        }
        true
    }

    /// Nothing can happen before a timer expires: no request may wait for a worker that is idle.
    fn check_queue(&self, application: &tutti_pool::ApplicationPool) {
        let recently = {
            let state = self.world.state();
            let is_recent = |end| now() < end + RECOVERY;
            !state.oracle.serving.is_empty() || state.oracle.last_disturbance.is_some_and(is_recent)
        };
        let plan = &self.world.plan;
        if recently || plan.faults.stops > 0 || plan.is_damaged() {
            return;
        }
        let status = application.status();
        // Those that wait for a slot wait for a client that reads slowly.
        let (_, waiting) = application.free_and_waiting();
        let queued = status.queued.saturating_sub(waiting);
        assert!(
            queued == 0 || status.running == 0 || status.idle == 0,
            "{queued} requests are queued and every worker sleeps: {status:?}"
        );
    }

    /// The faults that are due, and the time of the next ones.
    fn choose(&mut self, step: u64) -> [bool; FAULTS] {
        let faults = self.world.plan.faults;
        let intervals = [
            faults.kills,
            faults.prototype_kills,
            faults.stops,
            faults.thread_stops,
            faults.jumps,
            faults.restarts,
            faults.changes,
            faults.garbage,
            faults.full_disk,
            faults.no_descriptors,
            faults.upgrades,
        ];
        let mut state = self.world.state();
        let chosen = std::array::from_fn(|fault| {
            let (due, interval) = (&mut self.due[fault], u64::from(intervals[fault]));
            if step < *due {
                return false;
            }
            let is_first = *due == 0;
            *due = match interval {
                0 => u64::MAX,
                _ => step + 1 + state.random.below(2 * interval),
            };
            !is_first
        });
        self.next_due = self.due.iter().copied().min().unwrap_or(u64::MAX);
        chosen
    }

    /// The faults of this turn.
    fn befall(&mut self, snapshot: &Snapshot, chosen: [bool; FAULTS]) {
        let [
            kill_worker,
            kill_prototype,
            stop,
            stop_thread,
            jump,
            restart,
            change,
            garbage,
            full,
            none,
            upgrade,
        ] = chosen;
        if kill_worker && let Some((id, _)) = self.some_child(false) {
            kill(self.world, id);
        }
        if kill_prototype && let Some((id, _)) = self.some_child(true) {
            kill(self.world, id);
        }
        if stop && let Some((id, Child::Worker { pid, .. })) = self.some_child(false) {
            let time = self.world.moment(Duration::from_secs(3));
            note!("process {id} is stopped for {time:?}");
            self.machine.stop(pid, time);
        }
        if stop_thread {
            let threads = u64::from(self.world.plan.listen_threads) + 1;
            let thread = self.world.state().random.below(threads) as usize;
            let time = self.world.moment(Duration::from_secs(3));
            note!("thread {thread} is stopped for {time:?}");
            self.machine.stop_thread(thread, time);
            if thread == CONTROL {
                self.world.state().oracle.is_disturbed_at(now() + time);
            }
        }
        if jump {
            let time = self.world.moment(Duration::from_secs(20));
            note!("the clock jumps by {time:?}");
            self.machine.jump(time);
            self.world.state().oracle.is_disturbed_at(now());
        }
        if restart {
            self.restart();
        }
        if change {
            self.change();
        }
        if garbage {
            self.scribble();
        }
        if upgrade {
            self.upgrade();
        }
        if !full && !none {
            return;
        }
        let until = snapshot.elapsed + self.world.moment(Duration::from_millis(300));
        if full {
            note!("the disk is full");
            // The first region still has room: what is printed may go to a file.
            self.lowered.lower(Resource::Fsize, 1 << 20, until);
        }
        if none {
            note!("no descriptor can be made");
            self.lowered.lower(Resource::Nofile, 3, until);
        }
    }

    /// A worker writes into the words that it shares with the router and the other workers.
    fn scribble(&self) {
        let (segment, numbers) = {
            let mut state = self.world.state();
            let numbers = [(); 3].map(|()| state.random.number());
            (state.segment.clone(), numbers)
        };
        let [place, kind, number] = numbers;
        let value = match kind % 4 {
            0 => number,
            1 => number % 8,
            2 => u64::MAX,
            _ => number >> 56 << 56 | number & 0xff,
        };
        if let Some(segment) = segment {
            note!("a worker writes {value:#x} to word {place}");
            segment.scribble(place, value);
        }
    }

    fn some_child(&self, is_prototype: bool) -> Option<(i32, Child)> {
        let mut state = self.world.state();
        let is_meant = |child: &Child| matches!(child, Child::Prototype) == is_prototype;
        let count = state
            .children
            .values()
            .filter(|child| is_meant(child))
            .count();
        let nth = state.random.below(count as u64) as usize;
        let mut children = state.children.iter().filter(|(_, child)| is_meant(child));
        children.nth(nth).map(|(id, child)| (*id, *child))
    }

    /// The configuration changes: another number of processes, which may need another segment.
    fn change(&self) {
        let world = Arc::clone(self.world);
        if std::mem::replace(&mut world.state().is_changing, true) {
            return;
        }
        let processes = 1 + world.state().random.below(6) as u32;
        let spec = spec(&world.plan, &self.spool, processes);
        let _ = spawn_on(CONTROL, async move {
            note!("the application is to have {processes} processes");
            if let Some(manager) = world.manager()
                && let Ok(prepared) = manager.prepare(vec![spec]).await
            {
                prepared.commit();
                world.state().replace(manager.application(NAME));
                manager.settled().await;
            }
            world.state().is_changing = false;
        });
    }

    /// Another router takes over: it starts processes of its own, and the former ends when its last request has ended.
    fn upgrade(&self) {
        let world = Arc::clone(self.world);
        if std::mem::replace(&mut world.state().is_changing, true) {
            return;
        }
        world.state().oracle.counts.upgrades += 1;
        let spec = spec(&world.plan, &self.spool, world.plan.processes);
        let next = manager(&world, &self.wakers);
        world.state().next = Some(next.clone());
        let _ = spawn_on(CONTROL, async move {
            note!("another router is to take over");
            match next.prepare(vec![spec]).await {
                Ok(prepared) => {
                    prepared.commit();
                    hand_over(&world).await;
                }
                Err(failures) => {
                    note!("it does not start: {failures:?}");
                    let mut state = world.state();
                    let next = state.next.take();
                    state.former.extend(next);
                }
            }
            world.state().is_changing = false;
        });
    }

    fn restart(&self) {
        let world = Arc::clone(self.world);
        if std::mem::replace(&mut world.state().is_changing, true) {
            return;
        }
        world.state().oracle.counts.restarts += 1;
        let _ = spawn_on(CONTROL, async move {
            note!("the application is restarted");
            if let Some(manager) = world.manager() {
                let outcome = manager.restart(NAME).await;
                note!("the restart ends: {outcome:?}");
            }
            world.state().is_changing = false;
        });
    }
}

/// Clients use the next router from now on. Returns when the former has ended.
async fn hand_over(world: &World) {
    let (former, uses) = {
        let mut state = world.state();
        let Some(next) = state.next.take() else {
            return;
        };
        state.replace(next.application(NAME));
        let former = state.manager.replace(next);
        state.former.extend(former.clone());
        (former, std::mem::take(&mut state.uses))
    };
    let Some(former) = former else { return };
    world.state().oracle.first_drain.get_or_insert(now());
    former.begin_drain();
    while Arc::strong_count(&uses) > 1 {
        sleep(Duration::from_millis(5)).await;
    }
    former.shutdown(Some(Duration::from_secs(30))).await;
    note!("the former router has ended");
}

/// The folder of the kept seeds.
pub(crate) fn kept() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("kept.txt")
}
