//! A router without a network: a control thread with a manager, a listen thread that submits requests, and the launcher of
//! testkit, which starts the sample host.

use std::future::Future;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::runtime::Handle;
use tutti_options::OptionalLimit;
use tutti_options::application::Common;
use tutti_options::perl::Perl;
use tutti_options::types::Special;
use tutti_pool::{
    AppSpec, ApplicationPool, Clocks, DEFAULT_MAX_BODY_SIZE, ExchangeError, Manager, OutgoingBody,
    Processes, RollError, ScaledProcesses, StartFailure, SubmitError, ThreadWakers,
    WireRequestHead, threads,
};
use tutti_sys::signal;
use tutti_testkit::PATIENCE;
use tutti_testkit::workers::{self, Log, SampleLauncher, runtime};

pub struct Pool {
    pub manager: Manager,
    pub launcher: Arc<SampleLauncher>,
    pub log: Arc<Log>,
    pub folder: tempfile::TempDir,
    control: Handle,
    listen: Vec<Handle>,
}

/// A complete response.
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

impl Pool {
    pub fn new() -> Pool {
        Pool::with_threads(1)
    }

    pub fn with_threads(count: u32) -> Pool {
        Pool::made(count, workers::manager)
    }

    /// With clocks of CPU time that the test moves.
    pub fn with_clocks(clocks: Box<dyn Clocks>) -> Pool {
        Pool::made(1, |shared| {
            workers::manager_by(shared, |launcher, log, threads| {
                Manager::with_clocks(launcher, log, threads, clocks)
            })
        })
    }

    fn made(
        count: u32,
        make: impl FnOnce(&Arc<ThreadWakers>) -> (Manager, Arc<SampleLauncher>, Arc<Log>),
    ) -> Pool {
        let shared = ThreadWakers::new(count).unwrap();
        let (manager, launcher, log) = make(&shared);
        let control = workers::control_thread();
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
            common: Common {
                processes,
                ..Common::default()
            },
            special: Special::Perl(Perl::default()),
            max_body_size: DEFAULT_MAX_BODY_SIZE,
            spool: self.folder.path().to_owned().into(),
        }
    }

    /// Runs on the control thread.
    pub fn control<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> T {
        wait_for(&self.control, future)
    }

    /// Configures these applications.
    pub fn configure(&self, specs: Vec<AppSpec>) -> Result<(), Vec<StartFailure>> {
        let manager = self.manager.clone();
        self.control(async move {
            manager.prepare(specs).await?.commit();
            Ok(())
        })
    }

    /// Waits, as the server does after a change, until the supervisors have adapted their processes to the new numbers and limits.
    pub fn settle(&self) {
        let manager = self.manager.clone();
        self.control(async move { manager.settled().await });
    }

    /// Configures this one application. Returns the reasons if it could not be started but the change was made nevertheless.
    pub fn unstarted(&self, spec: AppSpec) -> Vec<StartFailure> {
        let manager = self.manager.clone();
        self.control(async move {
            let prepared = manager.prepare(vec![spec]).await.unwrap();
            let unstarted = prepared.unstarted().to_vec();
            prepared.commit();
            unstarted
        })
    }

    /// One running application.
    pub fn app(&self, spec: AppSpec) -> Arc<ApplicationPool> {
        let name = Arc::clone(&spec.name);
        self.configure(vec![spec]).unwrap();
        self.manager.application(&name).unwrap()
    }

    /// Removes the time limit of an application: a busy machine may need more time for the following steps.
    pub fn lift_timeout(&self, spec: &AppSpec) {
        let mut spec = spec.clone();
        spec.common.limits.timeout = OptionalLimit(None);
        self.configure(vec![spec]).unwrap();
    }

    pub fn restart(&self, name: &'static str) -> Result<(), RollError> {
        self.begin_restart(name).wait()
    }

    /// Begins a restart, which is requested when this returns.
    pub fn begin_restart(&self, name: &'static str) -> Pending<Result<(), RollError>> {
        let manager = self.manager.clone();
        let (sender, hear) = mpsc::channel();
        let task = self.control.spawn(async move {
            let _ = sender.send(manager.restart(name).await);
        });
        // The control thread runs its tasks in order.
        self.control(async {});
        Pending { hear, task }
    }

    pub fn shutdown(&self, deadline: Option<Duration>) {
        let manager = self.manager.clone();
        self.control(async move { manager.shutdown(deadline).await });
    }

    /// Runs a task on a listen thread.
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
        let (sender, hear) = mpsc::channel();
        let task = self.listen[thread].spawn(async move {
            let _ = sender.send(future.await);
        });
        Pending { hear, task }
    }

    pub fn get(&self, app: &Arc<ApplicationPool>, target: &str) -> Result<Response, Failed> {
        self.begin(app, target).wait()
    }

    pub fn begin(
        &self,
        app: &Arc<ApplicationPool>,
        target: &str,
    ) -> Pending<Result<Response, Failed>> {
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
        for pid in self.launcher.pids.lock().unwrap().iter() {
            assert!(!signal::exists(*pid), "prototype {pid} is left behind");
        }
    }
}

