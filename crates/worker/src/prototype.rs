//! The prototype: loads once, forks workers on the router's command, reports how they end.
//!
//! One thread, blocked in `poll` on the control socket and a pidfd per worker. When a fork returns in the child, everything here is unwound
//! and the child continues in `serve`. A worker that is a program of its own is not forked: the program is executed in a new process at
//! once ([`become_program`]).

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU32;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::catch_unwind;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use tutti_options::Options as _;
use tutti_options::application::Common;
use tutti_options::logging::Level;
use tutti_sys::fork::Fork;
use tutti_sys::process::Ended;
use tutti_sys::{lifeline, memfd, priority, proc, process, seqpacket, signal, spawn, title};
use tutti_wire::control::{
    ExitStatus, FD_CONTROL, FD_EVENTS, FD_LIFELINE, FD_SEGMENT, FD_SPOOL, FD_START, FromPrototype,
    MAX_MESSAGE, MODULE_VARIABLE, Start, ToPrototype, decode, encode,
};
use tutti_wire::worker::{Attached, Descriptors};

use crate::become_program::{self, Started};
use crate::error::StartError;
use crate::host::Host;
use crate::reports::{cut, panic_text, report_of, send, send_warnings};
use crate::serve::Inherited;
use crate::watch::Watch;
use crate::{module, output, serve};

/// Time for which workers may continue their requests after the router has ended, when the responses cannot be sent any more.
const GRACE: Timespec = Timespec {
    tv_sec: 2,
    tv_nsec: 0,
};

/// Why the prototype's loop ended.
enum Outcome {
    /// This process is now these workers.
    Worker(Range<u32>),
    /// All is done.
    Over,
}

pub(crate) fn run<H: Host>() -> io::Result<ExitCode> {
    // First of all: the inherited memory and its content must not be readable for other processes of this user. Main ensures that from the
    // start, where it can.
    process::hide_memory()?;
    // Languages and applications start threads when they are loaded (ruby does since 3.3): after that it would be too late. A title is only
    // for display: in a root without `/proc` there is none.
    let _ = title::prepare();
    take_module();
    // Rust's runtime has handlers for these that remove themselves and return, so that the fault happens again: one sent by `kill` does
    // not, and the process would continue.
    for fault in [libc::SIGSEGV, libc::SIGBUS] {
        let _ = signal::set_default(fault);
    }
    let control = spawn::inherited(FD_CONTROL)?;
    let prepared = catch_unwind(|| prepare::<H>(&control)).unwrap_or_else(|panic| {
        Err(StartError::new(
            "loading the application",
            panic_text(&*panic),
        ))
    });
    let (inherited, mut app) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => {
            report_failure(&control, error);
            return Ok(ExitCode::FAILURE);
        }
    };
    let name = inherited.start.name.clone();
    let _ = title::set(&format!("tutti: \"{name}\" prototype"));
    send_warnings(&control)?;
    if H::starts_programs(&app) {
        send(&control, &FromPrototype::StartsPrograms)?;
    }
    send(&control, &FromPrototype::Ready)?;
    let start_program = |number| {
        let program = H::program(&app, number)?;
        Some(become_program::start(
            &program,
            &inherited.handed(number, &control),
        ))
    };
    let outcome = Prototype {
        control: &control,
        workers: BTreeMap::new(),
        most: inherited.segment.layout().workers,
        around_fork: (H::before_fork, H::after_fork),
        fork: H::fork,
        start_program: &start_program,
        watch: watch(&inherited.start, &control)?,
        quitting: false,
        orphans: Orphans::begin(H::ends_orphans(&app)),
    }
    .run(&inherited)?;
    match outcome {
        Outcome::Over => {
            // Unloading a language takes time, and no request waits for it.
            priority::give_way_to_all();
            Ok(ExitCode::SUCCESS)
        }
        Outcome::Worker(numbers) => {
            let _ = title::set(&format!("tutti: \"{name}\" application"));
            Ok(serve::run::<H>(&mut app, numbers, inherited, control))
        }
    }
}

/// Stores where this program is installed, and takes its name from there.
fn take_module() {
    let module = module::from_variable();
    if let Some(name) = module.as_deref().and_then(Path::file_name) {
        process::set_name(&name.to_string_lossy());
    }
    module::is_at(module);
    let _ = tutti_sys::fork::unset_variable(MODULE_VARIABLE);
}

