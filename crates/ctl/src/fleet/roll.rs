//! The waves of a roll-out, one after the other, and the rollback.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::timeout;
use tutti_fleet_store::keys;
use tutti_fleet_store::records::{DocumentVersion, NodeReport, Rollout, RolloutState, read_all};
use tutti_fleet_store::store::Following;
use tutti_fleet_store::waves::{WaveStatus, judge};

use super::arguments::nodes;
use super::store_access::{Fleet, failed, visible_entries};
use crate::report::{CommandError, say};
use crate::style;
use crate::wrap::{for_stderr, for_stdout};

/// Time between two checks: answers arrive by themselves, but the end of a time limit does not.
const TICK: Duration = Duration::from_millis(500);

/// Time for nodes to roll back, before those that have not are reported.
const WAY_BACK: Duration = Duration::from_secs(30);

/// The hint if a roll-out can be neither continued nor ended.
const STUCK: &str = "the roll-out is stuck: use `tutti fleet rollback` or `tutti fleet put --take-over` when the store is available again";

/// The word before the message of a failure.
const ERROR: &str = "error: ";

/// The limits of a wave.
pub(super) struct Bounds {
    pub(super) wait: Duration,
    pub(super) timeout: Duration,
    pub(super) most_errors: f64,
}

/// A roll-out by this command.
pub(super) struct Roll<'f> {
    pub(super) fleet: &'f Fleet,
    pub(super) bounds: Bounds,
    pub(super) is_quiet: bool,
}

/// The node that causes a rollback.
struct FailedNode {
    node: String,
    pointer: Option<String>,
    reason: String,
}

impl FailedNode {
    fn text(&self) -> String {
        let place = self
            .pointer
            .as_deref()
            .filter(|pointer| !pointer.is_empty());
        let place = place
            .map(|pointer| format!(" at `{pointer}`"))
            .unwrap_or_default();
        format!("node `{}`{place}: {}", self.node, self.reason)
    }
}

/// Follows the answers of nodes.
pub(super) struct Answers<'f> {
    fleet: &'f Fleet,
    following: Option<Box<dyn Following>>,
    pub(super) latest: BTreeMap<String, NodeReport>,
    /// Since when the store has been unreachable.
    lost: Option<(Instant, CommandError)>,
}

impl<'f> Answers<'f> {
    pub(super) fn new(fleet: &'f Fleet) -> Answers<'f> {
        Answers {
            fleet,
            following: None,
            latest: BTreeMap::new(),
            lost: None,
        }
    }

    /// True once the store has been read.
    pub(super) fn has_looked(&self) -> bool {
        self.following.is_some() && self.lost.is_none()
    }

    /// Returns the reason why the store is unreachable, if it is.
    pub(super) fn failure(self) -> Option<CommandError> {
        self.lost.map(|(_, failure)| failure)
    }

    /// Waits for changes, but only for a moment.
    pub(super) async fn wait(&mut self) {
        // Connecting has its own time limit; if it were interrupted each time, it would never finish.
        let following = match &mut self.following {
            Some(following) => Ok(following),
            none => match self.fleet.store.follow(keys::NODES).await {
                Ok(following) => Ok(none.insert(following)),
                Err(error) => Err(error),
            },
        };
        let news = match following {
            Ok(following) => timeout(TICK, following.next()).await,
            Err(error) => Ok(Err(error)),
        };
        match news {
            Ok(Ok(entries)) => {
                self.latest = read_all(&visible_entries(&entries), keys::NODES);
                self.lost = None;
            }
            Ok(Err(error)) => {
                self.following = None;
                let since = self
                    .lost
                    .as_ref()
                    .map_or_else(Instant::now, |(since, _)| *since);
                self.lost = Some((since, failed(error)));
                tokio::time::sleep(TICK).await;
            }
            Err(_) => {}
        }
    }
}

impl Roll<'_> {
    fn say(&self, text: &str) {
        if !self.is_quiet {
            say(text);
        }
    }

