//! Main's side of applications for tests that have a pool and no main: starts processes of the sample host, reaps them, keeps
//! what is logged.
//!
//! The test's own process takes the place of main, so it inherits every process that is left behind, and one thread reaps them
//! all for the life of the test program.

use std::collections::HashSet;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, mpsc};

use rustix::process::{WaitId, WaitIdOptions, waitid};
use tokio::runtime::{Builder, Handle};
use tutti_pool::{
    AppProcess, LaunchFuture, LaunchRequest, Launched, Launcher, Level, LogSink, Manager,
    ProcessExit, StartFailure,
};
use tutti_sys::process::{self, Ended};
use tutti_sys::spawn::Spawn;
use tutti_sys::{lifeline, signal};

use crate::{server, wait_until};

/// Lines that were logged, and output of applications.
#[derive(Debug, Default)]
pub struct Log(Mutex<Vec<String>>);

impl LogSink for Log {
    fn log(&self, level: Level, message: &str) {
        self.lines().push(format!("{level:?}: {message}"));
    }

    fn output(&self, application: &str, _process: i32, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        self.lines()
            .push(format!("output of {application}: {line}"));
    }
}

impl Log {
    /// The lines so far.
    pub fn lines(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.0.lock().expect("no holder panics")
    }

    /// All of it as one text.
    pub fn all(&self) -> String {
        self.lines().join("\n")
    }

    /// The number of lines with this in them.
    pub fn count(&self, part: &str) -> usize {
        let lines = self.lines();
        lines.iter().filter(|line| line.contains(part)).count()
    }

    /// True if some line has this in it.
    pub fn has(&self, part: &str) -> bool {
        self.count(part) > 0
    }

    /// Waits for a line with this in it.
    #[track_caller]
    pub fn wait_for(&self, part: &str) {
        let end = std::time::Instant::now() + crate::PATIENCE;
        while !self.has(part) {
            assert!(
                std::time::Instant::now() < end,
                "`{part}` is not in the log:\n{}",
                self.all()
            );
            std::thread::park_timeout(std::time::Duration::from_millis(1));
        }
    }
}

/// Reaps all children of this process, also those that it inherits, and reports them to every manager.
struct Reaper {
    managers: Mutex<Vec<Manager>>,
    children: Mutex<u64>,
    more: Condvar,
}

fn reaper() -> &'static Reaper {
    static REAPER: OnceLock<&'static Reaper> = OnceLock::new();
    REAPER.get_or_init(|| {
        process::become_subreaper().expect("prctl(2) lets any process reap");
        let reaper: &'static Reaper = Box::leak(Box::new(Reaper {
            managers: Mutex::default(),
            children: Mutex::default(),
            more: Condvar::new(),
        }));
        std::thread::spawn(move || reaper.run());
        reaper
    })
}

impl Reaper {
    fn run(&self) {
        loop {
            let seen = *self.children.lock().unwrap();
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            if waitid(WaitId::All, options).is_err() {
                let children = self.children.lock().unwrap();
                let unchanged = |children: &mut u64| *children == seen;
                drop(self.more.wait_while(children, unchanged).unwrap());
                continue;
            }
            while let Some((pid, ended)) = process::reap() {
                let status = match ended {
                    Ended::Code(code) => ProcessExit::Code(code),
                    Ended::Signal(signal, _) => ProcessExit::Signal(signal),
                };
                for manager in self.managers.lock().unwrap().iter() {
                    manager.process_exited(pid, status);
                }
            }
        }
    }

    /// Starts a process; `note` is given its number before it can be reaped.
    fn start(
        &self,
        spawn: Spawn,
        note: impl FnOnce(i32),
    ) -> Result<i32, tutti_sys::spawn::SpawnError> {
        let mut children = self.children.lock().unwrap();
        let pid = spawn.start()?;
        note(pid);
        *children += 1;
        self.more.notify_all();
        Ok(pid)
    }
}

/// Reports every process that ends from now on to this manager.
pub fn reap_for(manager: &Manager) {
    reaper().managers.lock().unwrap().push(manager.clone());
}

/// Runs a program; the reaper takes its end, so its effect must be waited for.
pub fn run(command: &[&str]) {
    let mut spawn = Spawn::new(command[0]).unwrap();
    for argument in &command[1..] {
        spawn = spawn.argument(argument).unwrap();
    }
    reaper().start(spawn, |_| {}).unwrap();
}

/// Starts hosts; a test can make starts fail, or have another program started.
#[derive(Debug, Default)]
pub struct SampleLauncher {
    /// The reason why nothing starts, if so.
    pub refuse: Mutex<Option<String>>,
    /// Another program than the sample host.
    pub program: Mutex<Option<PathBuf>>,
    /// Starts so far.
    pub launches: AtomicU32,
    /// The prototypes that were started.
    pub pids: Mutex<HashSet<i32>>,
    /// True if prototypes are not killed, though the pool gets the answer that they were.
    pub spares_prototypes: AtomicBool,
    /// All that were killed.
    pub killed: Mutex<HashSet<i32>>,
    lifelines: Mutex<Vec<OwnedFd>>,
    segments: Mutex<Vec<OwnedFd>>,
}

