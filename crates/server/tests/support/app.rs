//! A server with an application: real worker processes of the sample host.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tutti_options::application::Common;
use tutti_options::perl::Perl;
use tutti_options::types::Special;
use tutti_pool::{AppSpec, DEFAULT_MAX_BODY_SIZE, Limits, Processes, ThreadWakers};
use tutti_sys::signal;
use tutti_testkit::client::Reply;
use tutti_testkit::workers::{self, SampleLauncher};

use super::Site;

/// A server with one application of the sample host called `app`.
pub(crate) struct App {
    pub(crate) site: Site,
    pub(crate) launcher: Arc<SampleLauncher>,
    pub(crate) control: Handle,
}

impl App {
    pub(crate) fn new(workers: u32) -> Self {
        Self::with(workers, Limits::default(), "{}")
    }

    pub(crate) fn with(workers: u32, limits: Limits, http: &str) -> Self {
        Self::start(workers, limits, http, true)
    }

    /// The same with streamed request bodies.
    pub(crate) fn streaming(workers: u32, limits: Limits, http: &str) -> Self {
        Self::start(workers, limits, http, false)
    }

    fn start(workers: u32, limits: Limits, http: &str, request_buffering: bool) -> Self {
        let threads = ThreadWakers::new(2).unwrap();
        let (manager, launcher, log) = workers::manager(&threads);
        let control = workers::control_thread();
        let settings: serde_json::Value = serde_json::from_str(http).unwrap();
        let max_body_size = settings["max_body_size"].as_u64();
        let spec = AppSpec {
            name: "app".into(),
            kind: "sample".to_owned(),
            version: String::new(),
            pointer: "/applications/app".to_owned(),
            common: Common {
                processes: Processes::Fixed(workers),
                limits,
                request_buffering,
                ..Common::default()
            },
            special: Special::Perl(Perl::default()),
            max_body_size: max_body_size.unwrap_or(DEFAULT_MAX_BODY_SIZE),
            spool: std::env::temp_dir().into(),
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
                                {{"match": {{"uri": "/own/*"}}, "action":
                                   {{"rewrite": "/trail", "pass": "applications/app", "trailers": {{"X-Own": "yes"}}}}}},
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

    pub(crate) fn post(&self, target: &str, body: &[u8]) -> Reply {
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
