//! The fleet role: unprivileged, follows the source of the configuration as one node of a fleet.
//!
//! Main starts it while there is a source. It passes each new document to the controller, which applies or rejects it,
//! and reports the result to the fleet. It can be interrupted at any moment: the configuration in force belongs to
//! main, and the server works without this process and without the store. Must never happen: that the node waits for
//! the store with anything but a new document, or that it reports a document that it does not run.
//!
//! | Module | holds |
//! |---|---|
//! | `controller` | requests to the controller |
//! | `state` | the documents that this node should run, runs, and has rejected |
//! | `heads` | new documents, from the store to the controller |
//! | `certificates` | certificates of the fleet, from the store to the controller |
//! | `authorities` | challenge responses, from the store to the router |
//! | `shared`, `shared_news` | automatic certificates that the fleet shares, for the acme process |
//! | `watching` | texts that are followed forever |
//! | `purges` | cache purges, from the store to the router |
//! | `node_count` | the number of nodes, for the router |
//! | `node_report` | the reports of this node to the fleet, and to `/status` |
//! | `nodes` | the nodes of the fleet that take requests |

#![forbid(unsafe_code)]

mod authorities;
mod certificates;
mod controller;
mod heads;
mod node_count;
mod node_report;
mod nodes;
mod purges;
mod shared;
mod shared_news;
mod state;
mod watching;

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tutti_fleet_store::etcd::EtcdStore;
use tutti_fleet_store::etcd_client::{ClusterOptions, EtcdEndpoint, EtcdTls};
use tutti_fleet_store::keys::{ADDRESSES, ANSWERS, CERTIFICATES, HEADS, PURGES};
use tutti_fleet_store::store::FleetStore;
use tutti_fleet_store::{patience, seconds};
use tutti_log::Log;
use tutti_options::source::{LiveNode, LiveNodes, is_name};
use tutti_protocol::{
    FleetHello, FromFleet, SharedAnswer, SharedNews, SharedRequest, SourcePlan, SourceSecrets,
    ToFleet,
};
use tutti_unprivileged::{own_log, start};

use self::authorities::Authorities;
use self::certificates::{Certificates, own_keys};
use self::controller::{Controller, Link};
use self::heads::Heads;
use self::nodes::Nodes;
use self::purges::Purger;
use self::shared::Shared;
use self::state::Node;
use self::watching::{Follower, follow};

/// Time for which the answer of a node stays in the store without being prolonged.
const LIFE: Duration = Duration::from_secs(15);

/// The environment variable that overrides this number of seconds.
const LIFE_VARIABLE: &str = "TUTTI_FLEET_LIFE";

/// Runs until main ends it.
pub fn run() -> ExitCode {
    start::run("fleet", serve)
}

/// The whole process, in one function.
async fn serve(line: OwnedFd) -> io::Result<()> {
    let link = Arc::new(Link::new(line)?);
    let (hello, log) = greeting(&link).await?;
    start::report_panics("fleet", &log);
    start::give_up_rights("source process", None, &log);
    follow_for_main(link, hello, log).await
}

/// Runs a node of a fleet, over a connection to main or a substitute: everything that this process does except its
/// privileges and its greeting. A simulation of a large fleet runs many in one process.
pub async fn node(line: OwnedFd, hello: FleetHello, log: Log) -> io::Result<()> {
    follow_for_main(Arc::new(Link::new(line)?), hello, log).await
}

async fn follow_for_main(link: Arc<Link>, hello: FleetHello, log: Log) -> io::Result<()> {
    tokio::spawn({
        let link = Arc::clone(&link);
        async move { link.write_waiting().await }
    });
    let controller = Arc::new(Controller::new(Arc::clone(&link)));
    let node = Node::new(&hello.plan, name(&hello.plan), hello.kept.as_deref());
    let node = Arc::new(node.with_standing(hello.purged.as_deref(), hello.nodes));
    tokio::spawn(node_report::send_news(
        Arc::clone(&node),
        Arc::clone(&controller),
    ));
    let mut orders = Orders {
        sharing: Sharing {
            link: Arc::clone(&link),
            shared: Err("the source cannot be followed".to_owned()),
            sessions: 0,
        },
        node: Arc::clone(&node),
        controller: Arc::clone(&controller),
        log: log.clone(),
        is_connecting: hello.secrets.is_ok(),
        nodes: None,
    };
    match hello.secrets.clone() {
        Ok(secrets) => begin(&hello, secrets, &link, &mut orders),
        // It has been logged already.
        Err(reason) => {
            node.lost(&reason);
            controller.send_nodes(LiveNodes {
                nodes: None,
                lost: Some(reason),
            });
        }
    }
    orders.obey(&link).await
}

/// Follows the nodes of the fleet; the known nodes are passed to it.
type FollowNodes = Box<dyn FnOnce(Vec<LiveNode>) + Send>;

/// Everything that messages of main need.
struct Orders {
    sharing: Sharing,
    node: Arc<Node>,
    controller: Arc<Controller>,
    log: Log,
    /// A store is configured.
    is_connecting: bool,
    /// Starts to follow the nodes of the fleet, once they are needed.
    nodes: Option<FollowNodes>,
}

impl Orders {
    async fn obey(mut self, link: &Link) -> io::Result<()> {
        loop {
            let Some((news, descriptors)) = link.news().await? else {
                return Ok(());
            };
            match news {
                ToFleet::Answer { id, answer } => self.controller.answered(id, answer),
                ToFleet::Shared { id, request } => self.sharing.obey(id, request),
                ToFleet::Sharing { is_there } => self.sharing.begin_session(is_there),
                ToFleet::FollowNodes { known } => {
                    if let Some(follow) = self.nodes.take() {
                        follow(known);
                    }
                }
                ToFleet::Leave if self.is_connecting => self.node.leave(),
                ToFleet::Leave => self.controller.send_left(),
                ToFleet::Probe { number } => link.send(&FromFleet::Alive { number }),
                ToFleet::LogReopened => own_log::reopen(&self.log, descriptors),
                ToFleet::Hello(_) => {}
            }
        }
    }
}