/// Begins to watch the application's files, if that is configured. A failure does not stop the application.
fn watch(start: &Start, control: &OwnedFd) -> io::Result<Option<Watch>> {
    if start.watch.is_empty() {
        return Ok(None);
    }
    match Watch::new(&start.watch) {
        Ok(watch) => Ok(Some(watch)),
        Err(error) => {
            let level = Level::Warn;
            let message = format!("\"{}\": `watch` is not possible: {error}", start.name);
            send(control, &FromPrototype::Log { level, message })?;
            Ok(None)
        }
    }
}

/// Opens the files for the application's output. A failure is a warning in the server's log.
fn redirect(name: &str, common: &Common, control: &OwnedFd) {
    output::redirect(
        common.stdout.as_deref(),
        common.stderr.as_deref(),
        |reason| {
            let level = Level::Warn;
            let message = format!("\"{name}\": {reason}");
            // Without a router there is no log either, and this process ends.
            let _ = send(control, &FromPrototype::Log { level, message });
        },
    );
}

fn prepare<H: Host>(control: &OwnedFd) -> Result<(Inherited, H::App), StartError> {
    // First: it says whether this host and the router understand all the rest alike.
    let segment_file = spawn::inherited(FD_SEGMENT)
        .map_err(|error| StartError::new("taking over the segment", error))?;
    let segment = Attached::open(segment_file.as_fd()).map_err(|error| {
        StartError::new("mapping the segment", error).hint(
            "install the server and its language hosts from one release, and restart the server",
        )
    })?;
    let unreadable = |error| StartError::new("reading the start document", error);
    let start_file = spawn::inherited(FD_START).map_err(unreadable)?;
    let document = memfd::contents(&start_file).map_err(unreadable)?;
    let start: Start =
        decode(&document).map_err(|error| StartError::new("reading the start document", error))?;
    crate::log::is_of(&start.name);
    let common = Common::from_json(&start.config)?;
    let inherit = |number: i32, what: &str| {
        spawn::inherited(number)
            .map_err(|error| StartError::new(format!("taking over the {what}"), error))
    };
    // A new process group: the lifeline's signal goes to the group, a terminal's does not.
    if !rustix::process::getpgrp().eq(&rustix::process::getpid()) {
        process::new_session().map_err(|error| StartError::new("making a session", error))?;
    }
    let lifeline = spawn::inherited(FD_LIFELINE).ok();
    if let Some(lifeline) = &lifeline {
        lifeline::tie_own_group(lifeline.as_fd())
            .map_err(|error| StartError::new("tying the lifeline", error))?;
    }
    let layout = segment.layout();
    let events = (0..layout.threads)
        .map(|thread| inherit(FD_EVENTS + thread as i32, "router's events"))
        .collect::<Result<Vec<_>, _>>()?;
    let workers = if start.worker_events {
        receive_events(control, layout.workers)
            .map_err(|error| StartError::new("taking over the workers' events", error))?
    } else {
        Vec::new()
    };
    let descriptors = Descriptors {
        threads: events,
        workers,
        spool: spawn::inherited(FD_SPOOL).ok(),
    };
    redirect(&start.name, &common, control);
    for (name, value) in &common.environment {
        tutti_sys::fork::set_variable(name, value)
            .map_err(|error| StartError::new("setting the environment", error))?;
    }
    become_program::enter(common.working_directory.as_deref())?;
    let app = H::load(&start, &common)?;
    let inherited = Inherited {
        start,
        common,
        segment,
        descriptors: Arc::new(descriptors),
        lifeline,
        files: [segment_file, start_file],
    };
    Ok((inherited, app))
}

/// As the first process in a pid namespace, this process gets the children that user code has left behind, and only learns of their end by
/// checking.
fn orphan_interval() -> Option<&'static Timespec> {
    const INTERVAL: Timespec = Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    (process::id() == 1).then_some(&INTERVAL)
}

