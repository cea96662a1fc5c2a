//! A router without a network: a control thread with a manager, a listen thread that submits requests, and a launcher that
//! starts the sample host itself. The test process is what main is otherwise: it reaps.

use std::collections::HashSet;
use std::future::Future;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::runtime::Handle;
use tutti_pool::{
    AppSpec, Application, Body, ExchangeError, ExitStatus, HostOptions, LaunchFuture,
    LaunchRequest, Launched, Launcher, Level, Limits, LogSink, Manager, Processes, RequestHead,
    StartFailure, SubmitError, Threads, threads,
};
use tutti_sys::process::{self, Ended};
use tutti_sys::spawn::Spawn;
use tutti_sys::{lifeline, signal};

/// Longest wait for anything that should happen.
const LIMIT: Duration = Duration::from_secs(10);

/// Path of the sample host, built when the first test needs it.
fn sample() -> &'static PathBuf {
    static SAMPLE: OnceLock<PathBuf> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        let folder = test.parent().unwrap().parent().unwrap();
        let profile = match folder.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => "dev",
            Some(profile) => profile,
        };
        let build = std::process::Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--profile", profile])
            .args(["-p", "tutti-worker", "--bin", "tutti-sample"])
            .status()
            .unwrap();
        assert!(build.success(), "the sample host does not build");
        let sample = folder.join("tutti-sample");
        // A copy: a build must not change it under a running test. Of another run's at most one can be left.
        let copies = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("tutti-sample");
        let _ = std::fs::remove_dir_all(&copies);
        std::fs::create_dir_all(&copies).unwrap();
        let copy = copies.join(std::process::id().to_string());
        std::fs::copy(sample, &copy).unwrap();
        copy
    })
}

/// Reaps all children of this process, also those that inherit it, and tells every manager.
struct Reaper {
    managers: Mutex<Vec<Manager>>,
    children: Mutex<u64>,
    more: Condvar,
}

fn reaper() -> &'static Reaper {
    static REAPER: OnceLock<&'static Reaper> = OnceLock::new();
    REAPER.get_or_init(|| {
        sample();
        process::become_subreaper().unwrap();
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
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        loop {
            let seen = *self.children.lock().unwrap();
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            if waitid(WaitId::All, options).is_err() {
                let mut children = self.children.lock().unwrap();
                while *children == seen {
                    children = self.more.wait(children).unwrap();
                }
                continue;
            }
            while let Some((pid, ended)) = process::reap() {
                let status = match ended {
                    Ended::Code(code) => ExitStatus::Code(code),
                    Ended::Signal(signal, _) => ExitStatus::Signal(signal),
                };
                for manager in self.managers.lock().unwrap().iter() {
                    manager.process_exited(pid, status);
                }
            }
        }
    }
}

/// Runs a program; the reaper takes its end, so what it does must be waited for by its effect.
pub fn run(command: &[&str]) {
    let mut spawn = Spawn::new(command[0]).unwrap();
    for argument in &command[1..] {
        spawn = spawn.argument(argument).unwrap();
    }
    let mut children = reaper().children.lock().unwrap();
    spawn.start().unwrap();
    *children += 1;
    reaper().more.notify_all();
}

/// Starts hosts; can be told to fail, or to start another program.
#[derive(Default)]
pub struct TestLauncher {
    pub refuse: Mutex<Option<String>>,
    pub program: Mutex<Option<PathBuf>>,
    pub launches: AtomicU32,
    pub pids: Mutex<HashSet<i32>>,
    /// Prototypes are not killed, though the pool is told so.
    pub spares_prototypes: AtomicBool,
    pub killed: Mutex<HashSet<i32>>,
    lifelines: Mutex<Vec<OwnedFd>>,
    segments: Mutex<Vec<OwnedFd>>,
}

impl Launcher for TestLauncher {
    fn start_prototype(&self, request: LaunchRequest) -> LaunchFuture {
        self.launches.fetch_add(1, Ordering::SeqCst);
        let result = match self.refuse.lock().unwrap().clone() {
            Some(message) => Err(StartFailure::new(&request.spec, "find module", message)),
            None => self.spawn(request),
        };
        Box::pin(std::future::ready(result))
    }