/// Starts everything that uses the store.
fn begin(hello: &FleetHello, mut secrets: SourceSecrets, link: &Arc<Link>, orders: &mut Orders) {
    let life = seconds(LIFE_VARIABLE, LIFE);
    let keys = own_keys(secrets.secret.take());
    let options = options(&hello.plan, secrets);
    let longest_pause = options.patience.saturating_mul(2);
    let etcd = Arc::new(EtcdStore::new(options, &hello.plan.etcd.prefix, life));
    let store: Arc<dyn FleetStore> = Arc::new(Arc::clone(&etcd));
    let (node, controller, log) = (&orders.node, &orders.controller, &orders.log);
    let certificates = Arc::new(Certificates::new(
        Arc::clone(node),
        Arc::clone(&store),
        Arc::clone(controller),
        log.clone(),
        keys.clone(),
        hello.kept_certificates.as_deref(),
    ));
    tokio::spawn(node_report::hold(
        Arc::clone(node),
        Arc::clone(&store),
        Arc::clone(controller),
        life,
        log.clone(),
    ));
    let heads = Heads {
        node: Arc::clone(node),
        store: Arc::clone(&store),
        controller: Arc::clone(controller),
        certificates: Arc::clone(&certificates),
        log: log.clone(),
        said: None,
        was_there: None,
    };
    let purger = Purger {
        node: Arc::clone(node),
        controller: Arc::clone(controller),
        log: log.clone(),
    };
    let follows = Follows {
        store: Arc::clone(&store),
        longest_pause,
    };
    follows.spawn(HEADS, heads);
    follows.spawn(CERTIFICATES, certificates);
    follows.spawn(PURGES, purger);
    tokio::spawn(node_count::count(
        Arc::clone(node),
        store,
        Arc::clone(controller),
        life,
    ));
    tokio::spawn(node_count::report(Arc::clone(node), Arc::clone(controller)));
    orders.sharing.shared = keys.map(|keys| {
        let authorities = Authorities {
            node: Arc::clone(node),
            controller: Arc::clone(controller),
            keys: Arc::clone(&keys),
            log: log.clone(),
        };
        follows.spawn(ANSWERS, authorities);
        let node = Arc::clone(node);
        let shared = Shared::new(Arc::clone(link), Arc::new(etcd), keys, node, life);
        let shared = Arc::new(shared);
        tokio::spawn(shared_news::send_changes(
            Arc::clone(&shared),
            longest_pause,
        ));
        shared
    });
    let controller = Arc::clone(controller);
    orders.nodes = Some(Box::new(move |before| {
        follows.spawn(ADDRESSES, Nodes::new(controller, life, before));
    }));
}

/// The store, and how to follow it.
struct Follows {
    store: Arc<dyn FleetStore>,
    longest_pause: Duration,
}

impl Follows {
    /// Follows all texts with this prefix, in a task of its own.
    fn spawn(&self, prefix: &'static str, follower: impl Follower + 'static) {
        let (store, longest_pause) = (Arc::clone(&self.store), self.longest_pause);
        tokio::spawn(async move { follow(&*store, prefix, longest_pause, follower).await });
    }
}

/// Handles requests of the acme process.
struct Sharing {
    link: Arc<Link>,
    /// An error is the reason why nothing can be shared.
    shared: Result<Arc<Shared>, String>,
    sessions: u64,
}

impl Sharing {
    fn obey(&self, id: u64, request: SharedRequest) {
        match &self.shared {
            Ok(shared) => drop(tokio::spawn(Arc::clone(shared).obey(id, request))),
            Err(reason) => {
                let reason = reason.clone();
                let answer = SharedAnswer::Unavailable { reason };
                self.link.send(&FromFleet::Shared { id, answer });
            }
        }
    }

    fn begin_session(&mut self, is_there: bool) {
        self.sessions += 1;
        match &self.shared {
            Ok(shared) => shared.begin_session(self.sessions, is_there),
            Err(reason) => {
                let news = SharedNews {
                    error: Some(reason.clone()),
                    ..SharedNews::default()
                };
                self.link.send(&FromFleet::SharedNews { news });
            }
        }
    }
}

/// Returns the name of this node: that of the configuration, or the host name.
fn name(plan: &SourcePlan) -> String {
    if let Some(name) = &plan.name {
        return name.clone();
    }
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    match is_name(name) {
        true => name.to_owned(),
        false => "unnamed".to_owned(),
    }
}

fn options(plan: &SourcePlan, secrets: SourceSecrets) -> ClusterOptions {
    let members = plan.etcd.members.iter();
    let endpoints = members.map(|member| EtcdEndpoint {
        is_secure: member.is_secure,
        host: member.host.clone(),
        port: member.port,
    });
    ClusterOptions {
        endpoints: endpoints.collect(),
        tls: EtcdTls {
            ca: secrets.ca,
            identity: secrets.identity,
            server_name: plan.etcd.server_name.clone(),
        },
        user: plan.etcd.user.clone().zip(secrets.password),
        patience: patience(),
    }
}

async fn greeting(link: &Link) -> io::Result<(FleetHello, Log)> {
    let invalid = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let Some((ToFleet::Hello(hello), descriptors)) = link.news().await? else {
        return Err(invalid("main did not greet"));
    };
    let log = own_log::begin(descriptors, |file| {
        Log::of_threads(file, &hello.log, "fleet")
    })?;
    Ok((*hello, log))
}
