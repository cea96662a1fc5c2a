//! The processes of an application, as main and a prototype start them and report their ends.

use std::any::Any;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use rustix::net::SendFlags;
use tutti_pool::{
    AppProcess, LaunchFuture, LaunchRequest, Launched, Launcher, Level, LogSink, ProcessExit,
    StartFailure,
};
use tutti_simulated::{AsyncFd, note, sleep, spawn_on, start_process};
use tutti_sys::seqpacket;
use tutti_wire::control::{ExitStatus, FromPrototype, MAX_MESSAGE, ToPrototype, decode, encode};
use tutti_wire::worker::{Attached, Descriptors};

use crate::worker;
use crate::world::{Child, World};

/// The thread on which the supervisors run, and here everything that main and the prototypes do.
pub(crate) const CONTROL: usize = 0;

/// A start takes at most this long.
const START: Duration = Duration::from_millis(60);

/// The signal that kills.
const SIGKILL: i32 = 9;

/// The end of a process is reported within this time.
const REPORT: Duration = Duration::from_millis(5);

/// Logs into the trace.
pub(crate) struct Trace;

impl LogSink for Trace {
    fn log(&self, level: Level, message: &str) {
        note!("{level:?}: {message}");
    }

    fn output(&self, _: &str, _: i32, line: &[u8]) {
        note!("output: {}", String::from_utf8_lossy(line));
    }
}

/// Main's side.
pub(crate) struct SimulatedLauncher(pub(crate) Arc<World>);

impl Launcher for SimulatedLauncher {
    fn start_prototype(&self, request: LaunchRequest) -> LaunchFuture {
        let world = Arc::clone(&self.0);
        Box::pin(async move {
            sleep(world.moment(START)).await;
            if fails(&world) {
                return Err(StartFailure::new(&request.spec, "exec", "it is to fail"));
            }
            let id = world.new_id();
            world.state().children.insert(id, Child::Prototype);
            note!("prototype {id} starts");
            let _ = spawn_on(CONTROL, prototype(world, id, request));
            Ok(Launched { pid: id })
        })
    }

    fn kill(&self, process: AppProcess, signal: i32) {
        let child = self.0.state().children.get(&process.pid).copied();
        let prototype = child.map(|child| match child {
            Child::Prototype => process.pid,
            Child::Worker { prototype, .. } => prototype,
        });
        assert!(
            prototype.is_none_or(|prototype| prototype == process.prototype),
            "{process:?} is of the prototype {prototype:?}"
        );
        if signal == SIGKILL {
            kill(&self.0, process.pid);
        }
    }
}

fn fails(world: &World) -> bool {
    let mut state = world.state();
    let once_in = world.plan.faults.failed_starts;
    state.random.once_in(once_in)
}

/// The things that a prototype gives to its workers.
struct Given {
    segment: Attached,
    descriptors: Arc<Descriptors>,
    control: Arc<AsyncFd<OwnedFd>>,
    /// Open as long as any of them lives.
    output: Arc<OwnedFd>,
}

async fn prototype(world: Arc<World>, id: i32, request: LaunchRequest) {
    let given = prepare(request);
    let mut events = Vec::new();
    sleep(world.moment(START)).await;
    let Ok(mut given) = given else {
        kill(&world, id);
        return;
    };
    let socket = Arc::downgrade(&given.control);
    world.state().sockets.insert(id, socket);
    let is_alive = || world.state().children.contains_key(&id);
    if fails(&world) {
        send(
            given.control.get_ref(),
            &FromPrototype::Failed {
                step: "load".to_owned(),
                message: "it is to fail".to_owned(),
                hint: None,
                member: None,
            },
        );
        end(&world, id, ProcessExit::Code(1));
        return;
    }
    if is_alive() {
        send(given.control.get_ref(), &FromPrototype::Ready);
    }
    world.state().segment = Some(given.segment.clone());
    let mut is_quitting = false;
    let mut buffer = vec![0; MAX_MESSAGE];
    while is_alive() {
        let has_workers = world
            .state()
            .children
            .values()
            .any(|child| matches!(child, Child::Worker { prototype, .. } if *prototype == id));
        if is_quitting && !has_workers {
            end(&world, id, ProcessExit::Code(0));
            return;
        }
        match seqpacket::receive(given.control.get_ref().as_fd(), &mut buffer) {
            Ok(None) => {
                kill(&world, id);
                return;
            }
            Ok(Some(message)) => match decode(&buffer[..message.len]) {
                Ok(ToPrototype::WorkerEvents { .. }) => events.extend(message.descriptors),
                Ok(ToPrototype::Fork { worker, .. }) => {
                    if let Some(descriptors) = Arc::get_mut(&mut given.descriptors) {
                        descriptors.workers.append(&mut events);
                    }
                    fork(&world, id, worker, &given);
                }
                Ok(ToPrototype::Quit) => is_quitting = true,
                _ => {}
            },
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // A killed prototype and the end of its last worker are noticed soon, too.
                let pause = Duration::from_millis(40);
                let readable = tutti_simulated::timeout(pause, given.control.readable());
                if let Ok(Ok(mut ready)) = readable.await {
                    ready.clear_ready();
                }
            }
            Err(_) => {
                kill(&world, id);
                return;
            }
        }
    }
}