/// Receives the events that the router sends before anything else, one for each worker number.
fn receive_events(control: &OwnedFd, workers: u32) -> io::Result<Vec<OwnedFd>> {
    let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
    let mut events = Vec::new();
    let mut buffer = vec![0; MAX_MESSAGE];
    while events.len() < workers as usize {
        let message = seqpacket::receive(control.as_fd(), &mut buffer)?
            .ok_or_else(|| invalid("the router has ended".to_owned()))?;
        let bytes = buffer.get(..message.len).unwrap_or_default();
        let first = match decode(bytes).map_err(|error| invalid(error.to_string()))? {
            ToPrototype::WorkerEvents { first } => first,
            ToPrototype::Unknown => continue,
            other => return Err(invalid(format!("unexpected command: {other:?}"))),
        };
        if first as usize != events.len() || message.descriptors.is_empty() {
            return Err(invalid(format!(
                "events from {first} on, after {}",
                events.len()
            )));
        }
        events.extend(message.descriptors);
    }
    events.truncate(workers as usize);
    Ok(events)
}

struct Worker {
    /// Its worker numbers.
    numbers: Range<u32>,
    pidfd: OwnedFd,
}

struct Prototype<'a> {
    control: &'a OwnedFd,
    /// By process id.
    workers: BTreeMap<i32, Worker>,
    most: u32,
    /// The language's functions before and after a fork.
    around_fork: (fn(), fn()),
    /// The language's function that forks.
    fork: fn() -> io::Result<Fork>,
    /// Starts the program for the worker with this number; `None`: it is a fork.
    start_program: &'a dyn Fn(u32) -> Option<io::Result<Started>>,
    watch: Option<Watch>,
    quitting: bool,
    orphans: Orphans,
}

/// The processes that workers' programs have left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Orphans {
    /// They do not concern this process.
    Ignored,
    /// They fall to this process, and are ended with their worker.
    None,
    /// Some have been killed, and may leave others behind.
    Ending,
}

impl Orphans {
    /// In the first process of a pid namespace, `/proc` may belong to another: the orphans cannot be identified.
    fn begin(are_ended: bool) -> Orphans {
        let can_end = are_ended && process::id() != 1 && process::become_subreaper().is_ok();
        if can_end {
            Orphans::None
        } else {
            Orphans::Ignored
        }
    }
}

/// Interval between checks of killed processes.
const KILLED_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