    /// Waits for each wave of a roll-out whose first has started, and starts the next.
    pub(super) async fn run(
        &self,
        mut head: Rollout,
        waves: &[Vec<String>],
    ) -> Result<ExitCode, CommandError> {
        for number in 1..=waves.len() {
            let begin = format!("wave {number} of {}: ", waves.len());
            let nodes = for_stdout(&head.nodes.join(" "), begin.len(), 2);
            self.say(&format!("{begin}{nodes}"));
            if let Some(fault) = self.wave(&head).await? {
                return self.go_back(head, &fault).await;
            }
            let mut next = head.clone();
            match waves.get(number) {
                Some(wave) => {
                    next.wave = number + 1;
                    next.nodes.clone_from(wave);
                }
                None => next.state = RolloutState::Done,
            }
            self.replace(&head, &next).await?;
            head = next;
        }
        let count = head.nodes.len();
        let generation = head
            .version
            .as_ref()
            .map_or(0, |version| version.generation);
        if self.is_quiet {
            return self.report(&head, None);
        }
        say(&match count {
            0 => format!(
                "{} no node is online; nodes apply generation {generation} when they join",
                style::good("done:")
            ),
            _ => format!(
                "{} generation {generation} is in force on {}",
                style::good("done:"),
                nodes(count)
            ),
        });
        Ok(ExitCode::SUCCESS)
    }

    /// Replaces the head. An unavailable store is asked again until the time of a wave is over: nodes follow the head
    /// that it has.
    async fn replace(&self, before: &Rollout, next: &Rollout) -> Result<(), CommandError> {
        let text = before.to_text();
        let until = Instant::now() + self.bounds.timeout;
        loop {
            match self.fleet.swap(Some(&text), next, &[]).await {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(taken()),
                Err(error) if error.is_final || Instant::now() >= until => {
                    return Err(failed(error).hint(STUCK));
                }
                Err(_) => tokio::time::sleep(TICK).await,
            }
        }
    }

    /// Waits until the nodes of the last wave have applied the document and have been healthy for long enough; returns
    /// the fault of a node that has not.
    async fn wave(&self, head: &Rollout) -> Result<Option<FailedNode>, CommandError> {
        let Some(version) = &head.version else {
            return Ok(None);
        };
        let mut answers = Answers::new(self.fleet);
        let mut until = Instant::now() + self.bounds.timeout;
        let mut good_since: Option<Instant> = None;
        loop {
            answers.wait().await;
            self.must_be_ours(head).await?;
            let now = Instant::now();
            if let Some((since, _)) = &answers.lost
                && now.duration_since(*since) >= self.bounds.timeout
            {
                let failure = answers.lost.take().map(|(_, failure)| failure);
                let failure = failure.unwrap_or_else(taken);
                return Err(failure.hint(STUCK));
            }
            if answers.lost.is_some() {
                // The answers are from before, and nodes need time to report again.
                good_since = None;
                until = now + self.bounds.timeout;
                continue;
            }
            match judge(
                &answers.latest,
                &head.nodes,
                version,
                self.bounds.most_errors,
            ) {
                WaveStatus::Good => {
                    if good_since.is_none() {
                        self.say(&format!("wave {} runs it", head.wave));
                    }
                    let since = *good_since.get_or_insert(now);
                    if now.duration_since(since) >= self.bounds.wait {
                        return Ok(None);
                    }
                }
                WaveStatus::Waiting(nodes) => {
                    if good_since.take().is_some() {
                        until = now + self.bounds.timeout;
                    }
                    if now >= until {
                        return Ok(nodes
                            .first()
                            .map(|node| late(node, &answers.latest, self.bounds.timeout)));
                    }
                }
                WaveStatus::Bad {
                    node,
                    pointer,
                    reason,
                } => {
                    return Ok(Some(FailedNode {
                        node,
                        pointer,
                        reason,
                    }));
                }
            }
        }
    }

    /// Another client may have taken over or stopped the roll-out.
    async fn must_be_ours(&self, head: &Rollout) -> Result<(), CommandError> {
        let key = keys::head(&head.selector);
        // An unreachable store does not answer that.
        let Ok(found) = self.fleet.store.list(&key).await else {
            return Ok(());
        };
        let found: BTreeMap<String, Rollout> = read_all(&found, keys::HEADS);
        match found.get(&head.selector) {
            Some(found) if found == head => Ok(()),
            _ => Err(taken()),
        }
    }