fn prepare(request: LaunchRequest) -> io::Result<Given> {
    rustix::io::ioctl_fionbio(&request.control, true)?;
    Ok(Given {
        segment: Attached::open(request.segment.as_fd())?,
        descriptors: Arc::new(Descriptors {
            threads: request.eventfds,
            workers: Vec::new(),
            spool: Some(request.spool),
        }),
        control: Arc::new(AsyncFd::new(request.control)?),
        output: Arc::new(request.output),
    })
}

fn send(control: &OwnedFd, message: &FromPrototype) {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    // The router may have closed it.
    let _ = rustix::net::send(control, &encode(message), flags);
}

/// True if a worker failed at what another had damaged. A worker that is killed unwinds, too, and that goes on.
fn fails_by_damage(world: &World, panic: Box<dyn Any + Send>) -> bool {
    if tutti_simulated::is_killed() || !world.plan.is_damaged() {
        resume_unwind(panic);
    }
    true
}

fn fork(world: &Arc<World>, prototype: i32, number: u32, given: &Given) {
    let unstarted = match given.segment.unstarted(number, &given.descriptors) {
        Ok(unstarted) => Some(unstarted),
        Err(_) if world.plan.is_damaged() => None,
        Err(error) => panic!("worker {number} cannot be started: {error}"),
    };
    let id = world.new_id();
    let (control, output) = (Arc::clone(&given.control), Arc::clone(&given.output));
    let is_to_fail = fails(world);
    let of_worker = Arc::clone(world);
    let pid = start_process(move || {
        let world = of_worker;
        let _output = output;
        tutti_simulated::nap(world.moment(START));
        let has_failed = match unstarted.filter(|_| !is_to_fail) {
            None => true,
            Some(unstarted) => {
                let ready = FromPrototype::WorkerReady {
                    worker: number,
                    pid: id,
                };
                let serve =
                    || worker::run(&world, id, unstarted, || send(control.get_ref(), &ready));
                // A worker may well fail at what another has damaged.
                catch_unwind(AssertUnwindSafe(serve))
                    .is_err_and(|panic| fails_by_damage(&world, panic))
            }
        };
        let status = i32::from(has_failed);
        end(&world, id, ProcessExit::Code(status));
    });
    let child = Child::Worker {
        prototype,
        number,
        pid,
    };
    world.state().children.insert(id, child);
    note!("worker {number} is process {id}, {pid:?}");
    send(
        given.control.get_ref(),
        &FromPrototype::Forked {
            worker: number,
            pid: id,
        },
    );
}

/// Kills a process, if it exists.
pub(crate) fn kill(world: &Arc<World>, id: i32) {
    let child = {
        let mut state = world.state();
        let child = state.children.remove(&id);
        if child.is_some() {
            state.oracle.process_ends(id, tutti_wire::now());
            state.oracle.counts.kills += 1;
        }
        child
    };
    let Some(child) = child else { return };
    note!("process {id} is killed ({child:?})");
    if let Child::Worker { pid, .. } = child {
        tutti_simulated::kill(pid);
    }
    report_end(world, id, child, ProcessExit::Signal(SIGKILL));
}

/// A process ends by itself.
fn end(world: &Arc<World>, id: i32, status: ProcessExit) {
    let child = {
        let mut state = world.state();
        let child = state.children.remove(&id);
        state.oracle.process_ends(id, tutti_wire::now());
        child
    };
    if let Some(child) = child {
        note!("process {id} {status}");
        report_end(world, id, child, status);
    }
}

/// Reports the end of a process after a moment: its prototype does if it is alive, otherwise main.
fn report_end(world: &Arc<World>, id: i32, child: Child, status: ProcessExit) {
    let world = Arc::clone(world);
    let _ = spawn_on(CONTROL, async move {
        sleep(world.moment(REPORT)).await;
        tutti_simulated::set_exists(id, false);
        if let Child::Worker {
            prototype, number, ..
        } = child
        {
            let socket = {
                let state = world.state();
                let is_alive = state.children.contains_key(&prototype);
                let socket = state.sockets.get(&prototype).filter(|_| is_alive);
                socket.and_then(std::sync::Weak::upgrade)
            };
            if let Some(socket) = socket {
                let status = match status {
                    ProcessExit::Code(code) => ExitStatus::Code(code),
                    _ => ExitStatus::Signal(SIGKILL),
                };
                let message = FromPrototype::Exited {
                    worker: number,
                    pid: id,
                    status,
                };
                send(socket.get_ref(), &message);
                return;
            }
        }
        for manager in world.managers() {
            manager.process_exited(id, status);
        }
    });
}