impl Prototype<'_> {
    fn run(mut self, inherited: &Inherited) -> io::Result<Outcome> {
        let mut buffer = vec![0; MAX_MESSAGE];
        loop {
            if self.quitting && self.workers.is_empty() {
                return Ok(Outcome::Over);
            }
            let timeout = self.report_changes(&inherited.start)?;
            let pause = match self.orphans {
                Orphans::Ending => Some(&KILLED_INTERVAL),
                Orphans::Ignored | Orphans::None => timeout.as_ref().or(orphan_interval()),
            };
            if self.wait(pause)? {
                match seqpacket::receive(self.control.as_fd(), &mut buffer)? {
                    None => return self.router_gone(),
                    Some(message) => {
                        let bytes = buffer.get(..message.len).unwrap_or_default();
                        if let Some(numbers) = self.obey(bytes, inherited)? {
                            return Ok(Outcome::Worker(numbers));
                        }
                    }
                }
            }
            self.reap()?;
        }
    }

    /// Reports changed files. Returns how long to wait until more must be reported.
    fn report_changes(&mut self, start: &Start) -> io::Result<Option<Timespec>> {
        if self.quitting {
            self.watch = None;
        }
        let Some(watch) = &mut self.watch else {
            return Ok(None);
        };
        let now = std::time::Instant::now();
        watch.look(now);
        let changed = watch.due(now);
        let warning = watch.take_warning();
        let due_at = watch.due_at();
        if let Some(path) = changed {
            let path = cut(path.to_string_lossy().into_owned());
            send(self.control, &FromPrototype::Changed { path })?;
        }
        if let Some(warning) = warning {
            self.log(Level::Warn, format!("\"{}\": {warning}", start.name))?;
        }
        Ok(due_at.map(|at| {
            let left = at.saturating_duration_since(now);
            Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            }
        }))
    }

    /// Sleeps until something happens; true when the control socket can be read.
    fn wait(&self, timeout: Option<&Timespec>) -> io::Result<bool> {
        let mut polls = vec![PollFd::new(self.control, PollFlags::IN)];
        polls.extend(
            self.workers
                .values()
                .map(|worker| PollFd::new(&worker.pidfd, PollFlags::IN)),
        );
        let changes = self.watch.as_ref().map(Watch::descriptor);
        polls.extend(
            changes
                .iter()
                .map(|changes| PollFd::new(changes, PollFlags::IN)),
        );
        match poll(&mut polls, timeout) {
            Err(rustix::io::Errno::INTR) => return Ok(false),
            result => result?,
        };
        Ok(polls.first().is_some_and(|poll| !poll.revents().is_empty()))
    }

    /// Carries out a command; in a new worker process it returns its numbers.
    fn obey(&mut self, bytes: &[u8], inherited: &Inherited) -> io::Result<Option<Range<u32>>> {
        match decode(bytes) {
            Ok(ToPrototype::Fork { worker, threads }) => return self.fork(worker, threads),
            Ok(ToPrototype::Quit) => self.quitting = true,
            Ok(ToPrototype::Reopen) => {
                redirect(&inherited.start.name, &inherited.common, self.control);
            }
            Ok(ToPrototype::WorkerEvents { .. }) => {
                self.log(Level::Alert, "events of workers were delayed".to_owned())?;
            }
            Ok(ToPrototype::Unknown) => {}
            Err(error) => self.log(Level::Alert, format!("malformed command: {error}"))?,
        }
        Ok(None)
    }

    fn fork(&mut self, worker: u32, threads: NonZeroU32) -> io::Result<Option<Range<u32>>> {
        let end = worker.saturating_add(threads.get());
        let is_taken = |other: &Worker| other.numbers.start < end && worker < other.numbers.end;
        let refusal = if end > self.most {
            Some("there is no such worker".to_owned())
        } else if self.workers.values().any(is_taken) {
            Some("this worker is running already".to_owned())
        } else {
            None
        };
        if let Some(message) = refusal {
            return self.fork_failed(worker, message).map(|()| None);
        }
        match (self.start_program)(worker) {
            Some(started) => self.program_started(worker..end, started).map(|()| None),
            None => self.fork_worker(worker..end),
        }
    }

    /// Forks; in the new process it returns its numbers.
    fn fork_worker(&mut self, numbers: Range<u32>) -> io::Result<Option<Range<u32>>> {
        let (go, permit) = match pipe_with(PipeFlags::CLOEXEC) {
            Ok(pipe) => pipe,
            Err(error) => {
                let message = format!("making a pipe for the new process: {error}");
                return self.fork_failed(numbers.start, message).map(|()| None);
            }
        };
        let (before, after) = self.around_fork;
        before();
        let forked = (self.fork)();
        if !matches!(forked, Ok(Fork::Child)) {
            after();
        }
        let pid = match forked {
            Ok(Fork::Child) => {
                drop(permit);
                end_unless_permitted(&go);
                return Ok(Some(numbers));
            }
            Ok(Fork::Parent(pid)) => pid,
            Err(error) => {
                self.fork_failed(numbers.start, error.to_string())?;
                return Ok(None);
            }
        };
        let worker = numbers.start;
        if self.watch_process(pid, numbers)? {
            // A process id of a pid namespace is meaningless outside. The receiver's kernel translates the pidfd.
            let child = self.workers.get(&pid).filter(|_| process::id() == 1);
            let pidfds: Vec<_> = child.iter().map(|child| child.pidfd.as_fd()).collect();
            let forked = FromPrototype::Forked { worker, pid };
            seqpacket::send(self.control.as_fd(), &encode(&forked), &pidfds)?;
            // A child that has ended already does not read it.
            let _ = rustix::io::write(&permit, b"1");
        }
        Ok(None)
    }

    /// Called when a program was started, which has reported itself to the router, or has failed.
    fn program_started(
        &mut self,
        numbers: Range<u32>,
        started: io::Result<Started>,
    ) -> io::Result<()> {
        let worker = numbers.start;
        let Started { pid, failure } = match started {
            Ok(started) => started,
            Err(error) => return self.fork_failed(worker, error.to_string()),
        };
        if self.watch_process(pid, numbers)?
            && let Some(error) = failure
        {
            report_of(self.control, worker, pid, error);
        }
        Ok(())
    }

    /// Records and watches a new process; false if that is impossible, and the process has been killed.
    fn watch_process(&mut self, pid: i32, numbers: Range<u32>) -> io::Result<bool> {
        // It has not been reaped yet, so the id is still this child's, dead or alive.
        match process::pidfd(pid) {
            Ok(pidfd) => {
                self.workers.insert(pid, Worker { numbers, pidfd });
                Ok(true)
            }
            Err(error) => {
                // A worker that cannot be watched must not run.
                let _ = signal::send(pid, libc::SIGKILL);
                while process::reap_one(pid).is_none() && signal::exists(pid) {
                    rustix::thread::sched_yield();
                }
                let message = format!("watching the new process: {error}");
                self.fork_failed(numbers.start, message)?;
                Ok(false)
            }
        }
    }

    fn fork_failed(&self, worker: u32, message: String) -> io::Result<()> {
        send(self.control, &FromPrototype::ForkFailed { worker, message })
    }

    /// Kills the processes that programs of ended workers have left behind. Called when a worker has ended, and until none is left.
    fn end_orphans(&mut self) {
        let mut left = proc::children(process::id());
        left.retain(|pid| !self.workers.contains_key(pid));
        for &pid in &left {
            let _ = signal::send(pid, libc::SIGKILL);
        }
        self.orphans = match left.is_empty() {
            true => Orphans::None,
            false => Orphans::Ending,
        };
    }

    /// Reports the workers that have ended.
    fn reap(&mut self) -> io::Result<()> {
        let ended = self.collect();
        match self.orphans {
            Orphans::Ending => self.end_orphans(),
            Orphans::None if !ended.is_empty() => self.end_orphans(),
            Orphans::Ignored | Orphans::None => {}
        }
        for (pid, worker, status) in ended {
            send(
                self.control,
                &FromPrototype::Exited {
                    worker,
                    pid,
                    status,
                },
            )?;
        }
        Ok(())
    }

    /// Removes the workers that have ended from the list. Children that user code started are reaped, too.
    fn collect(&mut self) -> Vec<(i32, u32, ExitStatus)> {
        let mut ended = Vec::new();
        while let Some((pid, how)) = process::reap() {
            let status = match how {
                Ended::Code(code) => ExitStatus::Code(code),
                Ended::Signal(signal, _) => ExitStatus::Signal(signal),
            };
            if let Some(worker) = self.workers.remove(&pid) {
                ended.push((pid, worker.numbers.start, status));
            }
        }
        ended
    }

    /// Called when the router has ended: the workers end, after a grace period by force.
    fn router_gone(mut self) -> io::Result<Outcome> {
        for &pid in self.workers.keys() {
            let _ = signal::send(pid, libc::SIGTERM);
        }
        let deadline = std::time::Instant::now() + std::time::Duration::new(GRACE.tv_sec as u64, 0);
        while !self.workers.is_empty() {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if left.is_zero() {
                for &pid in self.workers.keys() {
                    let _ = signal::send(pid, libc::SIGKILL);
                }
            }
            let polls: Vec<_> = self.workers.values().map(|worker| &worker.pidfd).collect();
            let mut polls: Vec<_> = polls
                .into_iter()
                .map(|pidfd| PollFd::new(pidfd, PollFlags::IN))
                .collect();
            let timeout = Timespec {
                tv_sec: left.as_secs() as i64,
                tv_nsec: i64::from(left.subsec_nanos()),
            };
            match poll(&mut polls, (!left.is_zero()).then_some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            drop(polls);
            self.collect();
        }
        Ok(Outcome::Over)
    }

    fn log(&self, level: Level, message: String) -> io::Result<()> {
        send(self.control, &FromPrototype::Log { level, message })
    }
}

/// Called in a new worker process: continues once the router has been notified. A prototype that is killed before that would leave a
/// process that is never ended, with the number of another one.
fn end_unless_permitted(go: &OwnedFd) {
    let mut byte = [0];
    loop {
        match rustix::io::read(go, &mut byte) {
            Ok(1) => return,
            Err(rustix::io::Errno::INTR) => {}
            _ => {
                let _ = signal::send(process::id(), libc::SIGKILL);
            }
        }
    }
}

fn report_failure(control: &OwnedFd, error: StartError) {
    let text = error.to_string();
    let failed = FromPrototype::Failed {
        step: cut(error.step),
        message: cut(error.message),
        hint: error.hint.map(cut),
        member: error.member.map(cut),
    };
    // The router logs it, once. Without a router it is logged here.
    if send(control, &failed).is_err() {
        eprintln!("{text}");
    }
}
