//! The fleet role: unprivileged, follows the source of the configuration as one node of a fleet.
//!
//! Main starts it while there is a source. It hands each new document to the controller, which puts it in force or says why not, and tells
//! the fleet what has come of it. It can end at any moment: the configuration in force is main's, and the server does without this
//! process and without the store. What must never happen: that the node waits for the store with anything but a new document, or that it
//! says it runs a document which it does not.
//!
//! | Module | holds |
//! |---|---|
//! | `controller` | questions to the controller |
//! | `state` | what this node is to run, runs, and has refused |
//! | `follow` | new documents, from the store to the controller |
//! | `answer` | what this node tells the fleet, and `/status` |
//! | `nodes` | the nodes of the fleet that take requests |

#![forbid(unsafe_code)]

mod answer;
mod controller;
mod follow;
mod nodes;
mod state;

use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tutti_etcd::{Endpoint, Options, Tls};
use tutti_fleet_store::etcd::EtcdStore;
use tutti_fleet_store::store::Store;
use tutti_fleet_store::{patience, seconds};
use tutti_log::Log;
use tutti_options::source::{LiveNode, LiveNodes, is_name};
use tutti_protocol::{FleetHello, SourcePlan, SourceSecrets, ToFleet};
use tutti_role::{own_log, unprivileged};

use self::controller::{Controller, Link};
use self::state::Node;

/// How long the answer of a node stays in the store after its last word.
const LIFE: Duration = Duration::from_secs(15);

/// The variable in the server's environment for another number of seconds.
const LIFE_VARIABLE: &str = "TUTTI_FLEET_LIFE";

/// Runs until main ends it.
pub fn run() -> ExitCode {
    unprivileged::run("fleet", serve)
}

/// The whole process, in one function.
async fn serve(line: OwnedFd) -> io::Result<()> {
    let link = Arc::new(Link::new(line)?);
    let (hello, log) = greeting(&link).await?;
    unprivileged::report_panics("fleet", &log);
    unprivileged::give_up_rights("process that follows the source", None, &log);
    tokio::spawn({
        let link = Arc::clone(&link);
        async move { link.write_waiting().await }
    });
    let controller = Arc::new(Controller::new(Arc::clone(&link)));
    let node = Node::new(&hello.plan, name(&hello.plan), hello.kept.as_deref());
    let node = Arc::new(node);
    tokio::spawn(answer::tell_news(
        Arc::clone(&node),
        Arc::clone(&controller),
    ));
    let life = seconds(LIFE_VARIABLE, LIFE);
    match hello.secrets {
        Ok(secrets) => {
            let options = options(&hello.plan, secrets);
            let prefix = &hello.plan.etcd.prefix;
            let longest_pause = options.patience.saturating_mul(2);
            let store = Arc::new(EtcdStore::new(options, prefix, life));
            let store: Arc<dyn Store> = Arc::new(store);
            let answering = answer::hold(
                Arc::clone(&node),
                Arc::clone(&store),
                Arc::clone(&controller),
                life,
                log.clone(),
            );
            tokio::spawn(answering);
            let following = follow::follow(
                Arc::clone(&node),
                Arc::clone(&store),
                Arc::clone(&controller),
                log.clone(),
                longest_pause,
            );
            tokio::spawn(following);
            let follower = Arc::clone(&controller);
            let nodes = move |before| nodes::follow(store, follower, life, longest_pause, before);
            serve_main(&link, &controller, &log, &node, Some(nodes)).await
        }
        // The log has it already.
        Err(reason) => {
            node.lost(&reason);
            controller.tell_nodes(LiveNodes {
                nodes: None,
                lost: Some(reason),
            });
            let nothing: Option<fn(Vec<LiveNode>) -> std::future::Ready<()>> = None;
            serve_main(&link, &controller, &log, &node, nothing).await
        }
    }
}

/// Does what main says, until it goes. `nodes` follows the nodes of the fleet, once they are needed; `None`: there is no store to be had.
async fn serve_main<F: Future<Output = ()> + Send + 'static>(
    link: &Link,
    controller: &Controller,
    log: &Log,
    node: &Node,
    mut nodes: Option<impl FnOnce(Vec<LiveNode>) -> F>,
) -> io::Result<()> {
    let is_connecting = nodes.is_some();
    loop {
        let Some((news, descriptors)) = link.news().await? else {
            return Ok(());
        };
        match news {
            ToFleet::Answer { id, answer } => controller.answered(id, answer),
            ToFleet::LogReopened => own_log::reopen(log, descriptors),
            ToFleet::FollowNodes { known } => {
                drop(nodes.take().map(|follow| tokio::spawn(follow(known))));
            }
            ToFleet::Leave if is_connecting => node.leave(),
            ToFleet::Leave => controller.tell_left(),
            ToFleet::Hello(_) => {}
        }
    }
}

/// The name of this node: that of the configuration, or the machine's.
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

fn options(plan: &SourcePlan, secrets: SourceSecrets) -> Options {
    let members = plan.etcd.members.iter();
    let endpoints = members.map(|member| Endpoint {
        is_secure: member.is_secure,
        host: member.host.clone(),
        port: member.port,
    });
    Options {
        endpoints: endpoints.collect(),
        tls: Tls {
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
