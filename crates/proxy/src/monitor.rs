//! The thread that monitors upstreams: it resolves names periodically, follows Kubernetes Services and nodes of the fleet, and checks
//! servers, so that no listen thread waits for that.
//!
//! Started when a configuration first has something to monitor; it ends with the [`Monitor`]. It gets every configuration that comes into
//! force, and continues with the upstreams that did not change.

use std::future::pending;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tutti_config::model::{Kubernetes, Resolver, UpstreamAddress};
use tutti_log::Level;
use tutti_upstream::{NameEvent, ServerGroup, keep_resolved};

use crate::computed::keep_computed;
use crate::discovery::{Around, FileWanted, keep_followed};
use crate::health::{Report, check};
use crate::nodes::{Nodes, keep_updated};

/// The lookups of an upstream that is not in force any more end after this time. Requests that began before may still need them: those that
/// wait for the first lookup of a name, and those whose bodies are read first.
const RETIRED_FOR: Duration = Duration::from_secs(300);

/// The upstreams to monitor from now on.
struct Command {
    upstreams: Vec<Arc<ServerGroup>>,
    resolvers: Resolvers,
}

/// The services that resolve names.
#[derive(Clone, Default, PartialEq)]
pub struct Resolvers {
    /// The DNS.
    pub resolver: Resolver,
    /// The Kubernetes API.
    pub kubernetes: Kubernetes,
}

/// Monitors upstreams.
pub struct Monitor {
    /// The thread, once it is running.
    thread: Mutex<Option<UnboundedSender<Command>>>,
    sources: Sources,
}

/// The sources of servers' addresses.
#[derive(Clone)]
struct Sources {
    files: UnboundedSender<FileWanted>,
    nodes: Nodes,
}

impl Monitor {
    /// Monitors nothing yet. `files` receives requests for files that are needed to find servers; `nodes` is the state of the fleet.
    pub fn new(files: UnboundedSender<FileWanted>, nodes: Nodes) -> Self {
        Monitor {
            thread: Mutex::default(),
            sources: Sources { files, nodes },
        }
    }

    /// Monitors exactly these from now on.
    pub fn watch(&self, upstreams: &[Arc<ServerGroup>], resolvers: Resolvers, report: &Report) {
        // Set once, as a whole.
        let mut inbox = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let is_monitored = |upstream: &&Arc<ServerGroup>| {
            upstream.names().next().is_some()
                || upstream.model().group.health_check.is_some()
                || upstream.model().computed.is_some()
        };
        let command = Command {
            upstreams: upstreams.iter().filter(is_monitored).cloned().collect(),
            resolvers,
        };
        if inbox.is_none() {
            if command.upstreams.is_empty() {
                return;
            }
            match start(self.sources.clone(), Arc::clone(report)) {
                Ok(sender) => *inbox = Some(sender),
                Err(error) => {
                    let text = format!(
                        "names of upstreams cannot be resolved, and health checks cannot run: {error}"
                    );
                    report(Level::Alert, &text);
                }
            }
        }
        if let Some(inbox) = &*inbox {
            // An error means that the thread has ended, which happens after this was dropped.
            let _ = inbox.send(command);
        }
    }
}

fn start(sources: Sources, report: Report) -> io::Result<UnboundedSender<Command>> {
    let (sender, inbox) = unbounded_channel();
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    std::thread::Builder::new()
        .name("upstreams".to_owned())
        .spawn(move || runtime.block_on(run(inbox, &sources, &report)))?;
    Ok(sender)
}

/// An upstream with its tasks.
struct Monitored {
    upstream: Arc<ServerGroup>,
    /// Those that find its servers.
    lookups: Vec<AbortHandle>,
    check: Option<AbortHandle>,
}

impl Monitored {
    fn end(&self) {
        self.lookups.iter().for_each(AbortHandle::abort);
        self.check.iter().for_each(AbortHandle::abort);
    }

    /// Ends the checks at once, and the lookups when no request needs them.
    async fn retire(self) {
        self.check.iter().for_each(AbortHandle::abort);
        let mut named = self.upstream.named();
        let found = async {
            let _ = named.wait_for(|is_named| *is_named).await;
            if self.upstream.model().computed.is_some() {
                // Requests may still name other servers.
                pending().await
            }
        };
        let _ = timeout(RETIRED_FOR, found).await;
        self.end();
    }
}

async fn run(mut inbox: UnboundedReceiver<Command>, sources: &Sources, report: &Report) {
    let mut monitored: Vec<Monitored> = Vec::new();
    let mut resolvers = Resolvers::default();
    while let Some(command) = inbox.recv().await {
        let is_same = command.resolvers == resolvers;
        resolvers = command.resolvers;
        for known in std::mem::take(&mut monitored) {
            let is_it = |wanted: &Arc<ServerGroup>| Arc::ptr_eq(wanted, &known.upstream);
            let is_wanted = command.upstreams.iter().any(is_it);
            match (is_wanted, is_same) {
                (true, true) => monitored.push(known),
                // The lookups begin anew.
                (true, false) => known.end(),
                (false, _) => drop(tokio::spawn(known.retire())),
            }
        }
        for upstream in command.upstreams {
            if !monitored
                .iter()
                .any(|known| Arc::ptr_eq(&known.upstream, &upstream))
            {
                monitored.push(begin(upstream, &resolvers, sources, report));
            }
        }
    }
}

/// Begins the tasks of an upstream.
fn begin(
    upstream: Arc<ServerGroup>,
    resolvers: &Resolvers,
    sources: &Sources,
    report: &Report,
) -> Monitored {
    let check = upstream.model().group.health_check.clone().map(|rules| {
        let task = check(Arc::clone(&upstream), rules, Arc::clone(report));
        tokio::spawn(task).abort_handle()
    });
    let say = || {
        let (report, name) = (Arc::clone(report), upstream.name().to_owned());
        move |event, text: &str| {
            let level = match event {
                NameEvent::Lost => Level::Error,
                NameEvent::Found => Level::Notice,
            };
            report(level, &format!("upstream \"{name}\": {text}"));
        }
    };
    let computed = upstream.model().computed.as_ref().map(|_| {
        let task = keep_computed(Arc::clone(&upstream), resolvers.resolver.clone(), say());
        tokio::spawn(task).abort_handle()
    });
    let names = upstream.names();
    let names = names.map(|(index, wanted)| {
        let say = say();
        let (upstream, wanted) = (Arc::clone(&upstream), wanted.clone());
        let resolver = resolvers.resolver.clone();
        let task = match wanted {
            UpstreamAddress::Kubernetes { .. } => {
                let files = sources.files.clone();
                let around = Around { files, resolver };
                let api = resolvers.kubernetes.clone();
                tokio::spawn(keep_followed(upstream, index, wanted, api, around, say))
            }
            UpstreamAddress::Fleet { .. } => {
                let nodes = sources.nodes.clone();
                tokio::spawn(keep_updated(upstream, index, wanted, nodes, say))
            }
            _ => tokio::spawn(keep_resolved(upstream, index, wanted, resolver, say)),
        };
        task.abort_handle()
    });
    let lookups = names.chain(computed).collect();
    Monitored {
        upstream,
        lookups,
        check,
    }
}