    /// Rolls all nodes back, and reports the reason.
    async fn go_back(&self, head: Rollout, fault: &FailedNode) -> Result<ExitCode, CommandError> {
        let mut next = head.clone();
        next.state = RolloutState::Returned;
        next.reason = Some(fault.text());
        if let Err(failure) = self.replace(&head, &next).await {
            let cause = for_stderr(&fault.text(), 2, 4);
            return Err(failure.with_cause(&cause));
        }
        let late = match &next.former {
            Some(former) => self.wait_for(former, &next.nodes, WAY_BACK).await,
            None => Vec::new(),
        };
        if self.is_quiet {
            return self.report(&next, Some(fault));
        }
        let generation = head
            .version
            .as_ref()
            .map_or(0, |version| version.generation);
        let back = match &next.former {
            Some(former) if late.is_empty() => {
                format!("all nodes are back at generation {}", former.generation)
            }
            Some(former) => format!(
                "nodes go back to generation {}; not back yet: {}",
                former.generation,
                late.join(" ")
            ),
            None => "there is no earlier generation: nodes that run this one keep it".to_owned(),
        };
        let text = format!("generation {generation} was not rolled out, {back}");
        Err(CommandError::new(format!(
            "{}\n  {}",
            for_stderr(&text, ERROR.len(), 2),
            for_stderr(&fault.text(), 2, 4)
        )))
    }

    /// Waits until nodes run a document; returns those that do not when the time is over.
    pub(super) async fn wait_for(
        &self,
        version: &DocumentVersion,
        nodes: &[String],
        longest: Duration,
    ) -> Vec<String> {
        let until = Instant::now() + longest;
        let mut answers = Answers::new(self.fleet);
        loop {
            answers.wait().await;
            let runs = |node: &&String| {
                let answer = answers.latest.get(*node);
                answer.is_some_and(|answer| answer.version.as_ref() == Some(version))
            };
            let late: Vec<String> = nodes.iter().filter(|node| !runs(node)).cloned().collect();
            if late.is_empty() || Instant::now() >= until {
                return late;
            }
        }
    }

    fn report(&self, head: &Rollout, fault: Option<&FailedNode>) -> Result<ExitCode, CommandError> {
        let mut report = json!({
            "roll_out": head.number,
            "state": head.state.word(),
            "generation": generation(head.version.as_ref()),
            "former": generation(head.former.as_ref()),
            "nodes": head.nodes,
        });
        if let Some(fault) = fault {
            report["refused"] =
                json!({"node": fault.node, "pointer": fault.pointer, "reason": fault.reason});
        }
        say(&report.to_string());
        Ok(ExitCode::from(u8::from(fault.is_some())))
    }
}

/// Returns the generation of a version as JSON.
pub(super) fn generation(version: Option<&DocumentVersion>) -> Value {
    version.map_or(Value::Null, |version| version.generation.into())
}

fn taken() -> CommandError {
    CommandError::new(
        "someone else has stopped this roll-out or taken it over; nothing more was done",
    )
    .hint("`tutti fleet log` shows who it was")
}

