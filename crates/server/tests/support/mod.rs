//! A server in this process on a free port; the client is that of testkit.
#![allow(dead_code, reason = "each test file uses its part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "clippy's `allow-unwrap-in-tests` does not see that this module is only in tests"
)]

pub(crate) mod app;
pub(crate) mod backend;
pub(crate) mod frames;
pub(crate) mod h2_client;

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;
use tutti_config::model::Listener;
use tutti_config::{Diagnostics, ValidationContext, validate};
use tutti_pool::{ApplicationPool, Manager, ThreadWakers};
use tutti_server::{Datagrams, Retired, Server, SnapshotEnvironment, StartOptions};
use tutti_testkit::client::{Client, Reply};
use tutti_testkit::workers::Log;
use tutti_tls::Bundle;

struct Local<'a> {
    manager: Option<&'a Manager>,
    /// Receives the addresses that it binds for datagrams.
    datagrams: &'a Mutex<Vec<SocketAddr>>,
}

impl SnapshotEnvironment for Local<'_> {
    fn bind(&mut self, listener: &Listener) -> io::Result<OwnedFd> {
        // The names in these tests only distinguish listeners, by their port; the kernel chooses a free one.
        if let Some(path) = listener.name.strip_prefix("unix:") {
            let socket = std::os::unix::net::UnixListener::bind(path)?;
            socket.set_nonblocking(true)?;
            return Ok(socket.into());
        }
        let socket = TcpListener::bind(("127.0.0.1", 0))?;
        assert!(listener.name.starts_with("127.0.0.1:") || listener.name.starts_with("*:"));
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    }

    fn open_log(&mut self, path: &Path) -> io::Result<OwnedFd> {
        let file = std::fs::File::options()
            .append(true)
            .create(true)
            .open(path)?;
        Ok(file.into())
    }

    fn bind_datagrams(&mut self, listener: &Listener) -> io::Result<Datagrams> {
        let ip = match listener.name.strip_prefix("udp:") {
            Some(any) if any.starts_with("*:") => "0.0.0.0",
            Some(_) => "127.0.0.1",
            // For HTTP/3.
            None => "127.0.0.1",
        };
        let socket = UdpSocket::bind((ip, 0))?;
        self.datagrams.lock().unwrap().push(socket.local_addr()?);
        socket.set_nonblocking(true)?;
        Ok(Datagrams {
            sockets: vec![socket.into()],
            bank: 0,
            secret: Vec::new(),
        })
    }

    fn certificate(&mut self, _name: &str) -> Option<Arc<Bundle>> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let pem = made.cert.pem() + &made.signing_key.serialize_pem();
        let bundle = Bundle::parse(pem.as_bytes(), SystemTime::now());
        Some(Arc::new(bundle.unwrap()))
    }

    fn application(&mut self, name: &str) -> Option<Arc<ApplicationPool>> {
        self.manager.and_then(|manager| manager.application(name))
    }
}

pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) folder: TempDir,
    pub(crate) log: Arc<Log>,
    pub(crate) manager: Option<Manager>,
    /// The addresses that were bound for datagrams.
    pub(crate) datagrams: Mutex<Vec<SocketAddr>>,
}

impl Site {
    /// One listener, passing to routes that share `folder`; `settings` is the `settings.http` object.
    pub(crate) fn sharing(http: &str) -> Self {
        Self::new(2, |folder| {
            format!(
                r#"{{"listeners": {{"127.0.0.1:1": {{"pass": "routes"}}}}, "settings": {{"http": {http}}},
                     "routes": [{{"match": {{"uri": "/return/*"}}, "action": {{"return": 200}}}},
                                {{"action": {{"share": "{folder}$uri"}}}}]}}"#
            )
        })
    }

    /// A server with the configuration that `config` makes for its folder.
    pub(crate) fn new(threads: u32, config: impl Fn(&str) -> String) -> Self {
        let threads = ThreadWakers::new(threads).unwrap();
        Self::with(threads, Arc::new(Log::default()), None, config)
    }

    /// A server with a pool.
    pub(crate) fn with(
        threads: Arc<ThreadWakers>,
        log: Arc<Log>,
        manager: Option<Manager>,
        config: impl Fn(&str) -> String,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = StartOptions {
            threads,
            log: log.clone(),
            // Without metrics.
            scrapes: tokio::sync::mpsc::unbounded_channel().0,
            posts: tokio::sync::mpsc::unbounded_channel().0,
            // Without files of Kubernetes.
            files: tokio::sync::mpsc::unbounded_channel().0,
            nodes: tutti_server::Nodes {
                known: tokio::sync::watch::channel(Default::default()).1,
                wanted: tokio::sync::mpsc::unbounded_channel().0,
            },
        };
        let server = Server::start(options).unwrap();
        let site = Self {
            server,
            folder,
            log,
            manager,
            datagrams: Mutex::default(),
        };
        site.configure(&config(site.path().to_str().unwrap()))
            .unwrap();
        site
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file below the folder.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    /// Sets the time of a file to Sun, 06 Nov 1994 08:49:37 GMT. The tag of a file that has just been written is weak until its second is
    /// over, so two responses in a row may differ.
    pub(crate) fn age(&self, name: &str) {
        let file = std::fs::File::options()
            .write(true)
            .open(self.path().join(name));
        file.unwrap()
            .set_modified(UNIX_EPOCH + Duration::from_secs(784_111_777))
            .unwrap();
    }

    pub(crate) fn configure(&self, json: &str) -> Result<(), Diagnostics> {
        self.replace(json).map(drop)
    }

    /// The same; returns the former configuration.
    pub(crate) fn replace(&self, json: &str) -> Result<Retired, Diagnostics> {
        let document = tutti_config::parse(json.as_bytes())?;
        let config = validate(
            &document,
            &ValidationContext::with_modules([("php", "8.2.0")]),
        )?;
        let mut local = Local {
            manager: self.manager.as_ref(),
            datagrams: &self.datagrams,
        };
        let prepared = self.server.prepare(&config, &mut local)?;
        Ok(self.server.commit(prepared))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.listeners()[0].bound_address().unwrap()
    }

    pub(crate) fn connect(&self) -> Client {
        Client::to(self.address())
    }

    /// Sends `request` on a connection of its own and reads until the server closes it.
    pub(crate) fn exchange(&self, request: impl AsRef<[u8]>) -> String {
        let mut client = self.connect();
        client.send(request);
        client.read_to_end()
    }

    /// GET on a connection of its own.
    pub(crate) fn get(&self, target: &str) -> Reply {
        self.request("GET", target, "")
    }

    /// A request with these field lines on a connection of its own.
    pub(crate) fn request(&self, method: &str, target: &str, fields: &str) -> Reply {
        let mut client = self.connect();
        client.send(format!(
            "{method} {target} HTTP/1.1\r\nHost: test\r\n{fields}\r\n"
        ));
        client.response(method)
    }
}
