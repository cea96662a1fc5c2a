//! A server with an application: real worker processes of the sample host.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tutti_pool::{
    AppSpec, ExitStatus, HostOptions, LaunchFuture, LaunchRequest, Launched, Launcher, Limits,
    LogSink, Manager, Processes, StartFailure, Threads,
};
use tutti_sys::process::{self, Ended};
use tutti_sys::spawn::Spawn;
use tutti_sys::{lifeline, signal};

use super::{Log, Response, Site};

/// Path of the sample host, built when the first test needs it.
pub(crate) fn sample() -> &'static PathBuf {
    static SAMPLE: OnceLock<PathBuf> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let mut build = std::process::Command::new(env!("CARGO"));
        let build = build
            .args([
                "build",
                "--quiet",
                "-p",
                "tutti-worker",
                "--bin",
                "tutti-sample",
            ])
            .status()
            .unwrap();
        assert!(build.success(), "the sample host does not build");
        let test = std::env::current_exe().unwrap();
        let built = test
            .parent()
            .unwrap()
            .parent()
            .unwrap()
            .join("tutti-sample");
        // A copy: somebody else's build must not change it under a running test.
        let copy = std::env::temp_dir().join(format!("tutti-server-sample-{}", std::process::id()));
        std::fs::copy(built, &copy).unwrap();
        copy
    })
}

/// Reaps all children of this process, also those it inherits when a prototype ends before its workers, and tells every manager.
pub(crate) struct Reaper {
    managers: Mutex<Vec<Manager>>,
    children: Mutex<u64>,
    more: Condvar,
}

pub(crate) fn reaper() -> &'static Reaper {
    static REAPER: OnceLock<&'static Reaper> = OnceLock::new();
    REAPER.get_or_init(|| {
        sample();
        process::become_subreaper().unwrap();
        let reaper: &'static Reaper = Box::leak(Box::new(Reaper {
            managers: Mutex::default(),
            children: Mutex::default(),
            more: Condvar::new(),
        }));
        std::thread::spawn(|| reaper.run());
        reaper
    })
}

impl Reaper {
    fn run(&self) {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        loop {
            let seen = *self.children.lock().unwrap();
            if waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).is_err() {
                let children = self.children.lock().unwrap();
                drop(
                    self.more
                        .wait_while(children, |children| *children == seen)
                        .unwrap(),
                );
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

/// Starts hosts.
#[derive(Default)]
pub(crate) struct TestLauncher {
    pub(crate) pids: Mutex<HashSet<i32>>,
    lifelines: Mutex<Vec<OwnedFd>>,
}

impl Launcher for TestLauncher {
    fn start_prototype(&self, request: LaunchRequest) -> LaunchFuture {
        let result = self.spawn(request);
        Box::pin(std::future::ready(result))
    }

    fn kill(&self, pid: i32, number: i32) {
        let _ = signal::send(pid, number);
    }
}

impl TestLauncher {
    #[allow(clippy::result_large_err, reason = "what a launcher returns")]
    fn spawn(&self, request: LaunchRequest) -> Result<Launched, StartFailure> {
        let start = request.start_document().unwrap();
        let (keep, give) = lifeline::pair().unwrap();
        self.lifelines.lock().unwrap().push(keep);
        let mut spawn = Spawn::new(sample())
            .unwrap()
            .new_session()
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

/// A control thread; it runs until the process ends.
pub(crate) fn control() -> Handle {
    let (tell, hear) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        tell.send(runtime.handle().clone()).unwrap();
        runtime.block_on(std::future::pending::<()>());
    });
    hear.recv().unwrap()
}

/// A server with one application of the sample host called `app`.
pub(crate) struct App {
    pub(crate) site: Site,
    pub(crate) launcher: Arc<TestLauncher>,
    pub(crate) control: Handle,
}

impl App {
    pub(crate) fn new(workers: u32) -> Self {
        Self::with(workers, Limits::default(), "{}")
    }

    pub(crate) fn with(workers: u32, limits: Limits, http: &str) -> Self {
        Self::start(workers, limits, http, true)
    }

    /// One that gets bodies while they come.
    pub(crate) fn streaming(workers: u32, limits: Limits, http: &str) -> Self {
        Self::start(workers, limits, http, false)
    }

    fn start(workers: u32, limits: Limits, http: &str, request_buffering: bool) -> Self {
        let threads = Threads::new(2).unwrap();
        let log = Arc::new(Log::default());
        let launcher = Arc::new(TestLauncher::default());
        let manager = Manager::new(
            launcher.clone(),
            log.clone() as Arc<dyn LogSink>,
            threads.clone(),
        );
        reaper().managers.lock().unwrap().push(manager.clone());
        let control = control();
        let spec = AppSpec {
            name: "app".into(),
            kind: "sample".to_owned(),
            version: String::new(),
            pointer: "/applications/app".to_owned(),
            options: serde_json::json!({}),
            processes: Processes::Static(workers),
            limits,
            request_buffering,
            spool: std::env::temp_dir().into(),
            host: HostOptions::default(),
        };
        let preparing = manager.clone();
        control
            .block_on(async move {
                preparing
                    .prepare(vec![spec])
                    .await
                    .map(|prepared| prepared.commit())
            })
            .unwrap();
        let site = Site::with(threads, log, Some(manager), |folder| {
            format!(
                r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "settings": {{"http": {http}}},
                     "access_log": {{"path": "{folder}/access.log", "format": "$request_line $status $body_bytes_sent"}},
                     "routes": [{{"match": {{"uri": "/headers"}}, "action":
                                   {{"pass": "applications/app", "response_headers": {{"X-Added": "$uri", "Content-Type": null}}}}}},
                                {{"match": {{"uri": "/rewrite"}}, "action": {{"rewrite": "/head", "pass": "applications/app"}}}},
                                {{"action": {{"share": "{folder}/www$uri", "fallback": {{"pass": "applications/app"}}}}}}],
                     "applications": {{"app": {{"type": "php", "root": "{folder}"}}}}}}"#
            )
        });
        Self {
            site,
            launcher,
            control,
        }
    }

    pub(crate) fn post(&self, target: &str, body: &[u8]) -> Response {
        let mut client = self.site.connect();
        client.send(format!(
            "POST {target} HTTP/1.1\r\nHost: test\r\nContent-Length: {}\r\n\r\n",
            body.len()
        ));
        client.send(body);
        client.response("POST")
    }

    pub(crate) fn active(&self) -> u32 {
        self.site
            .manager
            .as_ref()
            .unwrap()
            .application("app")
            .unwrap()
            .status()
            .active
    }
}

impl Drop for App {
    fn drop(&mut self) {
        let manager = self.site.manager.clone().unwrap();
        self.control
            .block_on(manager.shutdown(Some(Duration::ZERO)));
        if !std::thread::panicking() {
            for pid in self.launcher.pids.lock().unwrap().iter() {
                assert!(!signal::exists(*pid), "prototype {pid} is left behind");
            }
        }
    }
}