impl Launcher for SampleLauncher {
    fn start_prototype(&self, request: LaunchRequest) -> LaunchFuture {
        self.launches.fetch_add(1, Ordering::SeqCst);
        let result = match self.refuse.lock().unwrap().clone() {
            Some(message) => Err(StartFailure::new(&request.spec, "find module", message)),
            None => self.spawn(request),
        };
        Box::pin(std::future::ready(result))
    }

    fn kill(&self, AppProcess { pid, .. }: AppProcess, number: i32) {
        if self.spares_prototypes.load(Ordering::SeqCst) && self.pids.lock().unwrap().contains(&pid)
        {
            return;
        }
        self.killed.lock().unwrap().insert(pid);
        let _ = signal::send(pid, number);
    }
}

impl SampleLauncher {
    /// Any of the prototypes: the only one where there is one.
    pub fn prototype(&self) -> i32 {
        let pids = self.pids.lock().unwrap();
        *pids.iter().next().expect("a prototype")
    }

    /// Writes this byte over all of the last segment but its first page, as a worker that damages its memory could.
    pub fn scribble(&self, byte: u8) {
        let segments = self.segments.lock().unwrap();
        let segment = segments.last().expect("a segment");
        let length = u64::try_from(rustix::fs::fstat(segment).unwrap().st_size).unwrap();
        let garbage = vec![byte; 1 << 20];
        let mut offset = 4096;
        while offset < length {
            let left = usize::try_from(length - offset).unwrap();
            let written =
                rustix::io::pwrite(segment, &garbage[..left.min(garbage.len())], offset).unwrap();
            offset += written as u64;
        }
    }

    /// Waits until no prototype is left.
    pub fn expect_all_gone(&self) {
        wait_until("every prototype has ended", || {
            let pids = self.pids.lock().unwrap();
            pids.iter().all(|pid| !signal::exists(*pid))
        });
    }

    #[allow(clippy::result_large_err, reason = "the error of a launcher")]
    fn spawn(&self, request: LaunchRequest) -> Result<Launched, StartFailure> {
        let start = request.start_document().unwrap();
        let program = self.program.lock().unwrap().clone();
        let program = program.unwrap_or_else(|| server::built("tutti-sample"));
        let (keep, give) = lifeline::pair().unwrap();
        self.lifelines.lock().unwrap().push(keep);
        let segment = request.segment.try_clone().unwrap();
        self.segments.lock().unwrap().push(segment);
        let mut spawn = Spawn::new(program)
            .unwrap()
            .new_session()
            .variable("RUST_BACKTRACE", "0")
            .unwrap()
            .descriptor(request.output.try_clone().unwrap(), 1)
            .descriptor(request.output, 2)
            .descriptor(request.control, 3)
            .descriptor(request.segment, 4)
            .descriptor(request.spool, 5)
            .descriptor(start, 6)
            .descriptor(give, 7);
        for (number, event) in (8..).zip(request.eventfds) {
            spawn = spawn.descriptor(event, number);
        }
        let note = |pid| {
            self.pids.lock().unwrap().insert(pid);
        };
        let started = reaper().start(spawn, note);
        let pid =
            started.map_err(|error| StartFailure::new(&request.spec, "exec", error.to_string()))?;
        Ok(Launched { pid })
    }
}

/// Runs a runtime on a thread of its own until the test program ends.
pub fn runtime(
    configure: impl FnOnce(&mut Builder) + Send + 'static,
    enter: impl FnOnce() + Send + 'static,
    watch: impl Future<Output = ()> + Send + 'static,
) -> Handle {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        enter();
        let mut builder = Builder::new_current_thread();
        configure(builder.enable_all());
        let runtime = builder.build().unwrap();
        sender.send(runtime.handle().clone()).unwrap();
        runtime.block_on(watch);
    });
    receiver.recv().unwrap()
}

/// A control thread.
pub fn control_thread() -> Handle {
    runtime(|_| {}, || {}, std::future::pending())
}

/// A launcher, a log and their manager, whose processes are reaped.
pub fn manager(
    threads: &Arc<tutti_pool::ThreadWakers>,
) -> (Manager, Arc<SampleLauncher>, Arc<Log>) {
    manager_by(threads, Manager::new)
}

/// The same, with a manager that is made so.
pub fn manager_by(
    threads: &Arc<tutti_pool::ThreadWakers>,
    make: impl FnOnce(Arc<dyn Launcher>, Arc<dyn LogSink>, Arc<tutti_pool::ThreadWakers>) -> Manager,
) -> (Manager, Arc<SampleLauncher>, Arc<Log>) {
    let launcher = Arc::new(SampleLauncher::default());
    let log = Arc::new(Log::default());
    let manager = make(
        Arc::clone(&launcher) as Arc<dyn Launcher>,
        Arc::clone(&log) as Arc<dyn LogSink>,
        Arc::clone(threads),
    );
    reap_for(&manager);
    (manager, launcher, log)
}
