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
//! | `purges` | purges of caches, from the store to the router |
//! | `standing` | the number of nodes, and the router's news of it |
//! | `answer` | what this node tells the fleet, and `/status` |
//! | `pause` | pauses between attempts |

#![forbid(unsafe_code)]

mod answer;
mod controller;
mod follow;
mod pause;
mod purges;
mod standing;
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
use tutti_options::source::is_name;
use tutti_protocol::{FleetHello, SourcePlan, SourceSecrets, ToFleet};
use tutti_role::{own_log, unprivileged};

use self::controller::{Controller, Link};
use self::purges::Purger;
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
    let node = Arc::new(node.with_standing(hello.purged.as_deref(), hello.nodes));
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
            );
            tokio::spawn(answering);
            let purger = Purger {
                node: Arc::clone(&node),
                store: Arc::clone(&store),
                controller: Arc::clone(&controller),
                log: log.clone(),
            };
            share(purger, life, longest_pause);
            let following =
                follow::follow(node, store, controller.clone(), log.clone(), longest_pause);
            tokio::spawn(following);
        }
        // The log has it already.
        Err(reason) => node.lost(&reason),
    }
    loop {
        let Some((news, descriptors)) = link.news().await? else {
            return Ok(());
        };
        match news {
            ToFleet::Answer { id, answer } => controller.answered(id, answer),
            ToFleet::LogReopened => own_log::reopen(&log, descriptors),
            ToFleet::Hello(_) => {}
        }
    }
}

/// Follows what nodes share beside the configuration.
fn share(purger: Purger, life: Duration, longest_pause: Duration) {
    let Purger {
        node,
        store,
        controller,
        ..
    } = &purger;
    let telling = standing::tell(Arc::clone(node), Arc::clone(controller));
    let (node, store) = (Arc::clone(node), Arc::clone(store));
    tokio::spawn(standing::count(node, store, Arc::clone(controller), life));
    tokio::spawn(telling);
    tokio::spawn(purges::follow(purger, longest_pause));
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