fn late(node: &str, answers: &BTreeMap<String, NodeReport>, timeout: Duration) -> FailedNode {
    let reason = match answers.get(node) {
        Some(answer) if answer.health.is_unseen => format!(
            "its server has not answered within {} seconds",
            timeout.as_secs()
        ),
        Some(_) => format!("it has not applied it within {} seconds", timeout.as_secs()),
        None => "it is offline".to_owned(),
    };
    FailedNode {
        node: node.to_owned(),
        pointer: None,
        reason,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::collections::VecDeque;
    use std::net::IpAddr;
    use std::sync::{Arc, Mutex};

    use tutti_dialer::BoxFuture;
    use tutti_fleet_store::records::NodeHealth;
    use tutti_fleet_store::store::{
        Entries, FleetStore, FleetStoreError, LeasedEntries, StoreEntry,
    };

    use super::*;

    /// Results of the next calls; an error is an unavailable store.
    type Script<T> = Mutex<VecDeque<Result<T, ()>>>;

    /// A store that is unavailable for some of the calls.
    struct Unreliable {
        texts: Mutex<Entries>,
        /// The results of the next swaps; the others succeed.
        swaps: Script<()>,
        /// The answers of nodes as followed; afterwards there are no news.
        answers: Arc<Script<Entries>>,
    }

    struct Scripted(Arc<Script<Entries>>);

    fn unavailable() -> FleetStoreError {
        FleetStoreError {
            message: "no member answers".to_owned(),
            is_final: false,
        }
    }

    impl Following for Scripted {
        fn next(&mut self) -> BoxFuture<'_, Result<Entries, FleetStoreError>> {
            let next = self.0.lock().unwrap().pop_front();
            Box::pin(async move {
                match next {
                    Some(next) => next.map_err(|()| unavailable()),
                    None => std::future::pending().await,
                }
            })
        }

        fn server(&self) -> String {
            String::new()
        }
    }

    impl FleetStore for Unreliable {
        fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Entries, FleetStoreError>> {
            let mut texts = self.texts.lock().unwrap().clone();
            texts.retain(|name, _| name.starts_with(prefix));
            Box::pin(async move { Ok(texts) })
        }

        fn names<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<String>, FleetStoreError>> {
            unreachable!()
        }

        fn count<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<u64, FleetStoreError>> {
            unreachable!()
        }

        fn swap<'a>(
            &'a self,
            _: &'a [StoreEntry],
            wanted: &'a [StoreEntry],
        ) -> BoxFuture<'a, Result<bool, FleetStoreError>> {
            let result = self.swaps.lock().unwrap().pop_front();
            Box::pin(async move {
                if result == Some(Err(())) {
                    return Err(unavailable());
                }
                let texts = wanted.iter().cloned();
                let texts = texts.filter_map(|(name, text)| Some((name, text?)));
                self.texts.lock().unwrap().extend(texts);
                Ok(true)
            })
        }

        fn follow<'a>(
            &'a self,
            _: &'a str,
        ) -> BoxFuture<'a, Result<Box<dyn Following>, FleetStoreError>> {
            let following = Scripted(Arc::clone(&self.answers));
            Box::pin(async move { Ok(Box::new(following) as Box<dyn Following>) })
        }

        fn hold<'a>(
            &'a self,
            _: &'a Entries,
            _: &'a mut LeasedEntries,
        ) -> BoxFuture<'a, Result<(), FleetStoreError>> {
            unreachable!()
        }

        fn withdraw<'a>(
            &'a self,
            _: &'a mut LeasedEntries,
        ) -> BoxFuture<'a, Result<(), FleetStoreError>> {
            unreachable!()
        }

        fn local_address(&self) -> Option<IpAddr> {
            None
        }
    }

    fn head() -> Rollout {
        Rollout {
            id: "x".to_owned(),
            number: 1,
            selector: keys::ALL.to_owned(),
            version: Some(DocumentVersion::of(1, "{}")),
            former: None,
            state: RolloutState::Rolling,
            waves: Vec::new(),
            wave: 1,
            nodes: vec!["a".to_owned()],
            by: String::new(),
            time: 0,
            comment: None,
            reason: None,
        }
    }

    /// The answer of the node, which runs the document.
    fn answer(router_ends: u64) -> Entries {
        let report = NodeReport {
            name: "a".to_owned(),
            version: head().version,
            health: NodeHealth {
                router_ends,
                ..NodeHealth::default()
            },
            ..NodeReport::default()
        };
        let text = serde_json::to_string(&report).unwrap();
        Entries::from([(keys::node("a"), text)])
    }

    /// Runs a roll-out of one wave on a store; returns its result and the head that the store has then.
    fn roll_out(
        wait: Duration,
        swaps: &[Result<(), ()>],
        answers: &[Result<Entries, ()>],
    ) -> (Result<ExitCode, CommandError>, Rollout) {
        let head = head();
        let key = keys::head(&head.selector);
        let store = Arc::new(Unreliable {
            texts: Mutex::new(Entries::from([(key.clone(), head.to_text())])),
            swaps: Mutex::new(swaps.iter().copied().collect()),
            answers: Arc::new(Mutex::new(answers.iter().cloned().collect())),
        });
        let fleet = Fleet {
            store: store.clone(),
            secret_file: None,
        };
        let roll = Roll {
            fleet: &fleet,
            bounds: Bounds {
                wait,
                timeout: Duration::from_secs(20),
                most_errors: 1.0,
            },
            is_quiet: true,
        };
        let waves = [head.nodes.clone()];
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let done = runtime.block_on(roll.run(head, &waves));
        let text = store.texts.lock().unwrap().get(&key).cloned().unwrap();
        (done, serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn a_step_of_a_roll_out_waits_for_the_store() {
        let (done, head) = roll_out(Duration::ZERO, &[Err(()), Err(())], &[Ok(answer(0))]);
        assert!(done.is_ok());
        assert_eq!(head.state, RolloutState::Done);
        let (_, head) = roll_out(Duration::ZERO, &[Err(())], &[Ok(answer(1))]);
        assert_eq!(head.state, RolloutState::Returned);
        assert!(head.reason.unwrap().contains("the router has exited"));
    }

    #[test]
    fn a_wave_is_not_judged_by_answers_from_before_the_store_was_lost() {
        // The router ends while the store is unavailable, after the wave has been healthy for long enough.
        let answers = [Ok(answer(0)), Err(()), Ok(answer(1))];
        let (_, head) = roll_out(Duration::from_millis(1), &[], &answers);
        assert_eq!(head.state, RolloutState::Returned);
    }
}
