//! The names of servers that computed addresses name: each is resolved while its group exists.
//!
//! Runs on the monitor's thread, for one `proxy`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tutti_config::model::{Resolver, UpstreamAddress};
use tutti_conn::clock::now_millis;
use tutti_upstream::{NameEvent, ServerGroup, keep_resolved};

/// The time between two searches for groups without requests.
const SWEEP: Duration = Duration::from_secs(2);

/// A group with the tasks for its names. It is held, so that no other group gets its place in memory.
struct Running {
    _group: Arc<ServerGroup>,
    tasks: Vec<AbortHandle>,
}

/// Keeps the names of a `proxy`'s computed servers resolved, and drops servers that are not used any more, for as long as this runs.
pub(crate) async fn keep_computed<S>(upstream: Arc<ServerGroup>, resolver: Resolver, log: S)
where
    S: Fn(NameEvent, &str) + Clone + Send + Sync + 'static,
{
    // Ends with this task.
    let mut tasks = JoinSet::new();
    let mut running: HashMap<usize, Running> = HashMap::new();
    loop {
        let groups = upstream.sweep_computed(now_millis());
        let kept: HashSet<usize> = groups.iter().map(place).collect();
        running.retain(|place, one| {
            let stays = kept.contains(place);
            if !stays {
                one.tasks.iter().for_each(AbortHandle::abort);
            }
            stays
        });
        let has_groups = !groups.is_empty();
        for group in groups {
            running.entry(place(&group)).or_insert_with(|| {
                let resolve = |(index, name): (usize, &UpstreamAddress)| {
                    let (group, name) = (Arc::clone(&group), name.clone());
                    tasks.spawn(keep_resolved(
                        group,
                        index,
                        name,
                        resolver.clone(),
                        log.clone(),
                    ))
                };
                Running {
                    tasks: group.names().map(resolve).collect(),
                    _group: Arc::clone(&group),
                }
            });
        }
        while tasks.try_join_next().is_some() {}
        if has_groups {
            // After a while there may be groups without requests.
            let _ = timeout(SWEEP, upstream.has_more_computed()).await;
        } else {
            upstream.has_more_computed().await;
        }
    }
}

/// The place of a group in memory.
fn place(group: &Arc<ServerGroup>) -> usize {
    Arc::as_ptr(group).addr()
}