    fn kill(&self, pid: i32, number: i32) {
        if self.spares_prototypes.load(Ordering::SeqCst) && self.pids.lock().unwrap().contains(&pid)
        {
            return;
        }
        self.killed.lock().unwrap().insert(pid);
        let _ = signal::send(pid, number);
    }
}

impl TestLauncher {
    /// Writes over all of the last segment but its first page, as a worker gone mad could.
    pub fn scribble(&self) {
        let segments = self.segments.lock().unwrap();
        let segment = segments.last().unwrap();
        let length = rustix::fs::fstat(segment).unwrap().st_size as u64;
        let garbage = vec![0xff; 1 << 20];
        let mut offset = 4096;
        while offset < length {
            let count = garbage.len().min((length - offset) as usize);
            offset += rustix::io::pwrite(segment, &garbage[..count], offset).unwrap() as u64;
        }
    }

    fn spawn(&self, request: LaunchRequest) -> Result<Launched, StartFailure> {
        let start = request.start_document().unwrap();
        let program = self.program.lock().unwrap().clone();
        let program = program.unwrap_or_else(|| sample().clone());
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
        // The reaper must not take the process before its number is noted.
        let mut children = reaper().children.lock().unwrap();
        let pid = spawn
            .start()
            .map_err(|error| StartFailure::new(&request.spec, "exec", error.to_string()))?;
        self.pids.lock().unwrap().insert(pid);
        *children += 1;
        reaper().more.notify_all();
        Ok(Launched { pid })
    }
}

/// Remembers what was logged.
#[derive(Default)]
pub struct Log(Mutex<Vec<String>>);

impl LogSink for Log {
    fn log(&self, level: Level, message: &str) {
        self.0.lock().unwrap().push(format!("{level:?}: {message}"));
    }
    fn output(&self, application: &str, _process: i32, line: &[u8]) {
        let line = String::from_utf8_lossy(line);
        self.0
            .lock()
            .unwrap()
            .push(format!("output of {application}: {line}"));
    }
}

impl Log {
    pub fn has(&self, text: &str) -> bool {
        self.0
            .lock()
            .unwrap()
            .iter()
            .any(|line| line.contains(text))
    }
    pub fn all(&self) -> String {
        self.0.lock().unwrap().join("\n")
    }
}

pub struct Pool {
    pub manager: Manager,
    pub launcher: Arc<TestLauncher>,
    pub log: Arc<Log>,
    pub folder: tempfile::TempDir,
    control: Handle,
    listen: Vec<Handle>,
}

/// An answer, whole.
#[derive(Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub body: Vec<u8>,
}

impl Response {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap().trim_end()
    }
}

#[derive(Debug)]
pub enum Failed {
    Submit(SubmitError),
    Exchange(ExchangeError),
}

impl Failed {
    pub fn status(&self) -> u16 {
        match self {
            Failed::Submit(error) => error.status(),
            Failed::Exchange(error) => error.status(),
        }
    }
}

/// Runs a runtime on a thread of its own until the test process ends.
fn runtime(
    configure: impl FnOnce(&mut tokio::runtime::Builder) + Send + 'static,
    enter: impl FnOnce() + Send + 'static,
    watch: impl Future<Output = ()> + Send + 'static,
) -> Handle {
    let (tell, hear) = mpsc::channel();
    std::thread::spawn(move || {
        enter();
        let mut builder = tokio::runtime::Builder::new_current_thread();
        configure(builder.enable_all());
        let runtime = builder.build().unwrap();
        tell.send(runtime.handle().clone()).unwrap();
        runtime.block_on(watch);
    });
    hear.recv().unwrap()
}

impl Pool {
    pub fn new() -> Pool {
        Pool::with_threads(1)
    }