pub struct Pending<T> {
    hear: mpsc::Receiver<T>,
    task: tokio::task::JoinHandle<()>,
}

impl<T> Pending<T> {
    pub fn wait(self) -> T {
        self.hear.recv_timeout(PATIENCE).expect("no result in time")
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
    let (sender, hear) = mpsc::channel();
    runtime.spawn(async move {
        let _ = sender.send(future.await);
    });
    hear.recv_timeout(PATIENCE).expect("no result in time")
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
    app: Arc<ApplicationPool>,
    target: String,
    content: Content,
) -> Result<Response, Failed> {
    fetch_since(app, target, content, Instant::now()).await
}

pub async fn fetch_since(
    app: Arc<ApplicationPool>,
    target: String,
    content: Content,
    arrived: Instant,
) -> Result<Response, Failed> {
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let head = WireRequestHead {
        method: b"GET",
        target: target.as_bytes(),
        path: path.as_bytes(),
        query: query.as_bytes(),
        version_minor: 1,
        scheme: b"http",
        ..WireRequestHead::default()
    };
    let mut stream = Vec::new();
    let body = match &content {
        Content::None => OutgoingBody::None,
        Content::Inline(bytes) => OutgoingBody::Inline(bytes),
        Content::Spooled(bytes) => {
            let mut region = app
                .spool()
                .allocate()
                .map_err(|e| Failed::Submit(e.into()))?;
            for piece in bytes.chunks(16 * 1024) {
                region.append(piece).map_err(|e| Failed::Submit(e.into()))?;
            }
            OutgoingBody::Spooled(region)
        }
        Content::Stream(bytes) => {
            stream = bytes.clone();
            OutgoingBody::Stream {
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
    // The body is sent first; the sample responds while it reads, so both directions move here.
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
    exchange: &mut tutti_pool::ApplicationExchange,
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

/// The process id and number of the worker that answers.
pub fn pid_of(pool: &Pool, app: &Arc<ApplicationPool>) -> (i32, u32) {
    let response = pool.get(app, "/pid").unwrap();
    let (pid, number) = response.text().split_once(' ').unwrap();
    (pid.parse().unwrap(), number.parse().unwrap())
}

/// Sets the type and options of an application.
pub fn options_of(spec: &mut AppSpec, kind: &str, options: &Value) {
    spec.special = Special::of(kind, options).unwrap();
}

/// Sets the orders of the sample host for its start.
pub fn orders(spec: &mut AppSpec, orders: &Value) {
    let environment = &mut spec.common.environment;
    environment.insert("SAMPLE".to_owned(), orders.to_string());
}

pub fn dynamic(max: u32, spare: u32, idle_timeout: Duration) -> Processes {
    Processes::Scaled(ScaledProcesses {
        max,
        spare,
        idle_timeout,
    })
}
