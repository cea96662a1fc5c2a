//! The thread that looks after upstreams: it looks names up again and checks whether servers work, so that no listen thread ever waits
//! for that.
//!
//! Started by [`Server`](crate::Server) when a configuration first has something to look after; it ends with the server. It is told of every
//! configuration that comes into force, and goes on with what did not change.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;
use tutti_config::model::Resolver;
use tutti_pool::{Level, LogSink};
use tutti_upstream::{Tidings, Upstream, keep_resolved};

use crate::health::check;

/// What is to be looked after.
struct Charge {
    upstreams: Vec<Arc<Upstream>>,
    resolver: Resolver,
}

/// The thread, if there is one yet.
#[derive(Default)]
pub(crate) struct Keeper(Mutex<Option<UnboundedSender<Charge>>>);

impl Keeper {
    /// From now on it looks after these, and after no others.
    pub(crate) fn look_after(
        &self,
        upstreams: &[Arc<Upstream>],
        resolver: &Resolver,
        log: &Arc<dyn LogSink>,
    ) {
        // Set once, as a whole.
        let mut inbox = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let needs_care = |upstream: &&Arc<Upstream>| {
            upstream.names().next().is_some() || upstream.model().health_check.is_some()
        };
        let charge = Charge {
            upstreams: upstreams.iter().filter(needs_care).cloned().collect(),
            resolver: resolver.clone(),
        };
        if inbox.is_none() {
            if charge.upstreams.is_empty() {
                return;
            }
            match start(Arc::clone(log)) {
                Ok(sender) => *inbox = Some(sender),
                Err(error) => {
                    let text = format!(
                        "names of upstreams cannot be looked up, and their servers not be checked: {error}"
                    );
                    log.log(Level::Alert, &text);
                }
            }
        }
        if let Some(inbox) = &*inbox {
            // Its thread ends when this has been dropped.
            let _ = inbox.send(charge);
        }
    }
}

fn start(log: Arc<dyn LogSink>) -> io::Result<UnboundedSender<Charge>> {
    let (sender, inbox) = unbounded_channel();
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    std::thread::Builder::new()
        .name("keeper".to_owned())
        .spawn(move || runtime.block_on(run(inbox, &log)))?;
    Ok(sender)
}

/// An upstream with its tasks.
struct Kept {
    upstream: Arc<Upstream>,
    tasks: Vec<AbortHandle>,
}

async fn run(mut inbox: UnboundedReceiver<Charge>, log: &Arc<dyn LogSink>) {
    let mut kept: Vec<Kept> = Vec::new();
    let mut resolver = Resolver::default();
    while let Some(charge) = inbox.recv().await {
        let is_same = charge.resolver == resolver;
        resolver = charge.resolver;
        kept.retain(|known| {
            let is_wanted = |wanted: &Arc<Upstream>| Arc::ptr_eq(wanted, &known.upstream);
            let stays = is_same && charge.upstreams.iter().any(is_wanted);
            if !stays {
                known.tasks.iter().for_each(AbortHandle::abort);
            }
            stays
        });
        for upstream in charge.upstreams {
            if !kept
                .iter()
                .any(|known| Arc::ptr_eq(&known.upstream, &upstream))
            {
                let tasks = tasks(&upstream, &resolver, log);
                kept.push(Kept { upstream, tasks });
            }
        }
    }
}

fn tasks(
    upstream: &Arc<Upstream>,
    resolver: &Resolver,
    log: &Arc<dyn LogSink>,
) -> Vec<AbortHandle> {
    let check = upstream.model().health_check.clone().map(|rules| {
        let task = check(Arc::clone(upstream), rules, Arc::clone(log));
        tokio::spawn(task).abort_handle()
    });
    let names = upstream.names();
    let names = names.map(|(index, host)| {
        let (log, name) = (Arc::clone(log), upstream.name().to_owned());
        let say = move |tidings, text: &str| {
            let level = match tidings {
                Tidings::Lost => Level::Error,
                Tidings::Found => Level::Notice,
            };
            log.log(level, &format!("upstream \"{name}\": {text}"));
        };
        let (upstream, host) = (Arc::clone(upstream), host.to_owned());
        let task = keep_resolved(upstream, index, host, resolver.clone(), say);
        tokio::spawn(task).abort_handle()
    });
    names.chain(check).collect()
}