    pub fn with_threads(count: u32) -> Pool {
        let reaper = reaper();
        let shared = Threads::new(count).unwrap();
        let launcher = Arc::new(TestLauncher::default());
        let log = Arc::new(Log::default());
        let manager = Manager::new(
            Arc::clone(&launcher) as Arc<dyn Launcher>,
            Arc::clone(&log) as Arc<dyn LogSink>,
            Arc::clone(&shared),
        );
        reaper.managers.lock().unwrap().push(manager.clone());
        let control = runtime(|_| {}, || {}, std::future::pending());
        let listen = (0..count)
            .map(|index| {
                let (entered, watched) = (Arc::clone(&shared), Arc::clone(&shared));
                runtime(
                    |builder| {
                        builder
                            .on_thread_park(threads::park)
                            .on_thread_unpark(threads::unpark);
                    },
                    move || entered.enter(index),
                    async move {
                        watched.watch(index).await.unwrap();
                    },
                )
            })
            .collect();
        let folder = tempfile::tempdir().unwrap();
        Pool {
            manager,
            launcher,
            log,
            folder,
            control,
            listen,
        }
    }

    pub fn spec(&self, name: &str, processes: Processes) -> AppSpec {
        AppSpec {
            name: name.into(),
            kind: "sample".to_owned(),
            version: String::new(),
            pointer: format!("/applications/{name}"),
            options: json!({}),
            processes,
            limits: Limits::default(),
            request_buffering: true,
            spool: self.folder.path().to_owned().into(),
            host: HostOptions::default(),
        }
    }

    /// Runs on the control thread.
    pub fn control<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> T {
        wait_for(&self.control, future)
    }

    /// Makes these the applications.
    pub fn configure(&self, specs: Vec<AppSpec>) -> Result<(), Vec<StartFailure>> {
        let manager = self.manager.clone();
        self.control(async move {
            manager.prepare(specs).await?.commit();
            Ok(())
        })
    }

    /// One application, up.
    pub fn app(&self, spec: AppSpec) -> Arc<Application> {
        let name = Arc::clone(&spec.name);
        self.configure(vec![spec]).unwrap();
        self.manager.application(&name).unwrap()
    }

    pub fn restart(&self, name: &'static str) -> Result<(), tutti_pool::RestartError> {
        let manager = self.manager.clone();
        self.control(async move { manager.restart(name).await })
    }

    pub fn shutdown(&self, deadline: Option<Duration>) {
        let manager = self.manager.clone();
        self.control(async move { manager.shutdown(deadline).await });
    }

    /// Starts something on a listen thread.
    pub fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Pending<T> {
        self.spawn_on(0, future)
    }

    pub fn spawn_on<T: Send + 'static>(
        &self,
        thread: usize,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Pending<T> {
        let (tell, hear) = mpsc::channel();
        let task = self.listen[thread].spawn(async move {
            let _ = tell.send(future.await);
        });
        Pending { hear, task }
    }

    pub fn get(&self, app: &Arc<Application>, target: &str) -> Result<Response, Failed> {
        self.begin(app, target).wait()
    }

    pub fn begin(&self, app: &Arc<Application>, target: &str) -> Pending<Result<Response, Failed>> {
        self.spawn(fetch(Arc::clone(app), target.to_owned(), Content::None))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log:\n{}", self.log.all());
            for pid in self.launcher.pids.lock().unwrap().iter() {
                let _ = signal::send(*pid, 9);
            }
            return;
        }
        self.shutdown(Some(Duration::ZERO));
        {
            for pid in self.launcher.pids.lock().unwrap().iter() {
                assert!(!signal::exists(*pid), "prototype {pid} is left behind");
            }
        }
    }
}

pub struct Pending<T> {
    hear: mpsc::Receiver<T>,
    task: tokio::task::JoinHandle<()>,
}

impl<T> Pending<T> {
    pub fn wait(self) -> T {
        self.hear.recv_timeout(LIMIT).expect("no result in time")
    }
    /// The client leaves.
    pub fn leave(self) {
        self.task.abort();
    }
}

