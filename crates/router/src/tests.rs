//! A router whose main process is the test: checks what changes have main open and close, and in which order.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tutti_jobs::Jobs;
use tutti_log::Log;
use tutti_pool::{Manager, ThreadWakers};
use tutti_protocol::{Change, ChangeError, FromRouter, Packet, QuicHello, StoreKind, ToRouter};
use tutti_server::{Server, StartOptions};
use tutti_sys::seqpacket;
use tutti_unprivileged::certificates::Certificates;

use super::changes::Changes;
use super::daemon_log::Sink;
use super::jobs::Around;
use super::launcher::MainLauncher;
use super::line::Link;
use super::service::{Parts, RouterService};

/// Main's end of the socket.
pub(super) struct Main {
    socket: Arc<OwnedFd>,
    sent: mpsc::UnboundedReceiver<FromRouter>,
}

impl Main {
    /// A socket whose router end delivers answers.
    pub(super) fn new() -> (Main, Arc<Link>) {
        let (main, router) = seqpacket::pair().unwrap();
        let (socket, link) = (Arc::new(main), Arc::new(Link::new(router).unwrap()));
        let (sender, sent) = mpsc::unbounded_channel();
        let reader = Arc::clone(&socket);
        std::thread::spawn(move || {
            let receive = || tutti_protocol::receive(reader.as_fd(), tutti_protocol::LONGEST);
            while let Ok(Some((message, _))) = receive() {
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let answers = Arc::clone(&link);
        tokio::spawn(async move { while let Ok(Some(_)) = answers.news().await {} });
        (Main { socket, sent }, link)
    }

    /// The router's next message.
    pub(super) async fn next(&mut self) -> FromRouter {
        self.sent.recv().await.expect("the router speaks")
    }

    pub(super) fn done(&self, id: u64, descriptors: Vec<OwnedFd>) {
        self.send(&ToRouter::Done { id, pid: None }, descriptors);
    }

    pub(super) fn fail(&self, id: u64, message: &str) {
        let message = message.to_owned();
        let failed = ToRouter::Failed {
            id,
            message,
            hint: None,
            option: None,
        };
        self.send(&failed, Vec::new());
    }

    fn send(&self, message: &ToRouter, descriptors: Vec<OwnedFd>) {
        let packet = Packet::new(message, descriptors).unwrap();
        packet.send(self.socket.as_fd()).unwrap();
    }
}

/// A message of the router, by its purpose.
enum Wish {
    /// To open something that it closes again.
    Open(u64, String),
    /// To close it.
    Close(String),
    /// A file that is closed with its last descriptor.
    Spool(u64),
    /// The result of a change.
    Outcome(FromRouter),
}

impl From<FromRouter> for Wish {
    fn from(message: FromRouter) -> Self {
        match message {
            FromRouter::Listen { id, place } => Self::Open(id, format!("{place:?}")),
            FromRouter::Unlisten { place } => Self::Close(format!("{place:?}")),
            FromRouter::ListenDatagrams { id, address } => Self::Open(id, format!("UDP {address}")),
            FromRouter::UnlistenDatagrams { address } => Self::Close(format!("UDP {address}")),
            FromRouter::OpenFile { id, path } => Self::Open(id, path.display().to_string()),
            FromRouter::CloseFile { path } => Self::Close(path.display().to_string()),
            FromRouter::OpenSpool { id, .. } => Self::Spool(id),
            outcome => Self::Outcome(outcome),
        }
    }
}

/// Names of sockets and logs.
type Things = BTreeSet<String>;

/// The result of a change, and what main opened and closed for it.
struct Outcome {
    opened: Things,
    closed: Things,
    end: FromRouter,
}

/// A router without a configuration.
struct Router {
    main: Main,
    changes: Changes,
    /// The number of the last change.
    number: u64,
}

impl Router {
    fn new() -> Router {
        let (main, link) = Main::new();
        let log = Log::of_threads(null(), &Default::default(), "router");
        let sink = Arc::new(Sink(log.clone()));
        let threads = ThreadWakers::new(1).unwrap();
        let server = Server::start(StartOptions {
            threads: Arc::clone(&threads),
            log: sink.clone(),
            scrapes: mpsc::unbounded_channel().0,
            posts: mpsc::unbounded_channel().0,
            files: mpsc::unbounded_channel().0,
            nodes: super::nodes_of_the_fleet().1,
        });
        let server = Arc::new(server.unwrap());
        let commands = super::commands::new(&link, &sink);
        let launcher = MainLauncher {
            link: Arc::clone(&link),
            modules: Vec::new(),
        };
        let site = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let site = site.cert.pem() + &site.signing_key.serialize_pem();
        let stored = BTreeMap::from([("site".to_owned(), site)]);
        let service = RouterService::new(Parts {
            link: Arc::clone(&link),
            log: log.clone(),
            modules: Vec::new(),
            tmpdir: "/tmp".into(),
            quic: QuicHello::default(),
            server: Arc::clone(&server),
            manager: Manager::new(Arc::new(launcher), sink, threads),
            exporters: super::exporters(log.clone()),
            jobs: Jobs::new(Around {
                server,
                commands: commands.clone(),
                log,
                link: Arc::clone(&link),
            }),
            commands,
            certificates: Certificates::read(&stored, None),
            js_modules: Default::default(),
            threads: 1,
        });
        Router {
            main,
            changes: Changes::new(service, link),
            number: 0,
        }
    }

    fn begin(&mut self, configuration: &Value) {
        self.number += 1;
        let text = configuration.to_string();
        self.changes
            .prepare(self.number, Change::Configuration { text });
    }

    /// Has a change prepared; main refuses to open the resource with this name.
    async fn prepare(&mut self, configuration: &Value, refused: &str) -> Outcome {
        self.begin(configuration);
        self.outcome(refused).await
    }

    async fn commit(&mut self) -> Outcome {
        self.changes.commit(self.number);
        self.outcome("").await
    }

    /// Opens what is requested, until a change has a result.
    async fn outcome(&mut self, refused: &str) -> Outcome {
        let (mut opened, mut closed) = (Things::new(), Things::new());
        loop {
            match Wish::from(self.main.next().await) {
                Wish::Open(id, name) if name == refused => self.main.fail(id, "it is refused"),
                Wish::Open(id, name) => {
                    self.main.done(id, vec![socket(&name)]);
                    assert!(opened.insert(name));
                }
                Wish::Close(name) => assert!(closed.insert(name)),
                Wish::Spool(id) => self.main.done(id, vec![null(), null()]),
                Wish::Outcome(end) => {
                    return Outcome {
                        opened,
                        closed,
                        end,
                    };
                }
            }
        }
    }
}

/// A descriptor of the kind of this name. It is bound elsewhere: the names are not real.
fn socket(name: &str) -> OwnedFd {
    let socket: OwnedFd = match name {
        _ if name.starts_with("UDP") => UdpSocket::bind("127.0.0.1:0").unwrap().into(),
        _ if name.starts_with('/') => null(),
        _ => TcpListener::bind("127.0.0.1:0").unwrap().into(),
    };
    seqpacket::set_nonblocking(socket.as_fd()).unwrap();
    socket
}

fn null() -> OwnedFd {
    File::options()
        .write(true)
        .open("/dev/null")
        .unwrap()
        .into()
}

/// Configurations, each with what main has open for it.
fn sites() -> Vec<(Value, Things)> {
    let route = json!([{"action": {"return": 200}}]);
    let things = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    let plain = json!({"pass": "routes"});
    vec![
        (json!({}), things(&[])),
        (
            json!({"listeners": {"127.0.0.1:1": plain}, "routes": route}),
            things(&["Inet(127.0.0.1:1)"]),
        ),
        (
            json!({"listeners": {"127.0.0.1:1": plain, "unix:/run/site.sock": plain}, "routes": route,
                "access_log": "/log/a"}),
            things(&["Inet(127.0.0.1:1)", "Path(\"/run/site.sock\")", "/log/a"]),
        ),
        (
            json!({"listeners": {"127.0.0.1:2": {"pass": "routes", "tls": {"certificate": "site"}, "http3": true}},
                "routes": route, "access_log": "/log/a"}),
            things(&["Inet(127.0.0.1:2)", "UDP 127.0.0.1:2", "/log/a"]),
        ),
        (
            json!({"listeners": {"127.0.0.1:2": {"pass": "routes", "tls": {"certificate": "site"}}},
                "routes": [{"action": {"proxy": "http://127.0.0.1:9"}}], "access_log": "/log/b"}),
            things(&["Inet(127.0.0.1:2)", "/log/b"]),
        ),
    ]
}

/// For each pair of configurations: a change requests from main what the former one does not have, and afterwards main has open what is in
/// force and nothing else.
#[tokio::test]
async fn main_keeps_open_the_resources_of_the_configuration_in_force() {
    let mut router = Router::new();
    for (from, before) in sites() {
        for (to, after) in sites() {
            router.prepare(&from, "").await;
            router.commit().await;
            let (new, old): (Things, Things) = (&after - &before, &before - &after);
            let context = format!("{from} → {to}");

            let prepared = router.prepare(&to, "").await;
            assert!(
                matches!(prepared.end, FromRouter::Prepared { number } if number == router.number)
            );
            assert_eq!(
                (&prepared.opened, prepared.closed.len()),
                (&new, 0),
                "{context}"
            );
            router.changes.abandon(router.number);
            let again = router.prepare(&from, "").await;
            assert_eq!(
                (again.opened.len(), &again.closed),
                (0, &new),
                "abandoned: {context}"
            );
            router.changes.abandon(router.number);

            for refused in &new {
                let outcome = router.prepare(&to, refused).await;
                let FromRouter::Unprepared { number, faults } = outcome.end else {
                    panic!("{context}: {:?}", outcome.end);
                };
                assert_eq!((number, faults.len()), (router.number, 1), "{faults:?}");
                assert!(faults[0].message.contains("it is refused"), "{faults:?}");
                assert_eq!(outcome.opened, outcome.closed, "{refused}: {context}");
            }

            router.prepare(&to, "").await;
            let committed = router.commit().await;
            assert!(
                matches!(committed.end, FromRouter::Committed { number, .. } if number == router.number)
            );
            assert_eq!(
                (committed.opened.len(), &committed.closed),
                (0, &old),
                "{context}"
            );
        }
    }
}

#[tokio::test]
async fn only_the_change_under_way_is_put_in_force_or_abandoned() {
    let mut router = Router::new();
    let site = &sites()[1].0;
    router.prepare(site, "").await;
    let number = router.number;
    for other in [0, number - 1, number + 1] {
        router.changes.commit(other);
        router.changes.abandon(other);
    }
    let committed = router.commit().await;
    assert!(matches!(committed.end, FromRouter::Committed { number: of, .. } if of == number));
    // It is over, so there is nothing to abandon.
    router.changes.abandon(number);
    assert!(router.prepare(site, "").await.opened.is_empty());
}

/// The next change begins when the former has been undone.
#[tokio::test]
async fn a_change_can_be_abandoned_while_main_is_asked() {
    let mut router = Router::new();
    let sites = sites();
    router.begin(&sites[2].0);
    let Wish::Open(first, name) = router.main.next().await.into() else {
        panic!("a socket is asked for");
    };
    router.main.done(first, vec![socket(&name)]);
    let Wish::Open(second, _) = router.main.next().await.into() else {
        panic!("another one is asked for");
    };
    router.changes.abandon(router.number);
    let next = router.prepare(&sites[0].0, "").await;
    assert!(matches!(next.end, FromRouter::Prepared { number } if number == router.number));
    // Main itself knows what it has opened for a change that it has abandoned and not answered.
    assert_eq!((next.opened.len(), next.closed), (0, Things::from([name])));
    router.main.done(second, vec![socket("")]);
    router.commit().await;
}

#[tokio::test]
async fn a_change_that_cannot_be_is_refused_with_its_place() {
    let mut router = Router::new();
    let certificate = Change::Keep {
        store: StoreKind::Certificates,
        name: "site".to_owned(),
        text: "no certificate".to_owned(),
    };
    let configuration = |text: &str| Change::Configuration {
        text: text.to_owned(),
    };
    for (change, pointer) in [
        (configuration("{"), ""),
        (
            configuration(r#"{"listeners": {"*:80": {"pass": "routes/none"}}}"#),
            "/listeners/*:80/pass",
        ),
        (certificate, ""),
    ] {
        router.number += 1;
        router.changes.prepare(router.number, change);
        let refused = router.outcome("").await;
        let FromRouter::Unprepared { number, faults } = refused.end else {
            panic!("{pointer}: {:?}", refused.end);
        };
        assert_eq!(number, router.number);
        let places: Vec<_> = faults
            .iter()
            .map(|fault: &ChangeError| &fault.pointer[..])
            .collect();
        assert_eq!(places, [pointer]);
        assert!(refused.opened.is_empty());
    }
}