fn wait_for<T: Send + 'static>(
    runtime: &Handle,
    future: impl Future<Output = T> + Send + 'static,
) -> T {
    let (tell, hear) = mpsc::channel();
    runtime.spawn(async move {
        let _ = tell.send(future.await);
    });
    hear.recv_timeout(LIMIT).expect("no result in time")
}

/// The body of a request.
#[derive(Clone)]
pub enum Content {
    None,
    Inline(Vec<u8>),
    Spooled(Vec<u8>),
    Stream(Vec<u8>),
}

/// A whole request and its whole response.
pub async fn fetch(
    app: Arc<Application>,
    target: String,
    content: Content,
) -> Result<Response, Failed> {
    fetch_since(app, target, content, Instant::now()).await
}

pub async fn fetch_since(
    app: Arc<Application>,
    target: String,
    content: Content,
    arrived: Instant,
) -> Result<Response, Failed> {
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let head = RequestHead {
        method: b"GET",
        target: target.as_bytes(),
        path: path.as_bytes(),
        query: query.as_bytes(),
        version_minor: 1,
        scheme: b"http",
        ..RequestHead::default()
    };
    let mut stream = Vec::new();
    let body = match &content {
        Content::None => Body::None,
        Content::Inline(bytes) => Body::Inline(bytes),
        Content::Spooled(bytes) => {
            let mut region = app
                .spool()
                .allocate()
                .map_err(|e| Failed::Submit(e.into()))?;
            for piece in bytes.chunks(16 * 1024) {
                region.append(piece).map_err(|e| Failed::Submit(e.into()))?;
            }
            Body::Spooled(region)
        }
        Content::Stream(bytes) => {
            stream = bytes.clone();
            Body::Stream {
                len: Some(bytes.len() as u64),
            }
        }
    };
    let is_stream = !stream.is_empty();
    let mut exchange = app
        .submit(&head, body, arrived)
        .await
        .map_err(Failed::Submit)?;
    let mut sent = 0;
    let mut response = Response {
        status: 0,
        body: Vec::new(),
    };
    let mut absorbed = Vec::new();
    // The body is fed first; the sample answers while it reads, so both directions move here.
    while is_stream && sent < stream.len() {
        let count = exchange.write_body(&stream[sent..]);
        sent += count;
        if response.status == 0 && sent > 0 {
            response.status = exchange.head().await.map_err(Failed::Exchange)?.status;
        }
        let taken = absorb(&mut exchange, &mut absorbed)
            .map_err(Failed::Exchange)?
            .0;
        if count == 0 && taken == 0 {
            exchange.changed().await.map_err(Failed::Exchange)?;
        }
    }
    if is_stream {
        exchange.finish_body();
    }
    if response.status == 0 {
        response.status = exchange.head().await.map_err(Failed::Exchange)?.status;
    }
    loop {
        let (_, finished) = absorb(&mut exchange, &mut absorbed).map_err(Failed::Exchange)?;
        if finished {
            break;
        }
        exchange.more().await.map_err(Failed::Exchange)?;
    }
    response.body = absorbed;
    Ok(response)
}

fn absorb(
    exchange: &mut tutti_pool::Exchange,
    into: &mut Vec<u8>,
) -> Result<(usize, bool), ExchangeError> {
    let (count, finished) = {
        let readable = exchange.ready()?;
        readable.copy_to(into);
        (readable.len(), readable.finished)
    };
    exchange.consume(count);
    Ok((count, finished))
}

/// Waits for a condition.
#[track_caller]
pub fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !is_true() {
        assert!(Instant::now() < end, "waited in vain: {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// The process and number of the worker that answers.
pub fn pid_of(pool: &Pool, app: &Arc<Application>) -> (i32, u32) {
    let response = pool.get(app, "/pid").unwrap();
    let (pid, number) = response.text().split_once(' ').unwrap();
    (pid.parse().unwrap(), number.parse().unwrap())
}

pub fn options(spec: &mut AppSpec, options: Value) {
    spec.options = options;
}

pub fn dynamic(max: u32, spare: u32, idle_timeout: Duration) -> Processes {
    Processes::Dynamic {
        max,
        spare,
        idle_timeout,
    }
}
